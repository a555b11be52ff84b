//! Artifacts that another replica holds.
//!
//! Peers are asked by the port that serves artifacts to everybody, and for nothing else: what they give is what anybody
//! may download who knows its address, and it is taken only with the digest that a status names. So they need no secret.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::HeaderName;
use everflow_env::{Disk, Env, watch, within};

use super::{Owner, Storage};
use crate::archive::{Digest, digest_reader};
use crate::download::save;
use crate::http::{Client, ClientOptions, Request};
use crate::{Error, Url};

/// A request of a replica: it is answered from the disk alone, so that replicas do not ask each other in circles.
pub const FROM_PEER: HeaderName = HeaderName::from_static("x-everflow-peer");
/// How long one peer may take to begin with it.
const ANSWER: Duration = Duration::from_secs(5);
/// How long one peer may take for one artifact.
const SPAN: Duration = Duration::from_secs(60);
/// The largest artifact that is taken.
const LARGEST: u64 = 1 << 30;

/// The other replicas.
pub(super) struct Peers {
    addresses: watch::Receiver<Vec<String>>,
    client: Client,
    /// What is being brought: it is asked for once.
    under_way: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("addresses", &*self.addresses.borrow())
            .finish_non_exhaustive()
    }
}

impl Peers {
    pub(super) fn new(env: &Env, addresses: watch::Receiver<Vec<String>>) -> Result<Self, Error> {
        Ok(Peers {
            addresses,
            client: Client::new(env, ClientOptions::default())?,
            under_way: Mutex::default(),
        })
    }

    fn turn(&self, path: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.entry(path.to_owned()).or_default().clone()
    }

    fn done(&self, path: &str) {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.remove(path);
    }
}

/// The owner and the name of a file of the store.
fn parts(path: &str) -> Option<(Owner, &str)> {
    let mut parts = path.split('/');
    let (kind, namespace, name, file) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let owner = Owner::new(kind, namespace, name).ok()?;
    let whole = parts.next().is_none() && owner.file(file).is_ok_and(|file| file == path);
    whole.then_some((owner, file))
}

impl Storage {
    /// Lets it ask other replicas for what it does not hold.
    ///
    /// # Errors
    /// There can be no client.
    pub fn with_peers(mut self, addresses: watch::Receiver<Vec<String>>) -> Result<Self, Error> {
        self.peers = Some(Arc::new(Peers::new(&self.env, addresses)?));
        Ok(self)
    }

    /// Whether an address is that of a path here, or at a replica of ours.
    pub fn is_ours(&self, url: &str, path: &str) -> bool {
        if url == self.url(path) {
            return true;
        }
        let rest = url.strip_prefix("http://");
        let address = rest.and_then(|rest| rest.strip_suffix(path)?.strip_suffix('/'));
        let (Some(address), Some(peers)) = (address, &self.peers) else {
            return false;
        };
        let addresses = peers.addresses.borrow();
        addresses.iter().any(|known| known == address)
    }

    /// Whether a file is here with its digest, in the end: replicas that hold it are asked for it. Without other replicas
    /// it is not looked for at all.
    pub async fn bring(&self, path: &str, digest: &str) -> bool {
        let (Some(peers), Ok(digest)) = (self.peers.clone(), Digest::parse(digest)) else {
            return false;
        };
        if parts(path).is_none() {
            return false;
        }
        let turn = peers.turn(path);
        let _turn = turn.lock().await;
        let brought = self.holds(path, &digest).await || self.ask(&peers, path, &digest).await;
        peers.done(path);
        brought
    }

    /// Whether a file is here with its digest. Another one is left alone: anybody may say that a path has some digest.
    async fn holds(&self, path: &str, digest: &Digest) -> bool {
        let (path, digest) = (path.to_owned(), digest.clone());
        let work = move |disk: &dyn Disk| {
            let found = disk
                .open(&path)
                .and_then(|file| digest_reader(digest.algorithm(), file));
            Ok(found.is_ok_and(|found| found == digest))
        };
        matches!(self.blocking(work).await, Ok(true))
    }

    async fn ask(&self, peers: &Peers, path: &str, digest: &Digest) -> bool {
        let addresses = peers.addresses.borrow().clone();
        for address in addresses {
            if matches!(
                self.take_from(peers, &address, path, digest).await,
                Ok(true)
            ) {
                return true;
            }
        }
        false
    }

    /// Takes a file from one peer; whether it was what it should be.
    async fn take_from(
        &self,
        peers: &Peers,
        address: &str,
        path: &str,
        digest: &Digest,
    ) -> Result<bool, Error> {
        let Some((owner, name)) = parts(path) else {
            return Ok(false);
        };
        let url = Url::parse(&format!("http://{address}/{path}"))?;
        let request = Request::get(&url).with_header(FROM_PEER, "1");
        let deadline = peers.client.deadline(SPAN);
        let answer = peers.client.send(request, &deadline);
        let Ok(answer) = within(&*self.env.clock, ANSWER, answer).await else {
            return Ok(false);
        };
        let response = answer?.success()?;
        let place = self.temporary("peer").await?;
        let file = place.file("content");
        let saved = save(&self.env, response.body, &file, digest.algorithm(), LARGEST).await?;
        let (found, size) = saved;
        if found != *digest {
            return Ok(false);
        }
        let stored = self
            .publish_copy(&file, &owner, name, (found, size))
            .await?;
        Ok(stored.is_some())
    }
}
