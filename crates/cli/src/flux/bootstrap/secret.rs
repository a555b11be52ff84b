//! The Secret that the cluster logs in to the repository with.

use everflow_fetch::Deadline;
use everflow_git::{KeyPair, scan_host_key};
use everflow_json::{Map, Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource, WriteOptions};

use super::steps::Bootstrap;
use super::{read_file, work};
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::suspend::MANAGER;

pub static SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// How the cluster logs in.
#[derive(Debug, Clone)]
pub enum Access {
    /// As a user, or by a token alone.
    Password {
        username: String,
        password: String,
        bearer: bool,
    },
    /// By an SSH key; the host it is shown to, with a port where it is not 22, and the key's password.
    Key { host: String, password: String },
    /// By a deploy token that is there already: only the Secret knows its value.
    Kept { token: String },
}

impl Access {
    /// Whether the command line says what is in the Secret: then one that is there is brought up to date.
    pub fn is_given(&self, bootstrap: &Bootstrap<'_>) -> bool {
        match self {
            Access::Password { .. } => true,
            Access::Kept { .. } => false,
            Access::Key { .. } => !bootstrap.common.private_key_file.is_empty(),
        }
    }

    /// The content of the Secret.
    pub async fn data(&self, bootstrap: &Bootstrap<'_>) -> Result<Map, Failure> {
        let mut data = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                data.insert(key.into(), json!(value));
            }
        };
        match self {
            Access::Password {
                username,
                password,
                bearer,
            } => {
                match bearer {
                    true => put("bearerToken", password),
                    false => {
                        put("username", username);
                        put("password", password);
                    }
                }
                put("ca.crt", &bootstrap.common.ca()?.unwrap_or_default());
            }
            Access::Key { host, password } => {
                let pair = key_pair(bootstrap, password)?;
                put("identity", pair.identity.reveal());
                put("identity.pub", &pair.public);
                put("known_hosts", &known_hosts(bootstrap, host).await?);
                put("password", password);
            }
            Access::Kept { token } => {
                return Err(work(format!(
                    "the deploy token {token:?} is there, but the Secret with its value is not: revoke the \
                     token, and run this again"
                )));
            }
        }
        Ok(data)
    }
}

fn key_pair(bootstrap: &Bootstrap<'_>, password: &str) -> Result<KeyPair, Failure> {
    let pair = match bootstrap.common.private_key_file.as_str() {
        "" => KeyPair::generate(bootstrap.common.key_kind(), &mut |bytes| {
            // Without randomness nothing secret can be made.
            if getrandom::fill(bytes).is_err() {
                std::process::abort();
            }
        }),
        file => KeyPair::read(
            &read_file(file, "failed to open private key file")?,
            password,
        ),
    };
    pair.map_err(work)
}

/// The key that a server shows; nobody vouches for it, as with flux.
pub async fn known_hosts(bootstrap: &Bootstrap<'_>, host: &str) -> Result<String, Failure> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => {
            let port = port.parse();
            (name, port.map_err(|_| work(format!("{host}: no port")))?)
        }
        None => (host, 22),
    };
    let env = &bootstrap.env;
    let deadline = Deadline::after(&env.clock, bootstrap.connection.timeout);
    let scanned = scan_host_key(env, name, port, &deadline).await;
    scanned.map_err(|error| {
        work(format!(
            "SSH key scan for host '{host}' failed, error: {error}"
        ))
    })
}

/// The Secret of a name, when it is there.
pub async fn read(
    session: &Session,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Failure> {
    match session.client.get(&SECRETS, At::new(namespace, name)).await {
        Ok(secret) => Ok(Some(secret)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(work(format!(
            "failed to determine if deploy key secret exists: {}",
            session.told_of(&error)
        ))),
    }
}

/// Whether a Secret has this content and no other.
pub fn has_content(secret: &Value, data: &Map) -> bool {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let encoded: Map = data
        .iter()
        .map(|(key, value)| {
            let text = STANDARD.encode(value.as_str().unwrap_or_default());
            (key.clone(), json!(text))
        })
        .collect();
    secret["data"] == Value::Object(encoded)
}

/// Creates the Secret, or gives the one that is there its content.
pub async fn write(
    session: &Session,
    existing: Option<Value>,
    (namespace, name, kind): (&str, &str, &str),
    data: Map,
) -> Result<(), Failure> {
    let by = WriteOptions::by(MANAGER);
    let told = |error: Error| work(session.told_of(&error));
    let client = &session.client;
    let written = match existing {
        Some(mut secret) => {
            if let Some(fields) = secret.as_object_mut() {
                // What is written as text is added to what is there, so that must go.
                fields.remove("data");
                fields.insert("stringData".into(), Value::Object(data));
            }
            let at = At::new(namespace, name);
            client.update(&SECRETS, at, &secret, &by).await
        }
        None => {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
                "metadata": {"name": name, "namespace": namespace}, "stringData": data});
            client.create(&SECRETS, namespace, &secret, &by).await
        }
    };
    written.map(drop).map_err(told)
}
