//! What a FluxInstance (`fluxcd.controlplane.io/v1`) stands for: an installation, its sync, and its patches.
//!
//! Patches were written for Flux's Deployments. So they are applied to stand-ins that look as Flux's Deployments do,
//! and what they changed there is carried over to our Deployment (`carry`). Where several controllers were given
//! different things, one rule decides: the larger of two numbers or quantities, else what the last patch said.

mod built;
mod carry;
mod changes;
mod definitions;
mod flags;
mod live;
mod patches;
mod spec;
mod stand_ins;
mod sync;

pub use built::{Built, build};
pub(crate) use definitions::definitions;
pub use flags::{FEATURE_GATES, FLAGS, Meaning};
pub use live::{Carried, carry_live};

/// A quantity of Kubernetes as a number; `None` when it is none.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}
