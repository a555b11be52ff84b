//! Tokens of OpenID Connect: of issuers that a Receiver names, and of Google.

use everflow_api::Object;
use everflow_api::notification::{OIDCProvider, Receiver};
use everflow_cel::check::Type;
use everflow_cel::{Value as Cel, Variables};
use everflow_json::Value;
use everflow_time::Timestamp;

use super::Call;
use super::jwt::{KeySet, Token};
use crate::cel::{Expression, with_doubles};
use crate::{Error, SecretData, foreign};

/// Where the keys of Google are.
pub const GOOGLE_KEYS: &str = "https://www.googleapis.com/oauth2/v3/certs";
const DEFAULT_AUDIENCE: &str = "notification-controller";
const DEFAULT_ALGORITHM: &str = "RS256";
/// How far the clock of an issuer may be ahead, in seconds.
const LEEWAY: i64 = 300;

/// The keys of an issuer, and the algorithms it signs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The keys.
    pub set: KeySet,
    /// The algorithms.
    pub algorithms: Vec<String>,
}

impl Keys {
    /// Google's.
    pub fn google(set: KeySet) -> Self {
        Keys {
            set,
            algorithms: vec![DEFAULT_ALGORITHM.to_owned()],
        }
    }
}

/// What the discovery document of an issuer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Where the keys are.
    pub keys_address: String,
    /// The algorithms it signs with.
    pub algorithms: Vec<String>,
}

impl Discovery {
    /// Where the document of an issuer is.
    pub fn address(issuer: &str) -> String {
        format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        )
    }

    /// Reads the document of an issuer.
    ///
    /// # Errors
    /// When it is none, or that of another issuer.
    pub fn read(text: &[u8], issuer: &str) -> Result<Self, Error> {
        let read = foreign::read(text).map_err(|error| {
            Error::Token(format!(
                "failed to decode provider discovery object: {error}"
            ))
        })?;
        let field = |name: &str| read.get(name).and_then(Value::as_str).unwrap_or_default();
        let named = field("issuer");
        if named != issuer {
            return Err(Error::Token(format!(
                "issuer URL provided to client ({issuer:?}) did not match the issuer URL returned by provider ({named:?})"
            )));
        }
        let listed = read.get("id_token_signing_alg_values_supported");
        let listed = listed.and_then(Value::as_array).into_iter().flatten();
        let mut algorithms: Vec<String> = listed
            .filter_map(|one| Some(one.as_str()?.to_owned()))
            .collect();
        // Who signs with the key of the client, or not at all, proves nothing.
        algorithms.retain(|name| !name.starts_with("HS") && name != "none");
        if algorithms.is_empty() {
            algorithms.push(DEFAULT_ALGORITHM.to_owned());
        }
        Ok(Discovery {
            keys_address: field("jwks_uri").to_owned(),
            algorithms,
        })
    }
}

fn bearer<'c>(call: &Call<'c>) -> Result<&'c str, String> {
    let header = call.header("authorization");
    header
        .strip_prefix("Bearer ")
        .ok_or_else(|| "the Authorization header is missing or malformed".to_owned())
}

/// The issuer that the token of a request names, if the Receiver knows it.
pub(super) fn issuer(receiver: &Object<Receiver>, call: &Call<'_>) -> Result<String, String> {
    let token = bearer(call)?.trim();
    if token.is_empty() {
        return Err("the Authorization header is missing a bearer token".to_owned());
    }
    let token = Token::read(token).map_err(|why| format!("failed to parse bearer token: {why}"))?;
    provider(receiver, token.text("iss")).map(|provider| provider.issuer_url.clone())
}

fn provider<'r>(receiver: &'r Object<Receiver>, issuer: &str) -> Result<&'r OIDCProvider, String> {
    if receiver.spec.oidc_providers.is_empty() {
        return Err("generic-oidc receiver has no oidcProviders configured".to_owned());
    }
    if issuer.is_empty() {
        return Err("failed to parse bearer token: token is missing the 'iss' claim".to_owned());
    }
    let mut all = receiver.spec.oidc_providers.iter();
    all.find(|provider| provider.issuer_url == issuer)
        .ok_or_else(|| format!("no oidcProvider configured for issuer {issuer:?}"))
}

/// Checks the token of a request for a Receiver of the type generic-oidc, and gives its claims.
pub(super) fn check(
    receiver: &Object<Receiver>,
    call: &Call<'_>,
    keys: Option<Result<&Keys, &str>>,
    now: Timestamp,
) -> Result<Value, String> {
    let token = Token::read(bearer(call)?.trim())
        .map_err(|why| format!("failed to parse bearer token: {why}"))?;
    let provider = provider(receiver, token.text("iss"))?;
    let issuer = &provider.issuer_url;
    let keys = keys
        .unwrap_or(Err("its keys were not fetched"))
        .map_err(|why| {
            format!("failed to initialize OIDC provider for issuer {issuer:?}: {why}")
        })?;
    verify(&token, provider, keys, now)
        .map_err(|why| format!("failed to verify OIDC token: {why}"))?;
    let rules = Rules::new(provider).map_err(|why| {
        format!("invalid oidcProvider configuration for issuer {issuer:?}: {why}")
    })?;
    rules.check(&token.claims)?;
    Ok(token.claims)
}

fn verify(
    token: &Token<'_>,
    provider: &OIDCProvider,
    keys: &Keys,
    now: Timestamp,
) -> Result<(), String> {
    let audience = provider.audience.as_deref().filter(|text| !text.is_empty());
    let audience = audience.unwrap_or(DEFAULT_AUDIENCE);
    if !token.is_for(audience) {
        return Err(format!("expected audience {audience:?}"));
    }
    check_expiry(token, now)?;
    if token
        .seconds("nbf")
        .is_some_and(|from| now.seconds + LEEWAY < from)
    {
        return Err("current time is before the nbf (not before) time".to_owned());
    }
    token.verify(&keys.set, &keys.algorithms)
}

fn check_expiry(token: &Token<'_>, now: Timestamp) -> Result<(), String> {
    match token.seconds("exp") {
        Some(end) if now.seconds < end => Ok(()),
        Some(_) => Err("token is expired".to_owned()),
        None => Err("token has no expiry".to_owned()),
    }
}

/// Checks a token of Google against the account and the audience in the Receiver's Secret.
pub(super) fn check_google(
    secret: &SecretData,
    call: &Call<'_>,
    keys: Option<Result<&Keys, &str>>,
    now: Timestamp,
) -> Result<(), String> {
    let required = |key: &str| {
        let text = secret.text(key).filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("invalid secret data: required field '{key}' for GCR receiver"))
    };
    let (email, audience) = (required("email")?, required("audience")?);
    authenticate(call, &email, &audience, keys, now)
        .map_err(|why| format!("cannot authenticate GCR request: {why}"))
}

fn authenticate(
    call: &Call<'_>,
    email: &str,
    audience: &str,
    keys: Option<Result<&Keys, &str>>,
    now: Timestamp,
) -> Result<(), String> {
    let invalid = |why: String| format!("invalid ID token: {why}");
    let token = Token::read(bearer(call)?).map_err(invalid)?;
    let keys = keys.unwrap_or(Err("the keys of Google were not fetched"));
    let keys = keys.map_err(|why| invalid(why.to_owned()))?;
    let named = token.text("aud");
    if named != audience {
        return Err(format!(
            "invalid ID token: audience is '{named}', want '{audience}'"
        ));
    }
    check_expiry(&token, now).map_err(invalid)?;
    token.verify(&keys.set, &keys.algorithms).map_err(invalid)?;
    let issuer = token.text("iss");
    if !matches!(
        issuer,
        "accounts.google.com" | "https://accounts.google.com"
    ) {
        return Err(format!(
            "token issuer is '{issuer}', want 'accounts.google.com' or 'https://accounts.google.com'"
        ));
    }
    let named = token.text("email");
    if named != email {
        return Err(format!("token email is '{named}', want '{email}'"));
    }
    match token.claims["email_verified"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(format!("token email '{named}' is not verified")),
    }
}

/// The expressions of an issuer over the claims of its tokens.
#[derive(Debug)]
pub(super) struct Rules {
    variables: Vec<(String, Expression)>,
    validations: Vec<(String, Expression)>,
}

const SCOPE: [&str; 2] = ["claims", "vars"];

impl Rules {
    /// Reads the expressions.
    pub(super) fn new(provider: &OIDCProvider) -> Result<Self, String> {
        let variables = provider.variables.iter().map(|variable| {
            let name = &variable.name;
            let expression = Expression::new(&variable.expression, &SCOPE, None)
                .map_err(|why| format!("invalid expression for variable {name:?}: {why}"))?;
            Ok((name.clone(), expression))
        });
        let validations = provider.validations.iter().map(|validation| {
            let message = &validation.message;
            let expression = Expression::new(&validation.expression, &SCOPE, Some(&Type::Bool))
                .map_err(|why| format!("invalid expression for validation {message:?}: {why}"))?;
            Ok((message.clone(), expression))
        });
        Ok(Rules {
            variables: variables.collect::<Result<_, String>>()?,
            validations: validations.collect::<Result<_, String>>()?,
        })
    }

    /// Checks claims: each variable sees those before it, each validation sees all.
    fn check(&self, claims: &Value) -> Result<(), String> {
        let claims = with_doubles(claims);
        let mut variables: Vec<(String, Cel)> = Vec::new();
        let scope = |variables: &[(String, Cel)]| {
            Variables::new()
                .with("claims", claims.clone())
                .with("vars", Cel::map(variables.iter().cloned()))
        };
        for (name, expression) in &self.variables {
            let value = expression
                .value(&scope(&variables))
                .map_err(|why| format!("failed to evaluate variable {name:?}: {why}"))?;
            variables.push((name.clone(), value));
        }
        let scope = scope(&variables);
        let mut failures = Vec::new();
        for (message, expression) in &self.validations {
            let holds = expression
                .boolean(&scope)
                .map_err(|why| format!("failed to evaluate validation: {why}"))?;
            if !holds {
                failures.push(message.as_str());
            }
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(format!("token validation failed: {}", failures.join("; "))),
        }
    }
}
