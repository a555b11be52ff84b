//! Google Pub/Sub, over its REST API.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use everflow_json::{Value, json};
use everflow_time::Timestamp;
use ring::rand::SecureRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::settings::Settings;
use super::webhook::Immediate;
use crate::address::Address;
use crate::exchange::{Answer, Exchange, Outcome, Reply, Request, Step, check_api_reply};
use crate::failure::{Failure, Stage};
use crate::json::{Fields, Json};
use crate::url::{Part, escape};
use crate::{Event, Secret};

const API: &str = "https://pubsub.googleapis.com/v1";
const SCOPE: &str = "https://www.googleapis.com/auth/pubsub";
/// How long a token is good for, in seconds.
const LIFETIME: i64 = 3_600;

/// The key of a service account of Google.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    email: String,
    key_id: String,
    key: Secret<String>,
}

impl ServiceAccount {
    /// Reads the JSON that Google gives for a key.
    fn read(text: &str) -> Result<Self, String> {
        let read: Value = everflow_json::text::read(text.as_bytes()).map_err(|_| {
            "credentials: the token is not the JSON of a service account's key".to_owned()
        })?;
        let text = |name: &str| read[name].as_str().unwrap_or_default().to_owned();
        match text("type").as_str() {
            "service_account" => Ok(ServiceAccount {
                email: text("client_email"),
                key_id: text("private_key_id"),
                key: Secret::new(text("private_key")),
            }),
            kind => Err(format!("credentials: unsupported filetype {kind:?}")),
        }
    }

    /// A token for an hour, signed by the account itself. The randomness hides the key from those who measure time;
    /// the token does not depend on it.
    ///
    /// # Errors
    /// When the key is none.
    pub fn token(
        &self,
        now: Timestamp,
        randomness: &dyn SecureRandom,
    ) -> Result<Secret<String>, crate::Error> {
        let wrong = || {
            crate::Error::Token(
                "credentials: private_key is not an RSA key in PEM format".to_owned(),
            )
        };
        let key =
            PrivateKeyDer::from_pem_slice(self.key.reveal().as_bytes()).map_err(|_| wrong())?;
        let key = match &key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return Err(wrong()),
        };
        let key = key.map_err(|_| wrong())?;
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key_id}).to_string();
        let claims = json!({
            "iss": self.email, "sub": self.email, "scope": SCOPE,
            "iat": now.seconds, "exp": now.seconds + LIFETIME,
        });
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header));
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(
            &RSA_PKCS1_SHA256,
            randomness,
            signed.as_bytes(),
            &mut signature,
        )
        .map_err(|_| wrong())?;
        Ok(Secret::new(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode(signature)
        )))
    }
}

pub(super) fn pubsub(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    let (project, topic) = (settings.address.reveal(), &settings.channel);
    if project.is_empty() {
        return Err("GCP project ID cannot be empty".to_owned());
    }
    if topic.is_empty() {
        return Err("GCP Pub/Sub topic ID cannot be empty".to_owned());
    }
    let token = settings.token.reveal();
    let account = match token.is_empty() {
        true => Err(super::without_identity("Google Pub/Sub")),
        false => ServiceAccount::read(token).map_err(|why| format!("pubsub(publisher): {why}")),
    };
    let account = match account {
        Ok(account) => account,
        Err(why) => return Ok(Box::new(Immediate(Outcome::Failed(Failure::never(why))))),
    };
    let mut message = Fields::new().with("data", STANDARD.encode(event.to_json()));
    let attributes = settings.headers.reveal();
    if !attributes.is_empty() {
        message = message.with("attributes", attributes);
    }
    let messages: Vec<Json<'_>> = vec![message.done()];
    let body = Fields::new().with("messages", messages).done().print();
    let address = format!(
        "{API}/projects/{}/topics/{}:publish",
        escape(project, Part::Segment),
        escape(topic, Part::Segment)
    );
    Ok(Box::new(Publishing {
        context: format!(
            "error publishing to GCP Pub/Sub topic projects/{project}/topics/{topic}: "
        ),
        account,
        request: Request::post_json(Address::open(address), body),
    }))
}

#[derive(Debug)]
struct Publishing {
    context: String,
    account: ServiceAccount,
    request: Request,
}

impl Exchange for Publishing {
    fn start(&mut self) -> Step {
        Step::GoogleToken(Box::new(self.account.clone()))
    }

    fn next(&mut self, reply: Reply) -> Step {
        if let Reply::Token { token, .. } = reply {
            return match super::bearer(self.request.clone(), token.reveal()) {
                Ok(request) => Step::Send(Box::new(request)),
                Err(why) => Failure::never(why).done(),
            };
        }
        match check_api_reply(&self.context, &self.request, reply) {
            Ok(answer) if answer.is_success() => Step::Done(Outcome::Delivered),
            Ok(answer) => Failure {
                stage: Stage::Send,
                context: self.context.clone(),
                cause: refusal(&answer),
                request: self.request.shown(),
                retry: answer.retry_later(),
            }
            .done(),
            Err(failure) => failure.done(),
        }
    }
}

/// The error as the clients of Google show it.
fn refusal(answer: &Answer) -> String {
    let body = answer.json();
    let error = &body["error"];
    match (error["status"].as_str(), error["message"].as_str()) {
        (Some(status), Some(message)) => {
            let code: String = status.split('_').map(in_title_case).collect();
            format!("rpc error: code = {code} desc = {message}")
        }
        _ => answer.status_line(),
    }
}

fn in_title_case(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().into_iter();
    first.chain(chars.as_str().to_lowercase().chars()).collect()
}
