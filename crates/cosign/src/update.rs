//! The root of trust of the public instance is refreshed by TUF.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use sigstore_tuf::transport::FetchFuture;
use sigstore_tuf::{MetadataStore, Repository, Updater, UpdaterConfig};

use crate::{Error, TrustRoot, provider};

/// Where the public instance of Sigstore publishes its root.
pub const SIGSTORE_MIRROR: &str = "https://tuf-repo-cdn.sigstore.dev";
/// Which of its files has the root of trust.
const TARGET: &str = "trusted_root.json";
/// The largest of them that is read.
const MAX_TARGET_BYTES: u64 = 1 << 20;

/// The first signed statement of who may say what the root of trust is.
pub fn embedded_update_root() -> &'static [u8] {
    include_bytes!("data/tuf_root.json")
}

/// Signed files by name, as they are kept between refreshes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What becomes of asking for a file: its bytes, `None` when there is none, or what went wrong.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, String>> + Send + 'a>>;

/// Brings files from a mirror.
pub trait Mirror: Send + Sync {
    /// The file at a path below the mirror, of at most so many bytes; `None` when there is none.
    fn get<'a>(&'a self, path: String, limit: u64) -> Answer<'a>;
}

/// What came of a refresh.
#[derive(Debug)]
pub struct Update {
    /// The root of trust of now.
    pub root: TrustRoot,
    /// It as text.
    pub json: Vec<u8>,
    /// The signed files, to be handed in the next time.
    pub files: Files,
}

struct Remote<M>(M);

impl<M: Mirror> Repository for Remote<M> {
    fn fetch_metadata<'a>(&'a self, name: &'a str, limit: u64) -> FetchFuture<'a> {
        Box::pin(async move {
            let file = self.0.get(name.to_owned(), limit).await;
            file.map_err(sigstore_tuf::Error::transport)
        })
    }

    fn fetch_target<'a>(&'a self, path: &'a str, limit: u64) -> FetchFuture<'a> {
        Box::pin(async move {
            let file = self.0.get(format!("targets/{path}"), limit).await;
            file.map_err(sigstore_tuf::Error::transport)
        })
    }
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Files>>);

impl MetadataStore for Store {
    fn load(&self, name: &str) -> sigstore_tuf::Result<Option<Vec<u8>>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.get(name).cloned())
    }

    fn store(&self, name: &str, bytes: &[u8]) -> sigstore_tuf::Result<()> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

/// Asks a mirror for the root of trust of now (seconds since 1970).
///
/// `first` is trusted as it is; each later statement of who may sign is signed by those before.
/// Files of an earlier refresh keep a mirror from going back to older ones. Whatever is expired,
/// unsigned or older than what was seen is an error, and the caller goes on with what it has.
pub async fn update(
    mirror: impl Mirror + 'static,
    first: &[u8],
    files: Files,
    now: i64,
) -> Result<Update, Error> {
    provider::install();
    let failed = |error: sigstore_tuf::Error| {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            text.push_str(&format!(": {next}"));
            cause = next.source();
        }
        Error::Update(text)
    };
    let now =
        jiff::Timestamp::from_second(now).map_err(|error| Error::Update(error.to_string()))?;
    let mut config = UpdaterConfig::default();
    config.target_max_length = MAX_TARGET_BYTES;
    let store = Store(Arc::new(Mutex::new(files)));
    let mut updater = Updater::new(Remote(mirror), first)
        .map_err(failed)?
        .with_config(config)
        .with_store(store.clone());
    updater.refresh(now).await.map_err(failed)?;
    let json = updater.get_target(TARGET, now).await.map_err(failed)?;
    let root = TrustRoot::from_json(&json)?;
    let mut files = store.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Update {
        root,
        json,
        files: std::mem::take(&mut *files),
    })
}
