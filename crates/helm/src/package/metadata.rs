//! The metadata of a chart, before the whole of it is loaded.

use everflow_semver::Version;
use everflow_yaml::sigs;

use crate::chart::archive::{self, ArchiveError};
use crate::chart::{API_VERSION_V1, Metadata};

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
}

/// The metadata in `Chart.yaml`, with the dependencies in `requirements.yaml`, checked.
pub fn metadata_of_files(
    chart: &[u8],
    requirements: Option<&[u8]>,
) -> Result<Metadata, MetadataError> {
    let mut metadata = Metadata::default();
    absorb(&mut metadata, chart, "Chart.yaml")?;
    if let Some(requirements) = requirements.filter(|bytes| !bytes.is_empty()) {
        absorb(&mut metadata, requirements, "requirements.yaml")?;
    }
    metadata.validate().map_err(MetadataError::Invalid)?;
    Ok(metadata)
}

/// The metadata of a packed chart, checked. The whole archive is looked over for names that lead
/// out of it.
pub fn metadata_of_archive(bytes: &[u8], largest_file: u64) -> Result<Metadata, MetadataError> {
    let mut metadata = None;
    for file in archive::unpack(bytes)? {
        let name = match file.name.as_str() {
            "Chart.yaml" => "Chart.yaml",
            "requirements.yaml" => "requirements.yaml",
            _ => continue,
        };
        if file.data.len() as u64 > largest_file {
            return Err(MetadataError::TooLarge {
                file: file.name,
                limit: largest_file,
            });
        }
        let metadata = metadata.get_or_insert_with(Metadata::default);
        absorb(metadata, &file.data, name)?;
    }
    let mut metadata = metadata.ok_or(MetadataError::Missing)?;
    metadata.validate().map_err(MetadataError::Invalid)?;
    Ok(metadata)
}

fn absorb(metadata: &mut Metadata, bytes: &[u8], file: &'static str) -> Result<(), MetadataError> {
    let wrong = |reason: String| MetadataError::File { file, reason };
    let yaml = sigs::yaml_to_json(bytes)
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
