//! The objects that templates see beside their values.

mod capabilities;
mod files;
mod glob;
mod values;

pub use capabilities::{Capabilities, KubeVersion, KubeVersionError};
pub use files::files;
pub use values::VALUES_TYPE;
