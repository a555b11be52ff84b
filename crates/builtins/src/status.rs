//! Failures as the API answers them: `Status` objects with a code, a reason and details.

use everflow_json::{Map, Value, json};

use crate::field::{Errors, aggregate};

/// A failed request. Every variant of failure is a `Status` with its own stable reason.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The stable reason; empty where the real server gives none.
    pub reason: &'static str,
    /// What went wrong.
    pub message: String,
    /// The `details` of the Status, if it has any.
    pub details: Option<Value>,
    /// Extra headers, such as `Allow` or `Retry-After`.
    pub headers: Vec<(&'static str, String)>,
}

/// A result whose failure is a `Status`.
pub type ApiResult<T> = Result<T, Box<ApiError>>;

/// The group and plural name that name a collection in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            out.write_str(self.resource)
        } else {
            write!(out, "{}.{}", self.resource, self.group)
        }
    }
}

/// The details of a Status that names one object.
pub fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.into(), Value::from(value));
        }
    }
    Value::Object(map)
}

impl ApiError {
    /// A failure with any code, reason and message, and no details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(ApiError {
            code,
            reason,
            message: message.into(),
            details: None,
            headers: Vec::new(),
        })
    }

    /// The same failure with details.
    #[must_use]
    pub fn with_details(mut self: Box<Self>, details: Value) -> Box<Self> {
        self.details = Some(details);
        self
    }

    /// The object does not exist.
    pub fn not_found(resource: &GroupResource<'_>, name: &str) -> Box<Self> {
        Self::new(
            404,
            "NotFound",
            format!("{resource} {} not found", crate::field::go_quote(name)),
        )
        .with_details(details(name, resource.group, resource.resource))
    }

    /// The path names nothing in a known group.
    pub fn no_such_resource() -> Box<Self> {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(json!({}))
    }

    /// An object with this name exists.
    pub fn already_exists(resource: &GroupResource<'_>, name: &str) -> Box<Self> {
        Self::new(
            409,
            "AlreadyExists",
            format!("{resource} {} already exists", crate::field::go_quote(name)),
        )
        .with_details(details(name, resource.group, resource.resource))
    }

    /// The write collides with another.
    pub fn conflict(resource: &GroupResource<'_>, name: &str, why: &str) -> Box<Self> {
        Self::new(
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {resource} {}: {why}",
                crate::field::go_quote(name)
            ),
        )
        .with_details(details(name, resource.group, resource.resource))
    }

    /// The object changed since it was read.
    pub fn modified(resource: &GroupResource<'_>, name: &str) -> Box<Self> {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The caller may not do this.
    pub fn forbidden(resource: &GroupResource<'_>, name: &str, why: &str) -> Box<Self> {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!(
                "{resource} {} is forbidden: {why}",
                crate::field::go_quote(name)
            ),
        };
        Self::new(403, "Forbidden", message).with_details(details(
            name,
            resource.group,
            resource.resource,
        ))
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    /// A failure without a reason, as the real server answers for errors it did not expect.
    pub fn internal_plain(message: impl Into<String>) -> Box<Self> {
        Self::new(500, "", message)
    }

    /// The caller's credentials are not known.
    pub fn unauthorized() -> Box<Self> {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The object breaks rules.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &Errors) -> Box<Self> {
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                let mut cause = Map::new();
                cause.insert("reason".into(), Value::from(error.problem.reason()));
                cause.insert("message".into(), Value::from(error.body()));
                let field = error.field.as_str();
                cause.insert(
                    "field".into(),
                    Value::from(if field.is_empty() { "<nil>" } else { field }),
                );
                Value::Object(cause)
            })
            .collect();
        let mut all = details(name, group, kind);
        if let (Some(map), false) = (all.as_object_mut(), causes.is_empty()) {
            map.insert("causes".into(), Value::Array(causes));
        }
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut message = format!("{qualified} {} is invalid", crate::field::go_quote(name));
        if !errors.is_empty() {
            message = format!(
                "{message}: {}",
                aggregate(errors.iter().map(ToString::to_string))
            );
        }
        Self::new(422, "Invalid", message).with_details(all)
    }

    /// The method is not known for this path.
    pub fn method_not_allowed() -> Box<Self> {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    /// The collection cannot do this.
    pub fn method_not_supported(resource: &GroupResource<'_>, action: &str) -> Box<Self> {
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{action} is not supported on resources of kind \"{resource}\""),
        )
        .with_details(details("", resource.group, resource.resource))
    }

    /// The body is too large.
    pub fn too_large(message: impl Into<String>) -> Box<Self> {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The failure as a Status object.
    pub fn to_value(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        status.insert("metadata".into(), json!({}));
        status.insert("status".into(), "Failure".into());
        if !self.message.is_empty() {
            status.insert("message".into(), self.message.as_str().into());
        }
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.clone());
        }
        status.insert("code".into(), self.code.into());
        Value::Object(status)
    }
}

/// The Status that answers a successful delete.
pub fn deleted(name: &str, group: &str, resource: &str, uid: &str) -> Value {
    let mut all = details(name, group, resource);
    if let Some(map) = all.as_object_mut() {
        map.insert("uid".into(), uid.into());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": all})
}
