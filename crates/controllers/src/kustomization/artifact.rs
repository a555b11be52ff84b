//! The files of an artifact.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::common::Artifact;
use everflow_api::reason::Reason;
use everflow_env::{Env, run_blocking};
use everflow_fetch::archive::{
    Algorithm, Digest, Item, Links, UnpackLimits, digest_of, read_archive,
};
use everflow_fetch::http::{Client, ClientOptions};
use everflow_fetch::storage::Storage;
use everflow_fetch::{Error as FetchError, Url};
use everflow_kustomize::MemoryView;

use super::stop::{Failure, Stop, Tell, Then};
use crate::{Options, Setup};

/// The largest archive that is downloaded.
const LARGEST: u64 = 512 << 20;
/// How many bytes of unpacked artifacts are kept.
const KEPT: usize = 128 << 20;
/// The first and the longest pause between two downloads.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// How often it is looked, between two downloads, whether the source has something else.
const LOOK: Duration = Duration::from_millis(500);
/// How long one download may take.
const DOWNLOAD: Duration = Duration::from_secs(300);

/// The files of an artifact, unpacked.
#[derive(Debug)]
pub(super) struct Tree {
    /// The digest of the archive.
    pub(super) digest: String,
    pub(super) files: MemoryView,
    size: usize,
}

/// Unpacked artifacts by digest: Kustomizations of one source share them.
#[derive(Debug)]
pub(super) struct Trees {
    env: Env,
    storage: Storage,
    slots: Mutex<Slots>,
}

/// What a source has by now.
pub(super) type Current<'a> = &'a (dyn Fn() -> Option<Artifact> + Sync);

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Tree>>>>;

#[derive(Debug, Default)]
struct Slots {
    by_digest: BTreeMap<String, Slot>,
    /// The oldest first.
    order: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    digest: String,
    /// The directory of the source's artifacts.
    of: String,
    size: usize,
}

/// Why an artifact cannot be had.
enum Missing {
    /// It is not there any more, or not yet.
    NotFound,
    /// The same is to be had elsewhere now.
    Moved(Box<Artifact>),
    /// Another reason.
    Failed(String),
}

impl Trees {
    pub(super) fn new(setup: &Setup) -> Self {
        Trees {
            env: setup.env.clone(),
            storage: setup.storage.clone(),
            slots: Mutex::default(),
        }
    }

    /// The files of an artifact. `current` is what the source has by now: it may move while the download is tried again, as
    /// when another engine has taken over.
    pub(super) async fn get(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Arc<Tree>, Stop> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slots.by_digest.entry(artifact.digest.clone()).or_default();
            slot.clone()
        };
        let mut kept = slot.lock().await;
        if let Some(tree) = &*kept {
            return Ok(tree.clone());
        }
        let tree = match self.fetch(artifact, options, current).await {
            Ok(tree) => Arc::new(tree),
            Err(missing) => {
                let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
                slots.by_digest.remove(&artifact.digest);
                return Err(refused(missing, options));
            }
        };
        *kept = Some(tree.clone());
        self.keep(artifact, tree.size);
        Ok(tree)
    }

    /// Makes room: former artifacts of the same source go, then the oldest.
    fn keep(&self, artifact: &Artifact, size: usize) {
        let of = artifact.path.rsplit_once('/');
        let of = of.map_or("", |(directory, _)| directory).to_owned();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let Slots { by_digest, order } = &mut *slots;
        order.retain(|kept| {
            let former = !of.is_empty() && kept.of == of && kept.digest != artifact.digest;
            if former {
                by_digest.remove(&kept.digest);
            }
            !former
        });
        order.push(Kept {
            digest: artifact.digest.clone(),
            of,
            size,
        });
        let total = |order: &[Kept]| order.iter().map(|kept| kept.size).sum::<usize>();
        while order.len() > 1 && total(order) > KEPT {
            let oldest = order.remove(0);
            by_digest.remove(&oldest.digest);
        }
    }

    async fn fetch(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Tree, Missing> {
        let mut artifact = artifact.clone();
        loop {
            match self.fetch_from(&artifact, options, current).await {
                Err(Missing::Moved(elsewhere)) => artifact = *elsewhere,
                fetched => return fetched,
            }
        }
    }

    async fn fetch_from(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Tree, Missing> {
        let digest = Digest::parse(&artifact.digest)
            .map_err(|error| Missing::Failed(format!("failed to verify archive: {error}")))?;
        if artifact.url == self.storage.url(&artifact.path)
            && let Some(bytes) = self.read_stored(&artifact.path, digest.algorithm()).await
            && bytes.1 == digest
        {
            return unpack(&self.env, bytes.0, artifact).await;
        }
        let bytes = self.download(artifact, options, current).await?;
        let algorithm = digest.algorithm();
        let verified = run_blocking(&*self.env.blocking, move || {
            let found = digest_of(algorithm, &bytes);
            (bytes, found)
        });
        let Some((bytes, found)) = verified.await else {
            return Err(Missing::Failed("failed to verify archive".into()));
        };
        if found != digest {
            let message = format!(
                "failed to verify archive: computed checksum '{}' doesn't match '{}'",
                found.as_str(),
                digest.as_str()
            );
            return Err(Missing::Failed(message));
        }
        unpack(&self.env, bytes, artifact).await
    }

    /// An artifact of our own storage needs no download.
    async fn read_stored(&self, path: &str, algorithm: Algorithm) -> Option<(Vec<u8>, Digest)> {
        let (disk, path) = (self.env.disk.clone(), path.to_owned());
        run_blocking(&*self.env.blocking, move || {
            let mut bytes = Vec::new();
            disk.open(&path).ok()?.read_to_end(&mut bytes).ok()?;
            let digest = digest_of(algorithm, &bytes);
            Some((bytes, digest))
        })
        .await
        .flatten()
    }

    async fn download(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Vec<u8>, Missing> {
        let failed =
            |error: &FetchError| Missing::Failed(format!("failed to download archive: {error}"));
        let parsed = Url::parse(&artifact.url).map_err(|error| failed(&error))?;
        let client =
            Client::new(&self.env, ClientOptions::default()).map_err(|error| failed(&error))?;
        let mut pause = PAUSES.0;
        let mut tries = options.kustomize.http_retry;
        loop {
            let deadline = client.deadline(DOWNLOAD);
            let error = match client.get(&parsed, None, LARGEST, &deadline).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let status = match &error {
                FetchError::Status { status, .. } => Some(*status),
                _ => None,
            };
            if status == Some(404) {
                return Err(Missing::NotFound);
            }
            if tries == 0 || status.is_some_and(|status| status < 500 && status != 429) {
                return Err(failed(&error));
            }
            tries -= 1;
            self.pause(pause, artifact, current).await?;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Pauses, unless the source has something else by then.
    async fn pause(
        &self,
        span: Duration,
        artifact: &Artifact,
        current: Current<'_>,
    ) -> Result<(), Missing> {
        let clock = &self.env.clock;
        let until = clock.elapsed() + span;
        loop {
            match current() {
                Some(found) if found.digest != artifact.digest => return Err(Missing::NotFound),
                Some(found) if found.url != artifact.url => {
                    return Err(Missing::Moved(Box::new(found)));
                }
                _ => {}
            }
            let left = until.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            clock.sleep(left.min(LOOK)).await;
        }
    }
}

fn refused(missing: Missing, options: &Options) -> Stop {
    match missing {
        Missing::NotFound | Missing::Moved(_) => {
            let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
            let message = format!("Source is not ready, artifact not found, retrying in {soon}");
            Failure::new(Reason::ArtifactFailed, message)
                .telling(Tell::Nothing)
                .then(Then::Wait)
                .into()
        }
        Missing::Failed(message) => Stop::failed(Reason::ArtifactFailed, message),
    }
}

async fn unpack(env: &Env, bytes: Vec<u8>, artifact: &Artifact) -> Result<Tree, Missing> {
    let digest = artifact.digest.clone();
    let unpacked = run_blocking(&*env.blocking, move || {
        let mut files = MemoryView::new();
        let mut size = 0;
        let limits = UnpackLimits::default();
        read_archive(&bytes[..], limits, Links::Skip, &mut |path, item| {
            match item {
                Item::Directory => files.add_directory(path),
                Item::File { content, .. } => {
                    let mut text = Vec::new();
                    let read = content.read_to_end(&mut text);
                    read.map_err(|error| FetchError::Archive(error.to_string()))?;
                    size += text.len() + path.len() + 128;
                    files.insert(path, text);
                }
            }
            Ok(())
        })?;
        Ok::<_, FetchError>(Tree {
            digest,
            files,
            size,
        })
    });
    match unpacked.await {
        Some(Ok(tree)) => Ok(tree),
        Some(Err(error)) => Err(Missing::Failed(format!("failed to untar archive: {error}"))),
        None => Err(Missing::Failed("failed to untar archive".into())),
    }
}
