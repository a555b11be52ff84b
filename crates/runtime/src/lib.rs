//! What controllers run on.
//!
//! - [`client`]: a client of the Kubernetes API with untyped objects, a deadline on every request
//!   and a type for every failure, over a [`Transport`](client::Transport) to a real cluster or to
//!   the embedded API server.

#![forbid(unsafe_code)]

pub mod client;
mod error;
pub mod transport;

pub use error::{Error, Refusal};
