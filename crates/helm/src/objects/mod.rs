//! The objects that templates see beside their values.

mod capabilities;
mod files;
mod glob;

pub use capabilities::{Capabilities, KubeVersion, KubeVersionError};
pub use files::files;

use everflow_gotemplate::{GoType, NamedType};

/// `common.Values`, the type of `.Values` and `.Template`: a map that functions asking for a plain
/// `map[string]interface {}` by assertion do not take.
pub static VALUES_TYPE: NamedType = NamedType {
    name: "common.Values",
    underlying: GoType::ANY_MAP,
    methods: &[],
};
