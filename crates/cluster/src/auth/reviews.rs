//! Questions about rights and identities.

use everflow_json::{Map, Value, json};

use super::tokens::Refused;
use super::{User, text};
use crate::field::{Errors, FieldError, Path};
use crate::rest::Call;
use crate::rest::request::Answer;
use crate::status::{ApiError, ApiResult};
use crate::tree::strings;

/// Answers a review: nothing of it is kept.
pub fn run(call: &Call<'_>) -> ApiResult<Answer> {
    let options = crate::rest::options::write_options(call.request, "CreateOptions", false)?;
    let decoded =
        crate::rest::decode::decode(&call.resource, call.request, options.field_validation)?;
    decoded
        .warnings
        .into_iter()
        .for_each(|text| call.warn(text));
    let mut review = decoded.value;
    let kind = call.resource.kind.as_str();
    if kind == "SelfSubjectRulesReview" {
        let namespace = text(&review, "/spec/namespace");
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let status = super::rules_of(call, call.user, namespace);
        let answer = json!({"kind": kind, "apiVersion": call.resource.api_version(), "metadata": {}, "spec": {}, "status": status});
        return call.answer(201, &answer);
    }
    let manager = crate::rest::options::manager_name(call.request, &options);
    crate::rest::managed::track_update(call, None, &mut review, &manager, "")?;
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(call.user)}),
        "SelfSubjectAccessReview" => {
            check_access(call, &review, true)?;
            access(call, call.user, &review)
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            check_access(call, &review, false)?;
            access(call, &subject(&review), &review)
        }
        "TokenReview" => token_review(call, &review)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    if let Some(map) = review.as_object_mut() {
        map.insert("status".into(), status);
    }
    if kind == "SelfSubjectReview" {
        crate::kinds::meta::set(
            &mut review,
            "creationTimestamp",
            Some(call.server.env().now().rfc3339().into()),
        );
    }
    call.answer(201, &review)
}

/// A question names one thing and who would do it.
fn check_access(call: &Call<'_>, review: &Value, own: bool) -> ApiResult<()> {
    let spec = Path::new("spec");
    let part = |key: &str| {
        review
            .pointer(&format!("/spec/{key}"))
            .filter(|part| !part.is_null())
    };
    let mut errors = Errors::new();
    let shown = |attributes: &Value| json!({"Path": text(attributes, "/path"), "Verb": text(attributes, "/verb")});
    match (part("resourceAttributes"), part("nonResourceAttributes")) {
        (Some(_), Some(other)) => errors.push(FieldError::invalid(
            &spec.child("nonResourceAttributes"),
            shown(other),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let nobody = text(review, "/spec/user").is_empty()
        && part("groups")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
    if !own && nobody {
        errors.push(FieldError::invalid(
            &spec.child("user"),
            "",
            "at least one of user or group must be specified",
        ));
    }
    if call.resource.kind == "LocalSubjectAccessReview" {
        let asked = text(review, "/spec/resourceAttributes/namespace");
        if part("resourceAttributes").is_some() && asked != call.target.namespace {
            errors.push(FieldError::invalid(
                &spec.child("resourceAttributes").child("namespace"),
                asked,
                "must match metadata.namespace",
            ));
        }
        if let Some(other) = part("nonResourceAttributes") {
            errors.push(FieldError::invalid(
                &spec.child("nonResourceAttributes"),
                shown(other),
                "disallowed on this kind of request",
            ));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&call.resource.group, "", "", &errors))
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
    let groups = strings(review.pointer("/spec/groups"));
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

fn token_review(call: &Call<'_>, review: &Value) -> ApiResult<Value> {
    let token = text(review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut audiences = strings(review.pointer("/spec/audiences"));
    if audiences.is_empty() {
        audiences.push(super::tokens::ISSUER.to_owned());
    }
    Ok(match super::user_of_token(call.server, token, &audiences) {
        Ok((user, shared)) => {
            json!({"authenticated": true, "user": user_info(&user), "audiences": shared})
        }
        Err(Refused::Unknown) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(Refused::Audience(own)) => {
            let shown = |list: &[String]| {
                let quoted: Vec<String> = list
                    .iter()
                    .map(|item| crate::field::go_quote(item))
                    .collect();
                format!("[{}]", quoted.join(" "))
            };
            let why = format!(
                "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
                shown(&own),
                shown(&audiences)
            );
            json!({"user": {}, "error": why})
        }
    })
}
