//! The keys that tokens are verified with: fetched from their issuers, kept for a while, fetched anew when a token is
//! signed with one that is not known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use everflow_env::Env;
use everflow_fetch::http::{Client, ClientOptions, Limits, Request};
use everflow_fetch::{Deadline, Url};
use everflow_notify::receiver::{Discovery, GOOGLE_KEYS, KeySet, KeySource, Keys};
use tokio::sync::Mutex;

/// How long keys are kept.
const FRESH: Duration = Duration::from_secs(3_600);
/// How long they still count while the issuer cannot be reached.
const STALE: Duration = Duration::from_secs(24 * 3_600);
/// However often tokens with unknown keys come, an issuer is not asked more often.
const AT_MOST: Duration = Duration::from_secs(10);
/// How long an issuer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest document of an issuer.
const LARGEST: u64 = 1 << 20;
/// The keys of so many issuers are kept.
const ISSUERS: usize = 256;

#[derive(Debug, Default)]
struct Cached {
    keys: Option<Keys>,
    fetched: Duration,
    /// When the issuer was last asked, and what came of it when that was nothing.
    asked: Option<(Duration, String)>,
}

/// The keys of issuers. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct KeyCache {
    env: Env,
    issuers: Arc<SyncMutex<BTreeMap<String, Arc<Mutex<Cached>>>>>,
}

impl KeyCache {
    pub(super) fn new(env: &Env) -> Self {
        KeyCache {
            env: env.clone(),
            issuers: Arc::default(),
        }
    }

    fn of(&self, issuer: &str) -> Arc<Mutex<Cached>> {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if issuers.len() >= ISSUERS && !issuers.contains_key(issuer) {
            issuers.clear();
        }
        issuers.entry(issuer.to_owned()).or_default().clone()
    }

    /// The keys for a token, or why they cannot be had.
    pub(super) async fn keys(&self, source: &KeySource, token: &str) -> Result<Keys, String> {
        let issuer = match source {
            KeySource::Issuer(issuer) => issuer.as_str(),
            KeySource::Google => GOOGLE_KEYS,
        };
        // One request for all who wait for the same issuer.
        let cached = self.of(issuer);
        let mut cached = cached.lock().await;
        let now = self.env.clock.elapsed();
        let age = now.saturating_sub(cached.fetched);
        if let Some(keys) = &cached.keys
            && age < FRESH
            && keys.set.may_verify(token)
        {
            return Ok(keys.clone());
        }
        let mut why = match &cached.asked {
            Some((asked, why)) if now.saturating_sub(*asked) < AT_MOST => Some(why.clone()),
            _ => None,
        };
        if why.is_none() {
            match self.fetch(source).await {
                Ok(keys) => {
                    cached.keys = Some(keys);
                    cached.fetched = now;
                    cached.asked = Some((now, String::new()));
                }
                Err(problem) => {
                    cached.asked = Some((now, problem.clone()));
                    why = Some(problem);
                }
            }
        }
        let age = now.saturating_sub(cached.fetched);
        match &cached.keys {
            Some(keys) if age < STALE => Ok(keys.clone()),
            _ => Err(why.unwrap_or_default()),
        }
    }

    async fn fetch(&self, source: &KeySource) -> Result<Keys, String> {
        let options = ClientOptions {
            limits: Limits {
                body: LARGEST,
                ..Limits::default()
            },
            ..ClientOptions::default()
        };
        let client = Client::new(&self.env, options).map_err(|error| error.to_string())?;
        let deadline = Deadline::after(&self.env.clock, PATIENCE);
        let issuer = match source {
            KeySource::Google => {
                let set = get(&client, &parse(GOOGLE_KEYS)?, None, &deadline).await?;
                let set = KeySet::read(&set).map_err(|error| error.to_string())?;
                return Ok(Keys::google(set));
            }
            KeySource::Issuer(issuer) => issuer,
        };
        let address = parse(&Discovery::address(issuer))?;
        let document = get(&client, &address, None, &deadline).await?;
        let discovery = Discovery::read(&document, issuer).map_err(|error| error.to_string())?;
        let keys_at = parse(&discovery.keys_address)?;
        let set = get(&client, &keys_at, Some(&address), &deadline).await?;
        Ok(Keys {
            set: KeySet::read(&set).map_err(|error| error.to_string())?,
            algorithms: discovery.algorithms,
        })
    }
}

fn parse(address: &str) -> Result<Url, String> {
    Url::parse(address).map_err(|error| error.to_string())
}

async fn get(
    client: &Client,
    url: &Url,
    named_by: Option<&Url>,
    deadline: &Deadline,
) -> Result<Vec<u8>, String> {
    let mut request = Request::get(url);
    request.named_by = named_by.cloned();
    request.guarded = true;
    let answer = async {
        let response = client.send(request, deadline).await?.success()?;
        response.body.read_all(LARGEST).await
    };
    answer.await.map_err(|error| error.to_string())
}
