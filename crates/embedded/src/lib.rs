//! The embedded API server seen from the runtime.
//!
//! - [`EmbeddedTransport`] sends a client's requests to a server in the same process, as text or as trees.
//! - [`ServerWorld`] gives the server the clock and the chance of the controllers' world.
//! - [`EmbeddedAdmission`] says without a request whether a server would take a new object.

#![forbid(unsafe_code)]

mod admission;
mod transport;
mod world;

pub use admission::EmbeddedAdmission;
pub use transport::EmbeddedTransport;
pub use world::ServerWorld;
