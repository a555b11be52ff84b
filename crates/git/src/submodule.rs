//! Repositories inside repositories.

use crate::{Error, Url};

/// A line of `.gitmodules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodule {
    /// Its name, which decides where git would keep it.
    pub name: String,
    /// Where it stands.
    pub path: String,
    /// Where it comes from, maybe relative to the repository around it.
    pub url: String,
}

/// Reads `.gitmodules`; entries without path or URL are left out.
pub fn parse(text: &str) -> Vec<Submodule> {
    let mut modules: Vec<Submodule> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            inside = section.to_ascii_lowercase().starts_with("submodule");
            if inside {
                let name = section.split('"').nth(1).unwrap_or_default();
                modules.push(Submodule {
                    name: name.to_owned(),
                    path: String::new(),
                    url: String::new(),
                });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"').to_owned();
        if let (true, Some(module)) = (inside, modules.last_mut()) {
            match key.trim().to_ascii_lowercase().as_str() {
                "path" => module.path = value.trim_matches('/').to_owned(),
                "url" => module.url = value,
                _ => {}
            }
        }
    }
    modules.retain(|module| !module.path.is_empty() && !module.url.is_empty());
    modules
}

/// The address of a submodule, seen from the repository around it.
pub fn resolve(base: &Url, url: &str) -> Result<Url, Error> {
    if url.starts_with("./") || url.starts_with("../") {
        let mut path = base.path.trim_end_matches('/').to_owned();
        path = everflow_connect::clean_path(&format!("{path}/{url}"));
        return Ok(Url {
            path: path.trim_end_matches('/').to_owned(),
            ..base.clone()
        });
    }
    if url.contains("://") {
        return Ok(Url::parse(url)?);
    }
    // user@host:path, the short form of SSH.
    match url.split_once(':') {
        Some((host, path)) if !host.contains('/') => {
            let path = path.trim_start_matches('/');
            Ok(Url::parse(&format!("ssh://{host}/{path}"))?)
        }
        _ => Err(Error::Git(format!(
            "the submodule URL {url:?} is neither absolute nor relative to its repository"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read() {
        let text = "[submodule \"libs/one\"]\n\tpath = lib\n\turl = ../one.git\n\
                    # comment\n[other]\n path = x\n[submodule \"empty\"]\n path = y\n";
        let expected = [Submodule {
            name: "libs/one".to_owned(),
            path: "lib".to_owned(),
            url: "../one.git".to_owned(),
        }];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn addresses_are_relative_to_the_repository() {
        let base = Url::parse("https://host/team/repo.git").unwrap();
        for (url, expected) in [
            ("../lib.git", "https://host/team/lib.git"),
            ("../../other/lib", "https://host/other/lib"),
            ("./sub", "https://host/team/repo.git/sub"),
            ("http://x/y", "http://x/y"),
            ("git@host:a/b.git", "ssh://host/a/b.git"),
        ] {
            assert_eq!(resolve(&base, url).unwrap().to_string(), expected);
        }
        assert!(resolve(&base, "/absolute/path").is_err());
    }
}
