//! Checks of the built-in kinds, worded and ordered as the real server's. One file per group of kinds; the vocabulary
//! they share is in [`super::at`] and [`super::names`].

pub mod admission;
pub mod autoscaling;
pub mod batch;
pub mod claims;
pub mod config;
pub mod container;
pub mod cron;
pub mod endpoints;
pub mod env;
pub mod events;
pub mod limits;
pub mod network;
pub mod node;
pub mod pod;
pub mod policy;
pub mod rbac;
pub mod resources;
pub mod scheduling;
pub mod security;
pub mod service;
pub mod status;
pub mod storage;
pub mod volumes;
pub mod warnings;
pub mod workloads;

use everflow_json::Value;

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
