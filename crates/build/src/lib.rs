//! What a Flux Kustomization builds to, as a pure function of its source.
//!
//! ```
//! use everflow_api::{kustomization::Kustomization, object::Object};
//! use everflow_build::{Request, build};
//! use everflow_kustomize::MemoryView;
//! use everflow_limits::Budget;
//!
//! let kustomization = Object::<Kustomization>::read(&everflow_json::json!({
//!     "metadata": {"namespace": "apps", "name": "shop"},
//!     "spec": {
//!         "interval": "10m", "prune": true, "path": "./deploy", "targetNamespace": "shop",
//!         "sourceRef": {"kind": "GitRepository", "name": "shop"},
//!         "postBuild": {"substitute": {"colour": "green"}},
//!     },
//! }))?;
//! let tree: MemoryView = [(
//!     "/deploy/settings.yaml",
//!     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '${colour}'}\n".as_bytes(),
//! )]
//! .into_iter()
//! .collect();
//! let built = build(&Request::new(&kustomization, &tree, &Budget::unlimited()))?;
//! assert_eq!(built.contents.objects()[0]["data"]["a"], "green");
//! assert_eq!(built.contents.objects()[0]["metadata"]["namespace"], "shop");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The steps are those of Flux: a kustomization file is made or changed (`generate`), kustomize
//! runs over the source and nothing outside of it (`mount`), secrets are decrypted (`decryption`),
//! variables are put in (`substitute`),
//! the digest is taken over the YAML of the result, and labels and annotations are added
//! (`finish`). Where something fails, the file and line are looked for (`place`). All of it works under
//! the budget of the request.
#![forbid(unsafe_code)]

mod build;
mod decryption;
mod error;
mod finish;
mod generate;
mod mount;
mod place;
mod placeholder;
mod substitute;

pub use build::{Built, Contents, EmptyBecause, ProvenEmpty, Request, Warning, build, places};
pub use error::Error;
pub use everflow_sops::Keys;
pub use place::Place;
pub use placeholder::{PLACEHOLDER, of_variable as placeholder_of};
pub use substitute::add_variables;
