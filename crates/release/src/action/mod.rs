//! Helm's actions as steps.
//!
//! A [`Plan`] says what is asked for, a [`Run`] which [`Step`] comes next. Who carries the steps out needs to
//! know nothing of Helm but what the step says.

mod abandon;
mod event;
mod hooks;
pub mod legacy_wait;
mod plan;
mod run;
mod step;

pub use abandon::abandon;
pub use event::{ActionKind, Event};
pub use hooks::delete_interrupted;
pub use plan::{DefinitionMode, Plan, Wait};
pub use run::{Begin, Resume, Run};
pub use step::{Apply, Await, Delete, Expected, Outcome, Step, StepResult};
