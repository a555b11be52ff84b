//! Addresses of repositories and of the charts in them.

use crate::{Error, Url};

/// The address of a repository as repositories are told apart by: one slash at its end, none for
/// OCI. Empty stays empty.
pub fn normalize_url(url: &str) -> Result<String, Error> {
    if url.is_empty() {
        return Ok(String::new());
    }
    if !url.contains("://") {
        // Aliases and paths: nothing to bring into shape.
        return Ok(format!("{}/", url.trim_end_matches('/')));
    }
    let (address, query) = match url.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (url, None),
    };
    // Whether it is an address at all.
    Url::parse(url)?;
    let slash = if url.starts_with("oci://") { "" } else { "/" };
    let mut normal = format!("{}{slash}", address.trim_end_matches('/'));
    if let Some(query) = query {
        normal.push('?');
        normal.push_str(query);
    }
    Ok(normal)
}

/// Whether a dependency may come from there: HTTP and OCI, and no alias, which only a user's own
/// helm could resolve.
pub fn check_dependency_url(url: &str) -> Result<(), Error> {
    if ["oci", "https://", "http://"]
        .iter()
        .any(|start| url.starts_with(start))
    {
        return Ok(());
    }
    let what = match url.starts_with('@') {
        true => "aliased repository dependency is not supported",
        false => "invalid dependency repository URL",
    };
    Err(Error::Url(format!("{what}: {url}")))
}

/// The address of a chart that an index names: absolute as it is, or relative to the repository,
/// whose query it then gets.
pub fn resolve_chart_url(repository: &Url, reference: &str) -> Result<Url, Error> {
    if has_scheme(reference) {
        return Ok(Url::parse(reference)?);
    }
    let mut base = repository.clone();
    base.path = format!("{}/", base.path.strip_suffix('/').unwrap_or(&base.path));
    base.query = None;
    let resolved = base.join(reference)?;
    // A query may hold a signature or a token, which no other server gets.
    let query = match repository.same_origin(&resolved) {
        true => repository.query.clone(),
        false => resolved.query.clone(),
    };
    Ok(Url { query, ..resolved })
}

/// The address of a repository's index.
pub(super) fn index_url(repository: &Url) -> Url {
    let mut parts: Vec<&str> = Vec::new();
    for part in repository.path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.push("index.yaml");
    Url {
        path: format!("/{}", parts.join("/")),
        ..repository.clone()
    }
}

/// Whether a reference begins with a scheme such as `https:`.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_one_slash() {
        for (url, expected) in [
            ("", ""),
            ("https://x/charts", "https://x/charts/"),
            ("https://x/charts//", "https://x/charts/"),
            ("https://x", "https://x/"),
            ("https://x/a?token=1", "https://x/a/?token=1"),
            ("oci://x/charts/", "oci://x/charts"),
            ("@alias", "@alias/"),
        ] {
            assert_eq!(normalize_url(url).unwrap(), expected);
        }
        assert!(normalize_url("http://a b/").is_err());
    }

    #[test]
    fn only_http_and_oci_hold_dependencies() {
        for url in ["http://x/", "https://x/", "oci://x"] {
            check_dependency_url(url).unwrap();
        }
        let error = |url| check_dependency_url(url).unwrap_err().to_string();
        assert_eq!(
            error("@stable/"),
            "aliased repository dependency is not supported: @stable/"
        );
        assert_eq!(
            error("alias:stable/"),
            "invalid dependency repository URL: alias:stable/"
        );
    }

    #[test]
    fn charts_are_found_relative_to_their_repository() {
        let url = |text| Url::parse(text).unwrap();
        for (repository, reference, expected) in [
            (
                "https://x/charts/",
                "app-1.tgz",
                "https://x/charts/app-1.tgz",
            ),
            (
                "https://x/charts",
                "a/app-1.tgz",
                "https://x/charts/a/app-1.tgz",
            ),
            ("https://x/charts", "../app-1.tgz", "https://x/app-1.tgz"),
            ("https://x/charts", "/app-1.tgz", "https://x/app-1.tgz"),
            (
                "https://x/charts/?sig=1",
                "app-1.tgz?other=2",
                "https://x/charts/app-1.tgz?sig=1",
            ),
            (
                "https://x/charts/?sig=1",
                "http://other/app-1.tgz?z",
                "http://other/app-1.tgz?z",
            ),
            (
                "https://x/c?sig=1",
                "//other/app-1.tgz",
                "https://other/app-1.tgz",
            ),
        ] {
            let resolved = resolve_chart_url(&url(repository), reference).unwrap();
            assert_eq!(resolved.with_query().reveal(), expected);
        }
        assert!(resolve_chart_url(&url("https://x/"), "ftp:bad").is_err());
    }

    #[test]
    fn the_index_lies_at_the_end_of_the_path() {
        for (repository, expected) in [
            ("https://x", "https://x/index.yaml"),
            ("https://x/charts/", "https://x/charts/index.yaml"),
            ("https://x//a/../b?q=1", "https://x/b/index.yaml?q=1"),
        ] {
            let url = Url::parse(repository).unwrap();
            assert_eq!(index_url(&url).with_query().reveal(), expected);
        }
    }
}
