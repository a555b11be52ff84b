//! Notifications carried out: what `everflow-notify` describes, with a queue, connections and the API server.
//!
//! - [`dispatcher()`]: takes events, matches them with Alerts, keeps what is to be sent on disk, and sends it.
//! - [`EventServer`]: where other controllers post events.
//! - [`receiver`]: the controller of Receivers, and the server that webhooks are sent to.
//!
//! It is a crate of its own, between the runtime and the controllers: it needs the HTTP client of `fetch` and the stores
//! of `runtime`, and nothing of the sources and Kustomizations.

#![forbid(unsafe_code)]

mod alerts;
mod carry;
mod deliver;
mod dispatcher;
mod event_server;
mod journal;
mod lanes;
mod options;
pub mod receiver;
mod report;
pub mod resources;
mod secrets;
mod trial;
mod web;

pub use dispatcher::{Dispatcher, Intake, Setup, dispatcher, event_of};
pub use event_server::EventServer;
pub use options::Options;
pub use report::{LAST_DELIVERY, LAST_ERROR};
pub use trial::{Due, Trial, due, try_provider};
