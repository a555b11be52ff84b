//! `kustomize build` as a pure library over a read-only view of files.
//!
//! ```
//! use everflow_kustomize::{MemoryView, Options, Plugins, build};
//! use everflow_limits::Budget;
//! let view: MemoryView = [
//!     ("/app/kustomization.yaml", "namePrefix: dev-\nresources: [map.yaml]\n".as_bytes()),
//!     ("/app/map.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"),
//! ]
//! .into_iter()
//! .collect();
//! let budget = Budget::unlimited();
//! let output = build(&view, "/app", &Options::default(), Plugins::default(), &budget)?;
//! assert_eq!(
//!     output.to_yaml()?,
//!     "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dev-settings\n"
//! );
//! # Ok::<(), everflow_kustomize::Error>(())
//! ```
//!
//! A build reads a kustomization and what it names (`target`), keeps the objects in a
//! map that is indexed by identity (`resmap`), runs generators and transformers over them
//! (`generate`, `transform`), and brings references to renamed objects up to date at the end
//! (`transform::name_references`). Cost grows with the size of the input, not with its square; what
//! grows beyond it is charged to a budget, which every loop over foreign input asks (`meter`).
#![forbid(unsafe_code)]

mod accumulator;
mod build;
mod cache;
mod check;
mod config;
mod crds;
mod decode;
mod error;
mod fieldspec;
mod generate;
mod kustomization;
mod labels;
mod loader;
mod merge;
mod meter;
mod node_ops;
mod options;
mod origin;
mod path;
pub mod paths;
mod pattern;
mod plugins;
mod reader;
mod remote;
mod replacement;
mod resid;
mod resmap;
mod resource;
mod schema;
mod selector;
mod target;
mod transform;
mod vars;
mod view;
mod yaml_io;

pub use build::{BuiltObject, Output, build, build_cached};
pub use cache::Cache;
pub use check::{check_objects, read_kustomization};
pub use error::{Error, Excess, Result};
pub use kustomization::{FILE_NAMES, HelmChart, HelmGlobals};
pub use options::{
    FILES_FLAG, HelmCharts, Limits, LoadRestriction, OBJECTS_FLAG, Options, Plugins, ReadFile,
    Release, RemoteFiles, Reorder,
};
pub use remote::{RepoUrl, is_remote};
pub use resid::{Gvk, ResId};
pub use view::{FileView, Located, MemoryView, TreeView, ViewError};
