//! The verbs: from a request to an answer.

pub mod apply;
pub mod decode;
pub mod delete;
pub mod managed;
pub mod options;
pub mod patch;
pub mod read;
pub mod request;
pub mod request_body;
pub mod scale;
pub mod special;
pub mod watch;
pub mod write;

use std::sync::Arc;

use everflow_json::Value;
use smol_str::SmolStr;

use self::request::{Answer, Request, Target};
use crate::auth::User;
use crate::kinds::{Context, sent_data};
use crate::resource::{Registry, Resource};
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult};

/// Everything a verb needs to know about its request.
pub struct Call<'a> {
    /// The server.
    pub server: &'a ApiServer,
    /// The request.
    pub request: &'a Request,
    /// What the path names.
    pub target: &'a Target,
    /// Who asks.
    pub user: &'a User,
    /// The resource.
    pub resource: Arc<Resource>,
    /// All resources at the time of the request.
    pub registry: Arc<Registry>,
    /// Warnings to send along.
    pub warnings: std::cell::RefCell<Vec<String>>,
    /// The data of the object in the form it is written with, for kinds that compare it by its bytes.
    pub sent_data: std::cell::RefCell<Option<String>>,
}

impl Call<'_> {
    /// What rules may look at.
    pub fn context(&self, dry_run: bool) -> Context<'_> {
        Context {
            env: self.server.env(),
            user: self.user,
            dry_run,
            allocator: self.server.allocator(),
            namespace: &self.target.namespace,
            sent: None,
        }
    }

    /// Adds a warning.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Notes the bytes of the data in a JSON body, for kinds that compare it by them.
    fn note_sent_data(&self) {
        let is_json = matches!(
            self.request.content_type().as_str(),
            "" | "application/json"
        );
        if is_json && sent_data::applies(&self.resource) {
            let text = crate::codec::json::member_text(&self.request.body, "data");
            self.sent_data.replace(text.map(str::to_owned));
        }
    }

    /// The key of the object named in the path.
    pub fn key(&self) -> String {
        self.resource.key(&self.target.namespace, &self.target.name)
    }

    /// The current version of the object named in the path.
    pub fn current(&self) -> Option<Arc<crate::store::Stored>> {
        self.server.store().get(&self.resource.table, &self.key())
    }

    /// The failure for a missing object.
    pub fn missing(&self) -> Box<ApiError> {
        ApiError::not_found(&self.resource.group_resource(), &self.target.name)
    }

    /// An answer with what a write left. What is stored as it is read has its text already.
    pub fn answer_outcome(&self, status: u16, outcome: &write::Outcome) -> ApiResult<Answer> {
        match outcome {
            write::Outcome::Stored(stored) if crate::negotiate::wants_plain_json(self) => {
                let text = || match self.resource.is_custom() {
                    true => stored.sorted_line(),
                    false => stored.line(),
                };
                Ok(Answer::stored(self.request, status, stored, text))
            }
            outcome => self.answer(status, outcome.value()),
        }
    }

    /// An answer with an object, in the form the client asked for.
    pub fn answer(&self, status: u16, object: &Value) -> ApiResult<Answer> {
        crate::negotiate::object(self, status, object)
    }
}

/// Answers a request for a resource.
pub fn dispatch(
    server: &ApiServer,
    request: &Request,
    target: &Target,
    user: &User,
) -> ApiResult<Answer> {
    let registry = server.registry();
    let Some(resource) = registry
        .find(&target.group, &target.version, &target.resource)
        .cloned()
    else {
        return Err(unknown_resource(&registry, target));
    };
    if !path_fits(&resource, target) {
        return Err(match resource.is_custom() {
            true => no_such_page(),
            false => ApiError::no_such_resource(),
        });
    }
    let call = Call {
        server,
        request,
        target,
        user,
        resource,
        registry: registry.clone(),
        warnings: Default::default(),
        sent_data: Default::default(),
    };
    if call.resource.group.is_empty() && call.resource.plural == "endpoints" {
        call.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    }
    if let Some(text) = crate::crd::deprecation(&call.resource) {
        call.warn(text);
    }
    let result = run(&call);
    let warnings = call.warnings.into_inner();
    let result = result.map_err(|mut error| {
        error.headers.extend(
            warnings
                .iter()
                .map(|text| ("warning", format!("299 - {}", quote_header(text)))),
        );
        error
    });
    result.map(|mut answer| {
        let quoted = warnings.iter().map(|text| {
            let quoted = format!("299 - {}", quote_header(text));
            (SmolStr::new_static("warning"), quoted.into())
        });
        answer.headers.extend(quoted);
        answer
    })
}

/// Warnings are quoted strings: quotes and backslashes are escaped, control characters dropped.
fn quote_header(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {}
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The failure for a resource nobody serves: only groups of built-in kinds have words for it.
fn unknown_resource(registry: &Registry, target: &Target) -> Box<ApiError> {
    match registry.has_builtin_group(&target.group) {
        true => ApiError::no_such_resource(),
        false => no_such_page(),
    }
}

/// A path that nothing answers.
fn no_such_page() -> Box<ApiError> {
    let mut error = ApiError::no_such_resource();
    error.headers.push(("x-plain-not-found", String::new()));
    error
}

/// Whether namespace and scope of the path agree.
fn path_fits(resource: &Resource, target: &Target) -> bool {
    if target.names_namespace {
        return resource.group.is_empty() && resource.plural == "namespaces";
    }
    if !resource.namespaced {
        return target.namespace.is_empty();
    }
    // Across namespaces there are only collections.
    !target.namespace.is_empty() || target.name.is_empty()
}

fn run(call: &Call<'_>) -> ApiResult<Answer> {
    let target = call.target;
    if let Some(answer) = special::run(call)? {
        return Ok(answer);
    }
    if !target.subresource.is_empty() {
        let Some(sub) = call.resource.subresource(&target.subresource) else {
            return Err(match call.resource.is_custom() {
                true => call.missing(),
                false => ApiError::no_such_resource(),
            });
        };
        if !target.extra.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        if !sub.verbs.iter().any(|verb| verb == target.verb) {
            return Err(not_allowed(call));
        }
    } else if !call.resource.has_verb(target.verb) || !method_fits(call) {
        return Err(not_allowed(call));
    }
    let by_name = matches!(target.verb, "get" | "patch" | "delete");
    let problems = crate::kinds::names::path_segment(&target.name);
    if by_name && !problems.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {}: {}",
            crate::field::go_quote(&target.name),
            problems.join(";")
        )));
    }
    match target.verb {
        "get" => read::get(call),
        "list" => read::list(call),
        "watch" => watch::start(call),
        "create" => write::create(call),
        "update" => write::update(call),
        "patch" => patch::patch(call),
        "delete" => delete::delete(call),
        "deletecollection" => delete::delete_collection(call),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Built-in paths have no such route; custom ones have, and refuse.
fn not_allowed(call: &Call<'_>) -> Box<ApiError> {
    if call.resource.is_custom() {
        return ApiError::method_not_supported(&call.resource.group_resource(), call.target.verb);
    }
    ApiError::method_not_allowed()
}

/// Whether the verb fits the shape of the path: no writes across namespaces, no POST to a name.
fn method_fits(call: &Call<'_>) -> bool {
    let target = call.target;
    let across = call.resource.namespaced && target.namespace.is_empty();
    match target.verb {
        "create" => target.name.is_empty() && !across,
        "update" | "patch" => !target.name.is_empty(),
        "deletecollection" => !across,
        _ => true,
    }
}
