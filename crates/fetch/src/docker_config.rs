//! Credentials for registries as Docker and Kubernetes keep them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use everflow_json::Value;

use crate::archive::ignore::matches;
use crate::oci::Repository;
use crate::{Error, Secret, Url};

/// The key of secrets of the type `kubernetes.io/dockerconfigjson`.
pub const DOCKER_CONFIG_JSON_KEY: &str = ".dockerconfigjson";
/// The key of secrets of the type `kubernetes.io/dockercfg`.
pub const DOCKER_CONFIG_KEY: &str = ".dockercfg";

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Who we are to a registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RegistryAuth {
    /// Nobody.
    #[default]
    Anonymous,
    /// A user.
    Login {
        /// The name.
        username: String,
        /// The password.
        password: Secret<String>,
    },
    /// A token that the token server takes for another.
    Identity(Secret<String>),
    /// A token for the registry itself.
    Bearer(Secret<String>),
}

/// Credentials by registry.
#[derive(Debug, Clone, Default)]
pub struct DockerConfig {
    /// By host and path, as matched.
    entries: Vec<(String, RegistryAuth)>,
    /// By key as written.
    written: Vec<(String, RegistryAuth)>,
}

impl DockerConfig {
    /// Nobody anywhere.
    pub fn new() -> Self {
        DockerConfig::default()
    }

    /// Adds what a secret of a cluster holds; a secret of another type adds nothing.
    pub fn add_secret(
        &mut self,
        secret_type: &str,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), Error> {
        let read = |key: &str| data.get(key).filter(|bytes| !bytes.is_empty());
        match secret_type {
            "kubernetes.io/dockerconfigjson" => match read(DOCKER_CONFIG_JSON_KEY) {
                Some(bytes) => self.add(bytes),
                None => Ok(()),
            },
            "kubernetes.io/dockercfg" => match read(DOCKER_CONFIG_KEY) {
                Some(bytes) => self.add_auths(&parse(bytes, DOCKER_CONFIG_KEY)?),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Adds the content of a `config.json`.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let whole = parse(bytes, DOCKER_CONFIG_JSON_KEY)?;
        let auths = whole.as_object().and_then(|whole| {
            let found = whole.iter();
            let mut named = found.filter(|(key, _)| key.eq_ignore_ascii_case("auths"));
            named.next().map(|(_, auths)| auths)
        });
        match auths {
            None | Some(Value::Null) => Ok(()),
            Some(auths) => self.add_auths(auths),
        }
    }

    fn add_auths(&mut self, auths: &Value) -> Result<(), Error> {
        let Some(auths) = auths.as_object() else {
            return Err(broken("'auths' must be an object"));
        };
        for (registry, entry) in auths {
            let auth = entry_auth(registry, entry)?;
            let key = key_of(registry)?;
            let at = self.entries.partition_point(|(other, _)| *other >= key);
            self.entries.insert(at, (key, auth.clone()));
            self.written.push((registry.to_string(), auth));
        }
        Ok(())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The credentials for a repository: of the keys that fit, the longest counts.
    pub fn auth_for(&self, repository: &Repository) -> RegistryAuth {
        let name = repository.to_string();
        let found = self.entries.iter().find(|(key, _)| covers(key, &name));
        found.map(|(_, auth)| auth.clone()).unwrap_or_default()
    }

    /// The credentials for a host by its name alone, as Helm looks them up.
    pub fn auth_for_host(&self, host: &str) -> Option<RegistryAuth> {
        let exact = self.written.iter().find(|(key, _)| key == host);
        let named = || self.written.iter().find(|(key, _)| host_of(key) == host);
        exact.or_else(named).map(|(_, auth)| auth.clone())
    }
}

fn broken(what: &str) -> Error {
    Error::Authentication(format!("invalid Docker config: {what}"))
}

fn parse(bytes: &[u8], key: &str) -> Result<Value, Error> {
    // The parser's own words could show a piece of the secret.
    everflow_json::from_slice(bytes).map_err(|error| {
        broken(&format!(
            "'{key}' is not valid JSON at line {} column {}",
            error.line(),
            error.column()
        ))
    })
}

fn entry_auth(registry: &str, entry: &Value) -> Result<RegistryAuth, Error> {
    let registry = registry.rsplit_once('@').map_or(registry, |(_, host)| host);
    let Some(entry) = entry.as_object() else {
        return Err(broken(&format!(
            "the entry of {registry:?} must be an object"
        )));
    };
    let text = |name: &str| {
        let mut named = entry
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        match named.next() {
            None | Some((_, Value::Null)) => Ok(String::new()),
            Some((_, Value::String(text))) => Ok(text.to_string()),
            Some(_) => Err(broken(&format!(
                "'{name}' of {registry:?} must be a string"
            ))),
        }
    };
    let (mut username, mut password) = (text("username")?, text("password")?);
    let packed = text("auth")?;
    if !packed.is_empty() {
        let plain = LENIENT
            .decode(packed.trim())
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = plain.as_deref().and_then(|plain| plain.split_once(':'));
        let (name, word) = pair.ok_or_else(|| {
            broken(&format!(
                "unable to decode auth field of {registry:?}: must be formatted as base64(username:password)"
            ))
        })?;
        (username, password) = (name.to_owned(), word.to_owned());
    }
    let (identity, token) = (text("identitytoken")?, text("registrytoken")?);
    Ok(if !token.is_empty() {
        RegistryAuth::Bearer(token.into())
    } else if !identity.is_empty() {
        RegistryAuth::Identity(identity.into())
    } else if !username.is_empty() && !password.is_empty() {
        RegistryAuth::Login {
            username,
            password: password.into(),
        }
    } else {
        RegistryAuth::Anonymous
    })
}

/// Host and path of a key; `/v1/` and `/v2/` stand for the host alone.
fn key_of(registry: &str) -> Result<String, Error> {
    let plain = match registry.contains("://") {
        true => registry.to_owned(),
        false => format!("https://{registry}"),
    };
    let url = Url::parse(&plain)
        .map_err(|error| broken(&format!("Entry in dockercfg invalid ({error})")))?;
    let path = match url.path.as_str() {
        path if path.starts_with("/v1/") || path.starts_with("/v2/") => &path[3..],
        path => path,
    };
    Ok(match path {
        "" | "/" => url.authority(),
        path => format!("{}{path}", url.authority()),
    })
}

fn host_of(key: &str) -> &str {
    let plain = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    plain.split('/').next().unwrap_or_default()
}

fn split(name: &str) -> (&str, &str, &str) {
    let at = name.find('/').unwrap_or(name.len());
    let (authority, path) = name.split_at(at);
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.contains(']') => (host, port, path),
        _ => (authority, "", path),
    }
}

/// Whether a key, in whose host a star may stand for a part, is for a repository.
fn covers(key: &str, name: &str) -> bool {
    let (host, port, path) = split(key);
    let (wanted, wanted_port, wanted_path) = split(name);
    port == wanted_port
        && wanted_path.starts_with(path)
        && host.split('.').count() == wanted.split('.').count()
        && host
            .split('.')
            .zip(wanted.split('.'))
            .all(|(one, two)| matches(one, two))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> DockerConfig {
        let mut config = DockerConfig::new();
        config.add(text.as_bytes()).unwrap();
        config
    }

    fn user(config: &DockerConfig, address: &str) -> String {
        match config.auth_for(&Repository::parse(address).unwrap()) {
            RegistryAuth::Anonymous => "-".to_owned(),
            RegistryAuth::Login { username, password } => {
                format!("{username}:{}", password.reveal())
            }
            RegistryAuth::Identity(token) => format!("identity {}", token.reveal()),
            RegistryAuth::Bearer(token) => format!("bearer {}", token.reveal()),
        }
    }

    #[test]
    fn the_longest_key_that_fits_counts() {
        let config = config(
            r#"{"auths": {
                "r.io": {"username": "all", "password": "p"},
                "r.io/team": {"auth": "dGVhbTpwOnc"},
                "https://index.docker.io/v1/": {"auth": "aHViOnA="},
                "*.gcr.io": {"registrytoken": "rt"},
                "a.io:5000": {"identitytoken": "it"},
                "empty.io": {}
            }}"#,
        );
        for (address, expected) in [
            ("oci://r.io/other/app", "all:p"),
            ("oci://r.io/team/app", "team:p:w"),
            ("oci://docker.io/nginx", "hub:p"),
            ("oci://eu.gcr.io/app", "bearer rt"),
            ("oci://gcr.io/app", "-"),
            ("oci://a.io:5000/app", "identity it"),
            ("oci://a.io/app", "-"),
            ("oci://empty.io/app", "-"),
        ] {
            assert_eq!(user(&config, address), expected, "{address}");
        }
        assert!(config.auth_for_host("index.docker.io").is_some());
        assert!(config.auth_for_host("else.io").is_none());
        assert!(!format!("{config:?}").contains("p:w"));
    }

    #[test]
    fn secrets_count_by_their_type() {
        let data =
            |key: &str, text: &str| BTreeMap::from([(key.to_owned(), text.as_bytes().to_vec())]);
        let auths = r#"{"r.io": {"username": "u", "password": "p"}}"#;
        let whole = format!(r#"{{"auths": {auths}}}"#);
        for (kind, data, expected) in [
            (
                "kubernetes.io/dockerconfigjson",
                data(".dockerconfigjson", &whole),
                "u:p",
            ),
            ("kubernetes.io/dockercfg", data(".dockercfg", auths), "u:p"),
            ("Opaque", data(".dockerconfigjson", &whole), "-"),
        ] {
            let mut config = DockerConfig::new();
            config.add_secret(kind, &data).unwrap();
            assert_eq!(user(&config, "oci://r.io/app"), expected);
        }
    }

    #[test]
    fn garbage_is_refused_without_showing_it() {
        for text in [
            r#"{"auths": "hunter2"}"#,
            r#"{"auths": {"r.io": "hunter2"}}"#,
            r#"{"auths": {"r.io": {"auth": "hunter2!"}}}"#,
            r#"{"auths": {"r.io": {"auth": "aHVudGVyMg=="}}}"#,
            r#"{"auths": {"r.io": {"password": 5}}}"#,
            r#"{"auths": {"u:hunter2@r:x": {}}}"#,
            "hunter2",
        ] {
            let error = DockerConfig::new().add(text.as_bytes()).unwrap_err();
            assert_eq!(error.reason(), "AuthenticationFailed");
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert!(!error.to_string().contains("aHVu"), "{error}");
        }
    }
}
