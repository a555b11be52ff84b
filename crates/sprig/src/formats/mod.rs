//! JSON, YAML and TOML as Helm's functions read and write them.

pub(crate) mod json;
mod json_read;
pub(crate) mod toml_read;
pub(crate) mod toml_write;
pub(crate) mod yaml;
