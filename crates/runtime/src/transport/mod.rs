//! Ways to an API server.

mod embedded;

pub use embedded::{EmbeddedTransport, ServerWorld};
