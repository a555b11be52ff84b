//! What the command line says about the repository, opened.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use everflow_env::{Clock, Disk, RealDisk, SystemClock};
use everflow_local::entry::{self, Entry};
use everflow_local::kinds::{self, MissingKind};
use everflow_local::stand_in::{Mapped, Repository, StandIns};
use everflow_local::tree::{Tree, read_objects, shown};
use everflow_local::world::Plan;
use everflow_runtime::log::{Encoding, Level, Logger};
use serde_json::Value;

use super::Common;
use crate::exit::Failure;

/// A repository with all that was said about it.
pub struct Opened {
    /// Its files.
    pub tree: Tree,
    /// Where it begins.
    pub entry: Entry,
    /// Kinds that it uses and nobody defines.
    pub missing: Vec<MissingKind>,
    assumed: bool,
    remote: Option<String>,
    used: BTreeSet<(String, String)>,
    mapped: Vec<Mapped>,
    given: Vec<Value>,
}

/// Opens the repository; with other files than those in the directory when `tree` has some.
pub fn open(options: &Common, tree: Option<Tree>) -> Result<Opened, Failure> {
    let on_disk = open_tree(&options.path)?;
    let remote = on_disk
        .text(".git/config")
        .and_then(|text| entry::remote_in(&text));
    let tree = tree.unwrap_or(on_disk);
    let contents = tree
        .contents()
        .map_err(|error| Failure::Work(error.to_string()))?;
    let wanted = options.entry.as_deref();
    let chosen = entry::choose(&tree, &contents, wanted, remote.as_deref());
    let entry = chosen.map_err(|error| Failure::Usage(error.to_string()))?;
    let mut mapped = Vec::new();
    for text in &options.sources {
        let parsed = Mapped::parse(text).map_err(|error| Failure::Usage(error.to_string()))?;
        let (kind, name, directory) = parsed;
        let tree = open_tree(&directory)?;
        mapped.push(Mapped { kind, name, tree });
    }
    let mut given = Vec::new();
    for directory in &options.crds {
        given.extend(definitions(directory)?);
    }
    for file in &options.with {
        given.extend(objects(file)?);
    }
    let used = Repository::used(&tree, &contents);
    let missing = kinds::missing(&contents, &|group, kind| {
        is_known(group, kind) || given.iter().any(|object| defines(object, group, kind))
    });
    Ok(Opened {
        tree,
        entry,
        missing,
        assumed: options.assume_crds,
        remote,
        used,
        mapped,
        given,
    })
}

impl Opened {
    /// The world that the repository wants.
    pub fn plan(&self, options: &Common) -> Plan {
        let mut first: Vec<Value> = self.given.clone();
        if self.assumed {
            first.extend(self.missing.iter().map(MissingKind::assumed));
        }
        first.extend(self.entry.objects.iter().cloned());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = match options.verbose {
            true => Logger::to_stderr(clock, Level::Info, Encoding::Console),
            false => Logger::silent(clock),
        };
        Plan {
            first,
            stand_ins: StandIns {
                repository: Some(Repository {
                    tree: self.tree.clone(),
                    remote: self.remote.clone(),
                    source: self.entry.source.clone(),
                    used: self.used.clone(),
                }),
                mapped: self.mapped.clone(),
                offline: options.offline,
            },
            workload_delay: options.workload_delay,
            log,
        }
    }

    /// What is brought up, for the reader.
    pub fn introduction(&self) -> String {
        let directory = shown(&self.entry.directory);
        format!("► bringing up {directory} ({})\n", self.entry.why)
    }

    /// The kinds that are missing, and who needs them.
    pub fn lacking(&self) -> String {
        let mut text = String::new();
        if self.missing.is_empty() {
            return text;
        }
        text += match self.assumed {
            true => "kinds that nobody defines, accepted without a schema:\n",
            false => {
                "kinds that nobody defines (--crds DIR adds definitions, --assume-crds accepts them):\n"
            }
        };
        for missing in &self.missing {
            let versions: Vec<&str> = missing.versions.iter().map(String::as_str).collect();
            let (shown, more) = match missing.users.len() {
                0..=3 => (missing.users.len(), String::new()),
                all => (3, format!(" and {} more", all - 3)),
            };
            text += &format!(
                "  {}/{} {}: {}{more}\n",
                missing.group,
                versions.join(","),
                missing.kind,
                missing.users[..shown].join(", ")
            );
        }
        text
    }
}

fn open_tree(directory: &Path) -> Result<Tree, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{}: {why}; it must be a directory",
            directory.display()
        ))
    };
    if !directory.is_dir() {
        return Err(refused(&"not found"));
    }
    let disk = RealDisk::new(directory).map_err(|error| refused(&error))?;
    Ok(Tree::new(Arc::new(disk) as Arc<dyn Disk>))
}

/// The definitions in a directory or file.
fn definitions(path: &Path) -> Result<Vec<Value>, Failure> {
    let mut found = match path.is_dir() {
        false => objects(path)?,
        true => {
            let contents = open_tree(path)?.contents();
            let contents = contents.map_err(|error| Failure::Work(error.to_string()))?;
            contents
                .objects
                .into_iter()
                .map(|found| found.object)
                .collect()
        }
    };
    found.retain(|object| object["kind"] == "CustomResourceDefinition");
    match found.is_empty() {
        true => Err(Failure::Usage(format!(
            "--crds {}: there is no CustomResourceDefinition in it",
            path.display()
        ))),
        false => Ok(found),
    }
}

fn objects(file: &Path) -> Result<Vec<Value>, Failure> {
    let refused =
        |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(&error))?;
    read_objects(&text).map_err(|error| refused(&error))
}

fn defines(object: &Value, group: &str, kind: &str) -> bool {
    object["kind"] == "CustomResourceDefinition"
        && object["spec"]["group"] == group
        && object["spec"]["names"]["kind"] == kind
}

/// Whether the embedded API server or Flux defines a kind.
fn is_known(group: &str, kind: &str) -> bool {
    let built_in = everflow_schema::builtin().resources();
    everflow_api::crd::kind(Some(group), kind).is_some()
        || built_in
            .iter()
            .any(|known| known.group == group && known.kind == kind)
}
