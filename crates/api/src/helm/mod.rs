//! HelmRelease: `helm.toolkit.fluxcd.io/v2`.

mod actions;
mod snapshot;
mod spec;
mod status;

pub use actions::*;
pub use snapshot::*;
pub use spec::*;
pub use status::*;
