//! Credentials that change: tokens in files, and programs that give them.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use everflow_env::{Clock, within};
use everflow_json::{Value, json};
use everflow_time::Timestamp;
use http::HeaderValue;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Mutex;

use super::config::{ClientCertificate, ExecPlugin, Hidden, Login};
use crate::client::TransportError;

/// How long a token from a file is used before the file is read again.
const FILE_AGE: Duration = Duration::from_secs(60);
/// How long a program may take to give credentials.
const PLUGIN_DEADLINE: Duration = Duration::from_secs(60);
/// How long before they end credentials are renewed.
const AHEAD: Duration = Duration::from_secs(60);
/// The longest answer of a program.
const LONGEST_ANSWER: u64 = 1 << 20;

/// What a request is sent with.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
}

#[derive(Debug)]
struct Kept {
    shown: Shown,
    until: Option<Duration>,
}

/// Gives credentials, new ones when the old ones end or are refused.
#[derive(Debug)]
pub(super) struct Credentials {
    clock: Arc<dyn Clock>,
    login: Login,
    kept: Mutex<Option<Kept>>,
    stale: std::sync::atomic::AtomicBool,
}

impl Credentials {
    pub(super) fn new(clock: Arc<dyn Clock>, login: Login) -> Self {
        Credentials {
            clock,
            login,
            kept: Mutex::default(),
            stale: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// The server did not accept them. Returns whether there may be newer ones.
    pub(super) fn refused(&self) -> bool {
        self.stale.store(true, std::sync::atomic::Ordering::SeqCst);
        matches!(self.login, Login::TokenFile(_) | Login::Exec(_))
    }

    pub(super) async fn show(&self) -> Result<Shown, TransportError> {
        let mut kept = self.kept.lock().await;
        let stale = self.stale.swap(false, std::sync::atomic::Ordering::SeqCst);
        if let Some(kept) = kept.as_ref().filter(|_| !stale)
            && kept.until.is_none_or(|until| self.clock.elapsed() < until)
        {
            return Ok(kept.shown.clone());
        }
        let fresh = self.fetch().await?;
        let shown = fresh.shown.clone();
        *kept = Some(fresh);
        Ok(shown)
    }

    async fn fetch(&self) -> Result<Kept, TransportError> {
        let shown = |authorization| Shown {
            authorization,
            certificate: None,
        };
        match &self.login {
            Login::None => Ok(Kept {
                shown: shown(None),
                until: None,
            }),
            Login::Token(token) => Ok(Kept {
                shown: shown(Some(bearer(&token.0)?)),
                until: None,
            }),
            Login::TokenFile(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let path = path.display();
                    TransportError::text(format!("the token file {path} cannot be read: {error}"))
                })?;
                Ok(Kept {
                    shown: shown(Some(bearer(text.trim())?)),
                    until: Some(self.clock.elapsed() + FILE_AGE),
                })
            }
            Login::Basic(name, password) => {
                let pair = format!("{name}:{}", password.0);
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                Ok(Kept {
                    shown: shown(Some(hidden(&format!("Basic {pair}"))?)),
                    until: None,
                })
            }
            Login::Exec(plugin) => {
                let run = within(&*self.clock, PLUGIN_DEADLINE, run(plugin)).await;
                let answer = run.map_err(|_| {
                    TransportError::text(format!(
                        "the exec plugin {} did not end within {}s",
                        plugin.command.display(),
                        PLUGIN_DEADLINE.as_secs()
                    ))
                })??;
                self.take(plugin, &answer)
            }
        }
    }

    fn take(&self, plugin: &ExecPlugin, answer: &Value) -> Result<Kept, TransportError> {
        let status = &answer["status"];
        let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
        let certificate = text("clientCertificateData").zip(text("clientKeyData"));
        let token = text("token");
        if certificate.is_none() && token.is_none() {
            return Err(TransportError::text(format!(
                "the exec plugin {} gave neither a token nor a certificate with its key",
                plugin.command.display()
            )));
        }
        let ends = text("expirationTimestamp").and_then(Timestamp::parse);
        let until = ends.map(|ends| {
            let left = ends.since(self.clock.now()).unsigned();
            self.clock.elapsed() + left.saturating_sub(AHEAD)
        });
        Ok(Kept {
            shown: Shown {
                authorization: token.map(bearer).transpose()?,
                certificate: certificate.map(|(chain, key)| {
                    let key = Hidden(key.as_bytes().to_vec());
                    Arc::new((chain.as_bytes().to_vec(), key))
                }),
            },
            until,
        })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, TransportError> {
    hidden(&format!("Bearer {token}"))
}

fn hidden(text: &str) -> Result<HeaderValue, TransportError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| TransportError::text("the token has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Runs a plugin and reads its answer. What it says on standard error is in the message when it
/// fails; its answer is in none.
async fn run(plugin: &ExecPlugin) -> Result<Value, TransportError> {
    let program = plugin.command.display().to_string();
    let failed = |why: String| TransportError::text(format!("the exec plugin {program} {why}"));
    let info = json!({
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": false},
    });
    let mut command = tokio::process::Command::new(&plugin.command);
    command
        .args(&plugin.arguments)
        .envs(&plugin.variables)
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    let (mut answer, mut words) = (Vec::new(), Vec::new());
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let reading = async {
        if let Some(stdout) = stdout {
            stdout.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let complaining = async {
        if let Some(stderr) = stderr {
            stderr.take(4_096).read_to_end(&mut words).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let (read, _) = futures_util::future::join(reading, complaining).await;
    read.map_err(|error| failed(format!("cannot be read: {error}")))?;
    let status = child
        .wait()
        .await
        .map_err(|error| failed(format!("cannot be waited for: {error}")))?;
    if !status.success() {
        let words = String::from_utf8_lossy(&words);
        return Err(failed(format!("failed ({status}): {}", words.trim())));
    }
    everflow_json::from_slice(&answer)
        .map_err(|error| failed(format!("did not answer with an ExecCredential: {error}")))
}
