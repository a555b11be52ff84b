//! Which paths of a kustomization name something on another machine.

use crate::paths;

/// A git repository named by a URL, with a directory inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoUrl {
    /// What the kustomization says.
    pub raw: String,
    /// What git can clone.
    pub clone_url: String,
    /// The kustomization root inside the repository.
    pub directory: String,
    /// The branch, tag or commit after `?ref=`.
    pub reference: String,
}

/// True for an `http` or `https` URL.
pub fn is_http_url(path: &str) -> bool {
    let Some((scheme, _)) = path.split_once(':') else {
        return false;
    };
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Whether a path of a kustomization names something on another machine.
pub fn is_remote(path: &str) -> bool {
    is_http_url(path) || parse_repo_url(path).is_some()
}

/// Reads a path as a git URL; `None` when it is an ordinary path.
pub fn parse_repo_url(raw: &str) -> Option<RepoUrl> {
    if raw.starts_with('/') {
        return None;
    }
    let (address, query) = raw.split_once('?').unwrap_or((raw, ""));
    let (host, path) = split_host(address)?;
    let (repository, directory) = split_path(path, host.starts_with("file://"))?;
    if repository.is_empty() || leaves_repository(directory) {
        return None;
    }
    Some(RepoUrl {
        raw: raw.to_owned(),
        clone_url: format!("{host}{repository}"),
        directory: directory.strip_prefix('/').unwrap_or(directory).to_owned(),
        reference: reference_of(query),
    })
}

fn split_host(address: &str) -> Option<(String, &str)> {
    let address = strip_prefix_ignore_case(address, "git::").unwrap_or(address);
    let (scheme, rest) = ["ssh://", "https://", "http://", "file://"]
        .into_iter()
        .find_map(|scheme| Some((scheme, strip_prefix_ignore_case(address, scheme)?)))
        .unwrap_or(("", address));
    let (user, rest) = split_user(rest);
    let lower = rest.get(..11).map(str::to_ascii_lowercase);
    let is_github = matches!(lower.as_deref(), Some("github.com/" | "github.com:"));
    let accepts_colon = scheme.is_empty() && (!user.is_empty() || is_github);
    if scheme.is_empty() && !accepts_colon {
        return None;
    }
    if scheme == "file://" {
        // The user part, if any, belongs to the path here.
        return Some((
            scheme.to_owned(),
            strip_prefix_ignore_case(address, scheme)?,
        ));
    }
    let mut end = rest.find('/');
    if accepts_colon {
        let colon = rest.find(':');
        if end.is_none() || colon.is_some_and(|colon| colon > 0 && Some(colon) < end) {
            end = colon;
        }
    }
    let (host, path) = match end {
        Some(end) => rest.split_at(end + 1),
        None => (rest, ""),
    };
    if is_github {
        let host = if scheme == "ssh://" || !user.is_empty() {
            format!("{user}github.com:")
        } else {
            "https://github.com/".to_owned()
        };
        return Some((host, path));
    }
    if host.is_empty() {
        return None;
    }
    Some((format!("{scheme}{user}{host}"), path))
}

fn split_user(rest: &str) -> (&str, &str) {
    let Some(at) = rest.find('@') else {
        return ("", rest);
    };
    let user = &rest[..at];
    let valid = user.starts_with(|c: char| c.is_ascii_alphabetic())
        && user.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if valid {
        rest.split_at(at + 1)
    } else {
        ("", rest)
    }
}

fn split_path(path: &str, whole: bool) -> Option<(&str, &str)> {
    if let Some(index) = path.find("_git/") {
        let after = index + "_git/".len();
        let end = path[after..].find('/').map_or(path.len(), |i| after + i);
        return Some((&path[..end], path[end..].strip_prefix('/').unwrap_or("")));
    }
    if let Some(index) = path.find("//") {
        return Some((&path[..index], &path[index + 2..]));
    }
    if let Some(index) = path.find(".git") {
        return Some(path.split_at(index + ".git".len()));
    }
    if whole {
        return Some((path, ""));
    }
    let first = path.find('/')?;
    match path[first + 1..].find('/') {
        Some(second) => {
            let end = first + 1 + second;
            Some((&path[..end], &path[end + 1..]))
        }
        None => Some((path, "")),
    }
}

fn leaves_repository(directory: &str) -> bool {
    let clean = paths::clean(directory.strip_prefix('/').unwrap_or(directory));
    clean == ".." || clean.starts_with("../")
}

fn reference_of(query: &str) -> String {
    let value = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value.to_owned())
    };
    value("ref")
        .or_else(|| value("version"))
        .unwrap_or_default()
}

fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for path in ["../base", "base", "a/b/c.yaml", "./x", "/abs/path", "a:b/c"] {
            assert_eq!(parse_repo_url(path), None, "{path}");
        }
        let url = parse_repo_url("github.com/org/repo/deploy/base?ref=v1").unwrap();
        assert_eq!(url.clone_url, "https://github.com/org/repo");
        assert_eq!(url.directory, "deploy/base");
        assert_eq!(url.reference, "v1");
        let url = parse_repo_url("git@gitlab.com:org/repo.git//deploy").unwrap();
        assert_eq!(url.clone_url, "git@gitlab.com:org/repo.git");
        assert_eq!(url.directory, "deploy");
        assert_eq!(parse_repo_url("https://host/org/repo//../.."), None);
        assert!(is_http_url("https://host/file.yaml"));
        assert!(!is_http_url("httpx/file.yaml"));
    }
}
