//! The query parameters of writes and lists.

use everflow_json::Value;
use everflow_schema::selectors::{FieldSelector, LabelSelector};

use super::request::Request;
use crate::codec::json::Json;
use crate::field::{Errors, FieldError, Path};
use crate::kinds::meta::check_manager;
use crate::status::{ApiError, ApiResult};

/// How unknown fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them with a warning.
    Warn,
    /// Refuse the request.
    Strict,
}

/// The options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Nothing is kept.
    pub dry_run: bool,
    /// The manager named in the query.
    pub field_manager: Option<String>,
    /// How unknown fields are treated.
    pub field_validation: FieldValidation,
    /// Take over fields of other appliers.
    pub force: bool,
}

fn invalid_options(kind: &str, errors: &Errors) -> Box<ApiError> {
    ApiError::invalid("meta.k8s.io", kind, "", errors)
}

fn check_dry_run(values: &[&str], errors: &mut Errors) -> bool {
    let given: Vec<&str> = values.to_vec();
    if given.iter().any(|value| *value != "All") {
        let list = Value::Array(values.iter().map(|value| Value::from(*value)).collect());
        errors.push(FieldError::not_supported(
            &Path::new("dryRun"),
            list,
            &["All"],
        ));
    }
    !given.is_empty()
}

/// Reads the options of a create, update or patch.
pub fn write_options(
    request: &Request,
    kind: &'static str,
    apply: bool,
) -> ApiResult<WriteOptions> {
    let mut errors = Errors::new();
    let manager = request
        .param("fieldManager")
        .filter(|text| !text.is_empty());
    let force = request.param("force");
    if kind == "PatchOptions" {
        if apply && manager.is_none() {
            errors.push(FieldError::required(
                &Path::new("fieldManager"),
                "is required for apply patch",
            ));
        }
        if !apply && force.is_some() {
            errors.push(FieldError::forbidden(
                &Path::new("force"),
                "may not be specified for non-apply patch",
            ));
        }
    }
    let force = match force {
        None => false,
        Some(text) => parse_bool(text)?,
    };
    if let Some(manager) = manager {
        check_manager(manager, &Path::new("fieldManager"), &mut errors);
    }
    let dry_run = check_dry_run(&request.params("dryRun"), &mut errors);
    let field_validation = match request.param("fieldValidation").unwrap_or_default() {
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        "Warn" | "" => FieldValidation::Warn,
        other => {
            errors.push(FieldError::not_supported(
                &Path::new("fieldValidation"),
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    };
    if !errors.is_empty() {
        return Err(invalid_options(kind, &errors));
    }
    Ok(WriteOptions {
        dry_run,
        field_manager: manager.map(str::to_owned),
        field_validation,
        force,
    })
}

fn parse_bool(text: &str) -> ApiResult<bool> {
    // The real server's conversion: anything but these words is true.
    Ok(!matches!(
        text.to_ascii_lowercase().as_str(),
        "false" | "0" | ""
    ))
}

/// The manager of a write: from the query, or the User-Agent up to the slash.
pub fn manager_name(request: &Request, options: &WriteOptions) -> String {
    if let Some(manager) = &options.field_manager {
        return manager.clone();
    }
    let agent = request.first_header("user-agent").unwrap_or_default();
    let product: String = agent
        .split('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control() && *c != '\u{fffd}')
        .collect();
    let mut end = product.len().min(128);
    while !product.is_char_boundary(end) {
        end -= 1;
    }
    if product.is_empty() {
        "unknown".to_owned()
    } else {
        product[..end].to_owned()
    }
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are left alone.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted before.
    Foreground,
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Nothing is kept.
    pub dry_run: bool,
    /// The grace period.
    pub grace_period: Option<i64>,
    /// The policy for dependents.
    pub propagation: Option<Propagation>,
    /// The old flag for the same.
    pub orphan_dependents: Option<bool>,
    /// The uid the object must have.
    pub uid: Option<String>,
    /// The revision the object must have.
    pub resource_version: Option<String>,
}

/// Reads the options of a delete from its body or its query.
pub fn delete_options(request: &Request, body: Option<&Json>) -> ApiResult<DeleteOptions> {
    let mut errors = Errors::new();
    let mut options = DeleteOptions::default();
    let mut policy: Option<String> = None;
    let from_body = body.map(Json::to_value);
    let mut dry_run: Vec<String> = Vec::new();
    if let Some(body) = from_body.as_ref().filter(|body| body.is_object()) {
        options.grace_period = body.get("gracePeriodSeconds").and_then(Value::as_i64);
        options.orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
        policy = body
            .get("propagationPolicy")
            .and_then(Value::as_str)
            .map(str::to_owned);
        options.uid = body
            .pointer("/preconditions/uid")
            .and_then(Value::as_str)
            .map(str::to_owned);
        options.resource_version = body
            .pointer("/preconditions/resourceVersion")
            .and_then(Value::as_str)
            .map(str::to_owned);
        dry_run = crate::tree::strings(body.get("dryRun"));
    } else {
        if let Some(text) = request.param("gracePeriodSeconds") {
            options.grace_period = Some(text.parse().map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {}: invalid syntax",
                    crate::field::go_quote(text)
                ))
            })?);
        }
        options.orphan_dependents = request
            .param("orphanDependents")
            .map(|text| text.eq_ignore_ascii_case("true") || text == "1");
        policy = policy.or_else(|| request.param("propagationPolicy").map(str::to_owned));
        dry_run.extend(request.params("dryRun").into_iter().map(str::to_owned));
    }
    if let Some(text) = &policy {
        if options.orphan_dependents.is_some() {
            errors.push(FieldError::invalid(
                &Path::new("propagationPolicy"),
                text.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        options.propagation = match text.as_str() {
            "Orphan" => Some(Propagation::Orphan),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            other => {
                errors.push(FieldError::not_supported(
                    &Path::new("propagationPolicy"),
                    other,
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
    }
    let words: Vec<&str> = dry_run.iter().map(String::as_str).collect();
    options.dry_run = check_dry_run(&words, &mut errors);
    if !errors.is_empty() {
        return Err(invalid_options("DeleteOptions", &errors));
    }
    Ok(options)
}

/// The options of a list or watch.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The labels objects must have.
    pub labels: LabelSelector,
    /// The fields objects must have.
    pub fields: FieldSelector,
    /// The most items of a page, zero for all.
    pub limit: usize,
    /// Where a paged list goes on.
    pub continue_token: String,
    /// The revision asked for, as it was given.
    pub resource_version: String,
    /// How the revision is meant.
    pub version_match: String,
    /// Whether the watch starts with the current objects and says when they end.
    pub send_initial_events: Option<bool>,
    /// Whether bookmarks are wanted.
    pub bookmarks: bool,
    /// How long a watch lasts.
    pub timeout_seconds: Option<i64>,
}

/// Reads the options of a list or watch.
pub fn list_options(request: &Request, watch: bool) -> ApiResult<ListOptions> {
    let number = |name: &str| -> ApiResult<Option<i64>> {
        match request.param(name) {
            None | Some("") => Ok(None),
            Some(text) => match text.parse::<i64>() {
                Ok(number) => Ok(Some(number)),
                Err(problem) => {
                    let why = if matches!(
                        problem.kind(),
                        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow
                    ) {
                        "value out of range"
                    } else {
                        "invalid syntax"
                    };
                    Err(ApiError::bad_request(format!(
                        "strconv.ParseInt: parsing {}: {why}",
                        crate::field::go_quote(text)
                    )))
                }
            },
        }
    };
    let flag = |name: &str| {
        request
            .param(name)
            .map(|text| !matches!(text.to_ascii_lowercase().as_str(), "false" | "0"))
    };
    let unreadable = |error: everflow_schema::Error| ApiError::bad_request(error.to_string());
    let labels = request.param("labelSelector").unwrap_or_default();
    let fields = request.param("fieldSelector").unwrap_or_default();
    let options = ListOptions {
        labels: LabelSelector::parse(labels).map_err(unreadable)?,
        fields: FieldSelector::parse(fields).map_err(unreadable)?,
        limit: number("limit")?
            .filter(|limit| *limit > 0)
            .unwrap_or_default() as usize,
        continue_token: request.param("continue").unwrap_or_default().to_owned(),
        resource_version: request
            .param("resourceVersion")
            .unwrap_or_default()
            .to_owned(),
        version_match: request
            .param("resourceVersionMatch")
            .unwrap_or_default()
            .to_owned(),
        send_initial_events: flag("sendInitialEvents"),
        bookmarks: flag("allowWatchBookmarks").unwrap_or_default(),
        timeout_seconds: request
            .params("timeoutSeconds")
            .first()
            .and_then(|text| text.parse().ok()),
    };
    let mut errors = Errors::new();
    let path = Path::new("resourceVersionMatch");
    let matching = options.version_match.as_str();
    if watch {
        if options.send_initial_events.is_some() && matching != "NotOlderThan" {
            errors.push(FieldError::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !matching.is_empty() {
            if options.send_initial_events.is_none() {
                errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(
                    &path,
                    matching,
                    &["NotOlderThan"],
                ));
            }
            if !options.continue_token.is_empty() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
    } else {
        if !matching.is_empty() {
            if options.resource_version.is_empty() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !options.continue_token.is_empty() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                errors.push(FieldError::not_supported(
                    &path,
                    matching,
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if matching == "Exact" && options.resource_version == "0" {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if options.send_initial_events.is_some() {
            errors.push(FieldError::forbidden(
                &Path::new("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        }
    }
    if !errors.is_empty() {
        return Err(invalid_options("ListOptions", &errors));
    }
    Ok(options)
}

/// Reads a revision; the error is Go's text.
pub fn parse_revision(text: &str) -> Result<u64, String> {
    text.parse::<u64>().map_err(|problem| {
        let why = if matches!(problem.kind(), std::num::IntErrorKind::PosOverflow) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!(
            "strconv.ParseUint: parsing {}: {why}",
            crate::field::go_quote(text)
        )
    })
}
