//! Who asks and what they may do.

mod rbac;
pub mod reviews;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use serde_json::Value;

pub use rbac::{Attributes, Decision, decide, rules_of};

use crate::rest::request::{Request, Target};
use crate::server_core::{ApiServer, Options};
use crate::status::{ApiError, ApiResult, GroupResource};
use crate::time::Timestamp;

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The stable id.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A caller that may do everything.
    pub fn admin() -> Self {
        User {
            name: "admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        }
    }

    /// The caller without credentials.
    pub fn anonymous() -> Self {
        User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        }
    }

    fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}

/// Knows the callers behind tokens.
#[derive(Debug, Default)]
pub struct Authenticator {
    tokens: RwLock<BTreeMap<String, (User, Option<Timestamp>)>>,
}

impl Authenticator {
    /// An authenticator for the tokens of the options.
    pub fn new(options: &Options) -> Self {
        Authenticator {
            tokens: RwLock::new(
                options
                    .tokens
                    .iter()
                    .map(|(token, user)| (token.clone(), (user.clone(), None)))
                    .collect(),
            ),
        }
    }

    /// The caller behind a token.
    pub fn user_of(&self, token: &str) -> Option<User> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut user = tokens.get(token)?.0.clone();
        if !user.in_group("system:authenticated") {
            user.groups.push("system:authenticated".into());
        }
        Some(user)
    }

    /// Adds a token.
    pub fn add(&self, token: String, user: User, expires: Option<Timestamp>) {
        self.tokens
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token, (user, expires));
    }

    fn expired(&self, token: &str, now: Timestamp) -> bool {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens
            .get(token)
            .and_then(|(_, expires)| *expires)
            .is_some_and(|end| now >= end)
    }
}

/// Finds out who asks.
pub fn authenticate(server: &ApiServer, request: &Request) -> ApiResult<User> {
    if let Some(user) = &request.user {
        return Ok(user.clone());
    }
    let header = request.first_header("authorization").unwrap_or_default();
    let token = header
        .strip_prefix("Bearer ")
        .or_else(|| header.strip_prefix("bearer "))
        .map(str::trim)
        .unwrap_or_default();
    if token.is_empty() {
        return Ok(if server.options().authorization {
            User::anonymous()
        } else {
            server.options().default_user.clone()
        });
    }
    if server.authenticator().expired(token, server.env().now()) {
        return Err(ApiError::unauthorized());
    }
    server
        .authenticator()
        .user_of(token)
        .ok_or_else(ApiError::unauthorized)
}

/// The caller somebody else acts as, if they may.
pub fn impersonate(server: &ApiServer, request: &Request, user: User) -> ApiResult<User> {
    let name = request.first_header("impersonate-user").unwrap_or_default();
    let asked_groups = request.all_headers("impersonate-group");
    let uid = request.first_header("impersonate-uid").unwrap_or_default();
    let extra: Vec<(&str, &str)> = request
        .headers
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("impersonate-extra-")?, value.as_str())))
        .collect();
    if name.is_empty() {
        if !asked_groups.is_empty() || !uid.is_empty() || !extra.is_empty() {
            let quoted: Vec<String> = asked_groups
                .iter()
                .map(|group| crate::field::go_quote(group))
                .collect();
            let shown = if quoted.is_empty() {
                "[]string(nil)".to_owned()
            } else {
                format!("[]string{{{}}}", quoted.join(", "))
            };
            return Err(ApiError::bad_request(format!(
                "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{shown}, Extra:map[string][]string(nil)}} without impersonating a user name",
                crate::field::go_quote(uid)
            )));
        }
        return Ok(user);
    }
    let mut checks: Vec<Attributes> = Vec::new();
    let mut groups: Vec<String> = asked_groups
        .iter()
        .map(|group| (*group).to_owned())
        .collect();
    match name
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'))
    {
        Some((namespace, account)) => {
            checks.push(Attributes::impersonation(
                "",
                "serviceaccounts",
                namespace,
                account,
            ));
            if groups.is_empty() {
                groups = vec![
                    "system:serviceaccounts".into(),
                    format!("system:serviceaccounts:{namespace}"),
                ];
            }
        }
        None => checks.push(Attributes::impersonation("", "users", "", name)),
    }
    checks.extend(
        asked_groups
            .iter()
            .map(|group| Attributes::impersonation("", "groups", "", group)),
    );
    if !uid.is_empty() {
        checks.push(Attributes::impersonation(
            "authentication.k8s.io",
            "uids",
            "",
            uid,
        ));
    }
    for (key, value) in &extra {
        let mut check = Attributes::impersonation("authentication.k8s.io", "userextras", "", value);
        check.subresource = (*key).to_owned();
        checks.push(check);
    }
    if server.options().authorization {
        for check in &checks {
            if let Decision::Denied(_) = decide(server, &user, check) {
                return Err(refusal(&user, check));
            }
        }
    }
    let everyone = if name == "system:anonymous" {
        "system:unauthenticated"
    } else {
        "system:authenticated"
    };
    if !groups.iter().any(|group| group == everyone) {
        groups.push(everyone.into());
    }
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in extra {
        all.entry(crate::rest::request::percent_decode(key, false))
            .or_default()
            .push(value.to_owned());
    }
    Ok(User {
        name: name.to_owned(),
        uid: uid.to_owned(),
        groups,
        extra: all,
    })
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
        Decision::Denied(_) => Err(refusal(user, &attributes)),
    }
}

/// The refusal as the real server words it.
pub fn refusal(user: &User, attributes: &Attributes) -> Box<ApiError> {
    let who = crate::field::go_quote(&user.name);
    if attributes.resource.is_empty() {
        let why = format!(
            "User {who} cannot {} path {}",
            attributes.verb,
            crate::field::go_quote(&attributes.path)
        );
        return ApiError::new(403, "Forbidden", format!("forbidden: {why}"))
            .with_details(serde_json::json!({}));
    }
    let mut resource = attributes.resource.clone();
    if !attributes.subresource.is_empty() {
        resource = format!("{resource}/{}", attributes.subresource);
    }
    let scope = if attributes.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!(
            "in the namespace {}",
            crate::field::go_quote(&attributes.namespace)
        )
    };
    let why = format!(
        "User {who} cannot {} resource {} in API group {} {scope}",
        attributes.verb,
        crate::field::go_quote(&resource),
        crate::field::go_quote(&attributes.group)
    );
    ApiError::forbidden(
        &GroupResource {
            group: &attributes.group,
            resource: &attributes.resource,
        },
        &attributes.name,
        &why,
    )
}

/// Text inside a JSON value.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
