//! What a HelmRelease tells: conditions, history, counters and events, as functions of what has happened.

mod attempt;
mod drift;
mod history;
pub mod messages;
mod notice;
mod outcome;
mod settle;

pub use attempt::{
    Attempted, begin_attempt, end_attempt, failure_reset, mark_waiting, not_ready, note_attempt,
    stall, start_action,
};
pub use drift::{Changed, Drift, drift_message, mark_drift, note_correction};
pub use history::{adopt_history, observe};
pub use notice::{Notice, Severity};
pub use outcome::{Ended, abandoned, ended, taken_over, uninstalled_by_other};
pub use settle::{settle, summarize};
