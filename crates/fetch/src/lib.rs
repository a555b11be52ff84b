//! Brings remote content here.
//!
//! Everything remote goes through the [`Env`](everflow_env::Env): plain connections come from its
//! dialer, files lie on its disk, heavy work runs in its place for blocking work, and every wait
//! has a deadline on its clock. TLS, proxies and protocols are built on top. Inputs are plain
//! structs, outputs are plain structs or an [`Error`] whose [`reason`](Error::reason) is Flux's.
//!
//! - [`http`]: a client for one request after another, with TLS, proxies, redirects and limits.
//! - [`archive`]: deterministic `.tar.gz` files, digests, ignore patterns, careful unpacking.
//! - [`bucket`]: what is in a bucket of the S3 kind, and an archive of it.
//! - [`oci`]: which artifact of a registry a name stands for, and an archive of it.
//! - [`helm`]: indexes of chart repositories, and charts.
//! - [`storage`]: the artifact store and its HTTP server.

#![forbid(unsafe_code)]

pub mod archive;
pub mod bucket;
mod docker_config;
mod download;
mod error;
pub mod helm;
pub mod http;
pub mod oci;
mod recent;
pub mod storage;
mod temporary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use error::Error;
pub use everflow_connect::{Deadline, Secret, Url, shown};
pub use recent::Recent;
pub use temporary::{TEMPORARY, TemporaryDirectory, TemporaryFile};
