//! Secrets: read from the server, never kept, never shown.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_fetch::Secret;
use everflow_fetch::http::{Auth, Proxy, TlsOptions};
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client};

use crate::Fingerprint;
use crate::fingerprint::Parts;
use crate::resources::SECRETS;

/// The longest address of a proxy.
const LONGEST_PROXY: usize = 2_048;

/// The data of a Secret.
#[derive(Clone)]
pub(crate) struct SecretData {
    /// `NAMESPACE/NAME`.
    name: String,
    /// The type, such as `kubernetes.io/dockerconfigjson`.
    pub kind: String,
    data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretData({}: {:?})", self.name, self.data.keys())
    }
}

/// Why a Secret could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// There is none; in the server's words.
    Missing { name: String, told: String },
    /// Something else.
    Other { name: String, why: String },
}

impl Unread {
    /// What the server said.
    pub(crate) fn told(&self) -> &str {
        match self {
            Unread::Missing { told, .. } => told,
            Unread::Other { why, .. } => why,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Missing { name, .. } => write!(f, "secret '{name}' not found"),
            Unread::Other { name, why } => write!(f, "failed to get secret '{name}': {why}"),
        }
    }
}

impl SecretData {
    /// Reads a Secret.
    pub(crate) async fn get(client: &Client, namespace: &str, name: &str) -> Result<Self, Unread> {
        let full = format!("{namespace}/{name}");
        let secret = match client.get(&SECRETS, At::new(namespace, name)).await {
            Ok(secret) => secret,
            Err(Error::NotFound(refusal)) => {
                return Err(Unread::Missing {
                    name: full,
                    told: refusal.message,
                });
            }
            Err(error) => {
                return Err(Unread::Other {
                    name: full,
                    why: error.to_string(),
                });
            }
        };
        let entries = secret.get("data").and_then(Value::as_object);
        let data = entries.into_iter().flatten().filter_map(|(key, value)| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            Some((key.to_string(), bytes))
        });
        Ok(SecretData {
            name: full,
            kind: secret["type"].as_str().unwrap_or_default().to_owned(),
            data: data.collect(),
        })
    }

    /// `NAMESPACE/NAME`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The content of a key, when there is any.
    pub(crate) fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.data
            .get(key)
            .map(Vec::as_slice)
            .filter(|bytes| !bytes.is_empty())
    }

    /// Whether a key is there, even if empty.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.data.contains_key(key)
    }

    /// The content of a key as text; empty when it is not there.
    pub(crate) fn text(&self, key: &str) -> String {
        String::from_utf8_lossy(self.bytes(key).unwrap_or_default()).into_owned()
    }

    /// All of it.
    pub(crate) fn data(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.data
    }

    /// What tells this Secret from others: its name and all of its content.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let parts = Parts::of("Secret").and(&self.name).and(&self.kind);
        let each = self.data.iter();
        each.fold(parts, |parts, (key, bytes)| parts.and(key).and(bytes))
            .done()
    }

    /// All keys and their content.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.data
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// The proxy that a Secret describes, or what is wrong with it.
    pub(crate) fn proxy(&self) -> Result<Proxy, String> {
        let name = &self.name;
        if !self.has("address") {
            return Err(format!("secret '{name}': key 'address' not found"));
        }
        let address = self.text("address");
        if address.is_empty() {
            return Err(format!("secret '{name}': proxy address is empty"));
        }
        if address.len() > LONGEST_PROXY {
            return Err(format!(
                "secret '{name}': proxy URL exceeds maximum length of {LONGEST_PROXY} characters"
            ));
        }
        let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
        if !matches!(scheme, "http" | "https" | "socks5") {
            return Err(format!(
                "secret '{name}': proxy URL must use one of the supported schemes \
                 (http, https, socks5), got '{scheme}'"
            ));
        }
        let credentials = self
            .has("username")
            .then(|| (self.text("username"), Secret::new(self.text("password"))));
        Proxy::new(&address, credentials)
            .map_err(|error| format!("secret '{name}': failed to parse proxy address: {error}"))
    }

    /// A user and a password; none when there is neither, an error when one is missing.
    pub(crate) fn basic_auth(&self) -> Result<Option<Auth>, String> {
        let malformed = |present: &str, missing: &str| {
            let name = &self.name;
            format!(
                "secret '{name}': malformed basic auth - has '{present}' but missing '{missing}'"
            )
        };
        match (self.has("username"), self.has("password")) {
            (false, false) => Ok(None),
            (true, false) => Err(malformed("username", "password")),
            (false, true) => Err(malformed("password", "username")),
            (true, true) => Ok(Some(Auth::Basic {
                username: self.text("username"),
                password: Secret::new(self.text("password")),
            })),
        }
    }

    /// Whom to trust and who we are; an error when it says neither, or half of it.
    pub(crate) fn tls(&self) -> Result<TlsOptions, String> {
        let legacy = |key: &str, old: &str| self.bytes(key).or_else(|| self.bytes(old));
        let certificate = legacy("tls.crt", "certFile");
        let key = legacy("tls.key", "keyFile");
        let ca = legacy("ca.crt", "caFile");
        let name = &self.name;
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                Some((certificate.to_vec(), Secret::new(key.to_vec())))
            }
            (Some(_), None) => {
                return Err(format!(
                    "secret '{name}' contains 'tls.crt' but missing 'tls.key'"
                ));
            }
            (None, Some(_)) => {
                return Err(format!(
                    "secret '{name}' contains 'tls.key' but missing 'tls.crt'"
                ));
            }
            (None, None) if ca.is_none() => {
                return Err(format!(
                    "secret '{name}' must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'"
                ));
            }
            (None, None) => None,
        };
        Ok(TlsOptions {
            ca: ca.map(<[u8]>::to_vec),
            client,
            ..TlsOptions::default()
        })
    }
}
