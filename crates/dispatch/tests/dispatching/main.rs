//! The dispatcher and the servers against an API server in memory and stand-ins for providers.

#![allow(clippy::unwrap_used)]

mod events;
mod leaks;
mod slow;
mod tokens;
mod webhooks;
mod world;
