//! Charts as artifacts: pulled as they are, or packaged.

use std::sync::Arc;

use everflow_env::disk::clean;
use everflow_env::{Env, run_budgeted};
use everflow_helm::chart::{Chart, ChartLoader};
use everflow_helm::package::{ValuesFile, ValuesFilesError, metadata_of_archive};
use everflow_helm::values::Warnings;
use everflow_limits::{Budget, Exceeded};

use super::HelmLimits;
use super::draft::{Draft, replace_values};
use super::source::{ChartSource, Pulled, Verified, too_large};
use crate::archive::{Algorithm, Digest};
use crate::temporary::TemporaryFile;
use crate::{Deadline, Error};

/// Why a build failed, as Flux tells causes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// What was asked for is not there or not valid.
    Reference,
    /// The chart could not be brought here.
    Pull,
    /// The version cannot carry the build metadata.
    MetadataPatch,
    /// Values files cannot be merged.
    ValuesFiles,
    /// A dependency could not be added.
    Dependency,
    /// The chart cannot be loaded or packaged.
    Package,
    /// The signature is not right.
    Verification,
}

impl Reason {
    const ALL: [Reason; 7] = [
        Reason::Reference,
        Reason::Pull,
        Reason::MetadataPatch,
        Reason::ValuesFiles,
        Reason::Dependency,
        Reason::Package,
        Reason::Verification,
    ];

    /// The reason in conditions and events.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Reference => "InvalidChartReference",
            Reason::Pull => "ChartPullError",
            Reason::MetadataPatch => "MetadataPatchError",
            Reason::ValuesFiles => "ValuesFilesError",
            Reason::Dependency => "DependencyBuildError",
            Reason::Package => "ChartPackageError",
            Reason::Verification => "ChartVerificationError",
        }
    }

    /// What messages begin with.
    pub fn summary(self) -> &'static str {
        match self {
            Reason::Reference => "invalid chart reference",
            Reason::Pull => "chart pull error",
            Reason::MetadataPatch => "chart metadata patch error",
            Reason::ValuesFiles => "values files merge error",
            Reason::Dependency => "dependency build error",
            Reason::Package => "chart package error",
            Reason::Verification => "chart verification error",
        }
    }

    /// Whether trying again without a change of the object or its source is in vain.
    pub fn is_persistent(self) -> bool {
        matches!(
            self,
            Reason::Reference | Reason::MetadataPatch | Reason::ValuesFiles
        )
    }

    /// The cause of an error that a build ended in; none if it was not the chart's fault.
    pub fn of(error: &Error) -> Option<Reason> {
        let name = error.reason();
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    pub(super) fn error(self, text: impl std::fmt::Display) -> Error {
        self.because(text, None)
    }

    /// The same for an error that may come from a limit.
    pub(super) fn because(
        self,
        text: impl std::fmt::Display,
        exceeded: Option<&Exceeded>,
    ) -> Error {
        let message = format!("{}: {text}", self.summary());
        Error::step(self.name(), message, exceeded)
    }
}

/// How to build.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Build metadata for the version; empty for none.
    pub version_metadata: String,
    /// Files whose values replace the default values of the chart, in order.
    pub values_files: Vec<String>,
    /// Leave out values files that are not there.
    pub ignore_missing_values_files: bool,
    /// The path of the artifact there is, which is kept when name and version stay the same.
    pub cached: Option<String>,
    /// The values files of the artifact there is, if they are known.
    pub cached_values_files: Option<Vec<String>>,
    /// Build even if there is an artifact of that name and version.
    pub force: bool,
    /// Check the signature, also of what is stored already.
    pub verify: bool,
    /// What charts may weigh.
    pub limits: HelmLimits,
    /// The digest of the artifact.
    pub algorithm: Algorithm,
}

impl BuildOptions {
    /// The values files, except if it is only the chart's own.
    pub fn effective_values_files(&self) -> &[String] {
        match &self.values_files[..] {
            [one] if clean(one) == "values.yaml" => &[],
            all => all,
        }
    }

    pub(super) fn changes_content(&self) -> bool {
        !self.effective_values_files().is_empty() || !self.version_metadata.is_empty()
    }
}

/// The file of a chart.
#[derive(Debug)]
pub enum ChartArchive {
    /// The artifact there was is still the right one.
    Cached {
        /// Its path in the store.
        path: String,
    },
    /// A new file in the temporary area, gone when dropped unless published.
    New {
        /// Its path.
        path: String,
        /// The digest of the file.
        digest: Digest,
        /// The size of the file.
        size: u64,
        /// What keeps it.
        file: TemporaryFile,
    },
}

/// A chart that was built.
#[derive(Debug)]
pub struct Build {
    /// The name of the chart.
    pub name: String,
    /// Its version, with build metadata.
    pub version: String,
    /// The values files that made its default values.
    pub values_files: Vec<String>,
    /// How many dependencies were added.
    pub resolved_dependencies: usize,
    /// Whether the archive is of our making.
    pub packaged: bool,
    /// What came of the signature.
    pub verified: Verified,
    /// The file.
    pub archive: ChartArchive,
}

impl Build {
    /// One line about it, as Flux writes it.
    pub fn summary(&self) -> String {
        let action = if self.packaged { "packaged" } else { "pulled" };
        let mut text = format!(
            "{action} '{}' chart with version '{}'",
            self.name, self.version
        );
        if !self.values_files.is_empty() {
            text.push_str(&format!(
                " and merged values files [{}]",
                self.values_files.join(" ")
            ));
        }
        text
    }

    /// The name of the file in the store.
    pub fn file_name(&self) -> String {
        format!("{}-{}.tgz", self.name, self.version)
    }

    /// Whether there is a new file to be stored.
    pub fn is_new(&self) -> bool {
        matches!(self.archive, ChartArchive::New { .. })
    }
}

/// Whether the name of a chart in a repository is one.
fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Reason::Reference.error("no name set for remote chart reference"));
    }
    if is_chart_name(name) {
        return Ok(());
    }
    Err(Reason::Reference.error(format!(
        "invalid chart name '{name}': a valid name must be lower case letters and numbers and MAY be separated with dashes (-), slashes (/) or periods (.)"
    )))
}

/// Words of lower-case letters, digits and dashes, each followed by a slash, a period or both in
/// this order, or by nothing.
fn is_chart_name(name: &str) -> bool {
    let mut word = false;
    let mut rest = name.bytes().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'-' | b'0'..=b'9' | b'a'..=b'z' => word = true,
            b'/' if word => {
                rest.next_if_eq(&b'.');
                word = false;
            }
            b'.' if word => word = false,
            _ => return false,
        }
    }
    true
}

/// Builds a chart of a repository: the archive as it is, unless values files or build metadata ask
/// for another one.
pub async fn build_remote(
    env: &Env,
    source: &dyn ChartSource,
    name: &str,
    version: &str,
    options: BuildOptions,
    deadline: &Deadline,
) -> Result<Build, Error> {
    check_name(name)?;
    let chosen = source
        .choose(name, version, deadline)
        .await
        .map_err(|error| {
            let reason = Reason::of(&error).unwrap_or(Reason::Pull);
            reason.error(format!(
                "failed to get chart version for remote reference: {error}"
            ))
        })?;
    let (chosen, verified) = match options.verify {
        false => (chosen, Verified::NotAsked),
        true => {
            let checked = source.verify(chosen, deadline).await;
            let pinned = checked.map_err(|error| Reason::Verification.error(error))?;
            (pinned, Verified::Yes)
        }
    };
    let mut draft = Draft::new(&chosen.name, &chosen.version, &options)?;
    draft.verified = verified;
    let options = Arc::new(options);
    let changes = options.changes_content();
    let (draft, cached) = match options.cached.is_some() && !options.force {
        false => (draft, None),
        true => {
            let (env, options) = (env.clone(), options.clone());
            budgeted(&env.clone(), move |budget| {
                let cached = draft.cached(&env, &options, changes, budget);
                Ok((draft, cached))
            })
            .await?
        }
    };
    if let Some(cached) = cached {
        return Ok(cached);
    }
    let pulled = source.download(&chosen, deadline).await.map_err(|error| {
        Reason::Pull.error(format!(
            "failed to download chart for remote reference: {error}"
        ))
    })?;
    let inner = env.clone();
    budgeted(env, move |budget| match changes {
        false => validated_copy(&inner, draft, &pulled, &options, budget),
        true => repackaged(&inner, draft, &pulled.bytes, &options, budget),
    })
    .await
}

fn validated_copy(
    env: &Env,
    draft: Draft,
    pulled: &Pulled,
    options: &BuildOptions,
    budget: &Budget,
) -> Result<Build, Error> {
    let limits = options.limits;
    let limit = limits.chart;
    let bytes = &pulled.bytes;
    if bytes.len() as u64 > limit {
        let text = too_large(&draft.name, limit);
        return Err(Reason::Pull.error(format!(
            "failed to load chart metadata from written chart: {text}"
        )));
    }
    let digest = pulled.checked(options.algorithm, |bytes| {
        let checked = metadata_of_archive(bytes, limits.of_chart(), limits.file, budget);
        checked.map(drop).map_err(|error| {
            let what = match error {
                everflow_helm::package::MetadataError::Invalid(_) => {
                    "failed to validate metadata of written chart"
                }
                _ => "failed to load chart metadata from written chart",
            };
            Reason::Pull.because(format!("{what}: {error}"), error.exceeded())
        })
    })?;
    draft.write(env, bytes, digest)
}

fn repackaged(
    env: &Env,
    mut draft: Draft,
    bytes: &[u8],
    options: &BuildOptions,
    budget: &Budget,
) -> Result<Build, Error> {
    let mut loader = ChartLoader::new(options.limits.of_chart(), budget);
    let loaded = loader.archive(bytes, &mut Warnings::default());
    let mut chart = loaded.map_err(|error| {
        let text = format!("failed to load downloaded chart: {error}");
        Reason::Package.because(text, error.exceeded())
    })?;
    chart.metadata.version.clone_from(&draft.version);
    let mut files = Vec::new();
    for name in &options.values_files {
        budget.check()?;
        files.push((name.clone(), file_of_chart(&chart, name)));
    }
    replace_values(&mut chart, files, options, &mut draft, budget).map_err(|error| {
        let merging = match error {
            ValuesFilesError::NoDefaults => "",
            _ => "failed to merge chart values: ",
        };
        Reason::ValuesFiles.because(format!("{merging}{error}"), error.exceeded())
    })?;
    draft.packaged = true;
    draft.package(env, &chart, options, budget)
}

fn file_of_chart(chart: &Chart, name: &str) -> ValuesFile {
    let path = clean(name);
    if path == "values.yaml" {
        let values = chart.values.as_object();
        return ValuesFile::Read(values.cloned().unwrap_or_default());
    }
    match chart.files.iter().find(|file| file.name == path) {
        Some(file) => ValuesFile::Text(file.data.clone()),
        None => ValuesFile::Missing(ValuesFilesError::Missing(name.to_owned())),
    }
}

pub(super) async fn budgeted<T: Send + 'static>(
    env: &Env,
    work: impl FnOnce(&Budget) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    run_budgeted(&*env.blocking, work)
        .await
        .ok_or(Error::Lost)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_charts_are_checked() {
        for name in ["app", "a/b", "a.b-1", "a/.b", "app/", "-"] {
            check_name(name).unwrap();
        }
        for name in ["", "App", "a//b", "../a", "a..b", "/a", "a_b", "ä", "a b"] {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.reason(), "InvalidChartReference", "{name}");
        }
    }

    #[test]
    fn a_lone_values_file_is_no_change() {
        let options = |files: &[&str]| BuildOptions {
            values_files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..BuildOptions::default()
        };
        assert!(!options(&[]).changes_content());
        assert!(!options(&["./values.yaml"]).changes_content());
        assert!(options(&["values.yaml", "b.yaml"]).changes_content());
    }
}
