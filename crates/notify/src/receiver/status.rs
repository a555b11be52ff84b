//! What the reconciliation of a Receiver comes to: its path, or what is wrong with it.

use everflow_api::Object;
use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::names::condition::{READY, RECONCILING};
use everflow_api::notification::{OIDCProvider, Receiver, ReceiverStatus, ReceiverType};
use everflow_api::reason::Reason;
use everflow_time::{Duration, Timestamp};

use super::oidc::Rules;
use super::{filter, webhook_path};
use crate::provider::Lookup;

const DEFAULT_INTERVAL: Duration = Duration::from_seconds(600);
const IN_PROGRESS: &str = "Reconciliation in progress";

/// What the reconciliation came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Reconciled {
    /// The status to write.
    pub status: ReceiverStatus,
    /// What to tell, if anything.
    pub event: Option<StatusEvent>,
    /// When to look again.
    pub next: Next,
}

/// An Event on the Receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEvent {
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The reason.
    pub reason: Reason,
    /// The message.
    pub message: String,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// After the interval.
    After(Duration),
    /// Soon: something was missing.
    Retry,
    /// When the object changes.
    Never,
}

/// Reconciles a Receiver. `secret` is the Receiver's.
pub fn reconcile(receiver: &Object<Receiver>, secret: &Lookup, now: Timestamp) -> Reconciled {
    let mut status = receiver.status.clone();
    if let Some(requested) = receiver.metadata.requested_at() {
        status.last_handled_reconcile_at = Some(requested.to_owned());
    }
    if receiver.spec.suspend {
        return suspended(receiver, status);
    }
    if let Err((reason, why)) = check(receiver) {
        return stalled(receiver, status, reason, &why, now);
    }
    match token(receiver, secret) {
        Ok(token) => ready(receiver, status, token, now),
        Err(why) => failed(receiver, status, why, now),
    }
}

fn interval(receiver: &Object<Receiver>) -> Duration {
    receiver.spec.interval.unwrap_or(DEFAULT_INTERVAL)
}

fn finished(receiver: &Object<Receiver>) -> StatusEvent {
    StatusEvent {
        is_warning: false,
        reason: Reason::Succeeded,
        message: format!(
            "Reconciliation finished, next run in {}",
            interval(receiver)
        ),
    }
}

fn suspended(receiver: &Object<Receiver>, mut status: ReceiverStatus) -> Reconciled {
    let is_ready = condition::is_true(&status.conditions, READY);
    if is_ready {
        status.observed_generation = receiver.metadata.generation;
    }
    Reconciled {
        event: is_ready.then(|| finished(receiver)),
        next: Next::Never,
        status,
    }
}

fn stalled(
    receiver: &Object<Receiver>,
    mut status: ReceiverStatus,
    reason: Reason,
    why: &str,
    now: Timestamp,
) -> Reconciled {
    let generation = receiver.metadata.generation;
    let message = format!("Reconciliation failed terminally due to configuration error: {why}");
    let not_ready = Condition::new(READY, ConditionStatus::False, reason, &message);
    condition::set(&mut status.conditions, not_ready, generation, now);
    condition::mark_stalled(&mut status.conditions, reason, &message, generation, now);
    status.observed_generation = generation;
    Reconciled {
        status,
        event: Some(StatusEvent {
            is_warning: true,
            reason,
            message,
        }),
        next: Next::Never,
    }
}

fn failed(
    receiver: &Object<Receiver>,
    mut status: ReceiverStatus,
    why: String,
    now: Timestamp,
) -> Reconciled {
    let generation = receiver.metadata.generation;
    let conditions = &mut status.conditions;
    let retrying = Reason::ProgressingWithRetry;
    condition::mark_reconciling(conditions, retrying, IN_PROGRESS, generation, now);
    let not_ready = Condition::new(READY, ConditionStatus::False, Reason::TokenNotFound, &why);
    condition::set(conditions, not_ready, generation, now);
    status.webhook_path = None;
    Reconciled {
        status,
        event: Some(StatusEvent {
            is_warning: true,
            reason: Reason::Failed,
            message: why,
        }),
        next: Next::Retry,
    }
}

fn ready(
    receiver: &Object<Receiver>,
    mut status: ReceiverStatus,
    token: &[u8],
    now: Timestamp,
) -> Reconciled {
    let generation = receiver.metadata.generation;
    let path = webhook_path(
        token,
        &receiver.metadata.name,
        receiver.metadata.namespace(),
    );
    let message = format!("Receiver initialized for path: {path}");
    let conditions = &mut status.conditions;
    // What was stalled is not any more.
    condition::mark_reconciling(
        conditions,
        Reason::Progressing,
        IN_PROGRESS,
        generation,
        now,
    );
    condition::remove(conditions, RECONCILING);
    let is_ready = Condition::new(READY, ConditionStatus::True, Reason::Succeeded, message);
    condition::set(conditions, is_ready, generation, now);
    status.webhook_path = Some(path);
    status.observed_generation = generation;
    Reconciled {
        status,
        event: Some(finished(receiver)),
        next: Next::After(interval(receiver)),
    }
}

fn token<'s>(receiver: &Object<Receiver>, secret: &'s Lookup) -> Result<&'s [u8], String> {
    let Some(reference) = &receiver.spec.secret_ref else {
        return Ok(b"");
    };
    let name = format!("{}/{}", receiver.metadata.namespace(), reference.name);
    match secret {
        Lookup::Found(secret) => secret
            .bytes("token")
            .ok_or_else(|| format!("invalid '{name}' secret data: required fields 'token'")),
        Lookup::Failed(why) => Err(format!(
            "unable to read token from secret '{name}' error: {why}"
        )),
        Lookup::None => Err(format!(
            "unable to read token from secret '{name}' error: it was not read"
        )),
    }
}

/// What needs a change of the Receiver.
fn check(receiver: &Object<Receiver>) -> Result<(), (Reason, String)> {
    let spec = &receiver.spec;
    let expression = |why: String| (Reason::InvalidCELExpression, why);
    let kind = spec.receiver_type;
    let compiles = |text: &Option<String>| match text.as_deref() {
        None | Some("") => Ok(()),
        Some(text) => filter::compile(text, kind).map(|_| ()),
    };
    compiles(&spec.resource_filter)
        .map_err(|why| expression(format!("invalid resourceFilter expression: {why}")))?;
    for (index, resource) in spec.resources.iter().enumerate() {
        compiles(&resource.filter).map_err(|why| {
            let (kind, name) = (resource.kind.as_str(), &resource.name);
            let place = format!("resources[{index}] (kind={kind:?}, name={name:?})");
            expression(format!("invalid filter expression for {place}: {why}"))
        })?;
    }
    let invalid = |why: String| (Reason::ValidationFailed, why);
    check_references(receiver).map_err(|why| invalid(why.to_owned()))?;
    check_issuers(&spec.oidc_providers).map_err(invalid)?;
    for (index, provider) in spec.oidc_providers.iter().enumerate() {
        Rules::new(provider).map_err(|why| {
            let issuer = &provider.issuer_url;
            expression(format!(
                "oidcProviders[{index}] (issuerURL={issuer:?}): {why}"
            ))
        })?;
    }
    Ok(())
}

fn check_references(receiver: &Object<Receiver>) -> Result<(), &'static str> {
    let spec = &receiver.spec;
    let is_oidc = spec.receiver_type == ReceiverType::GenericOidc;
    match (
        is_oidc,
        spec.oidc_providers.is_empty(),
        spec.secret_ref.is_some(),
    ) {
        (true, true, _) => Err("generic-oidc receiver requires at least one oidcProvider"),
        (false, false, _) => Err("oidcProviders can only be set when type is generic-oidc"),
        (true, _, true) => Err("secretRef cannot be set when type is generic-oidc"),
        (false, _, false) => Err("secretRef is required when type is not generic-oidc"),
        _ => Ok(()),
    }
}

/// The rules of the definition once more, for API servers that do not know them.
fn check_issuers(providers: &[OIDCProvider]) -> Result<(), String> {
    for (index, provider) in providers.iter().enumerate() {
        let issuer = &provider.issuer_url;
        let place = format!("oidcProviders[{index}]");
        if !issuer.starts_with("http://") && !issuer.starts_with("https://") {
            return Err(format!(
                "{place}: issuerURL {issuer:?} must start with http:// or https://"
            ));
        }
        if providers[..index]
            .iter()
            .any(|other| other.issuer_url == *issuer)
        {
            return Err(format!("{place}: duplicate issuerURL {issuer:?}"));
        }
        let place = format!("{place} (issuerURL={issuer:?})");
        if provider.validations.is_empty() {
            return Err(format!(
                "{place}: at least one validation is required; without validations any caller able to obtain a token from this issuer can trigger the Receiver"
            ));
        }
        for (index, variable) in provider.variables.iter().enumerate() {
            if variable.name.is_empty() || variable.expression.is_empty() {
                return Err(format!(
                    "{place}: variables[{index}]: name and expression are required"
                ));
            }
        }
        for (index, validation) in provider.validations.iter().enumerate() {
            if validation.expression.is_empty() || validation.message.is_empty() {
                return Err(format!(
                    "{place}: validations[{index}]: expression and message are required"
                ));
            }
        }
    }
    Ok(())
}
