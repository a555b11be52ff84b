//! The controllers.
//!
//! - [`resources`]: the kinds they are about.
//! - [`Options`]: how they run; Flux's flags.
//! - [`Setup`]: what they are made from; it puts an engine together for chosen [`ControllerKind`]s.
//!
//! A source's attempt observes (its Secrets, the artifacts it builds on, what the store holds),
//! decides (whom to ask for what), acts (fetches, publishes) and reports: the conditions are worked
//! out on a draft of the status and written once, together with the events.

#![forbid(unsafe_code)]

mod artifact;
mod configs;
mod depends;
mod error;
mod fingerprint;
mod helmrelease;
mod kustomization;
mod manager;
mod mirror;
mod options;
pub mod resources;
mod skeleton;
pub mod source;
mod source_name;
mod stop;
mod target;
mod watching;

pub use error::Error;
pub use everflow_apply::preflight::PreflightChoice;
pub use fingerprint::{Fingerprint, RemoteClusters};
pub use kustomization::variables;
pub use manager::{ControllerKind, Setup};
pub use mirror::{Named, mirror};
pub use options::{FeatureGates, GuardRail, HelmOptions, KustomizeOptions, Options};
