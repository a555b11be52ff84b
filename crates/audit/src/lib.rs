//! What of a cluster would stop together, which of it could not be mended then, and the smallest
//! patch against each.
//!
//! Pure: objects come in, findings come out. The same rules look at a live cluster, at manifests and
//! at what a repository deploys; what needs nodes and pods says nothing where there are none.
//!
//! - [`roles`]: which workloads are critical, as data.
//! - [`Model`]: the objects, and how they belong together.
//! - [`Finding`]: what is wrong, with a [`Fix`] that was tried on the model.
//! - [`sarif`] and [`picture`]: the findings for other programs, and the nodes with what they carry.
#![forbid(unsafe_code)]

mod error;
mod finding;
mod fix;
mod model;
mod picture;
mod placement;
pub mod roles;
mod rules;
mod sarif;
mod selector;

use std::time::Duration;

pub use error::Error;
pub use finding::{Finding, Fix, Form, Rule, Severity};
pub use model::{Model, ObjectId};
pub use picture::picture;
pub use sarif::sarif;

/// What is known beside the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How long the API server took to answer, at worst; zero when nobody asked it.
    pub latency: Duration,
}

/// Everything that is wrong, worst first, each with a patch that mends it where there is one.
pub fn audit(model: &Model, options: &Options) -> Vec<Finding> {
    let mut findings = rules::find(model, options);
    for index in 0..findings.len() {
        let fix = fix::prove(model, options, &findings, index);
        findings[index].fix = fix;
    }
    findings
}
