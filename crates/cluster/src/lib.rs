//! A Kubernetes API server as a library.
//!
//! [`ApiServer::handle`] answers one request, purely and synchronously; a watch is answered with a stream that is read
//! from the store's log. Around it stand the in-process client service and the HTTPS server. Time and randomness come
//! from an [`env::Environment`].

#![forbid(unsafe_code)]

pub mod admission;
pub mod auth;
mod bootstrap;
pub mod codec;
pub mod controllers;
pub mod crd;
pub mod discovery;
pub mod env;
pub mod faults;
pub mod kinds;
pub mod negotiate;
pub mod openapi;
pub mod resource;
pub mod rest;
pub mod server;
pub mod server_core;
pub mod service;
pub mod store;
mod tree;

pub use everflow_builtins::{field, status, time};
pub use rest::request::{Answer, Body, Request};
pub use server::{Authority, Tls, kubeconfig, serve};
pub use server_core::{ApiServer, Options};
pub use service::ApiService;
