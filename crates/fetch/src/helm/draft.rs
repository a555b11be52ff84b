//! Charts on their way into files.

use std::io::{BufWriter, Write as _};

use everflow_env::disk::FileWriter;
use everflow_env::{Env, disk};
use everflow_helm::chart::Chart;
use everflow_helm::package::{
    ValuesFile, ValuesFilesError, merge_values_files, metadata_of_archive, overwrite_values,
    package_files, with_build_metadata,
};
use everflow_limits::Budget;

use super::build::{Build, BuildOptions, ChartArchive, Reason};
use super::source::Verified;
use crate::Error;
use crate::archive::{ArchiveWriter, Budgeted, Digest, digest_of};
use crate::temporary::TemporaryFile;

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
        budget: &Budget,
    ) -> Option<Build> {
        let path = options.cached.as_ref().filter(|_| !options.force)?;
        let bytes = disk::read_all(&*env.disk, path, options.limits.chart).ok()?;
        let limits = options.limits;
        let metadata = metadata_of_archive(&bytes, limits.of_chart(), limits.file, budget).ok()?;
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
        budget: &Budget,
    ) -> Result<Build, Error> {
        let files = package_files(chart, budget).map_err(|error| {
            let text = format!("failed to package chart: {error}");
            Reason::Package.because(text, error.exceeded())
        })?;
        let (file, writer) = TemporaryFile::create(env, "helm-chart")?;
        let out = Budgeted::new(BufWriter::with_capacity(64 << 10, writer), budget);
        let limit = options.limits.of_chart().unpacked;
        let mut archive = ArchiveWriter::of_chart(out, options.algorithm, limit)?;
        for (path, data) in &files {
            archive.chart_file(path, data)?;
        }
        let (out, summary) = archive.finish()?;
        let writer = out.into_inner().into_inner();
        let failing = |error| Error::disk("write", file.path(), error);
        let writer = writer.map_err(|error| failing(error.into_error()))?;
        self.finish(file, writer, summary.digest, summary.size)
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
    pub(super) fn write(self, env: &Env, bytes: &[u8], digest: Digest) -> Result<Build, Error> {
        let (file, mut writer) = TemporaryFile::create(env, "helm-chart")?;
        writer
            .write_all(bytes)
            .map_err(|error| Error::disk("write", file.path(), error))?;
        self.finish(file, writer, digest, bytes.len() as u64)
    }

    fn finish(
        self,
        file: TemporaryFile,
        mut writer: Box<dyn FileWriter>,
        digest: Digest,
        size: u64,
    ) -> Result<Build, Error> {
        // It is named by a status soon: a crash must not take it back.
        writer
            .sync()
            .map_err(|error| Error::disk("write", file.path(), error))?;
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
                size,
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
    budget: &Budget,
) -> Result<(), ValuesFilesError> {
    let ignore_missing = options.ignore_missing_values_files;
    let (merged, used) = merge_values_files(files, ignore_missing, budget)?;
    if overwrite_values(chart, merged, budget)? {
        draft.values_files = used;
    }
    Ok(())
}
