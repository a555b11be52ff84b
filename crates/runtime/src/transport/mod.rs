//! Ways to API servers of real clusters.

mod config;
mod connector;
mod credentials;
pub mod endpoint;
mod https;
mod learn;
mod tls;
mod ways;

pub use config::{ClientCertificate, ClusterConfig, ExecPlugin, Hidden, Login};
pub use endpoint::Endpoint;
pub use https::{HttpsTransport, WayEvent, WayListener};
pub use learn::{CONFIG_MAP, CONFIG_MAP_KEY, Learner};
