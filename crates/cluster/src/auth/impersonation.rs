//! Acting as somebody else.
//!
//! There are two ways to be allowed: the rights to impersonate each fact of the other, for any request; or rights that are
//! bound to a kind of caller (`impersonate:MODE`) together with the right to do this very request as one of that kind
//! (`impersonate-on:MODE:VERB`). The narrow ways are tried first, and the first refusal is the one that is told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Attributes, Decision, User, decide, refusal, tokens};
use crate::field::go_quote;
use crate::rest::request::{Request, Target};
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult};

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The caller somebody else acts as, if they may.
pub fn impersonate<'r>(
    server: &ApiServer,
    request: &Request,
    target: Option<&Target>,
    user: Cow<'r, User>,
) -> ApiResult<Cow<'r, User>> {
    let Some(wanted) = wanted(request)? else {
        return Ok(user);
    };
    if !server.options().authorization {
        return Ok(Cow::Owned(actual(&wanted, false)));
    }
    let attributes = Attributes::of_request(request, target);
    let mut first = None;
    for mode in modes(&wanted) {
        match check(server, &user, &wanted, mode, &attributes) {
            Ok(()) => return Ok(Cow::Owned(actual(&wanted, mode.is_some()))),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(ApiError::unauthorized))
}

/// The caller that the headers name, as they name it.
fn wanted(request: &Request) -> ApiResult<Option<User>> {
    let mut names = request.headers.iter().map(|(name, _)| name);
    if !names.any(|name| name.starts_with("impersonate-")) {
        return Ok(None);
    }
    let mut wanted = User {
        name: request
            .first_header("impersonate-user")
            .unwrap_or_default()
            .to_owned(),
        uid: request
            .first_header("impersonate-uid")
            .unwrap_or_default()
            .to_owned(),
        groups: request
            .all_headers("impersonate-group")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        extra: BTreeMap::new(),
    };
    for (name, value) in &request.headers {
        if let Some(key) = name.strip_prefix("impersonate-extra-") {
            let key = crate::rest::request::percent_decode(key, false).into_owned();
            wanted.extra.entry(key).or_default().push(value.to_string());
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{}, Extra:{}}} without impersonating a user name",
        go_quote(&wanted.uid),
        shown_list(&wanted.groups),
        shown_extra(&wanted.extra)
    )))
}

fn shown_list(list: &[String]) -> String {
    if list.is_empty() {
        return "[]string(nil)".to_owned();
    }
    let quoted: Vec<String> = list.iter().map(|item| go_quote(item)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

fn shown_extra(extra: &BTreeMap<String, Vec<String>>) -> String {
    if extra.is_empty() {
        return "map[string][]string(nil)".to_owned();
    }
    let entries: Vec<String> = extra
        .iter()
        .map(|(key, values)| format!("{}:{}", go_quote(key), shown_list(values)))
        .collect();
    format!("map[string][]string{{{}}}", entries.join(", "))
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = name
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (!namespace.is_empty() && !account.is_empty() && !account.contains(':'))
        .then_some((namespace, account))
}

fn node(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:")
        .filter(|name| !name.is_empty())
}

/// The ways that fit the caller wanted; `None` is the old one, which always does.
fn modes(wanted: &User) -> Vec<Option<&'static str>> {
    let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let narrow = if node(&wanted.name).is_some() {
        only_name.then_some("arbitrary-node")
    } else if service_account(&wanted.name).is_some() {
        only_name.then_some("serviceaccount")
    } else {
        Some("user-info")
    };
    narrow.map(Some).into_iter().chain([None]).collect()
}

fn ask(server: &ApiServer, user: &User, check: &Attributes) -> ApiResult<()> {
    match decide(server, user, check) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(why) => Err(refusal(user, check, &why)),
    }
}

fn check(
    server: &ApiServer,
    user: &User,
    wanted: &User,
    mode: Option<&str>,
    attributes: &Attributes,
) -> ApiResult<()> {
    let (verb, group) = match mode {
        None => ("impersonate".to_owned(), ""),
        Some(mode) => {
            let mut on = attributes.clone();
            on.verb = format!("impersonate-on:{mode}:{}", attributes.verb);
            ask(server, user, &on)?;
            (format!("impersonate:{mode}"), AUTHENTICATION)
        }
    };
    let fact = |group: &str, resource: &str, name: &str| Attributes {
        verb: verb.clone(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut who = fact(group, "users", &wanted.name);
    if let (Some(_), Some(name)) = (mode, node(&wanted.name)) {
        who = fact(group, "nodes", name);
    }
    if let Some((namespace, account)) = service_account(&wanted.name) {
        who = fact(group, "serviceaccounts", account);
        who.namespace = namespace.to_owned();
    }
    ask(server, user, &who)?;
    if !wanted.uid.is_empty() {
        ask(server, user, &fact(AUTHENTICATION, "uids", &wanted.uid))?;
    }
    for name in &wanted.groups {
        let check = fact(group, "groups", name);
        if mode.is_some() && (name.is_empty() || name == "system:masters") {
            let shown = if name.is_empty() {
                "empty string"
            } else {
                name.as_str()
            };
            return Err(refusal(
                user,
                &check,
                &format!("impersonating the {shown} group is not allowed"),
            ));
        }
        ask(server, user, &check)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let mut check = fact(AUTHENTICATION, "userextras", value);
            check.subresource.clone_from(key);
            ask(server, user, &check)?;
        }
    }
    Ok(())
}

/// The caller wanted, with the groups that come by themselves.
fn actual(wanted: &User, narrow: bool) -> User {
    let mut user = wanted.clone();
    if user.groups.is_empty()
        && let Some((namespace, account)) = service_account(&user.name)
    {
        user.groups = tokens::service_account(namespace, account).groups;
    }
    if narrow && node(&user.name).is_some() {
        user.groups = vec!["system:nodes".into()];
    }
    if user.name == "system:anonymous" {
        user.join("system:unauthenticated");
    } else if !user.in_group("system:unauthenticated") {
        user.join("system:authenticated");
    }
    user
}
