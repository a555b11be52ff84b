//! Questions about rights and identities.

use serde_json::{Map, Value, json};

use super::User;
use crate::rest::Call;
use crate::rest::request::Answer;
use crate::status::{ApiError, ApiResult};

/// Answers a review: nothing of it is kept.
pub fn run(call: &Call<'_>) -> ApiResult<Answer> {
    let options = crate::rest::options::write_options(call.request, "CreateOptions", false)?;
    let decoded =
        crate::rest::decode::decode(&call.resource, call.request, options.field_validation)?;
    let mut review = decoded.value;
    let manager = crate::rest::options::manager_name(call.request, &options);
    crate::rest::managed::track_update(call, None, &mut review, &manager, "")?;
    let status = match call.resource.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user_info(call.user)}),
        "SelfSubjectAccessReview" => access(call, call.user, &review),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access(call, &subject(&review), &review)
        }
        "SelfSubjectRulesReview" => super::rules_of(
            call,
            call.user,
            review
                .pointer("/spec/namespace")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        ),
        "TokenReview" => token_review(call, &review),
        _ => return Err(ApiError::method_not_allowed()),
    };
    if let Some(map) = review.as_object_mut() {
        map.insert("status".into(), status);
    }
    if call.resource.kind == "SelfSubjectReview" {
        crate::kinds::meta::set(
            &mut review,
            "creationTimestamp",
            Some(call.server.env().now().rfc3339().into()),
        );
    }
    call.answer(201, &review)
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}

fn subject(review: &Value) -> User {
    let text = |pointer: &str| {
        review
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let groups = review
        .pointer("/spec/groups")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    User {
        name: text("/spec/user"),
        uid: text("/spec/uid"),
        groups,
        ..User::default()
    }
}

fn access(call: &Call<'_>, user: &User, review: &Value) -> Value {
    let attributes = super::Attributes::of_review(review);
    match super::decide(call.server, user, &attributes) {
        super::Decision::Allowed(reason) if reason.is_empty() => json!({"allowed": true}),
        super::Decision::Allowed(reason) => json!({"allowed": true, "reason": reason}),
        super::Decision::Denied(reason) if reason.is_empty() => json!({"allowed": false}),
        super::Decision::Denied(reason) => json!({"allowed": false, "reason": reason}),
    }
}

fn token_review(call: &Call<'_>, review: &Value) -> Value {
    let token = review
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match call.server.authenticator().user_of(token) {
        Some(user) => json!({"authenticated": true, "user": user_info(&user)}),
        None => json!({"user": {}, "error": "[invalid bearer token, unknown token]"}),
    }
}

/// Gives out a token for a service account.
pub fn token(call: &Call<'_>) -> ApiResult<Answer> {
    let current = call.current().ok_or_else(|| call.missing())?;
    let mut request = crate::rest::decode::parse_body(call.request, "TokenRequest", false)?
        .0
        .to_value();
    let (namespace, name) = (call.target.namespace.as_str(), call.target.name.as_str());
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(3600);
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: crate::kinds::meta::text(&current.value, "uid").to_owned(),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ],
        ..User::default()
    };
    let secret: String = (0..4)
        .map(|_| format!("{:016x}", call.server.env().random()))
        .collect();
    let now = call.server.env().now();
    let dry_run = call.request.param("dryRun").is_some();
    if !dry_run {
        call.server
            .authenticator()
            .add(secret.clone(), user, Some(now.plus_seconds(seconds)));
    }
    let audiences = request
        .pointer("/spec/audiences")
        .cloned()
        .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
        .unwrap_or_else(|| json!(["https://kubernetes.default.svc.cluster.local"]));
    let bound = request
        .pointer("/spec/boundObjectRef")
        .cloned()
        .unwrap_or(Value::Null);
    if let Some(map) = request.as_object_mut() {
        map.insert("kind".into(), "TokenRequest".into());
        map.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
        map.insert(
            "metadata".into(),
            json!({"name": name, "namespace": namespace, "creationTimestamp": now.rfc3339()}),
        );
        map.insert(
            "spec".into(),
            json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound}),
        );
        map.insert(
            "status".into(),
            json!({"token": secret, "expirationTimestamp": now.plus_seconds(seconds).rfc3339()}),
        );
    }
    let mut resource = (*call.resource).clone();
    resource.group = "authentication.k8s.io".into();
    resource.version = "v1".into();
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
    };
    let options = crate::rest::options::write_options(call.request, "CreateOptions", false)?;
    let manager = crate::rest::options::manager_name(call.request, &options);
    let (status, spec) = (
        request.get("status").cloned().unwrap_or_default(),
        request.get("spec").cloned().unwrap_or_default(),
    );
    if let Some(map) = request.as_object_mut() {
        map.insert(
            "status".into(),
            json!({"token": "", "expirationTimestamp": null}),
        );
    }
    crate::rest::managed::track_update(&scoped, None, &mut request, &manager, "token")?;
    if let Some(map) = request.as_object_mut() {
        map.insert("spec".into(), spec);
        map.insert("status".into(), status);
    }
    Ok(Answer::json(201, &request))
}
