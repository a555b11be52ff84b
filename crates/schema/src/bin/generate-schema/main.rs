//! Writes the committed facts about Kubernetes' own kinds.
//!
//! `real/schema.sh` runs it with the documents of a real API server and the Go modules that
//! declare the same types.

#![forbid(unsafe_code)]

mod discovery;
mod golang;
mod openapi;
mod pack;
mod proto;
mod wire;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use everflow_json::Value;
use everflow_schema::registry::Facts;

/// Any failure ends the run with its message.
pub type Failure = Box<dyn Error>;

const USAGE: &str = "usage: generate-schema DOCUMENTS MODULES OUTPUT
  DOCUMENTS  directory with what a kube-apiserver published
  MODULES    directory with one directory (or link) per Go module: api, apimachinery,
             apiextensions-apiserver, kube-aggregator
  OUTPUT     directory for builtin.bin and openapi.bin";

fn main() -> Result<(), Failure> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [documents, modules, output] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let definitions = openapi::read_definitions(documents)?;
    let mut table = openapi::Builder::new(&definitions).build()?;
    wire::add(&mut table, modules)?;
    let (groups, resources) = discovery::read(documents)?;
    let facts = Facts {
        kubernetes_version: version(documents)?.into(),
        kinds: openapi::kinds(&definitions, &table)?,
        types: table,
        groups,
        resources,
    };
    fs::write(output.join("builtin.bin"), pack::pack(&facts)?)?;
    let published = openapi::documents(documents)?;
    fs::write(output.join("openapi.bin"), pack::pack(&published)?)?;
    Ok(())
}

/// Reads one JSON document.
pub fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(everflow_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn version(documents: &Path) -> Result<String, Failure> {
    let version = read_json(&documents.join("version.json"))?;
    let text = version["gitVersion"]
        .as_str()
        .ok_or("version.json has no gitVersion")?;
    Ok(text.trim_start_matches('v').to_owned())
}
