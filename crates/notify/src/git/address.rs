//! Addresses of repositories.

use crate::url::Url;

/// Schemes of addresses that are URLs.
const SCHEMES: [&str; 9] = [
    "ssh", "git", "git+ssh", "http", "https", "ftp", "ftps", "rsync", "file",
];

/// Where a repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    /// `SCHEME://HOST`; https for addresses of ssh.
    pub(crate) host: String,
    /// The path without slashes in front and without `.git`.
    pub(crate) id: String,
}

impl Repository {
    /// Reads an address: a URL, or `USER@HOST:PATH`.
    pub(crate) fn read(address: &str) -> Self {
        let (scheme, host, path) = match Url::parse(address) {
            Ok(url) if SCHEMES.contains(&url.scheme.as_str()) => (url.scheme, url.host, url.path),
            _ => match split_scp(address) {
                Some((host, path)) => ("ssh".to_owned(), host.to_owned(), path.to_owned()),
                None => ("file".to_owned(), String::new(), address.to_owned()),
            },
        };
        let scheme = if scheme == "ssh" { "https" } else { &scheme };
        let id = path.trim_start_matches('/');
        Repository {
            host: format!("{scheme}://{host}"),
            id: id.strip_suffix(".git").unwrap_or(id).to_owned(),
        }
    }

    /// The parts of the path, if there are so many.
    pub(crate) fn parts<const COUNT: usize>(&self) -> Option<[&str; COUNT]> {
        let parts: Vec<&str> = self.id.split('/').collect();
        parts.try_into().ok()
    }
}

fn split_scp(address: &str) -> Option<(&str, &str)> {
    let (host, path) = address.split_once(':')?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let plain = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    (!host.is_empty() && host.chars().all(plain)).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_forms_are_read() {
        for (address, host, id) in [
            (
                "https://github.com/org/repo",
                "https://github.com",
                "org/repo",
            ),
            ("http://h:80/org/repo.git", "http://h:80", "org/repo"),
            ("ssh://git@h:22/org/repo.git", "https://h:22", "org/repo"),
            (
                "git@github.com:org/repo.git",
                "https://github.com",
                "org/repo",
            ),
            ("https://h/org/repo/", "https://h", "org/repo/"),
            ("nonsense", "file://", "nonsense"),
        ] {
            let read = Repository::read(address);
            assert_eq!(
                (read.host.as_str(), read.id.as_str()),
                (host, id),
                "{address}"
            );
        }
    }

    #[test]
    fn a_path_has_just_so_many_parts() {
        let repository = Repository::read("https://h/a/b");
        assert_eq!(repository.parts::<2>(), Some(["a", "b"]));
        assert_eq!(repository.parts::<4>(), None);
    }
}
