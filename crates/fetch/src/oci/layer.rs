//! The content of an artifact.

use std::io::BufWriter;

use ::http::{Method, header};
use everflow_env::{run_blocking, run_budgeted};
use everflow_limits::Budget;

use super::manifest::{Descriptor, Manifest};
use super::{Metadata, OciClient, Resolution, Target};
use crate::archive::ignore::read_patterns;
use crate::archive::unpack::{USUAL_ENTRIES, USUAL_SIZE};
use crate::archive::{
    Algorithm, Budgeted, Digest, Ignore, Limits, Tree, artifact_limits, digest_reader,
};
use crate::download::save;
use crate::temporary::TemporaryDirectory;
use crate::{Deadline, Error};

const FAILED: &str = "OCIArtifactLayerOperationFailed";

/// What to do with a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayerOperation {
    /// It is a gzipped tar archive: make ours of its content.
    #[default]
    Extract,
    /// Take it as it is.
    Copy,
}

/// What to make of an artifact.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// The media type of the layer to take; the first layer when empty.
    pub media_type: String,
    /// What to do with it.
    pub operation: LayerOperation,
    /// Patterns beside those in `.sourceignore` files.
    pub ignore: Option<String>,
    /// The digest to compute.
    pub algorithm: Algorithm,
    /// What the layer may hold.
    pub unpack: Limits,
}

impl Default for PullOptions {
    /// The first layer, extracted, SHA-256, with the usual limits.
    fn default() -> Self {
        PullOptions {
            media_type: String::new(),
            operation: LayerOperation::Extract,
            ignore: None,
            algorithm: Algorithm::Sha256,
            unpack: artifact_limits(USUAL_SIZE, USUAL_ENTRIES),
        }
    }
}

/// A finished file in the temporary area, to be published; it is gone when this is dropped.
#[derive(Debug)]
pub struct Pulled {
    place: TemporaryDirectory,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file.
    pub size: u64,
    /// The annotations of the artifact.
    pub metadata: Metadata,
}

impl Pulled {
    /// Where the file is.
    pub fn path(&self) -> String {
        self.place.file("artifact")
    }
}

fn failed(what: &str, error: Error) -> Error {
    match error {
        // A full or broken disk of ours is not the artifact's fault.
        Error::Disk { .. } | Error::Lost => error,
        error => Error::step(FAILED, format!("{what}: {error}"), error.exceeded()),
    }
}

impl OciClient {
    /// Fetches the content of an artifact.
    pub async fn pull(
        &self,
        resolution: &Resolution,
        options: &PullOptions,
        deadline: &Deadline,
    ) -> Result<Pulled, Error> {
        let target = Target::Digest(resolution.digest.to_string());
        let manifest = self.manifest(&target, deadline).await?;
        let layer = select(&manifest, &options.media_type)?.clone();
        let env = self.env.clone();
        let place = run_blocking(&*self.env.blocking, move || {
            TemporaryDirectory::new(&env, "oci")
        })
        .await
        .ok_or(Error::Lost)??;
        let (target, reading) = match options.operation {
            LayerOperation::Copy => ("artifact", "failed to copy layer from artifact"),
            LayerOperation::Extract => ("layer", "failed to extract layer contents from artifact"),
        };
        self.blob(&layer, &place.file(target), reading, deadline)
            .await?;
        let (digest, size) = match options.operation {
            LayerOperation::Copy => self.seal(&place, &layer, options.algorithm).await?,
            LayerOperation::Extract => self.repack(&place, options).await?,
        };
        Ok(Pulled {
            place,
            digest,
            size,
            metadata: manifest.annotations,
        })
    }

    /// Downloads a blob, which must be what its descriptor says.
    async fn blob(
        &self,
        layer: &Descriptor,
        path: &str,
        reading: &str,
        deadline: &Deadline,
    ) -> Result<(), Error> {
        let opening = "failed to extract the first layer from artifact";
        if layer.size > self.remote.largest_layer {
            return Err(failed(
                opening,
                Error::TooLarge {
                    what: format!("the layer {} of {} bytes", layer.digest, layer.size),
                    limit: self.remote.largest_layer,
                },
            ));
        }
        let asking = async {
            let session = self.session(deadline).await?;
            let url = session.url("blobs", layer.digest.as_str())?;
            let response = session.ask(Method::GET, &url, "", deadline).await?;
            let length = response
                .header(header::CONTENT_LENGTH)
                .and_then(|text| text.parse::<u64>().ok());
            match length.filter(|length| *length != layer.size) {
                None => Ok(response.body),
                Some(length) => Err(Error::Protocol(format!(
                    "GET {}: Content-Length header {length} does not match expected size {}",
                    url, layer.size
                ))),
            }
        };
        let body = asking.await.map_err(|error| failed(opening, error))?;
        let wanted = &layer.digest;
        let saved = save(&self.env, body, path, wanted.algorithm(), layer.size).await;
        let (digest, size) = match saved {
            Err(Error::TooLarge { .. }) => {
                let text = format!("error verifying size; got more than {} bytes", layer.size);
                return Err(failed(reading, Error::Digest(text)));
            }
            saved => saved.map_err(|error| failed(reading, error))?,
        };
        let wrong = if size != layer.size {
            format!("error verifying size; got {size}, want {}", layer.size)
        } else if digest != *wanted {
            format!(
                "error verifying {} checksum after reading {size} bytes; got {:?}, want {:?}",
                wanted.algorithm().name(),
                digest.as_str(),
                wanted.as_str()
            )
        } else {
            return Ok(());
        };
        Err(failed(reading, Error::Digest(wrong)))
    }

    /// Makes a downloaded layer the artifact.
    async fn seal(
        &self,
        place: &TemporaryDirectory,
        layer: &Descriptor,
        algorithm: Algorithm,
    ) -> Result<(Digest, u64), Error> {
        if layer.digest.algorithm() == algorithm {
            return Ok((layer.digest.clone(), layer.size));
        }
        let (disk, path, size) = (self.env.disk.clone(), place.file("artifact"), layer.size);
        let work = move |budget: &Budget| {
            let file = disk
                .open(&path)
                .map_err(|error| Error::disk("open", &path, error))?;
            let digest = digest_reader(algorithm, Budgeted::new(file, budget))
                .map_err(|error| Error::disk("read", &path, error))?;
            Ok((digest, size))
        };
        run_budgeted(&*self.env.blocking, work)
            .await
            .ok_or(Error::Lost)?
    }

    /// Makes our archive of a downloaded one.
    async fn repack(
        &self,
        place: &TemporaryDirectory,
        options: &PullOptions,
    ) -> Result<(Digest, u64), Error> {
        let disk = self.env.disk.clone();
        let (layer, spill, path) = (
            place.file("layer"),
            place.file("content"),
            place.file("artifact"),
        );
        let options = options.clone();
        let work = move |budget: &Budget| {
            let packed = disk
                .open(&layer)
                .map_err(|error| Error::disk("open", &layer, error))?;
            let tree = Tree::unpack(packed, &*disk, &spill, options.unpack, budget)
                .map_err(|error| failed("failed to extract layer contents from artifact", error))?;
            disk.remove(&layer)
                .map_err(|error| Error::disk("remove", &layer, error))?;
            let mut patterns = tree.patterns(&*disk, budget)?;
            if let Some(text) = &options.ignore {
                patterns.extend(read_patterns(text, &[]));
            }
            let failing = |error| Error::disk("write", &path, error);
            let out = BufWriter::with_capacity(256 * 1024, disk.create(&path).map_err(failing)?);
            let (out, summary) = tree.archive(
                &*disk,
                out,
                &Ignore::with_defaults(patterns),
                options.algorithm,
                options.unpack.total,
                budget,
            )?;
            let mut file = out
                .into_inner()
                .map_err(|error| failing(error.into_error()))?;
            file.sync().map_err(failing)?;
            disk.remove(&spill)
                .map_err(|error| Error::disk("remove", &spill, error))?;
            Ok((summary.digest, summary.size))
        };
        run_budgeted(&*self.env.blocking, work)
            .await
            .ok_or(Error::Lost)?
    }

    /// A small blob as a whole.
    pub(crate) async fn small_blob(
        &self,
        blob: &Descriptor,
        bound: u64,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, Error> {
        if blob.size > bound {
            return Err(Error::TooLarge {
                what: format!("the blob {} of {} bytes", blob.digest, blob.size),
                limit: bound,
            });
        }
        let session = self.session(deadline).await?;
        let url = session.url("blobs", blob.digest.as_str())?;
        let response = session.ask(Method::GET, &url, "", deadline).await?;
        let bytes = match response.body.read_all(blob.size).await {
            Err(Error::TooLarge { .. }) => {
                return Err(Error::Digest(format!(
                    "error verifying size; got more than {} bytes",
                    blob.size
                )));
            }
            read => read?,
        };
        let found = crate::archive::digest_of(blob.digest.algorithm(), &bytes);
        match found == blob.digest {
            true => Ok(bytes),
            false => Err(Error::Digest(format!(
                "error verifying {} checksum after reading {} bytes; got {:?}, want {:?}",
                found.algorithm().name(),
                bytes.len(),
                found.as_str(),
                blob.digest.as_str()
            ))),
        }
    }
}

fn select<'a>(manifest: &'a Manifest, media_type: &str) -> Result<&'a Descriptor, Error> {
    let missing = |message: String| Error::Source {
        reason: FAILED,
        message,
    };
    let Some(first) = manifest.layers.first() else {
        return Err(missing("no layers found in artifact".to_owned()));
    };
    if media_type.is_empty() {
        return Ok(first);
    }
    let found = manifest
        .layers
        .iter()
        .find(|layer| layer.media_type == media_type);
    found.ok_or_else(|| {
        missing(format!(
            "failed to find layer with media type '{media_type}' in artifact"
        ))
    })
}
