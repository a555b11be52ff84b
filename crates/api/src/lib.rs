//! The kinds of Flux 2.9: what they are made of, how they are read and written without loss, and
//! the definitions that an API server wants of them.
//!
//! Each kind is declared once; its Rust type, its reading and writing and its
//! CustomResourceDefinition follow from that declaration ([`describe`]). Stores keep objects as
//! JSON and look into them with [`view`]; an attempt makes an [`object::Object`] of one.

#![forbid(unsafe_code)]

#[macro_use]
mod macros;

pub mod common;
pub mod condition;
pub mod crd;
pub mod describe;
pub mod error;
pub mod go_json;
pub mod helm;
pub mod history;
pub mod inventory;
pub mod kustomization;
pub mod names;
pub mod notification;
pub mod object;
pub mod reason;
pub mod source;
pub mod view;
pub mod wire;

pub use crd::{KINDS, crds};
pub use error::{ApiError, FieldError};
pub use object::{Kind, Object};
pub use reason::Reason;
pub use wire::to_value;
