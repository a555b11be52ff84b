//! Where the recordings are.

use std::path::{Path, PathBuf};

/// A file or directory of the recordings; says what is skipped when they are not there.
pub fn file(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("EVERFLOW_CORPUS")
        .map(PathBuf::from)
        .or_else(|| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .ancestors()
                .map(|directory| directory.join("shared/corpus"))
                .find(|directory| directory.is_dir())
        })
        .map(|directory| directory.join(name))
        .filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no recordings of {name} (set EVERFLOW_CORPUS)");
    }
    found
}
