//! Addresses of repositories.

use everflow_env::disk::below;

/// Whether two addresses name the same repository, however they are written: with or without
/// `.git`, over SSH or HTTPS, as `git@host:path`.
pub fn same_repository(one: &str, two: &str) -> bool {
    let (one, two) = (address(one), address(two));
    !one.is_empty() && one == two
}

/// Whether two addresses end in the same name, as those of a repository and its fork do.
pub fn same_name(one: &str, two: &str) -> bool {
    let name = |url: &str| {
        address(url)
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    !name(one).is_empty() && name(one) == name(two)
}

/// Host and path of an address, without scheme, user, port and `.git`.
fn address(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let (rest, has_scheme) = match url.split_once("://") {
        Some((_, rest)) => (rest.to_owned(), true),
        None => (url.to_owned(), false),
    };
    let rest = match rest.split_once('@') {
        Some((user, rest)) if !user.contains('/') => rest.to_owned(),
        _ => rest,
    };
    let rest = match has_scheme {
        true => rest,
        false => rest.replacen(':', "/", 1),
    };
    let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
    let host = host.split(':').next().unwrap_or_default().to_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    below(&host, path)
}

/// The address of the remote `origin` (else of the first remote) in the text of `.git/config`.
pub fn remote_in(config: &str) -> Option<String> {
    let mut section = String::new();
    let mut first = None;
    for line in config.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
        } else if section.starts_with("remote ")
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == "url"
        {
            let url = value.trim().to_owned();
            if section == "remote \"origin\"" {
                return Some(url);
            }
            first.get_or_insert(url);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_repository() {
        let same = [
            "https://github.com/org/fleet.git",
            "ssh://git@github.com/org/fleet",
            "git@github.com:org/fleet.git",
            "ssh://git@github.com:22/org/fleet.git",
            "https://token@GitHub.com/org/fleet/",
        ];
        for other in same {
            assert!(same_repository(same[0], other), "{other}");
        }
        assert!(!same_repository(same[0], "https://github.com/org/fleet2"));
        assert!(!same_repository("", ""));
        let config = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = a\n[remote \"origin\"]\n\turl = git@x:y.git\n";
        assert_eq!(remote_in(config).as_deref(), Some("git@x:y.git"));
    }
}
