//! Waiting until an object is as asked for.

use std::time::{Duration, Instant};

use everflow_json::Value;
use everflow_runtime::client::At;

use super::connection::Session;
use super::kinds::Kind;
use super::row::{condition, is_static};

/// How often an object is looked at while it is waited for.
const PAUSE: Duration = Duration::from_millis(200);

/// How an object stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Work goes on.
    Pending,
    /// It will not go on by itself.
    Failed(String),
}

/// How an object stands, by the rules of kstatus.
pub fn standing(object: &Value) -> Readiness {
    let is_true = |name: &str| condition(object, name).is_some_and(|c| c["status"] == "True");
    let observed = object["status"]["observedGeneration"].as_i64();
    let generation = object["metadata"]["generation"].as_i64();
    if observed.is_some() && generation.is_some() && observed != generation {
        return Readiness::Pending;
    }
    if is_true("Stalled") {
        let message = |name: &str| {
            let text = condition(object, name)?["message"].as_str()?;
            Some(text.to_owned())
        };
        let text = message("Stalled").or_else(|| message("Ready"));
        return Readiness::Failed(text.unwrap_or_default());
    }
    match is_true("Ready") && !is_true("Reconciling") {
        true => Readiness::Ready,
        false => Readiness::Pending,
    }
}

/// Waits until an object fulfils a test and is ready; the object then, or why not.
pub async fn wait(
    session: &Session,
    kind: &Kind,
    at: At<'_>,
    timeout: Duration,
    mut test: impl FnMut(&Value) -> bool,
) -> Result<Value, String> {
    let end = Instant::now() + timeout;
    loop {
        let object = session
            .client
            .get(&kind.resource, at)
            .await
            .map_err(|error| error.to_string())?;
        if is_static(kind, &object) {
            return Ok(object);
        }
        if test(&object) {
            match standing(&object) {
                Readiness::Ready => return Ok(object),
                Readiness::Failed(message) => return Err(message),
                Readiness::Pending => {}
            }
        }
        if Instant::now() + PAUSE > end {
            return Err("context deadline exceeded".to_owned());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn standing_follows_the_conditions() {
        let object = |generation: i64, conditions: Value| {
            json!({"metadata": {"generation": generation},
                "status": {"observedGeneration": 1, "conditions": conditions}})
        };
        let ready = json!({"type": "Ready", "status": "True"});
        let stalled = json!({"type": "Stalled", "status": "True", "message": "no"});
        let busy = json!({"type": "Reconciling", "status": "True"});
        assert_eq!(standing(&object(1, json!([ready]))), Readiness::Ready);
        assert_eq!(standing(&object(2, json!([ready]))), Readiness::Pending);
        assert_eq!(
            standing(&object(1, json!([ready, busy]))),
            Readiness::Pending
        );
        assert_eq!(
            standing(&object(1, json!([stalled]))),
            Readiness::Failed("no".to_owned())
        );
        assert_eq!(standing(&object(1, json!([]))), Readiness::Pending);
    }
}
