//! A repository as a scenario.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everflow_sim::{Repository, Scenario, Settings};

use crate::args::span;
use crate::exit::Failure;
use crate::up::{CacheFlags, Common, Opened, feature_gate};

/// What `everflow up` takes, as far as it has a meaning here.
#[derive(Debug, Clone, clap::Args)]
pub struct Flags {
    /// The directory of the repository that the cluster begins with
    #[arg(long, value_name = "DIR", requires = "path")]
    pub entry: Option<String>,
    /// Fetch nothing, which holds in any case: other sources come from the cache, or are skipped
    #[arg(long, requires = "path")]
    offline: bool,
    #[command(flatten)]
    cache: CacheFlags,
    /// Take a directory for another source; may be given several times
    #[arg(long = "source", value_name = "[KIND/]NAME=DIR", requires = "path")]
    sources: Vec<String>,
    /// Definitions of kinds that the repository does not contain; may be given several times
    #[arg(long = "crds", value_name = "DIR", requires = "path")]
    crds: Vec<PathBuf>,
    /// Accept kinds that nobody defines, without a schema, and versions that Flux no longer serves
    #[arg(long, requires = "path")]
    assume_crds: bool,
    /// Create the namespaces that the repository uses and does not define
    #[arg(long, requires = "path")]
    create_namespaces: bool,
    /// Objects that the cluster has before anything is deployed; may be given several times
    #[arg(long = "with", value_name = "FILE", requires = "path")]
    with: Vec<PathBuf>,
    /// A file with age keys, for secrets of Kustomizations whose own keys are not there
    #[arg(long, value_name = "FILE", requires = "path")]
    age_key: Option<PathBuf>,
    /// Put placeholders where values cannot be had
    #[arg(long, visible_alias = "without-decryption", requires = "path")]
    placeholders: bool,
    /// Feature gates of the cluster and of Flux that are not as by default, as `everflow up` has them
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = feature_gate, requires = "path")]
    feature_gates: Vec<String>,
    /// How long workloads take to come up
    #[arg(long, value_name = "DURATION", value_parser = span, requires = "path")]
    workload_delay: Option<Duration>,
}

impl Flags {
    fn common(&self, path: &Path) -> Common {
        let mut common = Common::of(path);
        common.entry = self.entry.clone();
        common.offline = true;
        common.cache = self.cache.clone();
        common.sources = self.sources.clone();
        common.crds = self.crds.clone();
        common.assume_crds = self.assume_crds;
        common.create_namespaces = self.create_namespaces;
        common.with = self.with.clone();
        common.age_key = self.age_key.clone();
        common.placeholders = self.placeholders;
        common.feature_gates = self.feature_gates.clone();
        common.workload_delay = self.workload_delay.unwrap_or_default();
        common
    }

    /// The flags as they were given.
    pub fn words(&self) -> String {
        let mut words = String::new();
        let mut add = |name: &str, value: &dyn std::fmt::Display| {
            words.push_str(&format!(" --{name} {value}"));
        };
        if let Some(entry) = &self.entry {
            add("entry", entry);
        }
        for source in &self.sources {
            add("source", source);
        }
        let files = [("crds", &self.crds), ("with", &self.with)];
        for (name, file) in files
            .iter()
            .flat_map(|(name, all)| all.iter().map(move |file| (name, file)))
        {
            add(name, &file.display());
        }
        if let Some(file) = &self.age_key {
            add("age-key", &file.display());
        }
        for gate in &self.feature_gates {
            let on = if gate.contains('=') { "" } else { "=true" };
            add("feature-gates", &format!("{gate}{on}"));
        }
        if let Some(delay) = &self.workload_delay {
            add("workload-delay", &everflow_time::Duration::from(*delay));
        }
        let switches = [
            ("assume-crds", self.assume_crds),
            ("create-namespaces", self.create_namespaces),
            ("placeholders", self.placeholders),
        ];
        for (name, _) in switches.iter().filter(|(_, given)| *given) {
            words.push_str(&format!(" --{name}"));
        }
        words + &self.cache.words()
    }
}

/// The scenario of a repository, with its directories standing for its sources.
pub fn scenario(
    path: &Path,
    flags: &Flags,
    within: Duration,
) -> Result<(Scenario, Settings), Failure> {
    if !path.is_dir() {
        let text = format!("{}: it must be a directory", path.display());
        return Err(Failure::Usage(text));
    }
    let common = flags.common(path);
    let opened = Opened::open(&common)?;
    let repository = Repository::new(opened.plan(&common));
    let about = format!(
        "The repository {} from {:?} on.",
        path.display(),
        opened.entry.directory
    );
    let scenario = repository.scenario(&about, within);
    let settings = Settings {
        repository: Some(Arc::new(repository)),
        trees: true,
        ..Settings::default()
    };
    Ok((scenario, settings))
}

/// What is said of a repository that does not come up even when nothing goes wrong.
pub fn not_coming_up(failing: &[String]) -> String {
    if failing.is_empty() {
        return String::new();
    }
    let mut text = "even when nothing goes wrong, these are not ready; all else is compared with and without faults\n\
                    (`everflow up --offline` says more; --assume-crds, --create-namespaces, --with and --placeholders may help):\n"
        .to_owned();
    for line in failing {
        let line = line.lines().next().unwrap_or_default();
        text.push_str(&format!(
            "  {}\n",
            line.chars().take(300).collect::<String>()
        ));
    }
    text
}
