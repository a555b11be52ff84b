//! Kinds of any API, by the words that people have for them.

use everflow_json::Value;
use everflow_runtime::client::Resource;
use http::Method;

use super::connection::Session;
use crate::exit::Failure;

/// The collection that a word stands for: `deployments`, `Deployment`, `deploy`, `deployments.apps`.
pub async fn find(session: &Session, word: &str) -> Result<Resource, Failure> {
    let failed = |error: everflow_runtime::Error| Failure::Work(session.told_of(&error));
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    for version in session.client.versions().await.map_err(failed)? {
        let target = match version.contains('/') {
            true => format!("/apis/{version}"),
            false => format!("/api/{version}"),
        };
        let (own_group, own_version) = version.split_once('/').unwrap_or(("", version.as_str()));
        if !group.is_empty() && own_group != group {
            continue;
        }
        let listed = session
            .client
            .ask(Method::GET, &target, "application/json", None)
            .await;
        // One group that does not answer does not hide the others.
        let Ok(listed) = listed else { continue };
        let known = listed["resources"].as_array().into_iter().flatten();
        if let Some(found) = known.into_iter().find(|entry| is_called(entry, name)) {
            let text = |field: &str| found[field].as_str().unwrap_or_default();
            return Ok(Resource {
                group: own_group.into(),
                version: own_version.into(),
                plural: text("name").into(),
                kind: text("kind").into(),
                namespaced: found["namespaced"] == true,
            });
        }
    }
    Err(Failure::Work(format!(
        "the server doesn't have a resource type {word:?}"
    )))
}

fn is_called(entry: &Value, word: &str) -> bool {
    let plural = entry["name"].as_str().unwrap_or_default();
    if plural.contains('/') {
        return false;
    }
    let short = entry["shortNames"].as_array().into_iter().flatten();
    [&entry["name"], &entry["singularName"], &entry["kind"]]
        .into_iter()
        .chain(short)
        .filter_map(Value::as_str)
        .any(|name| name.eq_ignore_ascii_case(word))
}
