//! Faults on purpose.
//!
//! The controllers that ship run on the embedded API server in a world whose clock, chance, connections, disks and faults
//! all follow from one seed: the same seed gives the same history, byte for byte.
//!
//! - [`Scenario`]: what there is, what users do and how it must end; data files.
//! - [`Plan`]: what goes wrong, as plain data. A seed makes it, [`search`] looks for bad ones, [`shrink`] makes those short.
//! - [`run`]: one run of a scenario under a plan, watched by the [`oracles`].
//! - [`History`]: what happened, in order.

#![forbid(unsafe_code)]

mod chance;
mod clock;
mod cluster;
mod disk;
mod error;
mod healing;
mod helm_cli;
mod history;
mod holding;
mod hooks;
#[cfg(feature = "wrong")]
mod mistakes;
mod net;
mod notify;
pub mod oracles;
pub mod plan;
mod poisoned;
mod replica;
mod repository;
mod rescue;
mod run;
mod scenario;
mod scenarios;
pub mod search;
mod served;
mod shared;
mod sharing;
pub mod shrink;
mod story;
mod turns;
mod users;
mod ways;

pub use error::Error;
pub use history::{Actor, History};
#[cfg(feature = "wrong")]
pub use mistakes::Mistake;
pub use oracles::Finding;
pub use plan::{Fault, Plan};
pub use repository::Repository;
pub use run::{Baseline, Outcome, Settings, Stats, calm, run};
pub use scenario::{
    Action, Call, Expectation, HelmOperation, Page, ProviderHost, Reference, Scenario,
    UserOperation,
};
pub use sharing::{Join, Rescue, Sharing};
pub use story::story;
