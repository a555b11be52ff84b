//! Ways to an API server: the embedded one in the same process, and real ones.

mod config;
mod credentials;
mod embedded;
mod https;
mod tls;

pub use config::{ClientCertificate, ClusterConfig, ExecPlugin, Hidden, Login};
pub use embedded::{EmbeddedTransport, ServerWorld};
pub use https::HttpsTransport;
