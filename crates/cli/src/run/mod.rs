//! `everflow run`: the controllers, against any cluster.

mod definitions;
mod flags;
mod memory;
mod notifications;
mod replicas;
mod ways;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

use everflow_controllers::{ControllerKind, Setup};
use everflow_embedded::EmbeddedAdmission;
use everflow_env::{Env, ThreadOptions, watch, within};
use everflow_fetch::storage::{NamedArtifacts, Storage};
use everflow_runtime::Signal;
use everflow_runtime::events::recorder;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;

use crate::cluster::stop_signal;
use crate::exit::Failure;
pub use definitions::{CrdsArgs, print as print_definitions};
pub use flags::Args;
pub(crate) use flags::CONTROLLER;
use replicas::{Replica, mirror_artifacts, own_address};
use wiring::Served;

/// How long each of the last things may take: the program ends within two seconds, whatever runs.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    memory::share_heap();
    everflow_serve::raise_open_files();
    // One thread waits for everybody, and what takes long is done beside it: handing work to and fro
    // between threads cost more than it gained.
    let threads = args.threads();
    let runtime = tokio::runtime::Builder::new_current_thread()
        // Beside the slots for work: names of hosts are looked up in threads, too.
        .max_blocking_threads(threads.slots + 8)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(args, threads));
    // Work that blocks ends by itself or with the program.
    runtime.shutdown_background();
    ended
}

/// The kinds that were asked for.
fn kinds(args: &Args) -> Result<Vec<ControllerKind>, Failure> {
    let Some(list) = args.only.as_deref() else {
        // Whoever sends our notifications elsewhere takes the webhooks, too.
        return Ok(match args.events_addr.as_deref() {
            None | Some("") => ControllerKind::ALL.to_vec(),
            Some(_) => ControllerKind::deploying(),
        });
    };
    let kinds = ControllerKind::parse_list(list);
    let mut kinds = kinds.map_err(|error| Failure::Usage(format!("--only: {error}")))?;
    if kinds.is_empty() {
        let text = "--only: it names no kind; leave it away to run all of them";
        return Err(Failure::Usage(text.to_owned()));
    }
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

async fn serve(args: &Args, threads: ThreadOptions) -> Result<(), Failure> {
    let options = args.options().map_err(Failure::Usage)?;
    let kinds = kinds(args)?;
    let config = wiring::cluster(args)?;
    let disk = wiring::disk(&args.storage_path, args.temporary_quota)?;
    let env = Env::system_with(disk, threads);
    let log = Logger::to_stderr(env.clock.clone(), args.log_level, args.log_encoding);
    wiring::keep_private(&args.storage_path, &log);
    let (metrics, instance) = (Metrics::new(), args.instance());
    let selector = &options.runtime.watch_label_selector;
    let own_namespace = args.own_namespace(&config);
    let lease = args.lease(&own_namespace, selector, instance.clone());
    lease
        .check()
        .map_err(|error| Failure::Usage(format!("--leader-election-lease-duration: {error}")))?;
    let shares = args.enable_leader_election && args.shards > 1;
    let (client, learner) = ways::connect(args, &env, config, &log, &metrics).await?;
    let (mut storage, artifacts) = wiring::storage(args, &env).await?;
    let peers = watch::Sender::new(Vec::new());
    let mut address = None;
    if shares {
        let with_peers = storage.with_peers(peers.subscribe());
        storage = with_peers.map_err(|error| Failure::Work(error.to_string()))?;
        address = own_address(args, &env, artifacts.0.local_addr()?).await;
    }
    let events = args.events_addr.as_deref();
    let (mut recorder, event_sender) = recorder(&env, &client, &metrics, events, &instance)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if !args.event_per_message {
        recorder = recorder.briefly();
    }
    let mut served = Served::default();
    let mut sending = None;
    let mut posts = None;
    if notifications::are_ours(args, &kinds) {
        let (env, client, log, metrics) = (&env, &client, &log, &metrics);
        let parts = notifications::Parts {
            env,
            client,
            log,
            metrics,
            recorder: &recorder,
            shared_memory: args.enable_leader_election.then(|| own_namespace.clone()),
        };
        let (intake, dispatcher) = notifications::make(args, &options, &parts);
        recorder = recorder.with_sink(Arc::new(intake.clone()));
        posts = notifications::serve_events(args, env, intake, &mut served, log).await?;
        sending = Some(tokio::spawn(dispatcher.run(served.stop())));
    }
    let setup = Setup {
        env: env.clone(),
        client: client.clone(),
        options,
        admission: Some(Arc::new(EmbeddedAdmission)),
        storage,
        log: log.clone(),
        metrics,
    };
    let engine = setup.engine(&kinds, recorder);
    let handle = engine.handle();
    let mut peer_files: Option<(Storage, Arc<dyn NamedArtifacts>)> = None;
    let mut mirroring = None;
    if shares {
        let (named, task) = mirror_artifacts(&env, &setup.storage, &handle);
        peer_files = Some((setup.storage.clone(), named));
        mirroring = Some(task);
    }
    served.files(&env, artifacts, posts, peer_files, &log);
    notifications::serve_webhooks(args, &setup, &handle, &mut served).await?;
    served.texts(args, &handle, &log).await?;
    let telling = tokio::spawn(event_sender.run());
    let stop = Signal::new();
    tokio::spawn(definitions::look(
        client.clone(),
        kinds.clone(),
        log.clone(),
    ));
    if let Some(learner) = learner {
        tokio::spawn(learner.run());
    }
    let world = (&env, client, &log, &setup.metrics);
    let replica = Replica::start(args, world, lease, address, peers);
    let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    log.info("running controllers", &[("kinds", &names.join(","))]);
    let (ending, leave) = (stop.clone(), replica.leave());
    tokio::spawn(async move {
        stop_signal().await;
        leave.raise();
        ending.raise();
    });
    replica.run(engine, stop).await;
    // The lease goes only after the last attempt, and artifacts are served to the end.
    log.info("stopped; handing over", &[]);
    let _ = within(&*env.clock, LAST_WORDS, replica.hand_over()).await;
    let _ = within(&*env.clock, LAST_WORDS, served.end()).await;
    if let Some(sending) = sending {
        // What was not delivered is on disk.
        let _ = within(&*env.clock, LAST_WORDS, sending).await;
    }
    if let Some(mirroring) = mirroring {
        mirroring.abort();
    }
    // The sender ends when all recorders are gone.
    drop((setup, handle));
    let _ = within(&*env.clock, LAST_WORDS, telling).await;
    Ok(())
}
