//! Whether a request is what a Receiver of its type takes.

use everflow_api::Object;
use everflow_api::notification::{Receiver, ReceiverType};
use everflow_json::Value;
use everflow_time::Timestamp;

use super::oidc::{self, Keys};
use super::{Call, cdevents, hmac, media_type, shape};
use crate::SecretData;
use crate::provider::Lookup;
use crate::url;

/// What a valid request carries.
#[derive(Debug, Default)]
pub(super) struct Valid {
    /// The claims of its token.
    pub(super) claims: Option<Value>,
    /// The body that filters see, where it is another than that of the request.
    pub(super) body: Option<Vec<u8>>,
    /// What the request is, for the log.
    pub(super) summary: String,
}

impl Valid {
    fn summary(what: impl Into<String>) -> Self {
        Valid {
            summary: what.into(),
            ..Valid::default()
        }
    }
}

pub(super) fn validate(
    receiver: &Object<Receiver>,
    secret: &Lookup,
    call: &Call<'_>,
    keys: Option<Result<&Keys, &str>>,
    now: Timestamp,
) -> Result<Valid, String> {
    use ReceiverType as Kind;
    let kind = receiver.spec.receiver_type;
    if kind == Kind::GenericOidc {
        let claims = oidc::check(receiver, call, keys, now)?;
        return Ok(Valid {
            claims: Some(claims),
            ..Valid::summary("generic-oidc request")
        });
    }
    let secret = secret_of(receiver, secret)?;
    let token = token(kind, secret)?;
    match kind {
        Kind::Generic | Kind::GenericOidc => Ok(Valid::summary("generic request")),
        Kind::GenericHmac => {
            hmac::verify(call.header("x-signature"), call.body, token)
                .map_err(|why| format!("unable to validate HMAC signature: {why}"))?;
            Ok(Valid::summary("generic-hmac request"))
        }
        Kind::GitHub => {
            let body = signed_payload(call, token)
                .map_err(|why| format!("the GitHub signature header is invalid, err: {why}"))?;
            let event = call.header("x-github-event");
            allowed(receiver, "GitHub event", event)?;
            Ok(Valid {
                body,
                ..Valid::summary(format!("GitHub event: {event}"))
            })
        }
        Kind::Bitbucket => {
            let body = signed_payload(call, token).map_err(|why| {
                format!("the Bitbucket server signature header is invalid, err: {why}")
            })?;
            let event = call.header("x-event-key");
            allowed(receiver, "Bitbucket server event", event)?;
            Ok(Valid {
                body,
                ..Valid::summary(format!("Bitbucket server event: {event}"))
            })
        }
        Kind::GitLab => {
            if !hmac::is_same(call.header("x-gitlab-token").as_bytes(), token) {
                let why = "the X-Gitlab-Token header value does not match the receiver token";
                return Err(why.to_owned());
            }
            let event = call.header("x-gitlab-event");
            allowed(receiver, "GitLab event", event)?;
            Ok(Valid::summary(format!("GitLab event: {event}")))
        }
        Kind::Harbor => match hmac::is_same(call.header("authorization").as_bytes(), token) {
            true => Ok(Valid::summary("Harbor event")),
            false => {
                let why = "the Harbor Authorization header value does not match the receiver token";
                Err(why.to_owned())
            }
        },
        Kind::Nexus => nexus(call, token).map(Valid::summary),
        Kind::DockerHub => shape::docker_hub(call.body).map(Valid::summary),
        Kind::Quay => shape::quay(call.body).map(Valid::summary),
        Kind::Acr => shape::azure(call.body).map(Valid::summary),
        Kind::Gcr => {
            oidc::check_google(secret, call, keys, now)?;
            let (body, summary) = shape::google(call.body)?;
            Ok(Valid {
                body: Some(body),
                ..Valid::summary(summary)
            })
        }
        Kind::CdEvents => {
            cdevents::check(call.body)
                .map_err(|why| format!("unable to validate CDEvent event: {why}"))?;
            let event = call.header("ce-type");
            allowed(receiver, "CDEvent", event)?;
            Ok(Valid::summary(format!("CDEvent: {event}")))
        }
    }
}

fn secret_of<'s>(
    receiver: &Object<Receiver>,
    secret: &'s Lookup,
) -> Result<&'s SecretData, String> {
    match secret {
        Lookup::Found(secret) => Ok(secret),
        Lookup::Failed(why) => {
            let name = receiver
                .spec
                .secret_ref
                .as_ref()
                .map(|reference| reference.name.as_str());
            let (namespace, name) = (receiver.metadata.namespace(), name.unwrap_or_default());
            Err(format!(
                "unable to read secret, error: unable to read secret \"{namespace}/{name}\": {why}"
            ))
        }
        Lookup::None => Err("secretRef is required when type is not generic-oidc".to_owned()),
    }
}

/// The token in the Secret. An empty one proves nothing: types that check by it do not take it.
fn token(kind: ReceiverType, secret: &SecretData) -> Result<&[u8], String> {
    use ReceiverType as Kind;
    let name = secret.name();
    let token = secret
        .bytes("token")
        .ok_or_else(|| format!("invalid {name:?} secret data: required field 'token'"))?;
    let checks_by_it = matches!(
        kind,
        Kind::GenericHmac
            | Kind::GitHub
            | Kind::GitLab
            | Kind::Bitbucket
            | Kind::Harbor
            | Kind::Nexus
    );
    match token.is_empty() && checks_by_it {
        true => Err(format!(
            "invalid {name:?} secret data: the field 'token' is empty"
        )),
        false => Ok(token),
    }
}

fn allowed(receiver: &Object<Receiver>, what: &str, event: &str) -> Result<(), String> {
    let events = &receiver.spec.events;
    match events.is_empty() || events.iter().any(|one| one.eq_ignore_ascii_case(event)) {
        true => Ok(()),
        false => Err(format!("the {what} {event:?} is not authorised")),
    }
}

/// Checks the signature of a request as GitHub makes it; gives the payload where it is not the whole body.
fn signed_payload(call: &Call<'_>, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
    // The better signature counts when there are both.
    let signature = match call.header("x-hub-signature-256") {
        "" => call.header("x-hub-signature"),
        signature => signature,
    };
    let given = call.header("content-type");
    let payload = match media_type::parse(given).as_deref() {
        Some("application/json") => None,
        Some("application/x-www-form-urlencoded") => {
            let form = url::pairs(&String::from_utf8_lossy(call.body));
            let payload = form.into_iter().find(|(name, _)| name == "payload");
            Some(
                payload
                    .map(|(_, value)| value.into_bytes())
                    .unwrap_or_default(),
            )
        }
        Some(_) => {
            return Err(format!(
                "webhook request has unsupported Content-Type {given:?}"
            ));
        }
        None => return Err("webhook request has no valid Content-Type".to_owned()),
    };
    hmac::verify(signature, call.body, token)?;
    Ok(payload)
}

fn nexus(call: &Call<'_>, token: &[u8]) -> Result<String, String> {
    let signature = call.header("x-nexus-webhook-signature");
    if signature.is_empty() {
        return Err("the Nexus signature is missing from header".to_owned());
    }
    match hmac::is_sha1(signature, call.body, token) {
        true => shape::nexus(call.body),
        false => Err("invalid Nexus signature".to_owned()),
    }
}
