//! Ways to API servers of real clusters.

mod config;
mod credentials;
mod https;
mod tls;

pub use config::{ClientCertificate, ClusterConfig, ExecPlugin, Hidden, Login};
pub use https::HttpsTransport;
