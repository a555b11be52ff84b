//! What the command line says about the repository, opened.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use everflow_controllers::Fingerprint;
use everflow_env::{Clock, Disk, RealDisk, SystemClock};
use everflow_json::{Value, json};
use everflow_local::cache::SourceCache;
use everflow_local::entry::{self, Entry, FLUX_SYSTEM, Reach};
use everflow_local::flux::{self, Installed};
use everflow_local::gates::{self, Gate};
use everflow_local::kinds::{self, FormerVersion, MissingKind};
use everflow_local::remote::Remote;
use everflow_local::services;
use everflow_local::stand_in::{Mapped, Repository, StandIns};
use everflow_local::tree::{Tree, read_objects, shown};
use everflow_local::world::Plan;
use everflow_runtime::log::{Encoding, Level, Logger};

use super::Common;
use crate::exit::Failure;

/// How many things that are left out are named.
const NAMED: usize = 5;
/// The Secret with the keys of `--age-key`.
const AGE_KEYS: &str = "everflow-age-keys";

/// A repository with all that was said about it.
pub struct Opened {
    /// Its files.
    pub tree: Tree,
    /// Where it begins.
    pub entry: Entry,
    /// Kinds that it uses and nobody defines.
    pub missing: Vec<MissingKind>,
    /// Versions that it uses and nobody serves any more.
    pub former: Vec<FormerVersion>,
    /// Namespaces that it uses and nobody defines.
    namespaces: BTreeSet<String>,
    /// What it names on other machines and is left out, because the network is not to be used.
    pub left_out: Vec<Remote>,
    assumed: bool,
    /// The addresses that its Services ask for.
    service_range: Option<[u8; 2]>,
    /// Whether its Services ask for addresses of both families.
    dual_stack: bool,
    /// The feature gates that it says its clusters have.
    gates: Vec<Gate>,
    /// The Flux whose ways with variables are followed, where they are not those of today.
    former_flux: Option<Installed>,
    remote: Option<String>,
    used: BTreeSet<(String, String)>,
    mapped: Vec<Mapped>,
    given: Vec<Value>,
    /// The Secrets of `--with`: only their kubeconfigs may lead to other clusters.
    kubeconfigs: BTreeSet<Fingerprint>,
    /// What was fetched by runs before.
    cache: Option<SourceCache>,
    /// What is neither a file nor a directory, and is left out.
    special: Vec<String>,
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
    let mut kubeconfigs = BTreeSet::new();
    for file in &options.with {
        let objects = objects(file)?;
        let secrets = objects.iter().filter(|object| object["kind"] == "Secret");
        kubeconfigs.extend(secrets.map(Fingerprint::of_secret));
        given.extend(objects);
    }
    if let Some(file) = &options.age_key {
        given.push(age_keys(file)?);
    }
    let used = Repository::used(&tree, &contents);
    let reach = Reach::of(&tree, &contents);
    let reached = reach.reached(&tree, &contents, &entry.directory);
    let reached = reached.as_ref();
    let former = kinds::former(&contents, reached, &everflow_apply::served_instead);
    let missing = kinds::missing(&contents, &reach, reached, &|group, kind| {
        is_known(group, kind) || given.iter().any(|object| defines(object, group, kind))
    });
    let gates = gates::on(&tree, &contents).map_err(|error| Failure::Work(error.to_string()))?;
    let is_said =
        options.asks_for(super::UNSET_VARIABLES) || options.asks_for(super::STRICT_VARIABLES);
    let former_flux = match options.strict || is_said {
        true => None,
        false => flux::installed(&tree, &contents, &entry.directory),
    };
    Ok(Opened {
        former_flux: former_flux.filter(Installed::leaves_variables_unset),
        gates,
        namespaces: kinds::namespaces(&tree, &contents),
        left_out: match options.offline {
            true => everflow_local::remote::named(&tree, &contents, reached),
            false => Vec::new(),
        },
        tree,
        entry,
        missing,
        former,
        assumed: options.assume_crds,
        service_range: services::range(&contents, reached),
        dual_stack: services::want_both_families(&contents, reached),
        remote,
        used,
        mapped,
        given,
        kubeconfigs,
        special: contents.special,
        cache: options.cache.open()?,
    })
}

impl Opened {
    /// Opens what is in the directory.
    pub fn open(options: &Common) -> Result<Opened, Failure> {
        open(options, None)
    }

    /// The world that the repository wants.
    pub fn plan(&self, options: &Common) -> Plan {
        let mut first: Vec<Value> = self.given.clone();
        if self.assumed {
            first.extend(self.missing.iter().map(MissingKind::assumed));
        }
        if options.create_namespaces {
            first.extend(self.namespaces.iter().map(namespace));
        }
        first.extend(self.entry.objects.iter().cloned());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let log = match options.verbose {
            true => Logger::to_stderr(clock, Level::Info, Encoding::Console),
            false => Logger::silent(clock),
        };
        Plan {
            as_served: self.assumed,
            placeholders: options.placeholders,
            build_limits: options.limits.counts.limits(),
            keys: match options.age_key {
                Some(_) => format!("{FLUX_SYSTEM}/{AGE_KEYS}"),
                None => String::new(),
            },
            first,
            stand_ins: StandIns {
                repository: Some(Repository {
                    tree: self.tree.clone(),
                    remote: self.remote.clone(),
                    sources: [&self.entry.source]
                        .into_iter()
                        .chain(&self.entry.also)
                        .cloned()
                        .collect(),
                    used: self.used.clone(),
                }),
                mapped: self.mapped.clone(),
                offline: options.offline,
                cache: self.cache.clone(),
            },
            kubeconfigs: self.kubeconfigs.clone(),
            features: options
                .feature_gates
                .iter()
                .filter(|gate| !gate.contains('='))
                .cloned()
                .chain(self.gates.iter().map(|gate| gate.name.to_owned()))
                .collect(),
            service_range: self.service_range,
            dual_stack: self.dual_stack,
            notices: options.notices.clone(),
            rendered_as_of: options.rendered_as_of,
            unset_variables: self.former_flux.is_some() || options.asks_for(super::UNSET_VARIABLES),
            workload_delay: options.workload_delay,
            log,
        }
    }

    /// What is brought up, for the reader.
    pub fn introduction(&self) -> String {
        let directory = shown(&self.entry.directory);
        let mut text = format!("► bringing up {directory} ({})\n", self.entry.why);
        for gate in &self.gates {
            text += &format!(
                "  with the feature gate {}, as {} has it\n",
                gate.name, gate.file
            );
        }
        if let Some(flux) = &self.former_flux {
            text += &format!(
                "  variables without a value are empty, as for Flux {} of {}\n",
                flux.version, flux.file
            );
        }
        text
    }

    fn told_left_out(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let mut text = "left out, because --offline fetches nothing:\n".to_owned();
        for remote in self.left_out.iter().take(NAMED) {
            text += &format!("  {} (in {})\n", remote.address, remote.file);
        }
        match self.left_out.len().saturating_sub(NAMED) {
            0 => text,
            more => text + &format!("  and {more} more\n"),
        }
    }

    /// The kinds that are missing or out of date, and who needs them; in short when all went well
    /// without them.
    pub fn lacking(&self, short: bool) -> String {
        let mut text = self.told_left_out();
        if let Some((first, more)) = self.special.split_first() {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!("left out, a pipe, a socket or a device: {first}{more}\n");
        }
        if !self.former.is_empty() {
            text += match self.assumed {
                true => "versions that are not served any more, taken for those of today:\n",
                false => "versions that are not served any more:\n",
            };
        }
        for former in &self.former {
            text += &format!(
                "  {} {}: write {} ({})\n",
                former.api_version,
                former.kind,
                former.instead,
                listed(&former.users)
            );
        }
        text + &self.told_missing(short)
    }

    fn told_missing(&self, short: bool) -> String {
        // Of kinds that only other clusters of the repository use nobody needs to know.
        let needed: Vec<&MissingKind> = self
            .missing
            .iter()
            .filter(|it| !it.users.is_empty())
            .collect();
        if needed.is_empty() {
            return String::new();
        }
        if short || self.assumed {
            let (here, nowhere): (Vec<&MissingKind>, Vec<&MissingKind>) =
                needed.iter().partition(|it| it.definition.is_some());
            let how = match self.assumed {
                true => "accepted without a schema",
                false => "not needed so far",
            };
            return of_kinds("kinds that nobody defines", how, &nowhere)
                + &of_kinds("kinds whose definition nothing here deploys", how, &here);
        }
        let mut text = "kinds that nobody defines (--crds DIR adds definitions, --assume-crds accepts them):\n".to_owned();
        for missing in needed {
            let versions: Vec<&str> = missing.versions.iter().map(String::as_str).collect();
            let definition = missing.definition.as_ref();
            let definition = definition.map_or(String::new(), |file| {
                format!("; defined in {file}, which nothing here deploys")
            });
            text += &format!(
                "  {}/{} {}: {}{definition}\n",
                missing.group,
                versions.join(","),
                missing.kind,
                listed(&missing.users)
            );
        }
        text
    }
}

/// Several kinds on one line.
fn of_kinds(what: &str, how: &str, kinds: &[&MissingKind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|it| it.kind.as_str()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("{what}, {how}: {}\n", names.join(", ")),
    }
}

fn namespace(name: &String) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The first of several, and how many more there are.
fn listed(users: &[String]) -> String {
    match users {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    }
}

/// The Secret with the keys of a file.
fn age_keys(file: &Path) -> Result<Value, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("--age-key {}: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| refused(&error))?;
    if !text.contains("AGE-SECRET-KEY-") {
        return Err(refused(&"there is no age key (AGE-SECRET-KEY-...) in it"));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": FLUX_SYSTEM, "name": AGE_KEYS },
        "stringData": { "keys.agekey": text },
    }))
}

pub fn open_tree(directory: &Path) -> Result<Tree, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{}: {why}; it must be a directory",
            directory.display()
        ))
    };
    if !directory.is_dir() {
        return Err(refused(match directory.exists() {
            true => &"a file",
            false => &"not found",
        }));
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

pub fn objects(file: &Path) -> Result<Vec<Value>, Failure> {
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
    everflow_local::world::has_kind(group, kind)
        || built_in
            .iter()
            .any(|known| known.group == group && known.kind == kind)
}
