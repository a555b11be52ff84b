//! Words that people and programs know from Helm and Flux.

use everflow_api::inventory::ObjectId;
use everflow_json::Value;

/// `Helm ACTION failed for release NAMESPACE/NAME with chart CHART: WHY`.
pub fn release_failed(action: &str, namespace: &str, name: &str, chart: &str, why: &str) -> String {
    let why = why.trim();
    format!("Helm {action} failed for release {namespace}/{name} with chart {chart}: {why}")
}

/// `Helm ACTION succeeded for release NAMESPACE/NAME.vVERSION with chart CHART`.
pub fn release_succeeded(action: &str, release: &str, chart: &str) -> String {
    format!("Helm {action} succeeded for release {release} with chart {chart}")
}

/// What an uninstall comes to that puts right a failure.
pub fn uninstall_remediation(release: &str, chart: &str, why: Option<&str>) -> String {
    let start = format!("Helm uninstall remediation for release {release} with chart {chart}");
    ended(&start, why)
}

/// What a rollback comes to.
pub fn rollback(release: &str, chart: &str, why: Option<&str>) -> String {
    ended(
        &format!("Helm rollback to previous release {release} with chart {chart}"),
        why,
    )
}

fn ended(start: &str, why: Option<&str>) -> String {
    match why {
        None => format!("{start} succeeded"),
        Some(why) => format!("{start} failed: {}", why.trim()),
    }
}

/// What tests come to: how many there were, or why they failed.
pub fn tested(release: &str, chart: &str, result: Result<usize, &str>) -> String {
    let about = |what: &str| format!("Helm test {what} for release {release} with chart {chart}: ");
    match result {
        Ok(0) => about("succeeded") + "no test hooks",
        Ok(1) => about("succeeded") + "1 test hook completed successfully",
        Ok(count) => about("succeeded") + &format!("{count} test hooks completed successfully"),
        Err(why) => about("failed") + why.trim(),
    }
}

/// The server does not take an object that it is to merge.
pub fn apply_failed(object: &Value, why: &str, is_conflict: bool) -> String {
    let start = match is_conflict {
        true => "conflict occurred while applying object",
        false => "server-side apply failed for object",
    };
    format!("{start} {}: {why}", described(object))
}

/// An object that was missing cannot be created in an upgrade.
pub fn create_failed(why: &str) -> String {
    format!("failed to create resource: {why}")
}

/// `NAMESPACE/NAME GROUP/VERSION, Kind=KIND`.
fn described(object: &Value) -> String {
    let id = ObjectId::of(object);
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group_version = match api_version.contains('/') {
        true => api_version.to_owned(),
        false => format!("/{api_version}"),
    };
    format!(
        "{}/{} {group_version}, Kind={}",
        id.namespace, id.name, id.kind
    )
}

/// Objects that were waited for too long, with how each stands.
pub fn wait_timed_out(objects: &[(ObjectId, &str)]) -> String {
    format!("timeout waiting for: [{}]", standing(objects))
}

/// Objects that cannot become as asked for, with how each stands.
pub fn wait_failed_early(objects: &[(ObjectId, &str)]) -> String {
    let standing = standing(objects);
    format!("failed early due to stalled resources: [{standing}]")
}

fn standing(objects: &[(ObjectId, &str)]) -> String {
    let one = |(id, status): &(ObjectId, &str)| format!("{} status: '{status}'", id.subject());
    objects.iter().map(one).collect::<Vec<String>>().join(", ")
}

/// Objects that have not gone in time.
pub fn deletion_timed_out(objects: &[ObjectId]) -> String {
    let one = |id: &ObjectId| {
        format!(
            "{} termination timeout: context deadline exceeded",
            id.subject()
        )
    };
    objects.iter().map(one).collect::<Vec<String>>().join("; ")
}
