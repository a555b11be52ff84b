//! `everflow rescue`: delivers from this machine what the engine in the cluster cannot.

mod engine_flags;
mod gone;
mod leases;
mod progress;
mod targets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everflow_api::names::group;
use everflow_controllers::{ControllerKind, Options, Setup};
use everflow_embedded::EmbeddedAdmission;
use everflow_env::{Env, RealDisk, ThreadOptions, within};
use everflow_fetch::storage::{Storage, StorageOptions};
use everflow_local::stand_in::{StandIn, StandIns};
use everflow_runtime::Signal;
use everflow_runtime::attempt::Controller;
use everflow_runtime::client::Client;
use everflow_runtime::engine::Engine;
use everflow_runtime::events::{EventSender, recorder};
use everflow_runtime::lease::LeaseOptions;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::shards::{ShardElection, ShardOptions, shard_of};

use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::{in_runtime, say};
use crate::run::CONTROLLER;
use crate::up::Scratch;
use progress::Progress;
use targets::Targets;

/// How often it is looked whether all is done.
const LOOK: Duration = Duration::from_millis(200);
/// How long the end of attempts and the hand-over may take.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// `everflow rescue`
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The leases of the engine are taken first. Replicas that live are asked for what is needed and hand it over; those of
replicas that are cut off are waited for until they have run out, which takes less than a minute. Those of a pod that does
not exist any more, has ended, or was on a node that does not exist any more are taken at once. A single leader that lives
is not disturbed: scale it down first, or let it do the work.

--default-service-account and --no-cross-namespace-refs are those of the Deployments in the engine's namespace, unless
they are given.

Examples:
  everflow rescue kustomization/apps
  everflow rescue helmrelease/podinfo -n apps
  everflow rescue kustomization/flux-system --path ~/src/fleet
  everflow rescue --all --timeout 15m")]
pub struct Args {
    /// What to deliver: kustomization/NAME (ks/NAME) or helmrelease/NAME (hr/NAME)
    #[arg(
        value_name = "KIND/NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    object: Option<String>,
    /// Deliver every Kustomization and HelmRelease
    #[arg(long)]
    all: bool,
    /// Deliver from this local checkout of the repository instead of fetching it
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The namespace of the engine and of its leases
    #[arg(long, value_name = "NAMESPACE", default_value = "flux-system")]
    engine_namespace: String,
    /// The --watch-label-selector of the engine
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    watch_label_selector: String,
    /// Proceed although the engine runs without leader election, because you are certain that it is stopped
    #[arg(long)]
    engine_is_stopped: bool,
    #[command(flatten)]
    flags: engine_flags::EngineFlags,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(rescue(args))
}

async fn rescue(args: &Args) -> Result<(), Failure> {
    let session = args.connection.open()?;
    let targets = Targets::find(&session, args).await?;
    let found = leases::look(&session.client, args).await?;
    let options_of_engine = engine_flags::options(&session.client, args).await?;
    let scratch = Scratch::new()?;
    let disk = RealDisk::new(&scratch.directory)?;
    let env = Env::system_with(
        disk,
        ThreadOptions::for_memory(everflow_env::memory::limit()),
    );
    let log = Logger::silent(env.clock.clone());
    let metrics = Metrics::new();
    let mut options = ShardOptions::new(lease(args, &env), found.shards);
    let shards = options.shards;
    options.wanted = Some(match &targets.keys {
        Some(keys) => keys.iter().map(|key| shard_of(key, shards)).collect(),
        None => (0..shards).collect(),
    });
    options.only = targets.keys.clone().map(Arc::new);
    let wanted = options.wanted.clone().unwrap_or_default();
    gone::free(&session.client, &found.names(args, &wanted)).await;
    let election = ShardElection::new(&env, &session.client, options, &log, &metrics);
    let mut held = election.shards();
    let (leave, over) = (Signal::new(), Signal::new());
    let electing = tokio::spawn(election.run(leave.clone(), over.clone()));
    let taken = {
        let all = |shards: &everflow_runtime::shards::Shards| shards.held().len() == wanted.len();
        let waiting = held.wait_for(all);
        found.tell(&wanted);
        let taken = within(
            &*env.clock,
            found.patience(&args.connection.timeout),
            waiting,
        )
        .await;
        matches!(taken, Ok(Ok(_)))
    };
    let delivered = match taken {
        false => Err(leases::not_taken(&session.client, args, &found, &wanted).await),
        true => {
            say::success("the leases are ours");
            let world = World {
                args,
                session: &session,
                env: &env,
                log: &log,
                metrics: &metrics,
                targets: &targets,
                options: options_of_engine,
            };
            world.deliver(held).await
        }
    };
    leave.raise();
    over.raise();
    match within(&*env.clock, LAST_WORDS, electing).await {
        Ok(_) if taken => say::success("handed back to the engine"),
        Ok(_) => {}
        Err(_) => say::warning("the leases could not be released: they run out by themselves"),
    }
    delivered
}

/// The lease of the engine, with our name.
fn lease(args: &Args, env: &Env) -> LeaseOptions {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "laptop".to_owned());
    let identity = format!("rescue-{host}_{:016x}", env.random.next());
    LeaseOptions {
        duration: Duration::from_secs(19),
        renew_deadline: Duration::from_secs(15),
        retry_period: Duration::from_secs(3),
        ..LeaseOptions::new(
            &args.engine_namespace,
            CONTROLLER,
            &args.watch_label_selector,
            identity,
        )
    }
}

/// What delivery is made with.
struct World<'w> {
    args: &'w Args,
    session: &'w Session,
    env: &'w Env,
    log: &'w Logger,
    metrics: &'w Metrics,
    targets: &'w Targets,
    /// As the engine in the cluster runs.
    options: Options,
}

impl World<'_> {
    async fn deliver(
        &self,
        held: everflow_env::watch::Receiver<everflow_runtime::shards::Shards>,
    ) -> Result<(), Failure> {
        let progress = Progress::default();
        let (engine, events) = self.engine(&progress).await?;
        let handle = engine.handle();
        let stop = Signal::new();
        let telling = tokio::spawn(events.run());
        let mut running = tokio::spawn(engine.run_shards(held.clone(), stop.clone()));
        let clock = &self.env.clock;
        let until = clock.elapsed() + self.args.connection.timeout;
        let interrupted = crate::cluster::stop_signal();
        let mut interrupted = std::pin::pin!(interrupted);
        let ended = loop {
            let done = self.targets.lacking(&handle, &progress);
            if done.is_empty() {
                break Ok(());
            }
            if held.borrow().held().is_empty() {
                let text = "the leases were lost: nothing more is done; run it again";
                break Err(Failure::Work(text.to_owned()));
            }
            if clock.elapsed() >= until {
                break Err(Failure::Work(format!(
                    "not delivered within {:?}: {}",
                    self.args.connection.timeout,
                    done.join("; ")
                )));
            }
            tokio::select! {
                biased;
                () = &mut interrupted => break Err(Failure::Interrupted("the rescue".to_owned())),
                _ = &mut running => break Err(Failure::Work("the engine ended".to_owned())),
                () = clock.sleep(LOOK) => {}
            }
        };
        stop.raise();
        if !running.is_finished() {
            let _ = within(&**clock, LAST_WORDS, running).await;
        }
        drop(handle);
        let _ = within(&**clock, LAST_WORDS, telling).await;
        ended
    }

    async fn engine(&self, progress: &Progress) -> Result<(Engine, EventSender), Failure> {
        let work = |error: &dyn std::fmt::Display| Failure::Work(error.to_string());
        // Artifacts are named as the engine would name them: whoever takes over finds them there, or makes them anew.
        let storage = StorageOptions {
            advertised: self.targets.advertised.clone(),
            ..StorageOptions::default()
        };
        let storage = Storage::open(self.env, storage)
            .await
            .map_err(|error| work(&error))?;
        let mut options = self.options.clone();
        // What the engine in the cluster serves cannot be had here; the sources are fetched anew.
        options.kustomize.http_retry = 0;
        options.runtime.watch_label_selector = self.args.watch_label_selector.clone();
        options.runtime.stop_grace = Duration::from_secs(5);
        let client: Client = self.session.client.clone();
        let made = recorder(self.env, &client, self.metrics, None, "everflow-rescue");
        let (recorder, events) = made.map_err(|error| work(&error))?;
        let setup = Setup {
            env: self.env.clone(),
            client,
            options,
            admission: Some(Arc::new(EmbeddedAdmission)),
            storage: storage.clone(),
            log: self.log.clone(),
            metrics: self.metrics.clone(),
        };
        let stand_ins = Arc::new(StandIns {
            mapped: self.targets.stand_ins(self.args.path.as_deref())?,
            ..StandIns::default()
        });
        let around = |inner: Arc<dyn Controller>| -> Arc<dyn Controller> {
            let inner = match inner.resource().group == group::SOURCE && self.args.path.is_some() {
                true => Arc::new(StandIn {
                    inner,
                    stand_ins: stand_ins.clone(),
                    storage: storage.clone(),
                }),
                false => inner,
            };
            progress.around(inner, self.env.clock.clone())
        };
        let builder = setup.builder(&ControllerKind::deploying()).wrap(around);
        Ok((builder.build(recorder), events))
    }
}
