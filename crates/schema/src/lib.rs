//! What Kubernetes knows of its own kinds, and the schema model that custom resources share.
//!
//! [`builtin`] holds every group, version and kind of the supported Kubernetes release: fields
//! with their types, merge rules, defaults and protobuf numbers, and every resource with its
//! verbs, subresources and table columns. [`Schema`] holds the structural schema of a custom
//! resource in the same model, so merging, applying, validating, pruning, defaulting and printing
//! work on one type for both.

#![forbid(unsafe_code)]

pub mod crd;
pub mod data;
mod error;
mod fields;
pub mod go_json;
mod go_text;
pub mod gotypes;
mod json_text;
pub mod model;
pub mod names;
pub mod openapi;
pub mod protobuf;
pub mod quantity;
pub mod registry;
pub mod schema;
pub mod selectors;
pub mod structural;
mod time;
pub mod validation;

pub use error::Error;
pub use fields::Fields;
pub use model::{
    Field, JsonType, ListKind, ListType, MapType, ObjectType, PatchRule, ScalarKind, Shape, Type,
    TypeId, TypeTable, WireEncoding, WireField,
};
pub use registry::{
    Column, Group, Kind, Registry, Resource, Subresource, builtin, split_api_version,
};
pub use schema::{Schema, SchemaView};
pub use validation::{CelRule, Validation};
