//! Names of repositories and of what is in them, by the rules of Docker.

use std::fmt;
use std::net::IpAddr;

use crate::Error;
use crate::archive::{Algorithm, Digest};

/// What addresses of OCI repositories begin with.
pub const SCHEME: &str = "oci://";
/// The registry of names that name none.
const HUB: &str = "index.docker.io";
/// What people call it.
const HUB_ALIAS: &str = "docker.io";
const REPOSITORY_CHARS: &str = "abcdefghijklmnopqrstuvwxyz0123456789_-./";

/// A repository of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    registry: String,
    path: String,
}

impl Repository {
    /// Reads an address as `oci://registry/path`, which may not name a tag.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let Some(name) = address.strip_prefix(SCHEME) else {
            return Err(Error::Url(
                "URL must be in format 'oci://<domain>/<org>/<repo>'".to_owned(),
            ));
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) => (first, rest),
            _ => ("", name),
        };
        if name.is_empty() {
            return Err(Error::Url("a repository name must be specified".to_owned()));
        }
        check_path(path)?;
        Ok(Repository {
            registry: registry_name(registry)?,
            path: path.to_owned(),
        })
    }

    /// Host and port of the registry.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry; the implied `library/` of Docker Hub is in it.
    pub fn path(&self) -> String {
        match self.registry == HUB && !self.path.contains('/') {
            true => format!("library/{}", self.path),
            false => self.path.clone(),
        }
    }

    /// Something in it by tag.
    pub fn tag(&self, tag: &str) -> Reference {
        Reference {
            repository: self.clone(),
            target: Target::Tag(tag.to_owned()),
        }
    }

    /// Something in it by digest.
    pub fn digest(&self, digest: &str) -> Reference {
        Reference {
            repository: self.clone(),
            target: Target::Digest(digest.to_owned()),
        }
    }

    /// Whether the registry may speak plain HTTP though nobody said so: it is on this machine or
    /// in a private network.
    pub(crate) fn is_local(&self) -> bool {
        let name = self.registry.as_str();
        let host = name.split(':').next().unwrap_or_default();
        let private = matches!(host.parse(), Ok(IpAddr::V4(address)) if address.is_private());
        private
            || host.ends_with(".localhost")
            || name.starts_with("localhost:")
            || name.contains("127.0.0.1")
            || name.contains("::1")
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path())
    }
}

fn check_path(path: &str) -> Result<(), Error> {
    let length = path.chars().count();
    if !(2..=255).contains(&length) {
        return Err(Error::Url(format!(
            "repository must be between 2 and 255 characters in length: {path}"
        )));
    }
    match path.chars().all(|char| REPOSITORY_CHARS.contains(char)) {
        true => Ok(()),
        false => Err(Error::Url(format!(
            "repository can only contain the characters `{REPOSITORY_CHARS}`: {path}"
        ))),
    }
}

fn registry_name(name: &str) -> Result<String, Error> {
    if name.is_empty() || name == HUB_ALIAS {
        return Ok(HUB.to_owned());
    }
    // What stands before an @ may be a password.
    let shown = name.rsplit_once('@').map_or(name, |(_, host)| host);
    let wrong = || {
        Error::Url(format!(
            "registries must be valid RFC 3986 URI authorities: {shown}"
        ))
    };
    if name.contains('@') {
        return Err(wrong());
    }
    let url = crate::Url::parse(&format!("https://{name}")).map_err(|_| wrong())?;
    match url.authority() == name && !url.host.is_empty() {
        true => Ok(name.to_owned()),
        false => Err(wrong()),
    }
}

/// Something in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where.
    pub repository: Repository,
    /// What.
    pub target: Target,
}

/// What of a repository is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// By a name that may move.
    Tag(String),
    /// By its digest.
    Digest(String),
}

impl Target {
    /// As it stands in a path of the registry's API.
    pub fn as_str(&self) -> &str {
        match self {
            Target::Tag(text) | Target::Digest(text) => text,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Tag(tag) => write!(f, "{}:{tag}", self.repository),
            Target::Digest(digest) => write!(f, "{}@{digest}", self.repository),
        }
    }
}

/// Reads a digest as registries write them: the algorithm is never left out.
pub(crate) fn parse_digest(text: &str) -> Result<Digest, Error> {
    let quoted = format!("{text:?}");
    let Some((algorithm, hex)) = text.split_once(':').filter(|(_, hex)| !hex.contains(':')) else {
        return Err(Error::Digest(format!("cannot parse hash: {quoted}")));
    };
    let known = match algorithm {
        "sha256" | "sha512" => Algorithm::parse(algorithm)?,
        _ => return Err(Error::Digest(format!("unsupported hash: {algorithm:?}"))),
    };
    if let Some(odd) = hex
        .chars()
        .find(|char| !matches!(char, '0'..='9' | 'a'..='f'))
    {
        return Err(Error::Digest(format!(
            "found non-hex character in hash: {odd}"
        )));
    }
    Digest::parse(text).map_err(|_| {
        Error::Digest(format!(
            "wrong number of hex digits for {}: {hex}",
            known.name()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_docker_reads_them() {
        for (address, shown) in [
            (
                "oci://ghcr.io/stefanprodan/podinfo",
                "ghcr.io/stefanprodan/podinfo",
            ),
            ("oci://docker.io/nginx", "index.docker.io/library/nginx"),
            (
                "oci://docker.io/bitnami/nginx",
                "index.docker.io/bitnami/nginx",
            ),
            ("oci://org/app", "index.docker.io/org/app"),
            ("oci://localhost:5000/ab", "localhost:5000/ab"),
            ("oci://[::1]:5000/ab", "[::1]:5000/ab"),
        ] {
            assert_eq!(Repository::parse(address).unwrap().to_string(), shown);
        }
        let one = Repository::parse("oci://r.io/a/b").unwrap();
        assert_eq!(one.tag("v1").to_string(), "r.io/a/b:v1");
        assert_eq!(one.digest("sha256:aa").to_string(), "r.io/a/b@sha256:aa");
    }

    #[test]
    fn invalid_oci_addresses_are_refused_with_flux_messages() {
        for (address, words) in [
            (
                "https://x/y",
                "URL must be in format 'oci://<domain>/<org>/<repo>'",
            ),
            ("oci://", "a repository name must be specified"),
            (
                "oci://r.io:1/x",
                "repository must be between 2 and 255 characters in length: x",
            ),
            (
                "oci://r.io/app:v1",
                "repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: app:v1",
            ),
            (
                "oci://user:secret@r.io/app",
                "registries must be valid RFC 3986 URI authorities: r.io",
            ),
            (
                "oci://r.io:port/app",
                "registries must be valid RFC 3986 URI authorities: r.io:port",
            ),
        ] {
            let error = Repository::parse(address).unwrap_err();
            assert_eq!(error.reason(), "URLInvalid");
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn plain_http_is_allowed_for_local_registries_only() {
        for (registry, local) in [
            ("127.0.0.1:5000", true),
            ("localhost:5000", true),
            ("[::1]:5000", true),
            ("10.1.2.3", true),
            ("reg.localhost:80", true),
            ("kind.local", false),
            ("11.1.2.3:80", false),
            ("ghcr.io", false),
        ] {
            let repository = Repository::parse(&format!("oci://{registry}/ab")).unwrap();
            assert_eq!(repository.is_local(), local, "{registry}");
        }
    }

    #[test]
    fn digests_name_their_algorithm() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(parse_digest(&format!("sha256:{hex}")).is_ok());
        for (text, words) in [
            (hex, "cannot parse hash: "),
            ("md5:aa", "unsupported hash: \"md5\""),
            ("sha256:xyz", "found non-hex character in hash: x"),
            ("sha256:aa", "wrong number of hex digits for sha256: aa"),
        ] {
            let error = parse_digest(text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
