//! Guided fuzzing of the readers that the crates list in `tests/hostile_input/readers.rs`. `run.sh` says how.
//!
//! `EVERFLOW_FUZZ` is `CRATE/READER`; with `EVERFLOW_FUZZ_SEEDS` instead, the seeds of all readers are written
//! below that directory.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::OnceLock;

use everflow_corpus::hostile::{Reader, Trial, found_in};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[cfg(feature = "api")]
#[path = "../../crates/api/tests/hostile_input/readers.rs"]
mod api;
#[cfg(feature = "build")]
#[path = "../../crates/build/tests/hostile_input/readers.rs"]
mod build;
#[cfg(feature = "cel")]
#[path = "../../crates/cel/tests/hostile_input/readers.rs"]
mod cel;
#[cfg(feature = "cluster")]
#[path = "../../crates/cluster/tests/hostile_input/readers.rs"]
mod cluster;
#[cfg(feature = "cosign")]
#[path = "../../crates/cosign/tests/hostile_input/readers.rs"]
mod cosign;
#[cfg(feature = "envsubst")]
#[path = "../../crates/envsubst/tests/hostile_input/readers.rs"]
mod envsubst;
#[cfg(feature = "fetch")]
#[path = "../../crates/fetch/tests/hostile_input/readers.rs"]
mod fetch;
#[cfg(feature = "git")]
#[path = "../../crates/git/tests/hostile_input/readers.rs"]
mod git;
#[cfg(feature = "gotemplate")]
#[path = "../../crates/gotemplate/tests/hostile_input/readers.rs"]
mod gotemplate;
#[cfg(feature = "helm")]
#[path = "../../crates/helm/tests/hostile_input/readers.rs"]
mod helm;
#[cfg(feature = "json")]
#[path = "../../crates/json/tests/hostile_input/readers.rs"]
mod json;
#[cfg(feature = "kustomize")]
#[path = "../../crates/kustomize/tests/hostile_input/readers.rs"]
mod kustomize;
#[cfg(feature = "merge")]
#[path = "../../crates/merge/tests/hostile_input/readers.rs"]
mod merge;
#[cfg(feature = "runtime")]
#[path = "../../crates/runtime/tests/hostile_input/readers.rs"]
mod runtime;
#[cfg(feature = "schema")]
#[path = "../../crates/schema/tests/hostile_input/readers.rs"]
mod schema;
#[cfg(feature = "semver")]
#[path = "../../crates/semver/tests/hostile_input/readers.rs"]
mod semver;
#[cfg(feature = "sops")]
#[path = "../../crates/sops/tests/hostile_input/readers.rs"]
mod sops;
#[cfg(feature = "tar")]
#[path = "../../crates/tar/tests/hostile_input/readers.rs"]
mod tar;
#[cfg(feature = "time")]
#[path = "../../crates/time/tests/hostile_input/readers.rs"]
mod time;
#[cfg(feature = "yaml")]
#[path = "../../crates/yaml/tests/hostile_input/readers.rs"]
mod yaml;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
static TRIAL: Trial = Trial::new(&MEMORY);
static CHOSEN: OnceLock<&'static Reader> = OnceLock::new();

type Readers = (&'static str, &'static [Reader]);

const ALL: &[Readers] = &{
    [
        #[cfg(feature = "api")]
        ("api", api::ALL),
        #[cfg(feature = "build")]
        ("build", build::ALL),
        #[cfg(feature = "cel")]
        ("cel", cel::ALL),
        #[cfg(feature = "cluster")]
        ("cluster", cluster::ALL),
        #[cfg(feature = "cosign")]
        ("cosign", cosign::ALL),
        #[cfg(feature = "envsubst")]
        ("envsubst", envsubst::ALL),
        #[cfg(feature = "fetch")]
        ("fetch", fetch::ALL),
        #[cfg(feature = "git")]
        ("git", git::ALL),
        #[cfg(feature = "gotemplate")]
        ("gotemplate", gotemplate::ALL),
        #[cfg(feature = "helm")]
        ("helm", helm::ALL),
        #[cfg(feature = "json")]
        ("json", json::ALL),
        #[cfg(feature = "kustomize")]
        ("kustomize", kustomize::ALL),
        #[cfg(feature = "merge")]
        ("merge", merge::ALL),
        #[cfg(feature = "runtime")]
        ("runtime", runtime::ALL),
        #[cfg(feature = "schema")]
        ("schema", schema::ALL),
        #[cfg(feature = "semver")]
        ("semver", semver::ALL),
        #[cfg(feature = "sops")]
        ("sops", sops::ALL),
        #[cfg(feature = "tar")]
        ("tar", tar::ALL),
        #[cfg(feature = "time")]
        ("time", time::ALL),
        #[cfg(feature = "yaml")]
        ("yaml", yaml::ALL),
    ]
};

fn target(crate_name: &str, reader: &Reader) -> String {
    format!("{crate_name}/{}", reader.name.replace(' ', "-"))
}

/// Writes the seeds of a reader, the texts that mean something to it, and what it once failed on.
fn write_seeds(crate_name: &str, reader: &Reader, directory: &Path) {
    let name = target(crate_name, reader);
    let below = directory.join(&name);
    std::fs::create_dir_all(&below).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let known = found_in(&crates.join(crate_name), reader.name);
    let seeds = [(reader.seeds)(), (reader.recorded)(), known].concat();
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(below.join(format!("seed-{number}")), seed).unwrap();
    }
    let quoted = |token: &&str| {
        let bytes = token.bytes().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    let words: String = reader.tokens.iter().map(quoted).collect();
    std::fs::write(below.with_extension("dict"), words).unwrap();
    println!("{name}");
}

fn choose() {
    let readers = ALL
        .iter()
        .flat_map(|(name, readers)| readers.iter().map(move |reader| (*name, reader)));
    if let Some(directory) = std::env::var_os("EVERFLOW_FUZZ_SEEDS") {
        for (name, reader) in readers {
            write_seeds(name, reader, Path::new(&directory));
        }
        std::process::exit(0);
    }
    let wanted = std::env::var("EVERFLOW_FUZZ").unwrap();
    let mut readers = readers.filter(|(name, reader)| target(name, reader) == wanted);
    let (_, reader) = readers.next().expect("EVERFLOW_FUZZ names no reader");
    // What is made once, such as tables, is not the input's.
    for seed in (reader.seeds)() {
        let _ = (reader.read)(&seed);
    }
    CHOSEN.set(reader).ok();
}

fuzz_target!(
    init: choose(),
    |data: &[u8]| {
        TRIAL.feed(CHOSEN.get().unwrap(), data);
    }
);
