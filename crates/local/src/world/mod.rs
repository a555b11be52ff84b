//! A cluster in memory with the controllers that ship, for one repository.

mod kinds;
mod look;
mod manifests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everflow_api::inventory::ObjectId;
use everflow_api::{names, view};
use everflow_cluster::auth::User;
use everflow_cluster::{ApiServer, ApiService, Options as ServerOptions};
use everflow_controllers::{Fingerprint, Options, RemoteClusters, Setup, resources};
use everflow_embedded::{EmbeddedAdmission, EmbeddedTransport, ServerWorld};
use everflow_env::{Disk, Env, OfflineDialer};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage, StorageOptions};
use everflow_json::{Value, json};
use everflow_kustomize::Limits;
use everflow_runtime::client::{At, Client, Patch, WriteOptions};
use everflow_runtime::events::{CollectingSink, recorder};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::{Signal, attempt::Controller};
use everflow_time::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::Error;
use crate::neighbours;
use crate::picture::{HEALTH_FAILED, Node, Picture, State};
use crate::skipped_release::SkippedReleases;
use crate::stand_in::{StandIn, StandIns};
use kinds::flux_kind;
pub use kinds::{delivered, has_kind, unsupported};
pub use look::{Detail, MissingReference};
pub use manifests::Manifests;

/// Whose fields the objects are that a world begins with.
const MANAGER: &str = "everflow-up";
/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a world is made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is applied first, in this order: definitions, Secrets, the source and the first
    /// Kustomization.
    pub first: Vec<Value>,
    /// Which directories stand for which sources, and whether the network is used at all.
    pub stand_ins: StandIns,
    /// The Secrets that were given by hand, which are the only ones whose kubeconfigs count: nothing that a
    /// repository brings leads to another cluster.
    pub kubeconfigs: BTreeSet<Fingerprint>,
    /// Whether versions that are not served any more are taken for those of today.
    pub as_served: bool,
    /// Whether placeholders stand for values that cannot be had.
    pub placeholders: bool,
    /// How much one build may go over.
    pub build_limits: Limits,
    /// The Secret with the keys of all Kustomizations that have none of their own.
    pub keys: String,
    /// The feature gates of the cluster that are on and are off by default.
    pub features: Vec<String>,
    /// The range of addresses that Services have, when it is not the usual one.
    pub service_range: Option<[u8; 2]>,
    /// Whether Services may have IPv6 addresses too.
    pub dual_stack: bool,
    /// Whether variables without a value are empty instead of a mistake.
    pub unset_variables: bool,
    /// How long workloads take to come up.
    pub workload_delay: Duration,
    /// Where the log goes.
    pub log: Logger,
    /// The moment that charts see, where all runs are to render the same.
    pub rendered_as_of: Option<Timestamp>,
    /// Who is handed the events of the controllers, if anybody is.
    pub notices: Option<CollectingSink>,
}

impl Plan {
    /// A plan of an ordinary cluster with nothing in it.
    pub fn new(stand_ins: StandIns, log: Logger) -> Self {
        Plan {
            first: Vec::new(),
            stand_ins,
            kubeconfigs: BTreeSet::new(),
            as_served: false,
            placeholders: false,
            build_limits: Limits::default(),
            keys: String::new(),
            features: Vec::new(),
            service_range: None,
            dual_stack: false,
            unset_variables: false,
            rendered_as_of: None,
            notices: None,
            workload_delay: Duration::ZERO,
            log,
        }
    }
}

/// A world that runs.
pub struct World {
    env: Env,
    /// What refuses connections to others, when the network is not used.
    offline: Option<OfflineDialer>,
    server: ApiServer,
    client: Client,
    token: String,
    stop: Signal,
    tasks: JoinSet<()>,
    requests: u64,
}

/// How bringing up ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing moves any more.
    Settled,
    /// The time was up while something still moved.
    OutOfTime,
}

impl World {
    /// Starts the cluster, applies what comes first, and lets the controllers run.
    pub async fn start(mut env: Env, plan: Plan) -> Result<World, Error> {
        let offline = plan.stand_ins.offline;
        let offline = offline.then(|| OfflineDialer::new(env.dialer.clone()));
        if let Some(dialer) = &offline {
            env.dialer = Arc::new(dialer.clone());
        }
        let token: String = (0..4)
            .map(|_| format!("{:016x}", env.random.next()))
            .collect();
        let server = server(&env, &token, &plan)?;
        let service = ApiService::new(server.clone()).as_user(User::admin());
        let transport = EmbeddedTransport::new(service).with_trees(true);
        let client = Client::new(Arc::new(transport), env.clock.clone());
        let mut world = World {
            env,
            offline,
            server,
            client,
            token,
            stop: Signal::new(),
            tasks: JoinSet::new(),
            requests: 0,
        };
        world.keep_time();
        world.begin_with(&plan).await?;
        world.run_controllers(plan).await?;
        Ok(world)
    }

    /// The cluster.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// What opens the cluster's API.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A client of the cluster that may do everything.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What artifacts lie on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.env.disk
    }

    /// Applies one more object, in a namespace that is there then.
    pub async fn add(&self, object: &Value) -> Result<(), Error> {
        self.ensure_namespace(view::namespace(object)).await?;
        self.apply(object).await
    }

    /// How many connections to others were refused, because the network is not used.
    pub fn refused_connections(&self) -> u64 {
        self.offline.as_ref().map_or(0, OfflineDialer::refused)
    }

    /// Lets the cluster's own controllers do what is due.
    fn keep_time(&mut self) {
        let (server, clock, stop) = (
            self.server.clone(),
            self.env.clock.clone(),
            self.stop.clone(),
        );
        self.tasks.spawn(async move {
            while !stop.is_raised() {
                let now = server.env().now();
                if server.next_due().is_some_and(|due| due <= now) {
                    server.tick();
                }
                clock.sleep(Duration::from_millis(20)).await;
            }
        });
    }

    async fn begin_with(&self, plan: &Plan) -> Result<(), Error> {
        for object in beginning() {
            self.apply(&object).await?;
        }
        for object in &plan.first {
            self.add(object).await?;
        }
        Ok(())
    }

    async fn ensure_namespace(&self, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Ok(());
        }
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&namespace).await
    }

    /// Applies an object as somebody with all rights.
    async fn apply(&self, object: &Value) -> Result<(), Error> {
        let refused = |source| Error::Refused {
            object: ObjectId::of(object).subject(),
            source,
        };
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let resource = self.client.resource(text("apiVersion"), text("kind")).await;
        let resource = resource.map_err(refused)?;
        let mut at = At::of(object);
        if resource.namespaced && at.namespace.is_empty() {
            at.namespace = "default";
        }
        let patch = Patch::Apply(object.clone());
        let options = WriteOptions::by(MANAGER).force();
        self.client
            .patch(&resource, at, &patch, &options)
            .await
            .map(|_| ())
            .map_err(refused)
    }

    async fn run_controllers(&mut self, plan: Plan) -> Result<(), Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|source| Error::Read {
            path: "a port of this machine".to_owned(),
            source,
        })?;
        let address = listener.local_addr().map_err(|source| Error::Read {
            path: "the port of the artifact server".to_owned(),
            source,
        })?;
        if let Some(dialer) = &self.offline {
            dialer.allow(&address.ip().to_string(), address.port());
        }
        let storage = StorageOptions {
            advertised: address.to_string(),
            ..StorageOptions::default()
        };
        let storage = Storage::open(&self.env, storage).await?;
        let files = FileServer::new(&self.env, ServerLimits::default());
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            files
                .run(listener, async move { stop.raised().await })
                .await;
        });
        let metrics = Metrics::new();
        let (mut recorder, event_sender) =
            recorder(&self.env, &self.client, &metrics, None, "everflow-up")?;
        if let Some(notices) = &plan.notices {
            recorder = recorder.with_sink(Arc::new(notices.clone()));
        }
        let setup = Setup {
            env: self.env.clone(),
            client: self.client.clone(),
            options: options(&plan),
            admission: Some(Arc::new(EmbeddedAdmission)),
            storage: storage.clone(),
            log: plan.log,
            metrics,
        };
        let stand_ins = Arc::new(plan.stand_ins);
        let around = move |inner: Arc<dyn Controller>| -> Arc<dyn Controller> {
            if inner.resource().group == names::group::SOURCE {
                return Arc::new(StandIn {
                    inner,
                    stand_ins: stand_ins.clone(),
                    storage: storage.clone(),
                });
            }
            match stand_ins.offline && *inner.resource() == resources::HELM_RELEASES {
                true => Arc::new(SkippedReleases { inner }),
                false => inner,
            }
        };
        let mut builder = setup.builder(&delivered()).wrap(around);
        for controller in unsupported() {
            builder = builder.controller(controller, |_| false);
        }
        let engine = builder.build(recorder);
        self.tasks.spawn(event_sender.run());
        self.tasks.spawn(engine.run(None, self.stop.clone()));
        Ok(())
    }

    /// Waits until nothing moves any more, or the time is up. What failed is tried once more when
    /// all else has come to rest: it may have failed only because something else was not there yet.
    pub async fn settle(
        &mut self,
        patience: Duration,
        detail: Detail,
        mut seen: impl FnMut(&Picture),
    ) -> Result<(Picture, Ended), Error> {
        let until = self.env.clock.elapsed() + patience;
        let mut tried_again = false;
        loop {
            let began = self.env.clock.elapsed();
            let picture = self.picture(detail).await?;
            let looking = self.env.clock.elapsed().saturating_sub(began);
            seen(&picture);
            if picture.is_settled() {
                if picture.is_ready() || tried_again {
                    // Something may have been about to move.
                    let last = self.picture(Detail::Everything).await?;
                    if last.is_settled() {
                        return Ok((last, Ended::Settled));
                    }
                } else {
                    tried_again = true;
                    self.try_again(&picture).await?;
                }
            }
            if self.env.clock.elapsed() >= until {
                return Ok((self.picture(Detail::Everything).await?, Ended::OutOfTime));
            }
            // Looking must not cost more than what is looked at.
            self.env.clock.sleep(LOOK.max(looking * 4)).await;
        }
    }

    /// Asks for another attempt of all that failed, and waits until it was made: first of what failed by
    /// itself, then of what failed because others did.
    async fn try_again(&mut self, picture: &Picture) -> Result<(), Error> {
        let by_others = |node: &&Node| node.reason == HEALTH_FAILED;
        let failed = picture
            .all()
            .filter(|node| node.state == State::Failed || by_others(node));
        let (then, first): (Vec<&Node>, Vec<&Node>) = failed.partition(by_others);
        self.attempt_again(&first).await?;
        self.attempt_again(&then).await
    }

    async fn attempt_again(&mut self, nodes: &[&Node]) -> Result<(), Error> {
        let mut asked = Vec::new();
        for node in nodes {
            // Of a release that left something behind the next attempt would be another action: that one has
            // failed stays true.
            let live = self.flux_object(&node.id).await.unwrap_or_default();
            let left_nothing = live.pointer("/status/history/0").is_none();
            asked.push((&node.id, left_nothing));
        }
        let token = self.ask(&asked).await;
        let until = self.env.clock.elapsed() + Duration::from_secs(30);
        for (id, _) in asked {
            while self.env.clock.elapsed() < until {
                let Some(object) = self.flux_object(id).await else {
                    break;
                };
                if view::last_handled_reconcile_at(&object) == Some(&token) {
                    break;
                }
                self.env.clock.sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Asks for an attempt of these objects now, as `flux reconcile` does. The answer is what
    /// `lastHandledReconcileAt` will be.
    pub async fn request(&mut self, ids: &[ObjectId]) -> Result<String, Error> {
        let asked: Vec<(&ObjectId, bool)> = ids.iter().map(|id| (id, false)).collect();
        Ok(self.ask(&asked).await)
    }

    /// The same; where it is said so the retries of HelmReleases are counted anew.
    async fn ask(&mut self, asked: &[(&ObjectId, bool)]) -> String {
        self.requests += 1;
        let token = format!("everflow-{}", self.requests);
        for (id, resets) in asked {
            let Some(resource) = flux_kind(id) else {
                continue;
            };
            let mut annotations = json!({ names::annotation::REQUESTED_AT: token });
            if *resets {
                annotations[names::annotation::RESET_AT] = json!(token);
            }
            let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
            let at = At::new(&id.namespace, &id.name);
            let options = WriteOptions::by(MANAGER);
            // One that has gone meanwhile needs no attempt.
            let _ = self.client.patch(&resource, at, &patch, &options).await;
        }
        token
    }

    /// Lets the controllers come to their safe points and ends everything.
    pub async fn stop(mut self) {
        self.stop.raise();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = everflow_env::within(&*self.env.clock, Duration::from_secs(5), all).await;
    }
}

/// What every world has before anything of a repository is in it.
pub fn beginning() -> Vec<Value> {
    let mut objects = neighbours::definitions();
    objects.extend(neighbours::accounts());
    objects
}

fn server(env: &Env, token: &str, plan: &Plan) -> Result<ApiServer, Error> {
    let options = ServerOptions {
        authorization: true,
        tokens: vec![(token.to_owned(), User::admin())],
        ..server_options(plan)?
    };
    let world = ServerWorld::new(env.clock.clone(), env.random.clone());
    let world = world.with_features(&plan.features);
    Ok(ApiServer::new(Arc::new(world), options))
}

/// The cluster that a repository wants.
///
/// # Errors
/// The cluster has no such controllers.
pub fn server_options(plan: &Plan) -> Result<ServerOptions, Error> {
    let mut options = ServerOptions {
        workload_delay: plan.workload_delay,
        dual_stack: plan.dual_stack,
        ..ServerOptions::default()
    };
    if let Some(range) = plan.service_range {
        options.service_range = range;
    }
    options.with_controllers("all").map_err(Error::Server)
}

/// Somebody waits for the outcome: short pauses.
pub fn options(plan: &Plan) -> Options {
    let mut options = Options::default();
    options.kustomize.alone = true;
    options.kustomize.as_served = plan.as_served;
    options.kustomize.placeholders = plan.placeholders;
    options.kustomize.build_limits = plan.build_limits;
    options.kustomize.without_remote = plan.stand_ins.offline;
    options.kustomize.remote_clusters =
        RemoteClusters::given(plan.kubeconfigs.clone(), plan.stand_ins.offline);
    options.kustomize.sops_age_secret = plan.keys.clone();
    options.runtime.requeue_dependency = Duration::from_secs(2);
    options.runtime.min_retry_delay = Duration::from_millis(300);
    options.runtime.max_retry_delay = Duration::from_secs(30);
    options.kustomize.http_retry = 2;
    options.helm.rendered_as_of = plan.rendered_as_of;
    // Nothing is lost here that was there before.
    options.helm.guard.enabled = false;
    options.gates.external_artifact = true;
    options.gates.strict_post_build_substitutions = !plan.unset_variables;
    options
}
