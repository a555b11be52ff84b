//! What controllers run on.
//!
//! - [`client`]: a client of the Kubernetes API with untyped objects, a deadline on every request
//!   and a type for every failure, over a [`Transport`](client::Transport) to a real cluster or to
//!   the embedded API server.
//! - [`store`] and [`reflector`]: what is known of the objects of a kind and how fresh it is, kept
//!   up to date by a watch of its own.
//! - [`queue`]: which object is attempted next. No object that lives is without a next attempt.
//! - [`attempt`] and [`engine`]: controllers, and what gives their attempts turns.
//! - [`status`] and [`metadata`]: one write of the status for each attempt, and finalizers.
//! - [`lease`]: leadership with an epoch that ends before another can begin.
//! - [`shards`]: several replicas that share the work, with a lease for each shard of it.
//! - [`events`], [`metrics`], [`log`] and [`http`]: what others see.

#![forbid(unsafe_code)]

pub mod attempt;
pub mod client;
pub mod engine;
mod error;
pub mod events;
pub mod http;
pub mod lease;
pub mod log;
pub mod metadata;
pub mod metrics;
mod options;
pub mod queue;
pub mod reflector;
pub mod shards;
mod signal;
pub mod status;
pub mod store;
pub mod transport;

pub use error::{Error, Refusal};
pub use options::Options;
pub use signal::Signal;
