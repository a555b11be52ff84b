//! The recordings that come with the repository, unpacked for tests.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::read::GzDecoder;

/// Everything that was recorded for this project. The trees of other projects (kustomize's test inputs, public
/// charts) are not here.
const ARCHIVES: [&[u8]; 6] = [
    include_bytes!("../recordings/apiserver.tar.gz"),
    include_bytes!("../recordings/flux.tar.gz"),
    include_bytes!("../recordings/helm-charts.tar.gz"),
    include_bytes!("../recordings/helm-functions.tar.gz"),
    include_bytes!("../recordings/helm-values.tar.gz"),
    include_bytes!("../recordings/yaml.tar.gz"),
];

/// The directory with the unpacked recordings, below the build directory. It is named by what is in it, made
/// once, and appears whole or not at all: tests of several processes ask for it at the same time.
pub(crate) fn unpacked() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| match unpack() {
        Ok(directory) => directory,
        Err(error) => panic!("the recordings cannot be unpacked below target/: {error}"),
    })
}

fn unpack() -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for archive in ARCHIVES {
        hasher.write(archive);
    }
    let root = build_directory();
    let directory = root.join(format!("recordings-{:016x}", hasher.finish()));
    if directory.is_dir() {
        return Ok(directory);
    }
    let making = root.join(format!("recordings-{}.tmp", std::process::id()));
    std::fs::create_dir_all(&making)?;
    for archive in ARCHIVES {
        tar::Archive::new(GzDecoder::new(archive)).unpack(&making)?;
    }
    match std::fs::rename(&making, &directory) {
        Ok(()) => Ok(directory),
        // Another process was first.
        Err(_) if directory.is_dir() => {
            let _ = std::fs::remove_dir_all(&making);
            Ok(directory)
        }
        Err(error) => Err(error),
    }
}

/// `target`, wherever it is: tests run from `target/PROFILE/deps`.
fn build_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program
        .ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").is_file());
    target.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        Path::to_path_buf,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_every_area_are_unpacked() {
        let directory = unpacked();
        for name in [
            "apiserver/scenarios",
            "flux/helmrelease",
            "helm/charts/_defaults.json",
            "helm/functions/funcmap.json",
            "helm/values/strvals.jsonl",
            "yaml/load.jsonl",
        ] {
            assert!(directory.join(name).exists(), "{name}");
        }
    }
}
