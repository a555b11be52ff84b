//! Webhooks: which are valid, and what they wake.

mod cdevents;
mod check;
mod filter;
mod hmac;
mod jwt;
mod media_type;
mod oidc;
mod shape;
pub mod status;
mod targets;

use everflow_api::Object;
use everflow_api::condition;
use everflow_api::names::condition::READY;
use everflow_api::notification::{Receiver, ReceiverType};
use everflow_time::Timestamp;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use crate::event::LARGEST_BODY;
use crate::provider::{Lookup, hex};

pub use filter::{Evaluator, Filters};
pub use jwt::KeySet;
pub use oidc::{Discovery, GOOGLE_KEYS, Keys};
pub use targets::{Select, Target};

/// All webhooks are below this path.
pub const PATH: &str = "/hook/";

/// The path of a Receiver's webhook. Who knows it knows the token, the name and the namespace, or was told the path.
pub fn webhook_path(token: &[u8], name: &str, namespace: &str) -> String {
    let digest = Sha256::new()
        .chain_update(token)
        .chain_update(name)
        .chain_update(namespace)
        .finalize();
    format!("{PATH}{}", hex(&digest))
}

/// The header `X-Signature` that a call with this body has to have for Receivers of the type generic-hmac.
pub fn signature_header(token: &[u8], body: &[u8]) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, token);
    format!("sha256={}", hex(ring::hmac::sign(&key, body).as_ref()))
}

/// A request to a webhook.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The headers.
    pub headers: &'c HeaderMap,
    /// The body.
    pub body: &'c [u8],
}

impl<'c> Call<'c> {
    /// The first value of a header, empty when it is not there. A value that is not text is as good as none.
    fn header(&self, name: &str) -> &'c str {
        let value = self.headers.get(name);
        value
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .unwrap_or_default()
    }
}

/// Why a request is not heeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer, which has no body.
    pub status: u16,
    /// Why, for the log.
    pub why: String,
}

impl Refusal {
    fn bad_request(why: impl Into<String>) -> Self {
        Refusal {
            status: 400,
            why: why.into(),
        }
    }

    fn internal(why: impl Into<String>) -> Self {
        Refusal {
            status: 500,
            why: why.into(),
        }
    }
}

/// What a request without a Receiver is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It is looked up: the Receiver's `status.webhookPath` must be the whole target of the request.
    Hook,
    /// It is sent to [`PATH`].
    Redirect,
    /// There is nothing.
    Nothing,
}

/// Where a request goes, by its target: path and query.
pub fn route(target: &str) -> Route {
    match target.split('?').next() {
        Some("/hook") => Route::Redirect,
        Some(path) if path.starts_with(PATH) => Route::Hook,
        _ => Route::Nothing,
    }
}

/// Whose keys are needed before a request can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Those of this issuer, which its discovery document names.
    Issuer(String),
    /// Those at [`GOOGLE_KEYS`].
    Google,
}

/// What a valid request wakes.
#[derive(Debug)]
pub struct Accepted {
    /// What to look for, and where.
    pub targets: Vec<Target>,
    /// What is wrong with other resources of the Receiver: the answer is 500 when there is anything, after the targets
    /// were woken.
    pub problems: Vec<String>,
    /// Which of the objects that are found are woken.
    pub filters: Filters,
    /// What the request is, for the log.
    pub summary: String,
}

/// What the administrator allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Receivers may not wake objects in other namespaces.
    pub no_cross_namespace_refs: bool,
}

/// Decides what can be decided before keys are fetched: whether the Receiver listens, how large the body is, and whose
/// keys are needed.
///
/// # Errors
/// When the request is refused whatever its credentials are.
pub fn key_source(
    receiver: &Object<Receiver>,
    call: &Call<'_>,
) -> Result<Option<KeySource>, Refusal> {
    listens(receiver, call)?;
    match receiver.spec.receiver_type {
        ReceiverType::GenericOidc => {
            let issuer = oidc::issuer(receiver, call).map_err(Refusal::bad_request)?;
            Ok(Some(KeySource::Issuer(issuer)))
        }
        ReceiverType::Gcr => Ok(Some(KeySource::Google)),
        _ => Ok(None),
    }
}

fn listens(receiver: &Object<Receiver>, call: &Call<'_>) -> Result<(), Refusal> {
    if call.body.len() > LARGEST_BODY {
        return Err(Refusal {
            status: 413,
            why: format!("request body exceeds the maximum size of {LARGEST_BODY} bytes"),
        });
    }
    let why = if receiver.spec.suspend {
        "receiver is suspended"
    } else if !condition::is_true(&receiver.status.conditions, READY) {
        "receiver is not ready"
    } else {
        return Ok(());
    };
    Err(Refusal {
        status: 503,
        why: format!("unable to process request: {why}"),
    })
}

/// Checks a request. `secret` is the Receiver's, `keys` those that [`key_source`] asked for, or why they could not be had.
///
/// # Errors
/// When the request is not heeded.
pub fn check(
    receiver: &Object<Receiver>,
    secret: &Lookup,
    call: &Call<'_>,
    keys: Option<Result<&Keys, &str>>,
    options: &Options,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    listens(receiver, call)?;
    let valid = check::validate(receiver, secret, call, keys, now).map_err(Refusal::bad_request)?;
    let filters = Filters::new(receiver, call, &valid).map_err(Refusal::internal)?;
    let (targets, problems) = targets::targets(receiver, options);
    Ok(Accepted {
        targets,
        problems,
        filters,
        summary: valid.summary,
    })
}

#[cfg(test)]
mod tests;
