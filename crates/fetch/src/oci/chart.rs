//! Helm charts in registries.

use super::reference::chart_versions;
use super::{Metadata, OciClient, Reference, Target};
use crate::archive::Digest;
use crate::{Deadline, Error};

/// The media type of a packed chart.
pub const HELM_CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// What older tools called it.
const OLD_CHART_LAYER: &str = "application/tar+gzip";
const HELM_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// The largest packed chart.
const LARGEST_CHART: u64 = 100 << 20;

/// A packed chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    /// The `.tgz`.
    pub bytes: Vec<u8>,
    /// The digest of the manifest that names it.
    pub digest: Digest,
    /// The annotations of the artifact.
    pub metadata: Metadata,
}

impl OciClient {
    /// The versions of the chart that the repository holds, highest first. Tags that are no
    /// versions are left out.
    pub async fn chart_versions(&self, deadline: &Deadline) -> Result<Vec<String>, Error> {
        let tags = self.tags(deadline).await?;
        Ok(chart_versions(&tags))
    }

    /// The chart of a version. The error begins as Flux's behind `chart pull error: `.
    pub async fn chart(&self, version: &str, deadline: &Deadline) -> Result<Chart, Error> {
        let target = Target::Tag(version.replace('+', "_"));
        self.chart_at(&target, version, deadline).await
    }

    /// The chart of a manifest whose digest is known, as after its signature was verified.
    pub async fn chart_by_digest(
        &self,
        digest: &Digest,
        deadline: &Deadline,
    ) -> Result<Chart, Error> {
        let target = Target::Digest(digest.to_string());
        self.chart_at(&target, digest.as_str(), deadline).await
    }

    async fn chart_at(
        &self,
        target: &Target,
        shown: &str,
        deadline: &Deadline,
    ) -> Result<Chart, Error> {
        let separator = match target {
            Target::Tag(_) => ":",
            Target::Digest(_) => "@",
        };
        let address = format!("oci://{}{separator}{shown}", self.repository);
        let named = |error: Error| Error::Source {
            reason: "ChartPullError",
            message: format!(
                "failed to download chart for remote reference: failed to get '{address}': {error}"
            ),
        };
        let manifest = self.chart_manifest(target, deadline).await.map_err(named)?;
        let layers = &manifest.layers;
        if manifest.config.is_none() || layers.is_empty() {
            let found = layers.len() + usize::from(manifest.config.is_some());
            return Err(named(Error::Protocol(format!(
                "manifest does not contain minimum number of descriptors (2), descriptors found: {found}"
            ))));
        }
        if let Some(config) = &manifest.config
            && config.media_type != HELM_CONFIG
        {
            return Err(named(Error::Protocol(format!(
                "could not load config with mediatype {HELM_CONFIG}"
            ))));
        }
        let is_chart = |kind: &str| layers.iter().find(|layer| layer.media_type == kind);
        let Some(layer) = is_chart(HELM_CHART_LAYER).or_else(|| is_chart(OLD_CHART_LAYER)) else {
            return Err(named(Error::Protocol(format!(
                "manifest does not contain a layer with mediatype {HELM_CHART_LAYER}"
            ))));
        };
        let bytes = self
            .small_blob(layer, LARGEST_CHART, deadline)
            .await
            .map_err(named)?;
        Ok(Chart {
            bytes,
            digest: manifest.digest,
            metadata: manifest.annotations,
        })
    }

    async fn chart_manifest(
        &self,
        target: &Target,
        deadline: &Deadline,
    ) -> Result<super::Manifest, Error> {
        let fetched = self.document(target, deadline).await;
        let (bytes, kind, digest) = match fetched {
            Err(Error::Registry { status: 404, .. }) => {
                let whole = Reference {
                    repository: self.repository.clone(),
                    target: target.clone(),
                };
                return Err(Error::Protocol(format!(
                    "failed to perform \"FetchReference\" on source: {whole}: not found"
                )));
            }
            fetched => fetched?,
        };
        match super::Document::parse(&bytes, &kind, digest)? {
            super::Document::Manifest(manifest) => Ok(*manifest),
            super::Document::Index(_) => self.manifest(target, deadline).await,
        }
    }
}
