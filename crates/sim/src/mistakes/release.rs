//! Mistakes with releases.

use std::any::Any;

use everflow_json::Value;
use everflow_release::decide::Decision;
use everflow_release::record::StoredRecord;
use everflow_release::state::TakeOver;
use everflow_time::Duration;

use super::{Mistake, set};

/// Changes a value at one of the places that HelmReleases mark.
pub(super) fn alter(mistake: Mistake, value: &mut dyn Any) {
    match mistake {
        Mistake::HookSkippedAfterRestart => {
            if let Some(stored) = value.downcast_mut::<StoredRecord>() {
                let hooks = stored.release.hooks.iter_mut();
                let running = hooks.filter(|hook| hook.phase == "Running");
                running.for_each(|hook| hook.phase = "Succeeded".to_owned());
            }
        }
        Mistake::BlindUnlock => {
            if let Some(rules) = value.downcast_mut::<TakeOver>() {
                rules.patience = Some(Duration::default());
            }
        }
        Mistake::ExtraRevision => {
            if let Some(Decision::Settle { adopt: true }) = value.downcast_ref::<Decision>() {
                let upgrade = Decision::Upgrade {
                    clears_history: true,
                    why: "release not observed to be made for object".to_owned(),
                };
                set(value, upgrade);
            }
        }
        Mistake::HistoryForgotten => {
            if let Some(secrets) = value.downcast_mut::<Vec<Value>>() {
                let version = |secret: &Value| {
                    let label = secret["metadata"]["labels"]["version"].as_str();
                    label.and_then(|label| label.parse::<i64>().ok())
                };
                let newest = secrets.iter().map(version).max().flatten();
                secrets.retain(|secret| version(secret) == newest);
            }
        }
        _ => {}
    }
}
