//! What is known of a record without its chart and its manifest.

use std::io::BufRead;

use everflow_helm::release::{HookRecord, Info, Release, go_order};
use everflow_json::{Map, Value};
use everflow_limits::Budget;
use everflow_yaml::gojson::{HtmlEscape, to_string, write_escaped};
use sha2::{Digest as _, Sha256};

use super::origin::OriginFinder;
use super::scan::{Entry, Scanner};
use super::{Status, stream};
use crate::digest::{self, finished};
use crate::error::Unreadable;

/// How a hook last ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookRun {
    /// The name of the hook.
    pub name: String,
    /// When it runs: `pre-install`, `test` and so on.
    pub events: Vec<String>,
    /// When it began, as the record has it; or empty.
    pub started_at: String,
    /// When it ended; or empty.
    pub completed_at: String,
    /// `Succeeded`, `Failed`, `Running`, `Unknown` or empty.
    pub phase: String,
}

impl HookRun {
    fn of(hook: &HookRecord) -> Self {
        HookRun {
            name: hook.hook.name.clone(),
            events: hook.hook.events.clone(),
            started_at: hook.started_at.clone(),
            completed_at: hook.completed_at.clone(),
            phase: hook.phase.clone(),
        }
    }

    /// Whether it is a test.
    pub fn is_test(&self) -> bool {
        self.events.iter().any(|event| event == "test")
    }
}

/// A record without its chart and its manifest, as it can be kept.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The release's name.
    pub name: String,
    /// Its namespace, which need not be that of the record.
    pub namespace: String,
    /// The revision, from 1.
    pub version: i64,
    /// How it stands.
    pub status: Status,
    /// When and how it went.
    pub info: Info,
    /// The chart's name.
    pub chart_name: String,
    /// The chart's version.
    pub chart_version: String,
    /// The version of what the chart installs.
    pub app_version: String,
    /// The user's values.
    pub config: Map,
    /// Their digest.
    pub config_digest: String,
    /// The hooks, in the order of the record.
    pub hooks: Vec<HookRun>,
    /// `ssa` or `csa`, empty in records of Helm 3.
    pub apply_method: String,
    /// The digest of the manifest.
    pub manifest_digest: String,
    /// The namespace and the name of the HelmRelease that the manifest was rendered for, as labels in it
    /// say.
    pub origin: Option<(String, String)>,
    /// The hash of what Flux takes the digest of, up to the digest of the OCI artifact.
    observed: Sha256,
}

/// The digest of a manifest: of its JSON text, so that records need not be decoded for it.
pub fn manifest_digest(manifest: &str) -> String {
    let mut text = String::with_capacity(manifest.len() + manifest.len() / 8);
    write_escaped(&mut text, manifest, HtmlEscape::On);
    digest::of_bytes(text.as_bytes())
}

impl Summary {
    /// Of a whole record.
    pub fn of(release: &Release) -> Self {
        let mut manifest = String::with_capacity(release.manifest.len() + 64);
        write_escaped(&mut manifest, &release.manifest, HtmlEscape::On);
        let mut parts = Parts::default();
        parts.name.clone_from(&release.name);
        parts.namespace.clone_from(&release.namespace);
        parts.version = release.version;
        parts.apply_method.clone_from(&release.apply_method);
        parts.info = release.info.clone();
        parts.metadata = release.chart["metadata"].clone();
        parts.config = release.config.clone();
        for hook in &release.hooks {
            parts.hook(hook);
        }
        parts.begin_manifest(release.version);
        parts.manifest_part(manifest.as_bytes());
        parts.finish()
    }

    /// Reads the record in a Secret's `data.release` as a stream. `version` is the revision that the
    /// Secret's name or labels say.
    ///
    /// # Errors
    /// When it is not a record, or one that takes more than it may.
    pub fn read(data: &str, version: i64, budget: &Budget) -> Result<Self, Unreadable> {
        let mut scanner = Scanner::new(stream::of_secret(data)?, budget);
        let mut parts = Parts::default();
        scanner.open(b'{')?;
        while let Entry::Key(key) = scanner.entry()? {
            match key.as_str() {
                "name" => parts.name = text(&scanner.value()?),
                "namespace" => parts.namespace = text(&scanner.value()?),
                "version" => parts.version = scanner.value()?.as_i64().unwrap_or_default(),
                "apply_method" => parts.apply_method = text(&scanner.value()?),
                "info" => parts.info = Info::from_json(Some(scanner.value()?)),
                "config" => parts.config = object(scanner.value()?),
                "chart" => parts.metadata = metadata(&mut scanner)?,
                "hooks" if scanner.peek()? == b'[' => {
                    scanner.open(b'[')?;
                    while scanner.has_item()? {
                        if let Some(hook) = HookRecord::from_json(scanner.value()?) {
                            parts.hook(&hook);
                        }
                    }
                }
                "manifest" => {
                    parts.begin_manifest(version);
                    scanner.raw(&mut |part| parts.manifest_part(part))?;
                }
                _ => scanner.skip()?,
            }
        }
        match parts.name.is_empty() || parts.version != version {
            true => Err(Unreadable::NotARecord),
            false => Ok(parts.finish()),
        }
    }

    /// The digest of the record as Flux puts it into the history of a HelmRelease. `oci_digest` is that
    /// of the chart's artifact, where it comes from an OCIRepository.
    pub fn digest(&self, oci_digest: Option<&str>) -> String {
        let mut hash = self.observed.clone();
        if let Some(oci_digest) = oci_digest.filter(|digest| !digest.is_empty()) {
            let mut text = String::from(",\"ociDigest\":");
            write_escaped(&mut text, oci_digest, HtmlEscape::On);
            hash.update(text);
        }
        hash.update("}\n");
        finished(hash)
    }

    /// `NAMESPACE/NAME.vVERSION`.
    pub fn full_name(&self) -> String {
        format!("{}/{}.v{}", self.namespace, self.name, self.version)
    }

    /// `NAME@VERSION` of the chart.
    pub fn chart(&self) -> String {
        format!("{}@{}", self.chart_name, self.chart_version)
    }
}

/// The metadata of a chart; all else of it is passed by.
fn metadata<R: BufRead>(scanner: &mut Scanner<'_, R>) -> Result<Value, Unreadable> {
    if scanner.peek()? != b'{' {
        scanner.skip()?;
        return Ok(Value::Null);
    }
    let mut metadata = Value::Null;
    scanner.open(b'{')?;
    while let Entry::Key(key) = scanner.entry()? {
        match key.as_str() {
            "metadata" => metadata = scanner.value()?,
            _ => scanner.skip()?,
        }
    }
    Ok(metadata)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn object(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What has been read so far. The digest is taken of one text in which `version`, `info`, the chart's
/// metadata and `config` stand before the manifest, which is the order in which Helm stores all of
/// these but the version. A record in another order has no digest that anyone else would find.
#[derive(Default)]
struct Parts {
    name: String,
    namespace: String,
    version: i64,
    apply_method: String,
    info: Info,
    metadata: Value,
    config: Map,
    hooks: Vec<HookRun>,
    /// The texts of the hooks that are no tests.
    hook_texts: Vec<String>,
    manifest: Option<Manifest>,
}

struct Manifest {
    hash: Sha256,
    observed: Sha256,
    origin: OriginFinder,
}

impl Parts {
    fn hook(&mut self, hook: &HookRecord) {
        let run = HookRun::of(hook);
        if !run.is_test() {
            self.hook_texts.push(go_order::hook_text(hook));
        }
        self.hooks.push(run);
    }

    fn begin_manifest(&mut self, version: i64) {
        self.manifest = Some(Manifest {
            hash: Sha256::new(),
            observed: self.before_manifest(version),
            origin: OriginFinder::new(),
        });
    }

    fn before_manifest(&self, version: i64) -> Sha256 {
        let mut start = String::from("{\"name\":");
        write_escaped(&mut start, &self.name, HtmlEscape::On);
        let config = match self.config.is_empty() {
            true => "null".to_owned(),
            false => to_string(&Value::Object(self.config.clone())),
        };
        start.push_str(&format!(
            ",\"version\":{version},\"info\":{},\"chartMetadata\":{},\"config\":{config},\"manifest\":",
            go_order::info_text(&self.info),
            go_order::metadata_text(&self.metadata),
        ));
        Sha256::new().chain_update(start)
    }

    fn manifest_part(&mut self, part: &[u8]) {
        if let Some(manifest) = &mut self.manifest {
            manifest.hash.update(part);
            manifest.observed.update(part);
            manifest.origin.take(part);
        }
    }

    fn finish(mut self) -> Summary {
        if self.manifest.is_none() {
            self.begin_manifest(self.version);
            self.manifest_part(b"\"\"");
        }
        let (hash, mut observed, origin) = match self.manifest {
            Some(manifest) => (manifest.hash, manifest.observed, manifest.origin),
            None => (Sha256::new(), Sha256::new(), OriginFinder::new()),
        };
        let mut end = match self.hook_texts.is_empty() {
            true => ",\"hooks\":null".to_owned(),
            false => format!(",\"hooks\":[{}]", self.hook_texts.join(",")),
        };
        end.push_str(",\"namespace\":");
        write_escaped(&mut end, &self.namespace, HtmlEscape::On);
        observed.update(end);
        Summary {
            status: Status::of(&self.info.status),
            chart_name: text(&self.metadata["name"]),
            chart_version: text(&self.metadata["version"]),
            app_version: text(&self.metadata["appVersion"]),
            config_digest: digest::of_values(&self.config),
            config: self.config,
            hooks: self.hooks,
            apply_method: self.apply_method,
            manifest_digest: finished(hash),
            origin: origin.found(),
            observed,
            name: self.name,
            namespace: self.namespace,
            version: self.version,
            info: self.info,
        }
    }
}
