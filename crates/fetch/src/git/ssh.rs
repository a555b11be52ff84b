//! Git over SSH.

use everflow_env::{Env, Stream};

use super::Remote;
use crate::{Deadline, Error, Secret};

/// Who we are to an SSH server, and whom we trust.
#[derive(Debug, Clone)]
pub struct SshAuth {
    /// The user; `git` when empty.
    pub username: String,
    /// The private key (PEM or OpenSSH).
    pub identity: Secret<Vec<u8>>,
    /// The password of the private key.
    pub password: Option<Secret<String>>,
    /// Lines of known hosts.
    pub known_hosts: Vec<u8>,
}

pub(super) async fn connect(
    _env: &Env,
    _remote: &Remote,
    _auth: &SshAuth,
    _deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    Err(Error::Git("ssh: this build cannot speak SSH".to_owned()))
}
