//! Logging in with the keys that an SSH agent holds: they never leave it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use everflow_env::Stream;
use russh::client::{AuthResult, Handle, Handler};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::ssh_key::{Algorithm, HashAlg, PublicKey};

use crate::Error;

/// A connection to an agent that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// How many keys are tried: servers end a connection after a few.
const MOST_KEYS: usize = 16;

/// A way to an SSH agent. Whoever has it opens the socket: this crate opens none of its own.
#[derive(Clone)]
pub struct SshAgent(Arc<dyn Fn() -> Opening + Send + Sync>);

impl fmt::Debug for SshAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SshAgent")
    }
}

impl SshAgent {
    /// An agent that is reached by what the function opens.
    pub fn new(open: impl Fn() -> Opening + Send + Sync + 'static) -> Self {
        SshAgent(Arc::new(open))
    }

    /// Logs in with the first key that the server takes.
    pub(super) async fn log_in<H: Handler>(
        &self,
        handle: &mut Handle<H>,
        username: &str,
    ) -> Result<(), Error> {
        let stream = (self.0)().await;
        let stream = stream.map_err(|error| failed(format!("is not reached: {error}")))?;
        let mut agent = AgentClient::connect(stream);
        let keys = agent.request_identities().await;
        let keys = keys.map_err(|error| failed(format!("does not tell its keys: {error}")))?;
        let mut tried = 0;
        for key in keys.iter().filter_map(plain).take(MOST_KEYS) {
            let hash = match key.algorithm() {
                Algorithm::Rsa { .. } => match handle.best_supported_rsa_hash().await {
                    Ok(Some(hash)) => hash,
                    _ => Some(HashAlg::Sha512),
                },
                _ => None,
            };
            tried += 1;
            let asked = handle.authenticate_publickey_with(username, key.clone(), hash, &mut agent);
            match asked.await {
                Ok(AuthResult::Success) => return Ok(()),
                Ok(AuthResult::Failure { .. }) => {}
                Err(error) => return Err(failed(format!("does not sign: {error}"))),
            }
        }
        Err(failed(match tried {
            0 => "holds no key: add one with ssh-add, or name a file with the key".to_owned(),
            _ => format!("holds {tried} keys, of which the server takes none for {username:?}"),
        }))
    }
}

fn plain(identity: &AgentIdentity) -> Option<&PublicKey> {
    match identity {
        AgentIdentity::PublicKey { key, .. } => Some(key),
        AgentIdentity::Certificate { .. } => None,
    }
}

fn failed(why: String) -> Error {
    Error::Authentication(format!("the SSH agent {why}"))
}
