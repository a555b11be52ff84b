//! Tokens of service accounts: signed statements, so that the server remembers nothing about them and a restarted server
//! with the same key still knows them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everflow_json::{Value, json};
use ring::hmac;

use super::{User, text};
use crate::field::{Errors, FieldError, Path};
use crate::kinds::meta;
use crate::rest::Call;
use crate::rest::request::Answer;
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult, GroupResource};
use crate::tree::strings;

/// Who gives tokens out, and whom they are for unless somebody says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Clocks may differ by this many seconds.
const LEEWAY: i64 = 60;
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;

/// Signs tokens and knows its own signatures again.
#[derive(Debug)]
pub struct Signer {
    key: hmac::Key,
}

impl Signer {
    /// A signer with a secret.
    pub fn new(secret: &[u8]) -> Self {
        Signer {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Value) -> String {
        let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
        let body = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{head}.{body}");
        let signature = hmac::sign(&self.key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// The claims of a token that this signer signed.
    pub fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let body = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        everflow_json::from_slice(&body).ok()
    }
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no token of this server, or no longer one.
    Unknown,
    /// It is for somebody else.
    Audience(Vec<String>),
}

/// The service account behind a token that is for one of these audiences, and those of them it is for.
pub fn verify(
    server: &ApiServer,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), Refused> {
    let claims = server
        .authenticator()
        .signer()
        .claims(token)
        .ok_or(Refused::Unknown)?;
    let own = strings(claims.get("aud"));
    let shared: Vec<String> = audiences
        .iter()
        .filter(|wanted| own.contains(wanted))
        .cloned()
        .collect();
    if shared.is_empty() {
        return Err(Refused::Audience(own));
    }
    let now = server.env().now().seconds();
    let time = |key: &str| claims.get(key).and_then(Value::as_i64).unwrap_or_default();
    if now > time("exp") + LEEWAY || now < time("nbf") - LEEWAY {
        return Err(Refused::Unknown);
    }
    let facts = claims.get("kubernetes.io").ok_or(Refused::Unknown)?;
    let namespace = text(facts, "/namespace");
    let exists = |table: &str, key: String, reference: &Value| {
        server
            .store()
            .get(table, &key)
            .is_some_and(|found| meta::text(&found.value, "uid") == text(reference, "/uid"))
    };
    let account = facts.get("serviceaccount").ok_or(Refused::Unknown)?;
    let name = text(account, "/name");
    if !exists("/serviceaccounts", format!("{namespace}/{name}"), account) {
        return Err(Refused::Unknown);
    }
    for (kind, table) in [("secret", "/secrets"), ("pod", "/pods")] {
        if let Some(bound) = facts.get(kind)
            && !exists(
                table,
                format!("{namespace}/{}", text(bound, "/name")),
                bound,
            )
        {
            return Err(Refused::Unknown);
        }
    }
    if let (Some(node), None) = (facts.get("node"), facts.get("pod"))
        && !exists("/nodes", text(node, "/name").to_owned(), node)
    {
        return Err(Refused::Unknown);
    }
    let mut user = service_account(namespace, name);
    user.uid = text(account, "/uid").to_owned();
    let mut fact = |key: &str, value: String| {
        user.extra
            .insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    fact("credential-id", format!("JTI={}", text(&claims, "/jti")));
    for kind in ["pod", "node"] {
        if let Some(bound) = facts.get(kind) {
            fact(&format!("{kind}-name"), text(bound, "/name").to_owned());
            fact(&format!("{kind}-uid"), text(bound, "/uid").to_owned());
        }
    }
    Ok((user, shared))
}

/// A service account as a caller.
pub fn service_account(namespace: &str, name: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ],
        ..User::default()
    }
}

fn invalid(name: &str, error: FieldError) -> Box<ApiError> {
    let errors: Errors = vec![error];
    ApiError::invalid("authentication.k8s.io", "TokenRequest", name, &errors)
}

/// The body may repeat whose token it asks for, but not name another account.
fn check_names(call: &Call<'_>, request: &Value) -> ApiResult<()> {
    for (key, wanted, what) in [
        ("name", &call.target.name, "name"),
        ("namespace", &call.target.namespace, "namespace"),
    ] {
        let given = meta::text(request, key);
        if !given.is_empty() && given != wanted {
            return Err(invalid(
                &call.target.name,
                FieldError::invalid(
                    &Path::new("metadata").child(key),
                    given,
                    format!("must match the service account {what} if specified"),
                ),
            ));
        }
    }
    Ok(())
}

fn check_duration(seconds: i64) -> ApiResult<()> {
    let problem = if seconds < SHORTEST {
        "may not specify a duration less than 10 minutes"
    } else if seconds > LONGEST {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    Err(invalid(
        "",
        FieldError::invalid(
            &Path::new("spec").child("expirationSeconds"),
            seconds,
            problem,
        ),
    ))
}

/// What a token says about the object it is bound to.
fn bound_facts(call: &Call<'_>, bound: &Value, facts: &mut Value) -> ApiResult<()> {
    let (api_version, kind, name) = (
        text(bound, "/apiVersion"),
        text(bound, "/kind"),
        text(bound, "/name"),
    );
    let (group, version) = crate::resource::split_version(api_version);
    let namespace = &call.target.namespace;
    let (table, plural, key) = match (group, kind) {
        ("", "Pod") => ("/pods", "pods", format!("{namespace}/{name}")),
        ("", "Secret") => ("/secrets", "secrets", format!("{namespace}/{name}")),
        ("", "Node") => ("/nodes", "nodes", name.to_owned()),
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let found = call.server.store().get(table, &key).ok_or_else(|| {
        ApiError::not_found(
            &GroupResource {
                group: "",
                resource: plural,
            },
            name,
        )
    })?;
    if kind == "Pod" && text(&found.value, "/spec/serviceAccountName") != call.target.name {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            crate::field::go_quote(&call.target.name)
        )));
    }
    let uid = meta::text(&found.value, "uid");
    let wanted = text(bound, "/uid");
    if !wanted.is_empty() && wanted != uid {
        return Err(ApiError::conflict(
            &GroupResource {
                group: "",
                resource: kind,
            },
            name,
            &format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ));
    }
    facts[kind.to_lowercase()] = json!({"name": name, "uid": uid});
    let node = text(&found.value, "/spec/nodeName");
    if kind == "Pod" && !node.is_empty() {
        let uid = call
            .server
            .store()
            .get("/nodes", node)
            .map(|found| meta::text(&found.value, "uid").to_owned());
        facts["node"] = match uid {
            Some(uid) => json!({"name": node, "uid": uid}),
            None => json!({"name": node}),
        };
    }
    Ok(())
}

/// Gives out a token for a service account.
pub fn create(call: &Call<'_>) -> ApiResult<Answer> {
    let mut request = crate::rest::decode::parse_body(call.request, "TokenRequest", false)?
        .0
        .to_value();
    check_names(call, &request)?;
    let current = call.current().ok_or_else(|| call.missing())?;
    let (namespace, name) = (call.target.namespace.as_str(), call.target.name.as_str());
    let uid = meta::text(&current.value, "uid");
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(3600);
    check_duration(seconds)?;
    let asked = strings(request.pointer("/spec/audiences"));
    let audiences = if asked.is_empty() {
        vec![ISSUER.to_owned()]
    } else {
        asked.clone()
    };
    let bound = request
        .pointer("/spec/boundObjectRef")
        .filter(|bound| !bound.is_null())
        .cloned();
    let mut facts = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
    if let Some(bound) = &bound {
        bound_facts(call, bound, &mut facts)?;
    }
    let now = call.server.env().now();
    let claims = json!({
        "aud": audiences, "exp": now.seconds() + seconds, "iat": now.seconds(), "nbf": now.seconds(), "iss": ISSUER,
        "jti": crate::env::new_uid(call.server.env()), "kubernetes.io": facts, "sub": format!("system:serviceaccount:{namespace}:{name}")
    });
    let token = call.server.authenticator().signer().sign(&claims);
    let metadata = json!({"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": now.rfc3339()});
    if let Some(map) = request.as_object_mut() {
        map.insert("kind".into(), "TokenRequest".into());
        map.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
        map.insert("metadata".into(), metadata);
        // Ownership is noted for what was asked for, before the server fills in the rest.
        let mut spec = json!({"expirationSeconds": seconds, "boundObjectRef": bound});
        if !asked.is_empty() {
            spec["audiences"] = json!(asked);
        }
        map.insert("spec".into(), spec);
        map.insert(
            "status".into(),
            json!({"token": "", "expirationTimestamp": null}),
        );
    }
    track(call, &mut request)?;
    if let Some(map) = request.as_object_mut() {
        map.insert(
            "spec".into(),
            json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound}),
        );
        map.insert(
            "status".into(),
            json!({"token": token, "expirationTimestamp": now.plus_seconds(seconds).rfc3339()}),
        );
    }
    crate::negotiate::plain(call, 201, &request)
}

/// Notes who asked, as for an object of the kind TokenRequest.
fn track(call: &Call<'_>, request: &mut Value) -> ApiResult<()> {
    let mut resource = (*call.resource).clone();
    resource.move_to("authentication.k8s.io", "v1");
    resource.kind = "TokenRequest".into();
    resource.go_type =
        crate::codec::gotypes::types().kind("authentication.k8s.io/v1", "TokenRequest");
    let scoped = Call {
        server: call.server,
        request: call.request,
        target: call.target,
        user: call.user,
        resource: std::sync::Arc::new(resource),
        registry: call.registry.clone(),
        warnings: Default::default(),
        sent_data: Default::default(),
    };
    let options = crate::rest::options::write_options(call.request, "CreateOptions", false)?;
    let manager = crate::rest::options::manager_name(call.request, &options);
    crate::rest::managed::track_update(&scoped, None, request, &manager, "token")
}
