//! `everflow run`: the controllers, against any cluster.

mod flags;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use everflow_controllers::{ControllerKind, Setup};
use everflow_env::{Env, RealDisk};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage};
use everflow_runtime::Signal;
use everflow_runtime::client::Client;
use everflow_runtime::events::recorder;
use everflow_runtime::http::{PlainHandler, serve_plain};
use everflow_runtime::lease::{Election, LeaseOptions};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use tokio::net::TcpListener;

use crate::cluster::stop_signal;
use crate::exit::Failure;
pub use flags::Args;

/// The name of the process in its lease.
const CONTROLLER: &str = "source-controller";

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(args));
    // Work that blocks ends by itself or with the program.
    runtime.shutdown_background();
    ended
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Work(format!("{what}: {error}"))
}

/// The cluster to run against: the named file, else the one this program runs in.
fn cluster(args: &Args) -> Result<ClusterConfig, Failure> {
    let config = match &args.kubeconfig {
        Some(file) => ClusterConfig::from_file(file, args.context.as_deref()),
        None => ClusterConfig::in_cluster(),
    };
    config.map_err(|error| match args.kubeconfig {
        Some(_) => Failure::Work(error.to_string()),
        None => Failure::Work(format!(
            "{error}; outside a cluster, name one with --kubeconfig FILE"
        )),
    })
}

async fn listen(address: &str) -> Result<TcpListener, Failure> {
    let full = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => address.to_owned(),
    };
    let listener = TcpListener::bind(&full).await;
    listener.map_err(|error| failed(&format!("cannot listen on {address}"), &error))
}

/// The address that others are told for artifacts.
fn advertised(args: &Args, listening: SocketAddr) -> String {
    if let Some(address) = &args.storage_adv_addr {
        return address.clone();
    }
    let host = match listening.ip() {
        ip if ip.is_unspecified() => {
            std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into())
        }
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    format!("{host}:{}", listening.port())
}

fn disk(path: &Path) -> Result<RealDisk, Failure> {
    let made = std::fs::create_dir_all(path).and_then(|()| RealDisk::new(path));
    made.map_err(|error| failed(&format!("cannot use {}", path.display()), &error))
}

async fn serve(args: &Args) -> Result<(), Failure> {
    let options = args.options().map_err(Failure::Usage)?;
    let kinds = match args.only.as_deref() {
        None => ControllerKind::ALL.to_vec(),
        Some(list) => {
            let kinds = ControllerKind::parse_list(list);
            kinds.map_err(|error| Failure::Usage(format!("--only: {error}")))?
        }
    };
    let config = cluster(args)?;
    let env = Env::system(disk(&args.storage_path)?);
    let log = Logger::to_stderr(env.clock.clone(), args.log_level, args.log_encoding);
    let own_namespace = config.namespace.clone();
    let transport = HttpsTransport::new(&env, config);
    let transport = transport.map_err(|error| Failure::Work(error.to_string()))?;
    let client = Client::new(Arc::new(transport), env.clock.clone());
    let artifacts = match &args.storage_addr {
        Some(address) => listen(address).await?,
        None if args.kubeconfig.is_none() => listen(":9090").await?,
        None => listen("127.0.0.1:0").await?,
    };
    let storage = args.storage_options(advertised(args, artifacts.local_addr()?));
    let storage = storage.map_err(Failure::Usage)?;
    let advertised = storage.advertised.clone();
    let storage = Storage::open(&env, storage).await;
    let storage = storage.map_err(|error| Failure::Work(error.to_string()))?;
    let metrics = Metrics::new();
    let instance = args.instance();
    let recorder = recorder(
        &env,
        &client,
        &metrics,
        args.events_addr.as_deref(),
        &instance,
    );
    let (mut recorder, teller) = recorder.map_err(|error| Failure::Usage(error.to_string()))?;
    if !args.event_per_message {
        recorder = recorder.briefly();
    }
    let setup = Setup {
        env: env.clone(),
        client: client.clone(),
        options,
        storage,
        log: log.clone(),
        metrics,
    };
    let engine = setup.engine(&kinds, recorder);
    let handle = engine.handle();
    let (stop, stop_serving) = (Signal::new(), Signal::new());
    let mut served = Vec::new();
    for address in [&args.metrics_addr, &args.health_addr]
        .into_iter()
        .flatten()
    {
        let listener = listen(address).await?;
        log.info(
            "serving",
            &[("address", &listener.local_addr()?.to_string())],
        );
        let handler: PlainHandler = handle.endpoints();
        served.push(tokio::spawn(serve_plain(
            listener,
            handler,
            stop_serving.clone(),
        )));
    }
    let files = FileServer::new(&env, ServerLimits::default());
    let ending = stop_serving.clone();
    served.push(tokio::spawn(async move {
        files.run(artifacts, ending.raised()).await;
    }));
    log.info("serving artifacts", &[("address", &advertised)]);
    let telling = tokio::spawn(teller.run());
    let mut election = None;
    let mut leadership = None;
    let stop_election = Signal::new();
    if args.enable_leader_election {
        let selector = setup.options.runtime.watch_label_selector.as_str();
        let namespace = std::env::var("RUNTIME_NAMESPACE").unwrap_or(own_namespace);
        let mut lease = LeaseOptions::new(&namespace, CONTROLLER, selector, instance);
        args.lease(&mut lease);
        let elected = Election::new(env.clone(), client, lease);
        leadership = Some(elected.leadership());
        election = Some(tokio::spawn(elected.run(stop_election.clone())));
    }
    let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    log.info("running controllers", &[("kinds", &names.join(","))]);
    let ending = stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        ending.raise();
    });
    engine.run(leadership, stop).await;
    // The lease goes only after the last attempt, and artifacts are served to the end.
    log.info("stopped; handing over", &[]);
    stop_election.raise();
    if let Some(election) = election {
        let _ = election.await;
    }
    stop_serving.raise();
    for task in served {
        let _ = task.await;
    }
    // The teller ends when nobody is left who could have something to tell.
    drop((setup, handle));
    let told = everflow_env::within(&*env.clock, std::time::Duration::from_secs(5), telling);
    let _ = told.await;
    Ok(())
}
