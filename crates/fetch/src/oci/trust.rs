//! The root of trust of the public instance of Sigstore, refreshed once a day.
//!
//! The first state is the root that the program was built with, so that a machine without a network
//! can verify too. What a refresh brought is kept on disk; when one fails, what is there goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_cosign::{
    Answer, Files, Mirror, SIGSTORE_MIRROR, TrustRoot, embedded_update_root, update,
};
use everflow_env::{Env, disk, run_blocking};
use everflow_json::{Value, json};
use tokio::sync::Mutex;

use crate::http::{Client, ClientOptions, Request, TlsOptions};
use crate::{Deadline, Error, Url};

/// Where it is kept.
const DIRECTORY: &str = "sigstore";
/// The largest such file: the root and a handful of signed files of some thousand bytes each.
const LARGEST: u64 = 16 << 20;
/// How long a root is good for.
const DAILY: i64 = 24 * 60 * 60;
/// How long after a failure the next attempt is.
const RETRY: i64 = 60 * 60;
/// How long one refresh may take, because verifications wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest file of a mirror.
const LARGEST_FILE: u64 = 5 << 20;

/// Where the root is refreshed from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The address of the mirror.
    pub url: String,
    /// Whom to trust on the way to it.
    pub tls: TlsOptions,
    /// Who may first say what the root is.
    pub first: Vec<u8>,
    /// The name of the file it is kept in: each who refreshes has one, because two would write over
    /// each other.
    pub file: String,
}

impl Default for Source {
    fn default() -> Self {
        Source {
            url: SIGSTORE_MIRROR.to_owned(),
            tls: TlsOptions::default(),
            first: embedded_update_root().to_vec(),
            file: "trust.json".to_owned(),
        }
    }
}

/// What became of a refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refresh {
    /// None was due.
    NotDue,
    /// The root is that of now.
    Done,
    /// The root is that of now, but the next start will not know it, for this reason.
    NotKept(String),
    /// It is as old as it was, for this reason.
    Failed(String),
}

#[derive(Debug, Default)]
struct State {
    root: Option<TrustRoot>,
    files: Files,
    /// When the next refresh is due, in seconds since 1970.
    due: i64,
}

/// The root of trust of now.
#[derive(Debug, Default)]
pub struct TrustRoots {
    source: Source,
    state: Mutex<State>,
}

impl TrustRoots {
    /// Refreshed from somewhere else.
    pub fn new(source: Source) -> Self {
        TrustRoots {
            source,
            state: Mutex::default(),
        }
    }

    /// The root to verify with, refreshed before when that is due.
    pub async fn current(
        &self,
        env: &Env,
        deadline: &Deadline,
    ) -> Result<(TrustRoot, Refresh), Error> {
        let mut state = self.state.lock().await;
        if state.root.is_none() {
            *state = self.kept(env).await.unwrap_or_default();
        }
        let now = env.clock.now().seconds;
        let mut refresh = Refresh::NotDue;
        // One that is due later than a day from now was kept under a clock that went wrong.
        if now >= state.due || state.due > now + DAILY {
            refresh = match self.refresh(env, &state.files, now, deadline).await {
                Ok((newer, kept)) => {
                    *state = newer;
                    kept.map_or_else(Refresh::NotKept, |()| Refresh::Done)
                }
                Err(why) => {
                    state.due = now + RETRY;
                    Refresh::Failed(why)
                }
            };
        }
        let root = match &state.root {
            Some(root) => root.clone(),
            None => {
                let embedded = TrustRoot::embedded()?;
                state.root.insert(embedded).clone()
            }
        };
        Ok((root, refresh))
    }

    async fn refresh(
        &self,
        env: &Env,
        files: &Files,
        now: i64,
        deadline: &Deadline,
    ) -> Result<(State, Result<(), String>), String> {
        let deadline = deadline.at_most(PATIENCE);
        let options = ClientOptions {
            tls: self.source.tls.clone(),
            ..ClientOptions::default()
        };
        let mirror = HttpMirror {
            client: Client::new(env, options).map_err(|error| error.to_string())?,
            base: self.source.url.trim_end_matches('/').to_owned(),
            deadline: deadline.clone(),
        };
        let updated = update(mirror, &self.source.first, files.clone(), now);
        let updated = deadline.wait(updated).await;
        let updated = updated
            .ok_or_else(|| format!("no answer within {} seconds", PATIENCE.as_secs()))?
            .map_err(|error| error.to_string())?;
        let state = State {
            root: Some(updated.root),
            files: updated.files,
            due: now + DAILY,
        };
        let kept = self.keep(env, &state, &updated.json).await;
        Ok((state, kept))
    }

    fn path(&self) -> String {
        format!("{DIRECTORY}/{}", self.source.file)
    }

    /// What an earlier refresh brought.
    async fn kept(&self, env: &Env) -> Option<State> {
        let (disk, path) = (env.disk.clone(), self.path());
        let read = move || -> Option<State> {
            let bytes = disk::read_all(&*disk, &path, LARGEST).ok()?;
            let kept: Value = everflow_json::from_slice(&bytes).ok()?;
            let mut files = BTreeMap::new();
            for (name, text) in kept.get("files")?.as_object()? {
                files.insert(name.to_string(), text.as_str()?.as_bytes().to_vec());
            }
            let root = kept.get("trustedRoot")?.as_str()?;
            Some(State {
                root: Some(TrustRoot::from_json(root.as_bytes()).ok()?),
                files,
                due: kept.get("due")?.as_i64()?,
            })
        };
        run_blocking(&*env.blocking, read).await?
    }

    /// Keeps what a refresh brought.
    async fn keep(&self, env: &Env, state: &State, root: &[u8]) -> Result<(), String> {
        let mut files = json!({});
        for (name, bytes) in &state.files {
            files[name.as_str()] = json!(String::from_utf8_lossy(bytes).into_owned());
        }
        let root = String::from_utf8_lossy(root).into_owned();
        let kept = json!({"due": state.due, "trustedRoot": root, "files": files});
        let (disk, path) = (env.disk.clone(), self.path());
        let write = move || {
            disk::write_whole(&*disk, &path, kept.to_string().as_bytes())
                .map_err(|error| format!("failed to write {path}: {error}"))
        };
        let written = run_blocking(&*env.blocking, write).await;
        written.ok_or_else(|| Error::Lost.to_string())?
    }
}

/// A mirror behind HTTPS.
struct HttpMirror {
    client: Client,
    base: String,
    deadline: Deadline,
}

impl Mirror for HttpMirror {
    fn get<'a>(&'a self, path: String, limit: u64) -> Answer<'a> {
        Box::pin(async move {
            let fetched = async {
                let url = Url::parse(&format!("{}/{path}", self.base))?;
                let response = self.client.send(Request::get(&url), &self.deadline).await?;
                // A store without listing says 403 for what is not there.
                if matches!(response.status.as_u16(), 403 | 404) {
                    return Ok(None);
                }
                let body = response.success()?.body;
                Ok::<_, Error>(Some(body.read_all(limit.min(LARGEST_FILE)).await?))
            };
            fetched.await.map_err(|error| error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use everflow_cosign::testing::{Sigstore, TestMirror};
    use everflow_env::{MemoryDialer, SimulatedClock};
    use std::sync::{Arc, Mutex as Guard};

    use super::*;
    use crate::testing::{answer, serve};

    struct World {
        mirror: TestMirror,
        files: Arc<Guard<Files>>,
        clock: Arc<SimulatedClock>,
        env: Env,
    }

    fn world() -> World {
        let dialer = MemoryDialer::new();
        let files: Arc<Guard<Files>> = Arc::default();
        let served = files.clone();
        serve(&dialer, "tuf.test", 80, move |seen| {
            let path = seen
                .line()
                .split(' ')
                .nth(1)
                .unwrap()
                .trim_start_matches('/');
            match served.lock().unwrap().get(path) {
                Some(file) => answer("200 OK", "", file),
                None => answer("404 Not Found", "", b""),
            }
        });
        let mut env = Env::simulated(1, dialer);
        let clock = Arc::new(SimulatedClock::new());
        env.clock = clock.clone();
        World {
            mirror: TestMirror::new(),
            files,
            clock,
            env,
        }
    }

    impl World {
        fn roots(&self) -> TrustRoots {
            TrustRoots::new(Source {
                url: "http://tuf.test/".to_owned(),
                first: self.mirror.first().to_vec(),
                ..Source::default()
            })
        }

        async fn ask(&self, roots: &TrustRoots) -> Refresh {
            let deadline = Deadline::after(&self.env.clock, Duration::from_secs(60));
            roots.current(&self.env, &deadline).await.unwrap().1
        }

        fn publish(&self, root: &str) {
            *self.files.lock().unwrap() = self.mirror.files(root);
        }

        fn pass(&self, hours: i64) {
            self.clock
                .jump(everflow_time::Duration::from_seconds(hours * 3600));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_root_is_refreshed_once_a_day_and_kept_for_the_next_start() {
        let mut world = world();
        let roots = world.roots();
        world.publish(&Sigstore::new().trusted_root());
        assert_eq!(world.ask(&roots).await, Refresh::Done);
        assert_eq!(world.ask(&roots).await, Refresh::NotDue);
        world.pass(23);
        // Another start knows what the first one fetched.
        assert_eq!(world.ask(&world.roots()).await, Refresh::NotDue);
        world.pass(2);
        world.mirror.version = 2;
        world.publish(&Sigstore::new().trusted_root());
        assert_eq!(world.ask(&roots).await, Refresh::Done);
        // An older state of the mirror is refused, by another start too.
        world.mirror.version = 1;
        world.publish(&Sigstore::new().trusted_root());
        world.pass(25);
        for roots in [roots, world.roots()] {
            let Refresh::Failed(why) = world.ask(&roots).await else {
                panic!("an older state was taken");
            };
            assert!(why.contains("timestamp"), "{why}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_mirror_the_embedded_root_is_used_and_the_mirror_asked_again_later() {
        let world = world();
        let nobody = TrustRoots::new(Source {
            url: "https://nobody.test".to_owned(),
            ..Source::default()
        });
        assert!(matches!(world.ask(&nobody).await, Refresh::Failed(_)));
        assert_eq!(world.ask(&nobody).await, Refresh::NotDue);
        world.pass(2);
        assert!(matches!(world.ask(&nobody).await, Refresh::Failed(_)));
        let roots = world.roots();
        assert!(matches!(world.ask(&roots).await, Refresh::Failed(_)));
        world.publish(&Sigstore::new().trusted_root());
        world.pass(2);
        assert_eq!(world.ask(&roots).await, Refresh::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forged_mirror_changes_nothing() {
        let world = world();
        let roots = world.roots();
        world.publish(&Sigstore::new().trusted_root());
        assert_eq!(world.ask(&roots).await, Refresh::Done);
        world.pass(25);
        *world.files.lock().unwrap() = world.mirror.forged(&Sigstore::new().trusted_root());
        assert!(matches!(world.ask(&roots).await, Refresh::Failed(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn broken_trust_root_cache_is_fetched_again() {
        let world = world();
        world.publish(&Sigstore::new().trusted_root());
        for broken in [&b"{"[..], br#"{"due":1,"files":{},"trustedRoot":"{}"}"#] {
            disk::write_whole(&*world.env.disk, "sigstore/trust.json", broken).unwrap();
            assert_eq!(world.ask(&world.roots()).await, Refresh::Done);
        }
    }
}
