//! Who asks and what they may do.

pub mod certificates;
pub mod escalation;
mod impersonation;
pub mod policy;
pub mod rbac;
pub mod reviews;
pub mod tokens;

use std::borrow::Cow;
use std::collections::BTreeMap;

use everflow_json::Value;

pub use everflow_builtins::User;
pub use impersonation::impersonate;
pub use rbac::{Attributes, Decision, decide, rules_of};

use crate::env::Environment;
use crate::field::go_quote;
use crate::rest::request::{Request, Target};
use crate::server_core::{ApiServer, Options};
use crate::status::{ApiError, ApiResult, GroupResource};

/// Knows the callers behind tokens.
#[derive(Debug)]
pub struct Authenticator {
    tokens: BTreeMap<String, User>,
    signer: tokens::Signer,
}

impl Authenticator {
    /// An authenticator for the tokens of the options and for those of service accounts.
    pub fn new(options: &Options, env: &dyn Environment) -> Self {
        let secret = options
            .signing_key
            .clone()
            .unwrap_or_else(|| (0..4).flat_map(|_| env.random().to_le_bytes()).collect());
        Authenticator {
            tokens: options.tokens.iter().cloned().collect(),
            signer: tokens::Signer::new(&secret),
        }
    }

    /// The caller behind a token that was given to the server at its start.
    pub fn static_user(&self, token: &str) -> Option<User> {
        let mut user = self.tokens.get(token)?.clone();
        user.join("system:authenticated");
        Some(user)
    }

    /// Who signs the tokens of service accounts.
    pub fn signer(&self) -> &tokens::Signer {
        &self.signer
    }
}

/// The caller behind a token that is for one of the audiences, and those of them it is for.
pub fn user_of_token(
    server: &ApiServer,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), tokens::Refused> {
    // Tokens of the file are for the server itself.
    if let Some(user) = server.authenticator().static_user(token) {
        return match audiences.iter().any(|wanted| wanted == tokens::ISSUER) {
            true => Ok((user, vec![tokens::ISSUER.to_owned()])),
            false => Err(tokens::Refused::Unknown),
        };
    }
    tokens::verify(server, token, audiences)
}

/// Finds out who asks.
pub fn authenticate<'r>(server: &'r ApiServer, request: &'r Request) -> ApiResult<Cow<'r, User>> {
    if let Some(user) = &request.user {
        return Ok(Cow::Borrowed(user));
    }
    let header = request.first_header("authorization").unwrap_or_default();
    let token = match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => "",
    };
    if token.is_empty() {
        return if request.certificate_refused {
            Err(ApiError::unauthorized())
        } else if server.options().authorization {
            Ok(Cow::Owned(User::anonymous()))
        } else {
            Ok(Cow::Borrowed(&server.options().default_user))
        };
    }
    user_of_token(server, token, &[tokens::ISSUER.to_owned()])
        .map(|(user, _)| Cow::Owned(user))
        .map_err(|_| ApiError::unauthorized())
}

/// Refuses what the caller may not do.
pub fn authorize(
    server: &ApiServer,
    request: &Request,
    target: Option<&Target>,
    user: &User,
) -> ApiResult<()> {
    if !server.options().authorization {
        return Ok(());
    }
    let attributes = Attributes::of_request(request, target);
    match decide(server, user, &attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(why) => Err(refusal(user, &attributes, &why)),
    }
}

/// The refusal as the real server words it.
pub fn refusal(user: &User, attributes: &Attributes, reason: &str) -> Box<ApiError> {
    let who = go_quote(&user.name);
    let with_reason = |why: String| match reason {
        "" => why,
        reason => format!("{why}: {reason}"),
    };
    if attributes.resource.is_empty() {
        let why = format!(
            "User {who} cannot {} path {}",
            attributes.verb,
            go_quote(&attributes.path)
        );
        return ApiError::new(403, "Forbidden", format!("forbidden: {}", with_reason(why)))
            .with_details(everflow_json::json!({}));
    }
    let mut resource = attributes.resource.clone();
    if !attributes.subresource.is_empty() {
        resource = format!("{resource}/{}", attributes.subresource);
    }
    let scope = if attributes.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", go_quote(&attributes.namespace))
    };
    let why = format!(
        "User {who} cannot {} resource {} in API group {} {scope}",
        attributes.verb,
        go_quote(&resource),
        go_quote(&attributes.group)
    );
    ApiError::forbidden(
        &GroupResource {
            group: &attributes.group,
            resource: &attributes.resource,
        },
        &attributes.name,
        &with_reason(why),
    )
}

/// Text inside a JSON value.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
