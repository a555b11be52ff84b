//! Recorded trees with random changes: no panic, and the same bounds.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use everflow_json::Value;
use everflow_kustomize::{MemoryView, Options, Plugins, build};
use everflow_limits::{Budget, Stop};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{MEMORY, SHARE, SLACK, alone};

/// What a recording builds: its directory and its files.
struct Tree {
    directory: String,
    files: Vec<(String, Vec<u8>)>,
}

fn add_files(files: &mut Vec<(String, Vec<u8>)>, directory: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            add_files(files, &entry.path(), &path);
        } else if kind.is_file() {
            files.push((path, std::fs::read(entry.path()).unwrap()));
        }
    }
}

fn trees() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    TREES.get_or_init(|| {
        let Some(root) = everflow_corpus::find("kustomize") else {
            return Vec::new();
        };
        let mut cases: Vec<_> = std::fs::read_dir(root.join("cases"))
            .unwrap()
            .flatten()
            .collect();
        cases.sort_by_key(std::fs::DirEntry::file_name);
        let load = |case: &std::fs::DirEntry| {
            let path = case.path();
            let settings = std::fs::read(path.join("case.json")).ok()?;
            let settings: Value = everflow_json::from_slice(&settings).unwrap();
            let mut files = Vec::new();
            add_files(&mut files, &path.join("input"), "");
            let directory = settings["dir"].as_str().unwrap_or_default();
            (!files.is_empty()).then(|| Tree {
                directory: format!("/{directory}"),
                files,
            })
        };
        cases.iter().filter_map(load).collect()
    })
}

/// A change to one file of a tree.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Cut(Index, u8),
    Repeat(Index, u8, u16),
    Insert(Index, &'static str),
    /// The content of another file of any tree.
    Other(Index, Index),
}

const PARTS: [&str; 22] = [
    "&a ",
    "*a",
    "<<: *a\n",
    "\0",
    "\u{feff}",
    "[",
    "{",
    "- ",
    "? ",
    "---\n",
    "null",
    "$(V)",
    "|-\n",
    "\t",
    "kind: List\nitems:\n",
    "resources: [.]\n",
    "$patch: delete\n",
    "!!str ",
    "components: [..]\n",
    "buildMetadata: [originAnnotations, transformerAnnotations]\n",
    "namePrefix: x-\n",
    "- ../",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, count)| Change::Cut(at, count)),
        (any::<Index>(), any::<u8>(), 1..3_000_u16)
            .prop_map(|(at, count, times)| Change::Repeat(at, count, times)),
        (any::<Index>(), prop::sample::select(PARTS.to_vec()))
            .prop_map(|(at, part)| Change::Insert(at, part)),
        (any::<Index>(), any::<Index>()).prop_map(|(tree, file)| Change::Other(tree, file)),
    ]
}

fn changed(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Byte(at, byte) if !content.is_empty() => {
            let at = at.index(content.len());
            content[at] = *byte;
        }
        Change::Cut(at, count) | Change::Repeat(at, count, _) => {
            // Whole lines are repeated: that is what makes lists and maps longer.
            let from = at.index(content.len() + 1);
            let from = content[..from]
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
            let to = (from + usize::from(*count)).min(content.len());
            let to = content[to..]
                .iter()
                .position(|b| *b == b'\n')
                .map_or(content.len(), |at| to + at + 1);
            let times = match change {
                Change::Repeat(_, _, times) => usize::from(*times),
                _ => 0,
            };
            let part = content[from..to].repeat(times);
            content.splice(from..to, part);
        }
        Change::Insert(at, part) => {
            let at = at.index(content.len() + 1);
            content.splice(at..at, part.bytes());
        }
        Change::Other(tree, file) => {
            let other = &trees()[tree.index(trees().len())];
            let (_, other) = &other.files[file.index(other.files.len())];
            content.clone_from(other);
        }
        Change::Byte(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn changed_recordings_build_or_fail_within_bounds(
        tree in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), change()), 1..6),
    ) {
        if trees().is_empty() {
            return Ok(());
        }
        let _alone = alone();
        let tree = &trees()[tree.index(trees().len())];
        let mut files = tree.files.clone();
        for (file, change) in &changes {
            let file = file.index(files.len());
            changed(&mut files[file].1, change);
        }
        let view: MemoryView = files.into_iter().collect();
        let (before, started) = (MEMORY.current_usage(), Instant::now());
        MEMORY.reset_peak_usage();
        let budget = Budget::new(Stop::new(), SHARE as u64);
        let output = build(&view, &tree.directory, &Options::default(), Plugins::default(), &budget);
        let _ = output.and_then(|output| output.to_yaml_within(&budget));
        let peak = MEMORY.peak_usage().saturating_sub(before);
        prop_assert!(peak <= SLACK * SHARE, "{} MB", peak >> 20);
        prop_assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
