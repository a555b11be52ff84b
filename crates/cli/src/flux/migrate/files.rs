//! Manifests in files: their `apiVersion` is replaced, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use super::Args;
use crate::exit::Failure;
use crate::flux::kinds::KINDS;
use crate::flux::{confirm, say};

/// Versions of Flux whose latest API versions are known.
const KNOWN: [&str; 4] = ["2.9", "2.8", "2.7", "2.6"];
/// How deep directories may nest.
const DEEPEST: usize = 100;

/// A line that names an old version.
struct Upgrade {
    line: usize,
    old: String,
    new: String,
}

pub fn migrate(args: &Args, path: &str) -> Result<(), Failure> {
    if !args.version.is_empty() && !KNOWN.contains(&args.version.as_str()) {
        return Err(Failure::Work(format!(
            "version {} is not supported, supported versions are: {}",
            args.version,
            KNOWN.join(", ")
        )));
    }
    say::action("starting migration of custom resources");
    let mut upgrades = Vec::new();
    for file in files(args, Path::new(path))? {
        let content = read(&file)?;
        let found = find(&content, &args.version, &file);
        if !found.is_empty() {
            upgrades.push((file, found));
        }
    }
    if upgrades.is_empty() {
        say::success("no custom resources found that require migration");
        return Ok(());
    }
    if args.dry_run {
        say::success("dry-run mode enabled, no changes will be made");
        return Ok(());
    }
    if !args.yes {
        confirm::ask("Are you sure you want to proceed with the above upgrades")?;
    }
    for (file, upgrades) in &upgrades {
        rewrite(file, upgrades)?;
        say::success(&format!("file {} migrated successfully", file.display()));
    }
    say::success("custom resources migrated successfully");
    Ok(())
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::Work(format!("failed to read file {file}: {error}"))
    })
}

fn files(args: &Args, path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shown = path.display();
    let meta = fs::metadata(path)
        .map_err(|error| Failure::Work(format!("failed to stat path {shown}: {error}")))?;
    let mut found = Vec::new();
    if meta.is_dir() {
        below(args, path, 0, &mut found)?;
        return Ok(found);
    }
    match fits(args, path) {
        true => Ok(vec![path.to_owned()]),
        false => Err(Failure::Work(format!(
            "file {shown} does not match the specified extensions: {}",
            args.extensions.join(", ")
        ))),
    }
}

fn fits(args: &Args, path: &Path) -> bool {
    let name = path.to_string_lossy();
    args.extensions
        .iter()
        .any(|end| name.ends_with(end.as_str()))
}

fn below(args: &Args, path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > DEEPEST {
        return Err(Failure::Work(format!(
            "{}: directories are nested more than {DEEPEST} levels deep",
            path.display()
        )));
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort_unstable();
    for entry in entries {
        let meta = fs::symlink_metadata(&entry)?;
        if meta.is_dir() {
            below(args, &entry, depth + 1, found)?;
        } else if fits(args, &entry) {
            match meta.is_file() {
                true => found.push(entry),
                false => say::warning(&format!("skipping irregular file {}", entry.display())),
            }
        }
    }
    Ok(())
}

/// Lines with an `apiVersion` that is not the latest, with the kind on the line after.
fn find(content: &str, version: &str, file: &Path) -> Vec<Upgrade> {
    let value = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        let word = rest.split_whitespace().next()?;
        Some(word.to_owned())
    };
    let lines: Vec<&str> = content.lines().collect();
    let mut upgrades = Vec::new();
    for (line, pair) in lines.windows(2).enumerate() {
        let Some(api_version) = value(pair[0], "apiVersion: ") else {
            continue;
        };
        let Some(kind) = value(pair[1], "kind: ") else {
            continue;
        };
        let Some((group, old)) = api_version.split_once('/') else {
            continue;
        };
        let Some(new) = latest(group, &kind, version).filter(|new| *new != old) else {
            continue;
        };
        let shown = file.display();
        say::generation(&format!("{shown}:{}: {kind} {old} -> {new}", line + 1));
        upgrades.push(Upgrade {
            line,
            old: old.to_owned(),
            new: new.to_owned(),
        });
    }
    upgrades
}

/// The latest version of a kind in a version of Flux.
fn latest(group: &str, kind: &str, version: &str) -> Option<&'static str> {
    let known = KINDS
        .iter()
        .find(|known| known.resource.group == group && known.name() == kind)?;
    if version == "2.6" {
        if group.starts_with("image.") {
            return Some("v1beta2");
        }
        if kind == "ArtifactGenerator" {
            return None;
        }
    }
    Some(known.resource.version.as_str())
}

fn rewrite(file: &Path, upgrades: &[Upgrade]) -> Result<(), Failure> {
    let content = read(file)?;
    let mut lines: Vec<String> = content.split('\n').map(str::to_owned).collect();
    for upgrade in upgrades {
        if let Some(line) = lines.get_mut(upgrade.line) {
            let (old, new) = (format!("/{}", upgrade.old), format!("/{}", upgrade.new));
            *line = line.replacen(&old, &new, 1);
        }
    }
    fs::write(file, lines.join("\n")).map_err(|error| {
        let file = file.display();
        Failure::Work(format!("failed to write file {file}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_of_kinds_of_flux_are_found() {
        let text = "apiVersion: kustomize.toolkit.fluxcd.io/v1beta2\nkind: Kustomization\n---\n\
                    apiVersion: apps/v1beta1\nkind: Deployment\n---\n\
                    apiVersion: image.toolkit.fluxcd.io/v1beta2\nkind: ImagePolicy # x\n";
        let found = find(text, "", Path::new("a.yaml"));
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.line, one.new.as_str()))
            .collect();
        assert_eq!(shown, [(0, "v1"), (6, "v1")]);
        assert_eq!(find(text, "2.6", Path::new("a.yaml")).len(), 1);
    }
}
