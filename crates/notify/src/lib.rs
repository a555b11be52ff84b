//! Notifications as data: which Alerts an event matches, what each provider is sent and what its answer means,
//! which webhooks are valid and what they wake.
//!
//! Nothing here opens a socket, reads a clock or draws a number: requests are described, answers, moments and
//! random bytes are handed in. The behaviour is that of Flux's notification-controller; where it differs on
//! purpose, the list beside the recorded tests says so.
//!
//! ```
//! use everflow_api::Object;
//! use everflow_json::json;
//! use everflow_notify::Event;
//! use everflow_notify::alert::{Labels, Matcher};
//! use everflow_notify::dispatch::{Dispatch, Options, dispatch};
//! use everflow_notify::exchange::{Answer, Outcome, Reply, Step};
//! use everflow_notify::provider::{DeliveryContext, Secrets};
//!
//! let alert = Object::read(&json!({
//!     "metadata": {"name": "all", "namespace": "apps"},
//!     "spec": {"providerRef": {"name": "hook"}, "eventSources": [{"kind": "Kustomization", "name": "*"}]},
//! }))?;
//! let provider = Object::read(&json!({
//!     "metadata": {"name": "hook", "namespace": "apps"},
//!     "spec": {"type": "generic", "address": "https://hook.example/x"},
//! }))?;
//!
//! let mut event = Event::read(br#"{"involvedObject":{"kind":"Kustomization","namespace":"apps","name":"web"},
//!     "severity":"info","message":"applied","reason":"ReconciliationSucceeded"}"#)?;
//! event.clean();
//! // Here a deduplicator decides whether the event is new.
//! event.drop_token();
//! assert!(Matcher::new(&alert).matches(&event, Labels::Unavailable).is_match);
//!
//! let Dispatch::Send(notification) = dispatch(&event, &alert, Ok(&provider), &Options::default())? else {
//!     panic!("nothing is in the way");
//! };
//! let context = DeliveryContext::default();
//! let mut delivery = notification.delivery(&alert, &provider, &Secrets::default(), &context)?;
//! let Step::Send(request) = delivery.start() else {
//!     panic!("a webhook takes one request");
//! };
//! assert_eq!(request.shown(), "POST https://hook.example/x");
//! let answer = Answer { status: 204, ..Answer::default() };
//! assert_eq!(delivery.next(Reply::Answer(answer)), Step::Done(Outcome::Delivered));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod address;
pub mod alert;
pub mod attempt;
mod cel;
pub mod dedup;
pub mod dispatch;
mod error;
pub mod event;
pub mod exchange;
pub mod failure;
mod foreign;
mod git;
pub mod grouping;
mod json;
mod metadata;
pub mod provider;
pub mod receiver;
mod secret;
mod url;

pub use address::Address;
pub use error::Error;
pub use event::Event;
pub use metadata::Combined;
pub use secret::{Mask, Secret, SecretData};
