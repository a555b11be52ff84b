//! Which families of addresses Services have, and which addresses.

use everflow_json::{Value, json};

use super::super::Context;
use super::super::at::At;
use super::super::validation::service as rules;
use super::allocator::{Allocator, IPV4, IPV6};
use super::{addresses, field, invalid, needs_address, refuse, set, text};
use crate::field::{Errors, FieldError, Path};
use crate::status::ApiResult;

/// The policy of Services with one family.
const SINGLE: &str = "SingleStack";

fn is_headless_without_selector(object: &Value) -> bool {
    text(object, "clusterIP") == "None"
        && field(object, "selector")
            .as_object()
            .is_none_or(everflow_json::Map::is_empty)
}

pub(super) fn list_len(object: &Value, key: &str) -> usize {
    field(object, key).as_array().map_or(0, Vec::len)
}

/// Fills in and checks the families of addresses.
pub(super) fn families(
    allocator: &Allocator,
    object: &mut Value,
    old: Option<&Value>,
) -> ApiResult<()> {
    if !needs_address(object) {
        return Ok(());
    }
    if old.is_some_and(|old| keeps_two_families(object, old)) {
        return Ok(());
    }
    if field(object, "ipFamilyPolicy").is_null() {
        let before = old
            .map(|old| field(old, "ipFamilyPolicy"))
            .filter(|policy| !policy.is_null())
            .cloned();
        let fresh = if is_headless_without_selector(object) {
            "RequireDualStack"
        } else {
            SINGLE
        };
        set(
            object,
            "ipFamilyPolicy",
            before.unwrap_or_else(|| fresh.into()),
        );
    }
    let mut errors = Errors::new();
    rules::cluster_addresses(&At::root(object).child("spec"), old, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    let policy = text(object, "ipFamilyPolicy").to_owned();
    let policy_path = Path::new("spec").child("ipFamilyPolicy");
    if let Some(old) = old.filter(|_| policy == SINGLE) {
        for key in ["clusterIPs", "ipFamilies"] {
            if field(object, key) == field(old, key) && list_len(object, key) > 1 {
                set(object, key, json!([field(object, key)[0]]));
            }
        }
    }
    if policy == SINGLE {
        for (key, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list_len(object, key) == 2 {
                let detail = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.push(FieldError::invalid(&policy_path, policy.as_str(), detail));
            }
        }
    }
    families_of_addresses(allocator, object, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    if is_headless_without_selector(object) {
        fill_families(object, policy != SINGLE);
        return Ok(());
    }
    if policy == "RequireDualStack" && !allocator.has(IPV6) {
        errors.push(FieldError::invalid(
            &policy_path,
            policy.as_str(),
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (index, family) in field(object, "ipFamilies")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !allocator.has(family.as_str().unwrap_or_default()) {
            let path = Path::new("spec").child("ipFamilies").index(index);
            errors.push(FieldError::invalid(
                &path,
                family.clone(),
                "not configured on this cluster",
            ));
        }
    }
    if !errors.is_empty() {
        return Err(invalid(object, &errors));
    }
    fill_families(object, policy != SINGLE && allocator.has(IPV6));
    Ok(())
}

/// The first family where none is named, and the other one where there are to be two.
fn fill_families(object: &mut Value, two: bool) {
    let named = field(object, "ipFamilies").as_array().cloned();
    let mut families = named.unwrap_or_default();
    if families.is_empty() {
        families.push(IPV4.into());
    }
    if two && families.len() == 1 {
        let other = if families[0] == IPV4 { IPV6 } else { IPV4 };
        families.push(other.into());
    }
    set(object, "ipFamilies", Value::Array(families));
}

fn keeps_two_families(new: &Value, old: &Value) -> bool {
    let prefers = |object: &Value| matches!(text(object, "ipFamilyPolicy"), "PreferDualStack");
    prefers(new)
        && (prefers(old) || field(old, "ipFamilyPolicy").is_null())
        && ["type", "clusterIPs", "ipFamilies"]
            .iter()
            .all(|key| field(new, key) == field(old, key))
}

/// Addresses say which families they are of.
fn families_of_addresses(allocator: &Allocator, object: &mut Value, errors: &mut Errors) {
    let list = addresses(object);
    let mut families = field(object, "ipFamilies")
        .as_array()
        .cloned()
        .unwrap_or_default();
    for (index, address) in list.iter().enumerate().skip(families.len()) {
        let family = if address.contains(':') { IPV6 } else { IPV4 };
        if !allocator.has(family) {
            let path = Path::new("spec").child("clusterIPs").index(index);
            errors.push(FieldError::invalid(
                &path,
                json!(list),
                "IPv6 is not configured on this cluster",
            ));
        } else {
            families.push(family.into());
        }
    }
    set(object, "ipFamilies", Value::Array(families));
}

/// Gives a Service the addresses that it lacks, one of each of its families; it has so many.
pub(super) fn take_addresses(
    context: &Context<'_>,
    object: &mut Value,
    has: usize,
) -> ApiResult<()> {
    if !needs_address(object) || field(object, "clusterIPs").get(0) == Some(&json!("None")) {
        return Ok(());
    }
    let families = field(object, "ipFamilies").as_array().cloned();
    let mut given: Vec<String> = addresses(object).into_iter().take(has).collect();
    let mut picked = false;
    for (index, family) in families.unwrap_or_default().iter().enumerate().skip(has) {
        let wanted = field(object, "clusterIPs").get(index);
        let wanted = wanted.and_then(Value::as_str).unwrap_or_default();
        let family = family.as_str().unwrap_or(IPV4);
        picked |= wanted.is_empty();
        given.push(match wanted {
            "" if context.dry_run => context.allocator.first(family),
            "" => context.allocator.pick_address(family, context.env),
            wanted => {
                may_take(context, object, wanted, family)?;
                wanted.to_owned()
            }
        });
    }
    if let Some(first) = given.first().filter(|_| picked) {
        set(object, "clusterIP", first.as_str().into());
        set(object, "clusterIPs", json!(given));
    }
    Ok(())
}

/// Whether an address that a client asks for is to be had.
fn may_take(context: &Context<'_>, object: &Value, wanted: &str, family: &str) -> ApiResult<()> {
    let allocator = context.allocator;
    let problem = match allocator.contains(wanted) {
        true => {
            let taken = !context.dry_run && allocator.lock().addresses.contains(wanted);
            taken.then(|| "provided IP is already allocated".to_owned())
        }
        false if context.dry_run => Some(format!(
            "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {}",
            allocator.range(family)
        )),
        false => Some("the provided network does not match the current range".to_owned()),
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(refuse(
            object,
            &Path::new("spec").child("clusterIPs"),
            json!([wanted]),
            format!("failed to allocate IP {wanted}: {problem}"),
        )),
    }
}
