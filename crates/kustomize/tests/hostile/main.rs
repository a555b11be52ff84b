//! Trees that are meant to hurt: an error that says what there is too much of, in bounded memory and time.
#![allow(clippy::unwrap_used)]

mod memory;
mod paths;
mod random;
mod time;

use std::sync::{Mutex, MutexGuard, PoisonError};

use everflow_kustomize::{Error, MemoryView, Options, Plugins, build};
use everflow_limits::{Budget, Stop};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How much a build may use here.
const SHARE: usize = 16 << 20;

/// What estimates may be wrong by: texts and lists grow by doubling, and a step may look at an object in
/// two or three forms at once.
const SLACK: usize = 3;

pub const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n";

/// Memory and time are measured for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files by their names; a name without a directory is in `/app`.
fn view<T: AsRef<str>>(files: &[(&str, T)]) -> MemoryView {
    files
        .iter()
        .map(|(path, text)| {
            let path = match path.contains('/') {
                true => format!("/{path}"),
                false => format!("/app/{path}"),
            };
            (path, text.as_ref().as_bytes())
        })
        .collect()
}

fn built(view: &MemoryView, budget: &Budget) -> Result<String, Error> {
    let options = Options::default();
    let output = build(view, "/app", &options, Plugins::default(), budget)?;
    output.to_yaml_within(budget)
}

/// Builds `/app` with little memory. That it takes much more than it may is a failure.
fn built_within_share(view: &MemoryView) -> Result<String, Error> {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let budget = Budget::new(Stop::new(), SHARE as u64);
    let result = built(view, &budget);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(
        peak <= SLACK * SHARE,
        "{} MB with {:?}",
        peak >> 20,
        result.as_ref().map(String::len)
    );
    result
}
