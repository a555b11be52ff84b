//! YAML as the Go tools of the Kubernetes world read and write it.
//!
//! Two dialects share one parser and one tree: [`Dialect::Sigs`] (go-yaml v2 rules, what
//! `sigs.k8s.io/yaml` gives kubectl, helm and Flux) and [`Dialect::Kyaml`] (go-yaml v3 rules, what
//! kustomize reads with kyaml).
#![forbid(unsafe_code)]

pub mod emit;
pub mod gojson;
mod node;

pub use node::{
    Comments, Dialect, Entry, Extras, Mapping, Node, Position, Scalar, ScalarKind, Style, Value,
};
