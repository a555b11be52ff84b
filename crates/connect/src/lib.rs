//! Connections to others: straight or through a proxy, plain or secure.
//!
//! All bytes go over the dialer of the [`Env`](everflow_env::Env), certificates are judged by its clock, and every wait
//! has a [`Deadline`]. The failures read as Go's do, since that is what Flux shows.
//!
//! - [`Url`]: addresses, shown without what is secret in them.
//! - [`dial`], [`tunnel`]: a connection to a host, by itself or through a [`Proxy`].
//! - [`configure`], [`secure`]: whom to trust, who we are, and the handshake.

#![forbid(unsafe_code)]

mod deadline;
mod dial;
mod error;
mod proxy;
mod secret;
mod tls;
mod url;
mod words;

pub use deadline::Deadline;
pub use dial::{Spans, dial, dial_proxy, secure, tunnel};
pub use error::{Error, Unusable};
pub use proxy::Proxy;
pub use secret::Secret;
pub use tls::{HTTP, HTTP2, TlsOptions, certificates, configure, describe};
pub use url::{Url, bracketed, clean_path, same_host, shown};
pub use words::printable;
