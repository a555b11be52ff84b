//! Charts as artifacts: pulled as they are, or packaged.

use std::io::Write as _;
use std::sync::Arc;

use everflow_env::disk::clean;
use everflow_env::{Env, disk, run_blocking};
use everflow_helm::chart::{Chart, load_archive};
use everflow_helm::package::{
    ValuesFile, ValuesFilesError, merge_values_files, metadata_of_archive, overwrite_values,
    package_files, with_build_metadata,
};
use everflow_helm::values::Warnings;

use super::source::{ChartSource, Pulled, Verified, too_large};
use super::{HelmLimits, failed};
use crate::archive::{Algorithm, ArchiveWriter, Digest, digest_of};
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
        failed(self.name(), format!("{}: {text}", self.summary()))
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

/// What is known of a build before there is a file.
#[derive(Debug)]
pub(super) struct Draft {
    pub name: String,
    pub version: String,
    pub values_files: Vec<String>,
    pub resolved_dependencies: usize,
    pub packaged: bool,
    pub verified: Verified,
}

impl Draft {
    pub(super) fn new(name: &str, version: &str, options: &BuildOptions) -> Result<Self, Error> {
        let version = match options.version_metadata.as_str() {
            "" => version.to_owned(),
            metadata => with_build_metadata(version, metadata)
                .map_err(|error| Reason::MetadataPatch.error(error))?,
        };
        Ok(Draft {
            name: name.to_owned(),
            version,
            values_files: Vec::new(),
            resolved_dependencies: 0,
            packaged: false,
            verified: Verified::NotAsked,
        })
    }

    /// The artifact there is, if it is of the same name and version. This blocks.
    pub(super) fn cached(
        &self,
        env: &Env,
        options: &BuildOptions,
        packaged: bool,
    ) -> Option<Build> {
        let path = options.cached.as_ref().filter(|_| !options.force)?;
        let bytes = disk::read_all(&*env.disk, path, options.limits.chart).ok()?;
        let metadata = metadata_of_archive(&bytes, options.limits.file).ok()?;
        if metadata.name != self.name || metadata.version != self.version {
            return None;
        }
        let values_files = match &options.cached_values_files {
            Some(files) => files.clone(),
            None => options.effective_values_files().to_vec(),
        };
        Some(Build {
            name: self.name.clone(),
            version: self.version.clone(),
            values_files,
            resolved_dependencies: 0,
            packaged,
            verified: self.verified,
            archive: ChartArchive::Cached { path: path.clone() },
        })
    }

    /// Writes the archive of a chart. This blocks.
    pub(super) fn package(
        self,
        env: &Env,
        chart: &Chart,
        options: &BuildOptions,
    ) -> Result<Build, Error> {
        let files = package_files(chart)
            .map_err(|error| Reason::Package.error(format!("failed to package chart: {error}")))?;
        let limit = everflow_helm::chart::archive::MAX_UNPACKED_CHART_BYTES;
        let mut archive = ArchiveWriter::of_chart(Vec::new(), options.algorithm, limit)?;
        for (path, data) in &files {
            archive.chart_file(path, data)?;
        }
        let (bytes, summary) = archive.finish()?;
        self.write(env, &bytes, summary.digest)
    }

    /// Writes an archive as it is. This blocks.
    pub(super) fn copy(
        self,
        env: &Env,
        bytes: &[u8],
        options: &BuildOptions,
    ) -> Result<Build, Error> {
        self.write(env, bytes, digest_of(options.algorithm, bytes))
    }

    /// Writes the archive to a file. This blocks.
    fn write(self, env: &Env, bytes: &[u8], digest: Digest) -> Result<Build, Error> {
        let (file, mut writer) = TemporaryFile::create(env, "helm-chart")?;
        let failing = |error| Error::disk("write", file.path(), error);
        writer.write_all(bytes).map_err(failing)?;
        // It is named by a status soon: a crash must not take it back.
        writer.sync().map_err(failing)?;
        Ok(Build {
            name: self.name,
            version: self.version,
            values_files: self.values_files,
            resolved_dependencies: self.resolved_dependencies,
            packaged: self.packaged,
            verified: self.verified,
            archive: ChartArchive::New {
                path: file.path().to_owned(),
                digest,
                size: bytes.len() as u64,
                file,
            },
        })
    }
}

/// Replaces a chart's default values, and notes from which files.
pub(super) fn replace_values(
    chart: &mut Chart,
    files: Vec<(String, ValuesFile)>,
    options: &BuildOptions,
    draft: &mut Draft,
) -> Result<(), ValuesFilesError> {
    let (merged, used) = merge_values_files(files, options.ignore_missing_values_files)?;
    if overwrite_values(chart, merged)? {
        draft.values_files = used;
    }
    Ok(())
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
            blocking(&env.clone(), move || {
                let cached = draft.cached(&env, &options, changes);
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
    blocking(env, move || match changes {
        false => validated_copy(&inner, draft, &pulled, &options),
        true => repackaged(&inner, draft, &pulled.bytes, &options),
    })
    .await
}

fn validated_copy(
    env: &Env,
    draft: Draft,
    pulled: &Pulled,
    options: &BuildOptions,
) -> Result<Build, Error> {
    let limit = options.limits.chart;
    let bytes = &pulled.bytes;
    if bytes.len() as u64 > limit {
        let text = too_large(&draft.name, limit);
        return Err(Reason::Pull.error(format!(
            "failed to load chart metadata from written chart: {text}"
        )));
    }
    let digest = pulled.checked(options.algorithm, |bytes| {
        let checked = metadata_of_archive(bytes, options.limits.file);
        checked.map(drop).map_err(|error| {
            let what = match error {
                everflow_helm::package::MetadataError::Invalid(_) => {
                    "failed to validate metadata of written chart"
                }
                _ => "failed to load chart metadata from written chart",
            };
            Reason::Pull.error(format!("{what}: {error}"))
        })
    })?;
    draft.write(env, bytes, digest)
}

fn repackaged(
    env: &Env,
    mut draft: Draft,
    bytes: &[u8],
    options: &BuildOptions,
) -> Result<Build, Error> {
    let mut chart = load_archive(bytes, &mut Warnings::default()).map_err(|error| {
        Reason::Package.error(format!("failed to load downloaded chart: {error}"))
    })?;
    chart.metadata.version.clone_from(&draft.version);
    let files = options
        .values_files
        .iter()
        .map(|name| (name.clone(), file_of_chart(&chart, name)))
        .collect();
    replace_values(&mut chart, files, options, &mut draft).map_err(|error| {
        let merging = match error {
            ValuesFilesError::NoDefaults => "",
            _ => "failed to merge chart values: ",
        };
        Reason::ValuesFiles.error(format!("{merging}{error}"))
    })?;
    draft.packaged = true;
    draft.package(env, &chart, options)
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

pub(super) async fn blocking<T: Send + 'static>(
    env: &Env,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    run_blocking(&*env.blocking, work)
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
