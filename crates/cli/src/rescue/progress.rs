//! Shows what attempts come to, and remembers it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::view;
use everflow_env::{BoxFuture, Clock};
use everflow_json::Value;
use everflow_runtime::attempt::{
    Broken, Context, Controller, ControllerWrapper, Interrupted, Report, Verdict,
};
use everflow_runtime::queue::Key;

use super::targets::needs;
use crate::flux::say;

/// How long a source may take that something is delivered from, and how long a chart, which its release may have to make
/// first.
const SOURCE_FIRST: Duration = Duration::from_secs(60);
const CHART_FIRST: Duration = Duration::from_secs(10);
/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(100);

/// What the last attempt of an object came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) message: String,
}

/// What attempts came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    outcomes: Arc<Mutex<BTreeMap<Key, Outcome>>>,
}

impl Progress {
    /// A controller whose attempts are shown.
    pub(super) fn around(
        &self,
        inner: Arc<dyn Controller>,
        clock: Arc<dyn Clock>,
    ) -> Arc<dyn Controller> {
        Arc::new(Shown {
            inner,
            clock,
            progress: self.clone(),
        })
    }

    /// Waits until the sources of an object have been fetched here. What their statuses name is served by an engine that
    /// may be dead, or hang.
    async fn sources_of(&self, key: &Key, object: &Value, clock: &dyn Clock) {
        let begun = clock.elapsed();
        let mut object = object.clone();
        object["kind"] = key.kind.as_str().into();
        for source in needs(&object) {
            let most = match source.kind.as_str() {
                "GitRepository" | "OCIRepository" | "Bucket" => SOURCE_FIRST,
                "HelmChart" => CHART_FIRST,
                _ => continue,
            };
            while self.of(&source).is_none() && clock.elapsed() < begun + most {
                clock.sleep(LOOK).await;
            }
        }
    }

    /// What the last attempt of an object came to, if there was one.
    pub(super) fn of(&self, key: &Key) -> Option<Outcome> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.get(key).cloned()
    }
}

#[derive(Debug)]
struct Shown {
    inner: Arc<dyn Controller>,
    clock: Arc<dyn Clock>,
    progress: Progress,
}

impl Shown {
    fn show(&self, key: &Key, object: &Value, report: &Report) {
        let status = report.status.as_ref().unwrap_or(&object["status"]);
        let conditions = status["conditions"].as_array();
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Ready");
        let message = ready.and_then(|ready| ready["message"].as_str());
        let outcome = Outcome {
            verdict: report.verdict,
            message: message.unwrap_or_default().to_owned(),
        };
        let outcomes = &self.progress.outcomes;
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = outcomes.insert(key.clone(), outcome.clone());
        drop(outcomes);
        for event in &report.events {
            say::plain(&format!("  {key}: {}", event.message));
        }
        if before.as_ref() == Some(&outcome) {
            return;
        }
        let line = format!("{key}: {}", outcome.message);
        match outcome.verdict {
            Verdict::Success if view::is_suspended(object) => {
                say::warning(&format!("{key} is suspended and left alone"));
            }
            Verdict::Success => say::success(&line),
            Verdict::Waiting => say::waiting(&line),
            Verdict::Failure | Verdict::Stalled => say::failure(&line),
        }
    }
}

impl ControllerWrapper for Shown {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            let clock = &*self.clock;
            self.progress.sources_of(&context.key, object, clock).await;
            let report = self.inner.attempt(object, context).await?;
            self.show(&context.key, object, &report);
            Ok(report)
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        say::failure(&format!("{}: {how}", context.key));
        self.inner.broken(object, how, context)
    }
}
