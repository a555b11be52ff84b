//! `docs/commands` is what the program says of its own commands. `EVERFLOW_UPDATE=1` writes it anew.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files(directory: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return BTreeMap::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths
        .map(|path| (name(&path), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn pages_of_all_commands_are_those_of_the_program() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("commands-pages");
    let _ = std::fs::remove_dir_all(&made);
    std::fs::create_dir_all(&made).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(["man", "--markdown"])
        .arg(&made)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let made = files(&made);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands");
    if std::env::var_os("EVERFLOW_UPDATE").is_some() {
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in &made {
            std::fs::write(directory.join(name), text).unwrap();
        }
        return;
    }
    let there = files(&directory);
    let stale: Vec<&String> = made
        .keys()
        .chain(there.keys())
        .filter(|name| made.get(*name) != there.get(*name))
        .collect();
    assert!(
        stale.is_empty(),
        "docs/commands is not what the program says ({stale:?}); EVERFLOW_UPDATE=1 writes it anew"
    );
}
