//! The API server itself: pure request handling over the store, without any transport.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::auth::{Authenticator, User};
use crate::env::Environment;
use crate::faults::{Backup, Commits, View};
use crate::resource::Registry;
use crate::rest::request::{Answer, Request, target};
use crate::status::{ApiError, ApiResult};
use crate::store::Store;
use crate::time::Timestamp;

/// How a server behaves.
#[derive(Clone)]
pub struct Options {
    /// How many changes are kept per kind.
    pub window: usize,
    /// Whether callers need credentials and rights.
    pub authorization: bool,
    /// The secret that signs tokens of service accounts; without one they end with the server.
    pub signing_key: Option<Vec<u8>>,
    /// Tokens and the callers they stand for.
    pub tokens: Vec<(String, User)>,
    /// The caller of requests without credentials when there is no authorization.
    pub default_user: User,
    /// The address range of Services.
    pub service_range: [u8; 2],
    /// Whether Services may have IPv6 addresses too.
    pub dual_stack: bool,
    /// How long workloads take to come up.
    pub workload_delay: std::time::Duration,
    /// The authority of the server's certificate as PEM text, which namespaces get as `kube-root-ca.crt`.
    pub root_certificate: Option<String>,
    /// The controllers that run.
    pub controllers: Vec<crate::controllers::Controller>,
}

/// Tokens and keys are secrets: they are counted, not shown.
impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options")
            .field("window", &self.window)
            .field("authorization", &self.authorization)
            .field("has_signing_key", &self.signing_key.is_some())
            .field("tokens", &self.tokens.len())
            .field("default_user", &self.default_user)
            .field("service_range", &self.service_range)
            .field("dual_stack", &self.dual_stack)
            .field("workload_delay", &self.workload_delay)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The same options with the controllers of a command line: `all`, `none` or a list of names.
    pub fn with_controllers(mut self, text: &str) -> Result<Self, String> {
        self.controllers = crate::controllers::Controller::parse(text)?;
        Ok(self)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            window: 4096,
            authorization: false,
            tokens: Vec::new(),
            signing_key: None,
            default_user: User::admin(),
            service_range: [10, 96],
            dual_stack: false,
            workload_delay: std::time::Duration::ZERO,
            root_certificate: None,
            controllers: Vec::new(),
        }
    }
}

/// The largest body that is read.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

struct Inner {
    store: Store,
    env: Arc<dyn Environment>,
    registry: RwLock<Arc<Registry>>,
    options: Options,
    authenticator: Authenticator,
    allocator: crate::kinds::service::Allocator,
    tasks: Mutex<std::collections::VecDeque<crate::controllers::Task>>,
    later: Mutex<std::collections::BTreeMap<(Timestamp, u64), crate::controllers::Task>>,
    owners: crate::controllers::OwnerIndex,
    /// Held while controllers work: what they see of each other is in order.
    settling: Mutex<()>,
    /// Held by every write from reading the old object to committing the new one.
    writing: Mutex<()>,
}

/// The API server. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
    view: Option<Arc<View>>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ApiServer")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server with an empty store in memory.
    pub fn new(env: Arc<dyn Environment>, options: Options) -> Self {
        let store = Store::new(options.window);
        Self::with_store(env, options, store)
    }

    /// A server on a store.
    pub fn with_store(env: Arc<dyn Environment>, options: Options, store: Store) -> Self {
        let server = Self::bare(env, options, store, Registry::shared());
        crate::crd::restore(&server);
        server.resume();
        crate::bootstrap::run(&server);
        server
    }

    /// A server of its own that begins where this one is: the same objects and kinds, with another clock and other
    /// chance. It costs little, since nothing is read or set up again. `observer` is told of all that is written.
    pub fn fork(&self, env: Arc<dyn Environment>, observer: Option<Arc<dyn Commits>>) -> Self {
        let store = self.store().fork(observer);
        let server = Self::bare(env, self.options().clone(), store, self.registry());
        server.resume();
        server
    }

    fn bare(
        env: Arc<dyn Environment>,
        options: Options,
        store: Store,
        registry: Arc<Registry>,
    ) -> Self {
        let authenticator = Authenticator::new(&options, &*env);
        let allocator =
            crate::kinds::service::Allocator::new(options.service_range, options.dual_stack);
        for service in store.list("/services", "", None, 0).items {
            allocator.adopt(&service.value);
        }
        let inner = Inner {
            store,
            env,
            registry: RwLock::new(registry),
            options,
            authenticator,
            allocator,
            tasks: Mutex::default(),
            later: Mutex::default(),
            settling: Mutex::new(()),
            owners: crate::controllers::OwnerIndex::default(),
            writing: Mutex::new(()),
        };
        ApiServer {
            inner: Arc::new(inner),
            view: None,
        }
    }

    /// Takes up what the controllers left behind.
    fn resume(&self) {
        if self.inner.options.controllers.is_empty() {
            return;
        }
        for table in self.store().tables() {
            for stored in self.store().list(&table, "", None, 0).items {
                let (namespace, name) = (
                    crate::kinds::meta::text(&stored.value, "namespace"),
                    crate::kinds::meta::text(&stored.value, "name"),
                );
                let key = if namespace.is_empty() {
                    name.to_owned()
                } else {
                    format!("{namespace}/{name}")
                };
                self.owners().record(&table, &key, &stored.value);
                crate::controllers::resume(self, &table, &key);
            }
        }
    }

    /// The same server as one that has seen only what a view shows.
    #[must_use]
    pub fn seen_through(mut self, view: Arc<View>) -> Self {
        self.view = Some(view);
        self
    }

    /// The view it is seen through.
    pub(crate) fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    /// The revision where the view is held, when that is not the newest one.
    pub(crate) fn held_at(&self) -> Option<u64> {
        let limit = self.view.as_ref()?.limit()?;
        (limit < self.store().revision()).then_some(limit)
    }

    /// The newest revision that is shown.
    pub fn shown_revision(&self) -> u64 {
        self.held_at().unwrap_or_else(|| self.store().revision())
    }

    /// Kills the server: requests and watches break, and nothing it still does counts. Another server may start from
    /// what its journal kept.
    pub fn crash(&self) {
        self.store().crash();
    }

    /// All that the server knows now, to [go back](ApiServer::go_back) to.
    pub fn backup(&self) -> Backup {
        Backup {
            stored: self.store().snapshot(),
            registry: self.registry(),
        }
    }

    /// The cluster is restored from a backup: what happened since has never been, and revisions are given out a second
    /// time. All connections break, as when the servers are started again.
    pub fn go_back(&self, backup: &Backup) {
        let _settling = self.settling();
        let _writing = self.write_lock();
        let (tasks, later) = (&self.inner.tasks, &self.inner.later);
        tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        later.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.change_registry(|registry| *registry = (*backup.registry).clone());
        self.store().go_back(&backup.stored);
        self.owners().clear();
        self.resume();
    }

    /// Whether the server is dead.
    pub fn is_crashed(&self) -> bool {
        self.store().crashed().is_set()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Time and randomness.
    pub fn env(&self) -> &dyn Environment {
        &*self.inner.env
    }

    /// How the server behaves.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Who tokens stand for.
    pub fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    /// Addresses and ports of Services.
    pub fn allocator(&self) -> &crate::kinds::service::Allocator {
        &self.inner.allocator
    }

    /// The resources known now.
    pub fn registry(&self) -> Arc<Registry> {
        self.inner
            .registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the resources.
    pub fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut guard = self
            .inner
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut guard));
    }

    /// Keeps other writers out.
    pub fn write_lock(&self) -> MutexGuard<'_, ()> {
        self.inner
            .writing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something to look at after the current write.
    pub fn note(&self, task: crate::controllers::Task) {
        self.inner
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(task);
    }

    /// Notes something to look at when its time has come.
    pub fn note_later(&self, when: Timestamp, task: crate::controllers::Task) {
        let mut later = self
            .inner
            .later
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Once is enough for one moment.
        let same_moment = later.range((when, 0)..=(when, u64::MAX));
        let mut next = 0;
        for ((_, index), known) in same_moment {
            if *known == task {
                return;
            }
            next = index + 1;
        }
        later.insert((when, next), task);
    }

    /// When there is something to do without a request: then [`ApiServer::tick`] should be called.
    pub fn next_due(&self) -> Option<Timestamp> {
        let later = self
            .inner
            .later
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        later.first_key_value().map(|((when, _), _)| *when)
    }

    /// Does what has become due since the last request.
    pub fn tick(&self) {
        crate::controllers::settle(self);
    }

    /// Keeps other controllers waiting.
    pub(crate) fn settling(&self) -> MutexGuard<'_, ()> {
        self.inner
            .settling
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Who owns what.
    pub fn owners(&self) -> &crate::controllers::OwnerIndex {
        &self.inner.owners
    }

    /// The next thing to look at.
    pub fn next_task(&self) -> Option<crate::controllers::Task> {
        let waiting = self
            .inner
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        if waiting.is_some() {
            return waiting;
        }
        let mut later = self
            .inner
            .later
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ((when, _), _) = later.first_key_value()?;
        if self.inner.env.now() < *when {
            return None;
        }
        later.pop_first().map(|(_, task)| task)
    }

    /// Answers a request. A watch is answered with a stream that the caller reads.
    pub fn handle(&self, request: &Request) -> Answer {
        if self.is_crashed() {
            return Answer::failure(&crate::rest::write::crashed());
        }
        let answer = self.handle_quietly(request);
        crate::controllers::settle(self);
        answer
    }

    /// As [`ApiServer::handle`], without looking at what the request left to be done.
    pub(crate) fn handle_quietly(&self, request: &Request) -> Answer {
        match self.try_handle(request) {
            Ok(answer) => answer,
            Err(error)
                if error
                    .headers
                    .iter()
                    .any(|(name, _)| *name == "x-plain-not-found") =>
            {
                Answer::text(404, "404 page not found\n")
            }
            Err(error) => crate::negotiate::failure(request, &error),
        }
    }

    fn try_handle(&self, request: &Request) -> ApiResult<Answer> {
        let user = crate::auth::authenticate(self, request)?;
        let named = target(request)?;
        let user = crate::auth::impersonate(self, request, named.as_ref(), user)?;
        crate::auth::authorize(self, request, named.as_ref(), &user)?;
        if request.body.is_longer_than(BODY_LIMIT) {
            return Err(ApiError::too_large(format!(
                "Request entity too large: limit is {BODY_LIMIT}"
            )));
        }
        if let Some(target) = &named {
            return crate::rest::dispatch(self, request, target, &user);
        }
        let answer = crate::discovery::answer(self, request)?;
        Ok(answer.unwrap_or_else(|| Answer::text(404, "404 page not found\n")))
    }
}
