//! Webhooks: the controller of Receivers, and the server that is called.

mod controller;
mod keys;
mod server;
mod waker;

pub use controller::ReceiverController;
pub use server::ReceiverServer;
