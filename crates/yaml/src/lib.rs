//! YAML as the Go tools of the Kubernetes world read and write it.
//!
//! Two dialects share one parser and one tree: [`Dialect::Sigs`] (go-yaml v2 rules, what
//! `sigs.k8s.io/yaml` gives kubectl, helm and Flux) and [`Dialect::Kyaml`] (go-yaml v3 rules, what
//! kustomize reads with kyaml).
//!
//! - [`sigs::yaml_to_json`] reads a manifest into plain JSON, [`Loader`] into a tree with positions,
//!   styles and comments, [`documents`] cuts streams the way each tool does.
//! - [`kyaml`] expands aliases and converts between trees and JSON as kustomize does.
//! - [`walk`] goes over documents that are too large to be held as a whole.
//! - [`cost`] says what trees and texts take in memory.
//! - [`emit`] prints, and [`gojson`] writes JSON text as Go does.
#![forbid(unsafe_code)]

pub mod cost;
mod decode;
pub mod documents;
pub mod emit;
mod error;
pub mod gojson;
pub mod kyaml;
mod load;
mod node;
mod read;
pub mod sigs;
pub mod walk;

pub use error::{Error, Limit};
pub use load::{Document, Limits, Loader, parse_documents};
pub use node::{
    Comments, Dialect, Entry, Extras, Mapping, Node, Position, Scalar, ScalarKind, Style, Value,
};
