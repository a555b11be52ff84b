//! Quotas: what would use more than a namespace may is refused.
//!
//! As in the real server, a quota counts from the moment its status says what its limits are and what is used.

use std::sync::Arc;

use everflow_json::{Map, Value, json};

use super::usage::{self, Amounts};
use crate::rest::Call;
use crate::rest::request::Target;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// The new usage of quotas, to be written together with the object.
#[derive(Debug, Default)]
pub struct Charge {
    quotas: Vec<(Arc<Stored>, Amounts)>,
}

/// Checks a new (`old` is `None`) or changed object against the quotas of its namespace.
pub fn check(call: &Call<'_>, object: &Value, old: Option<&Value>) -> ApiResult<Charge> {
    let mut charge = Charge::default();
    let table = &*call.resource.table;
    if !call.resource.namespaced || !handles(call, object, old) {
        return Ok(charge);
    }
    for quota in usage::quotas(call.server.store(), &call.target.namespace) {
        let hard = usage::amounts(quota.value.pointer("/status/hard"));
        let used = usage::amounts(quota.value.pointer("/status/used"));
        let mut about: Vec<&str> = hard.keys().map(String::as_str).collect();
        about.retain(|name| usage::table_of(name).as_deref() == Some(table));
        if about.is_empty() || !usage::in_scope(&quota.value, table, object) {
            continue;
        }
        let name = usage::name(&quota.value);
        let refuse = |why: String| {
            let object = crate::kinds::meta::text(object, "name");
            ApiError::forbidden(&call.resource.group_resource(), object, &why)
        };
        if table == "/pods" {
            let mut wanted = about.clone();
            wanted.retain(|name| usage::MUST_ASK.contains(name));
            if let Some(missing) = usage::missing(object, &wanted) {
                return Err(refuse(format!("failed quota: {name}: {missing}")));
            }
        }
        if about.iter().any(|name| !used.contains_key(*name)) {
            let about = about.join(",");
            return Err(refuse(format!(
                "status unknown for quota: {name}, resources: {about}"
            )));
        }
        let before = old
            .filter(|old| usage::in_scope(&quota.value, table, old))
            .map(|old| usage::of(table, old))
            .unwrap_or_default();
        let mut asked = usage::of(table, object);
        asked.retain(|name, _| hard.contains_key(name));
        for (name, amount) in &mut asked {
            *amount = before
                .get(name)
                .map_or(*amount, |before| amount.minus(before));
        }
        asked.retain(|_, amount| amount.sign() > 0);
        let mut after = used.clone();
        usage::add(&mut after, &asked);
        let over: Vec<&String> = asked
            .keys()
            .filter(|name| after[*name].compare(&hard[*name]).is_gt())
            .collect();
        if !over.is_empty() {
            return Err(refuse(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                shown(&asked, &over),
                shown(&used, &over),
                shown(&hard, &over)
            )));
        }
        if !asked.is_empty() {
            charge.quotas.push((quota, after));
        }
    }
    Ok(charge)
}

/// Whether a request of this kind can change what is used.
fn handles(call: &Call<'_>, object: &Value, old: Option<&Value>) -> bool {
    let is_main = call.target.subresource.is_empty();
    match (&*call.resource.table, old) {
        (_, None) => is_main,
        ("/services" | "/persistentvolumeclaims", Some(_)) => is_main,
        ("/pods", Some(old)) => {
            let deadline = |pod: &Value| pod.pointer("/spec/activeDeadlineSeconds").is_some();
            is_main && deadline(object) != deadline(old)
        }
        _ => false,
    }
}

fn shown(amounts: &Amounts, names: &[&String]) -> String {
    let parts: Vec<String> = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?.canonical())))
        .collect();
    parts.join(",")
}

impl Charge {
    /// Writes what is used now into the quotas.
    pub fn settle(self, call: &Call<'_>) -> ApiResult<()> {
        for (quota, after) in self.quotas {
            let mut updated = quota.value.clone();
            let used: Map = after
                .iter()
                .map(|(name, amount)| (name.clone(), amount.canonical().into()))
                .collect();
            updated["status"]["used"] = Value::Object(used);
            write(call, &quota, updated)?;
        }
        Ok(())
    }
}

fn write(call: &Call<'_>, quota: &Arc<Stored>, mut updated: Value) -> ApiResult<()> {
    let Some(resource) = call.registry.find("", "v1", "resourcequotas").cloned() else {
        return Ok(());
    };
    let target = Target {
        verb: "update",
        version: "v1".into(),
        namespace: call.target.namespace.clone(),
        resource: "resourcequotas".into(),
        name: usage::name(&quota.value).into(),
        subresource: "status".into(),
        ..Target::default()
    };
    let scoped = Call {
        server: call.server,
        request: call.request,
        target: &target,
        user: call.user,
        resource,
        registry: call.registry.clone(),
        warnings: Default::default(),
        sent_data: Default::default(),
    };
    crate::rest::managed::track_update(
        &scoped,
        Some(&quota.value),
        &mut updated,
        "kube-apiserver",
        "status",
    )?;
    let written = call
        .server
        .store()
        .update("/resourcequotas", &scoped.key(), quota.revision, updated)
        .map_err(|error| crate::rest::write::store_error(&scoped, &target.name, &error))?;
    crate::controllers::after_write(&scoped, &written.value, Some(&quota.value));
    Ok(())
}

/// The status of a quota that counts everything in its namespace.
pub fn status(server: &crate::ApiServer, quota: &Value) -> Value {
    let namespace = crate::kinds::meta::text(quota, "namespace");
    let hard = quota.pointer("/spec/hard").cloned().unwrap_or_default();
    let mut used = Map::new();
    for name in hard.as_object().into_iter().flatten().map(|(name, _)| name) {
        let mut sum = usage::whole(0);
        let table = usage::table_of(name).unwrap_or_default();
        let prefix = format!("{namespace}/");
        for item in server.store().list(&table, &prefix, None, 0).items {
            if usage::in_scope(quota, &table, &item.value)
                && let Some(amount) = usage::of(&table, &item.value).get(name.as_str())
            {
                sum = sum.plus(amount);
            }
        }
        used.insert(name.clone(), sum.canonical().into());
    }
    json!({"hard": hard, "used": used})
}
