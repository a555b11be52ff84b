//! `everflow install` and `uninstall`, and what a FluxInstance stands for.

mod apply;
mod instance;
mod options;
mod parts;
mod secret;
mod uninstall;
mod verb;

pub use instance::{BuildArgs, DiffArgs, build as build_instance, diff as diff_instance};
pub use uninstall::{Args as UninstallArgs, run as uninstall};
pub use verb::{Args, run};

/// Who applies the objects of an installation, as with flux.
const MANAGER: &str = "flux";
