//! What controllers run on.
//!
//! - [`client`]: a client of the Kubernetes API with untyped objects, a deadline on every request
//!   and a type for every failure, over a [`Transport`](client::Transport) to a real cluster or to
//!   the embedded API server.
//! - [`store`] and [`reflector`]: what is known of the objects of a kind and how fresh it is, kept
//!   up to date by a watch of its own.
//! - [`queue`]: which object is attempted next. No object that lives is without a next attempt.

#![forbid(unsafe_code)]

pub mod client;
mod error;
pub mod queue;
pub mod reflector;
pub mod store;
pub mod transport;

pub use error::{Error, Refusal};
