//! What artifacts hold, unpacked and kept as long as there is room.

use std::collections::BTreeMap;
use std::io::{Read, Seek as _, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::Reason;
use everflow_api::common::Artifact;
use everflow_env::{Env, run_budgeted};
use everflow_fetch::archive::{
    Budgeted, Digest, Item, Links, copy_content, digest_of, digest_reader, read_archive,
};
use everflow_fetch::http::{Client, ClientOptions};
use everflow_fetch::storage::Storage;
use everflow_fetch::{Error as FetchError, Url};
use everflow_kustomize::MemoryView;
use everflow_limits::Budget;

use crate::fingerprint::{Fingerprint, Parts};
use crate::stop::{EventText, Failure, RetryPolicy, Stop};
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
pub(crate) struct Tree {
    /// The digest of the archive.
    pub(crate) digest: String,
    pub(crate) files: MemoryView,
    size: usize,
}

/// What the bytes of an artifact are made into.
pub(crate) trait Unpacked: Send + Sync + Sized + 'static {
    /// Unpacks the bytes. The error is what is wrong with them, and whether that may pass.
    fn unpack(
        packed: &mut dyn Read,
        artifact: &Artifact,
        options: &Options,
        budget: &Budget,
    ) -> Result<Self, (String, bool)>;

    /// How many bytes it takes in memory.
    fn size(&self) -> usize;
}

/// Unpacked artifacts by address and digest: objects of one source share them. A digest alone does
/// not do: who only claims to have a content gets it from where they say it is, or not at all.
#[derive(Debug)]
pub(crate) struct Artifacts<T> {
    env: Env,
    storage: Storage,
    slots: Mutex<Slots<T>>,
}

/// The files of artifacts.
pub(crate) type Trees = Artifacts<Tree>;

/// What a source has by now.
pub(crate) type Current<'a> = &'a (dyn Fn() -> Option<Artifact> + Sync);

type Slot<T> = Arc<tokio::sync::Mutex<Option<Arc<T>>>>;

#[derive(Debug)]
struct Slots<T> {
    by_key: BTreeMap<Fingerprint, Slot<T>>,
    /// The oldest first.
    order: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    key: Fingerprint,
    /// The directory of the source's artifacts.
    of: String,
    size: usize,
}

/// By what the files of an artifact are found.
fn key(artifact: &Artifact) -> Fingerprint {
    let place = Parts::of("artifact").and(&artifact.url).and(&artifact.path);
    place.and(&artifact.digest).done()
}

/// Why an artifact cannot be had.
#[derive(Debug)]
pub(crate) enum Missing {
    /// It is not there any more, or not yet.
    NotFound,
    /// The same is to be had elsewhere now.
    Moved(Box<Artifact>),
    /// Another reason.
    Failed {
        message: String,
        /// Whether it may pass although nothing changes.
        transient: bool,
    },
}

impl Missing {
    fn failed(message: impl Into<String>) -> Self {
        Missing::Failed {
            message: message.into(),
            transient: false,
        }
    }

    fn because(what: &str, error: &FetchError) -> Self {
        Missing::Failed {
            message: format!("{what}: {error}"),
            transient: error.is_transient(),
        }
    }

    /// What is said to those who need it.
    pub(crate) fn stop(self, options: &Options) -> Stop {
        match self {
            Missing::NotFound | Missing::Moved(_) => {
                let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
                let message =
                    format!("Source is not ready, artifact not found, retrying in {soon}");
                Failure::new(Reason::ArtifactFailed, message)
                    .telling(EventText::Nothing)
                    .then(RetryPolicy::Wait)
                    .into()
            }
            Missing::Failed { message, transient } => Failure::new(Reason::ArtifactFailed, message)
                .passing(transient)
                .into(),
        }
    }
}

impl<T: Unpacked> Artifacts<T> {
    pub(crate) fn new(setup: &Setup) -> Self {
        Artifacts {
            env: setup.env.clone(),
            storage: setup.storage.clone(),
            slots: Mutex::new(Slots {
                by_key: BTreeMap::new(),
                order: Vec::new(),
            }),
        }
    }

    /// What an artifact holds. `current` is what the source has by now: it may move while the download is tried again, as
    /// when another engine has taken over.
    pub(crate) async fn get(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Arc<T>, Missing> {
        let key = key(artifact);
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slots.by_key.entry(key).or_default();
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
                slots.by_key.remove(&key);
                return Err(missing);
            }
        };
        *kept = Some(tree.clone());
        self.keep(key, artifact, tree.size());
        Ok(tree)
    }

    /// Makes room: former artifacts of the same source go, then the oldest.
    fn keep(&self, key: Fingerprint, artifact: &Artifact, size: usize) {
        let of = artifact.path.rsplit_once('/');
        let of = of.map_or("", |(directory, _)| directory).to_owned();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let Slots { by_key, order } = &mut *slots;
        order.retain(|kept| {
            let former = !of.is_empty() && kept.of == of && kept.key != key;
            if former {
                by_key.remove(&kept.key);
            }
            !former
        });
        order.push(Kept { key, of, size });
        let total = |order: &[Kept]| order.iter().map(|kept| kept.size).sum::<usize>();
        while order.len() > 1 && total(order) > KEPT {
            let oldest = order.remove(0);
            by_key.remove(&oldest.key);
        }
    }

    async fn fetch(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<T, Missing> {
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
    ) -> Result<T, Missing> {
        let digest = Digest::parse(&artifact.digest)
            .map_err(|error| Missing::because("failed to verify archive", &error))?;
        if self.storage.is_ours(&artifact.url, &artifact.path) {
            if let Some(tree) = self.stored(artifact, &digest, options).await {
                return tree;
            }
            if self.storage.bring(&artifact.path, &artifact.digest).await
                && let Some(tree) = self.stored(artifact, &digest, options).await
            {
                return tree;
            }
        }
        let bytes = self.download(artifact, options, current).await?;
        let (artifact, options) = (artifact.clone(), options.clone());
        let work = move |budget: &Budget| {
            let charged = budget.charge(bytes.len()).map_err(FetchError::Limit);
            charged.map_err(|error| Missing::because("failed to verify archive", &error))?;
            let found = digest_of(digest.algorithm(), &bytes);
            if found != digest {
                return Err(Missing::failed(format!(
                    "failed to verify archive: computed checksum '{}' doesn't match '{}'",
                    found.as_str(),
                    digest.as_str()
                )));
            }
            unpack(&mut &bytes[..], &artifact, &options, budget)
        };
        let tree = run_budgeted(&*self.env.blocking, work).await;
        tree.unwrap_or_else(|| Err(Missing::failed("failed to untar archive")))
    }

    /// An artifact of our own storage needs no download, as long as it is what it should be.
    async fn stored(
        &self,
        artifact: &Artifact,
        digest: &Digest,
        options: &Options,
    ) -> Option<Result<T, Missing>> {
        let (disk, digest) = (self.env.disk.clone(), digest.clone());
        let (artifact, options) = (artifact.clone(), options.clone());
        let work = move |budget: &Budget| {
            let mut file = Budgeted::new(disk.open(&artifact.path).ok()?, budget);
            let found = digest_reader(digest.algorithm(), &mut file).ok()?;
            if found != digest {
                return None;
            }
            file.seek(SeekFrom::Start(0)).ok()?;
            Some(unpack(&mut file, &artifact, &options, budget))
        };
        run_budgeted(&*self.env.blocking, work).await.flatten()
    }

    async fn download(
        &self,
        artifact: &Artifact,
        options: &Options,
        current: Current<'_>,
    ) -> Result<Vec<u8>, Missing> {
        let failed = |error: &FetchError| Missing::because("failed to download archive", error);
        let parsed = Url::parse(&artifact.url).map_err(|error| failed(&error.into()))?;
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

fn unpack<T: Unpacked>(
    packed: &mut dyn Read,
    artifact: &Artifact,
    options: &Options,
    budget: &Budget,
) -> Result<T, Missing> {
    let unpacked = T::unpack(packed, artifact, options, budget);
    unpacked.map_err(|(message, transient)| Missing::Failed { message, transient })
}

/// What a file takes in memory beside its path and content, in bytes.
const FILE_WEIGHT: usize = 128;

impl Unpacked for Tree {
    fn unpack(
        packed: &mut dyn Read,
        artifact: &Artifact,
        options: &Options,
        budget: &Budget,
    ) -> Result<Self, (String, bool)> {
        let mut files = MemoryView::new();
        let mut size = 0;
        let limits = options.artifact_limits();
        let unpacked = read_archive(packed, limits, Links::Skip, budget, &mut |path, item| {
            match item {
                Item::Directory => files.add_directory(path),
                Item::File {
                    size: length,
                    content,
                    ..
                } => {
                    let weight = usize::try_from(length)
                        .unwrap_or(usize::MAX)
                        .saturating_add(path.len() + FILE_WEIGHT);
                    budget.charge(weight)?;
                    let mut text = Vec::new();
                    copy_content(content, &mut text, path)?;
                    size += weight;
                    files.insert(path, text);
                }
            }
            Ok(())
        });
        unpacked.map_err(|error| {
            let transient = error.is_transient();
            (format!("failed to untar archive: {error}"), transient)
        })?;
        Ok(Tree {
            digest: artifact.digest.clone(),
            files,
            size,
        })
    }

    fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_artifacts_differ_by_address_and_digest() {
        let artifact = |url: &str, path: &str, digest: &str| Artifact {
            url: url.to_owned(),
            path: path.to_owned(),
            digest: digest.to_owned(),
            ..Artifact::default()
        };
        let own = key(&artifact("http://a/x.tar.gz", "x.tar.gz", "sha256:1"));
        // Who only claims to have the content gets it from where they say it is.
        for other in [
            artifact("http://b/x.tar.gz", "x.tar.gz", "sha256:1"),
            artifact("http://a/x.tar.gz", "y.tar.gz", "sha256:1"),
            artifact("http://a/x.tar.gz", "x.tar.gz", "sha256:2"),
        ] {
            assert_ne!(key(&other), own);
        }
    }
}
