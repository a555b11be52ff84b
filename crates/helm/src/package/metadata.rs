//! The metadata of a chart, before the whole of it is loaded.

use everflow_limits::{Budget, Exceeded};
use everflow_semver::Version;
use everflow_tar::Meter;
use everflow_yaml::sigs;

use crate::chart::archive::{self, ArchiveError};
use crate::chart::weight::read_yaml;
use crate::chart::{API_VERSION_V1, ChartLimits, Metadata};

/// Why a chart's metadata cannot be used, in Flux's words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A file that cannot be read.
    #[error("cannot load '{file}': {reason}")]
    File {
        /// Which one.
        file: &'static str,
        /// Why.
        reason: String,
    },
    /// The archive has no `Chart.yaml`.
    #[error("no 'Chart.yaml' found")]
    Missing,
    /// A file of the archive is too large.
    #[error("size of '{file}' exceeds '{limit}' bytes limit")]
    TooLarge {
        /// Which one.
        file: String,
        /// The bound.
        limit: u64,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It says something it may not.
    #[error("{0}")]
    Invalid(String),
    /// The work has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
}

impl MetadataError {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            MetadataError::Limit(exceeded) => Some(exceeded),
            MetadataError::Archive(error) => error.exceeded(),
            _ => None,
        }
    }
}

/// The metadata in `Chart.yaml`, with the dependencies in `requirements.yaml`, checked.
pub fn metadata_of_files(
    chart: &[u8],
    requirements: Option<&[u8]>,
    budget: &Budget,
) -> Result<Metadata, MetadataError> {
    let mut metadata = Metadata::default();
    absorb(&mut metadata, chart, "Chart.yaml", budget)?;
    if let Some(requirements) = requirements.filter(|bytes| !bytes.is_empty()) {
        absorb(&mut metadata, requirements, "requirements.yaml", budget)?;
    }
    metadata.validate().map_err(MetadataError::Invalid)?;
    Ok(metadata)
}

/// The metadata of a packed chart, checked. The whole archive is looked over for names that lead
/// out of it, and for too much in it.
pub fn metadata_of_archive(
    bytes: &[u8],
    limits: ChartLimits,
    largest_file: u64,
    budget: &Budget,
) -> Result<Metadata, MetadataError> {
    let mut metadata = None;
    let mut meter = Meter::new(limits.of_archives(), budget);
    archive::for_each_file(bytes, &mut meter, &mut |name, entry| {
        let file = match name.as_str() {
            "Chart.yaml" => "Chart.yaml",
            "requirements.yaml" => "requirements.yaml",
            _ => return Ok(()),
        };
        if entry.size() > largest_file {
            return Err(MetadataError::TooLarge {
                file: name,
                limit: largest_file,
            });
        }
        let content = entry.read_content().map_err(ArchiveError::from)?;
        let content = archive::without_byte_order_mark(content);
        let metadata = metadata.get_or_insert_with(Metadata::default);
        absorb(metadata, &content, file, budget)
    })?;
    let mut metadata = metadata.ok_or(MetadataError::Missing)?;
    metadata.validate().map_err(MetadataError::Invalid)?;
    Ok(metadata)
}

fn absorb(
    metadata: &mut Metadata,
    bytes: &[u8],
    file: &'static str,
    budget: &Budget,
) -> Result<(), MetadataError> {
    let wrong = |reason: String| MetadataError::File { file, reason };
    let yaml = read_yaml(budget, bytes, sigs::yaml_to_json)?
        .map_err(|error| wrong(format!("error converting YAML to JSON: {error}")))?;
    metadata.absorb(&yaml).map_err(wrong)?;
    if metadata.api_version.is_empty() {
        API_VERSION_V1.clone_into(&mut metadata.api_version);
    }
    Ok(())
}

/// A version with other build metadata: `1.0.0` and `3` give `1.0.0+3`.
pub fn with_build_metadata(version: &str, metadata: &str) -> Result<String, String> {
    let parsed = Version::parse(version).map_err(|error| {
        format!("failed to parse version from chart metadata as SemVer: {error}")
    })?;
    let changed = parsed
        .with_metadata(metadata)
        .map_err(|error| format!("failed to set SemVer metadata on chart version: {error}"))?;
    Ok(changed.to_string())
}
