//! A GitOps repository brought up with no cluster.
//!
//! - [`tree`]: the files of the repository.
//! - [`entry`]: where it begins.
//! - [`kinds`]: the kinds that it uses and nobody defines.
//! - `neighbours`: definitions of Flux's kinds, and of those beside them.
//! - [`services`]: the addresses that its Services ask for.
//! - [`flux`]: the Flux that it installs.
//! - [`gates`]: the feature gates that it says its clusters have.
//! - [`stand_in`]: directories on this machine that stand for sources.
//! - [`skipped_release`]: HelmReleases whose charts are left out.
//! - [`cache`]: what was fetched before, kept between runs.
//! - [`references`]: references to objects that do not exist.
//! - [`release`]: what a HelmRelease applies.
//! - [`applied`]: the manifest that was applied, from the object that the server keeps.
//! - [`golden`]: rendered manifests as text.
//! - [`git`]: the files of a commit.
//! - [`picture`]: what there is, how it stands and why.
//! - [`world`]: a cluster in memory with the controllers that ship.

#![forbid(unsafe_code)]

pub mod applied;
pub mod cache;
pub mod entry;
mod error;
pub mod flux;
pub mod gates;
pub mod git;
pub mod golden;
pub mod kinds;
mod neighbours;
mod operators;
mod pack;
pub mod picture;
pub mod references;
pub mod release;
pub mod remote;
pub mod services;
pub mod skipped_release;
pub mod stand_in;
pub mod tree;
pub mod world;

pub use error::Error;
