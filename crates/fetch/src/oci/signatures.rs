//! Where the signatures of an artifact are, and how one is fetched.

use everflow_cosign::{Layer, MAX_BUNDLE_BYTES, MAX_PAYLOAD_BYTES, MAX_SIGNATURES, Signature};

use super::manifest::{Document, OCI_INDEX};
use super::{Descriptor, OciClient, Target};
use crate::archive::Digest;
use crate::{Deadline, Error};

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The largest list of what refers to an artifact.
const LARGEST_INDEX: u64 = 4 << 20;

/// How signatures are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As bundles that refer to the artifact.
    Bundle,
    /// As layers below a tag.
    Layer,
}

impl OciClient {
    /// The layers of the older signatures of an artifact, at most as many as are looked at.
    pub(super) async fn layers(
        &self,
        digest: &Digest,
        deadline: &Deadline,
    ) -> Result<Vec<Descriptor>, Error> {
        let tag = format!("{}.sig", digest.as_str().replace(':', "-"));
        let (bytes, kind, own) = self.document(&Target::Tag(tag), deadline).await?;
        let Document::Manifest(manifest) = Document::parse(&bytes, &kind, own)? else {
            return Err(Error::Protocol("the signature is a list".to_owned()));
        };
        let layers = manifest.layers.into_iter();
        let signed = layers.filter(|layer| layer.annotations.contains_key(Layer::SIGNATURE));
        Ok(signed.take(MAX_SIGNATURES).collect())
    }

    /// Fetches a signature; `None` when it is something else.
    pub(super) async fn signature(
        &self,
        form: Form,
        candidate: &Descriptor,
        deadline: &Deadline,
    ) -> Result<Option<Signature>, Error> {
        if form == Form::Bundle {
            let bytes = self.small_blob(candidate, MAX_BUNDLE_BYTES as u64, deadline);
            // One that cannot be had is none: others may be good.
            return Ok(bytes.await.ok().map(Signature::Bundle));
        }
        let annotation = |name: &str| {
            let text = candidate.annotations.get(name);
            text.cloned().unwrap_or_default()
        };
        let limit = MAX_PAYLOAD_BYTES as u64;
        Ok(Some(Signature::Layer(Box::new(Layer {
            payload: self.small_blob(candidate, limit, deadline).await?,
            signature: annotation(Layer::SIGNATURE),
            certificate: annotation(Layer::CERTIFICATE),
            chain: annotation(Layer::CHAIN),
            bundle: annotation(Layer::BUNDLE),
        }))))
    }

    /// The blobs of the bundles that refer to the artifact, at most as many as are looked at.
    pub(super) async fn bundles(
        &self,
        digest: &Digest,
        deadline: &Deadline,
    ) -> Result<Vec<Descriptor>, Error> {
        let mut bundles = Vec::new();
        let referrers = self.referrers(digest, deadline).await?;
        // Others may refer to the artifact too; those that say what they are are not counted.
        let may_be = |referrer: &&Descriptor| {
            let kind = &referrer.artifact_type;
            kind.is_empty() || kind.starts_with(BUNDLE)
        };
        for referrer in referrers.iter().filter(may_be).take(MAX_SIGNATURES) {
            if let Ok(Some(bundle)) = self.bundle(referrer, deadline).await {
                bundles.push(bundle);
            }
        }
        Ok(bundles)
    }

    async fn bundle(
        &self,
        referrer: &Descriptor,
        deadline: &Deadline,
    ) -> Result<Option<Descriptor>, Error> {
        let target = Target::Digest(referrer.digest.to_string());
        let (bytes, kind, own) = self.document(&target, deadline).await?;
        let Document::Manifest(manifest) = Document::parse(&bytes, &kind, own)? else {
            return Ok(None);
        };
        let [layer] = manifest.layers.as_slice() else {
            return Ok(None);
        };
        let is_bundle = layer.media_type.starts_with(BUNDLE);
        Ok(is_bundle.then(|| layer.clone()))
    }

    /// What refers to an artifact: by the API for it, else by the tag that stands in for it.
    async fn referrers(
        &self,
        digest: &Digest,
        deadline: &Deadline,
    ) -> Result<Vec<Descriptor>, Error> {
        let session = self.session(deadline).await?;
        let url = session.url("referrers", digest.as_str())?;
        let asked = session
            .ask(::http::Method::GET, &url, OCI_INDEX, deadline)
            .await;
        let bytes = match asked {
            Ok(response) => response.body.read_all(LARGEST_INDEX).await?,
            Err(Error::Registry { status: 404, .. }) => {
                let tag = digest.as_str().replace(':', "-");
                self.document(&Target::Tag(tag), deadline).await?.0
            }
            Err(error) => return Err(error),
        };
        match Document::parse(&bytes, OCI_INDEX, digest.clone())? {
            Document::Index(index) => Ok(index),
            Document::Manifest(_) => Ok(Vec::new()),
        }
    }
}
