//! What the controllers stand on: the cluster, the store, the servers, the lease.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use everflow_env::disk::private;
use everflow_env::{BoundedDisk, Env, RealDisk};
use everflow_fetch::TEMPORARY;
use everflow_fetch::storage::{FileServer, NamedArtifacts, Posts, ServerLimits, Storage};
use everflow_runtime::Signal;
use everflow_runtime::engine::Handle;
use everflow_runtime::http::serve_plain;
use everflow_runtime::log::Logger;
use everflow_runtime::transport::ClusterConfig;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::flags::Args;
use crate::exit::Failure;

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Work(format!("{what}: {error}"))
}

/// The cluster to run against: the named file, else the one this program runs in.
pub(super) fn cluster(args: &Args) -> Result<ClusterConfig, Failure> {
    let Some(file) = args.kubeconfig() else {
        if args.context.is_some() {
            let text =
                "--context chooses from a kubeconfig: name one with --kubeconfig or $KUBECONFIG";
            return Err(Failure::Usage(text.to_owned()));
        }
        return ClusterConfig::in_cluster().map_err(|error| Failure::Work(error.to_string()));
    };
    ClusterConfig::from_file(&file, args.context.as_deref())
        .map_err(|error| Failure::Work(error.to_string()))
}

/// The directory of the store, which is made; what attempts under way keep in it is bounded.
pub(super) fn disk(path: &Path, temporary_quota: u64) -> Result<BoundedDisk, Failure> {
    let disk = RealDisk::new(path).map_err(|error| {
        let what = format!("cannot use {} (--storage-path)", path.display());
        failed(&what, &error)
    })?;
    Ok(BoundedDisk::new(Arc::new(disk), TEMPORARY, temporary_quota))
}

/// Keeps others from a directory of the store that was there before.
pub(super) fn keep_private(path: &Path, log: &Logger) {
    // The root of a volume belongs to somebody else; what is made in it is private in any case.
    let Ok(Some(before)) = private::tighten(path) else {
        return;
    };
    let (shown, before) = (path.display().to_string(), format!("{before:04o}"));
    let fields = [("path", shown.as_str()), ("mode", before.as_str())];
    log.info("others may not use the storage directory any more", &fields);
}

pub(super) async fn listen(address: &str, flag: &str) -> Result<TcpListener, Failure> {
    let full = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => address.to_owned(),
    };
    let listener = TcpListener::bind(&full).await;
    listener.map_err(|error| failed(&format!("cannot listen on {address} ({flag})"), &error))
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

/// The store, and where it is to be served.
pub(super) async fn storage(
    args: &Args,
    env: &Env,
) -> Result<(Storage, (TcpListener, String)), Failure> {
    let address = match &args.storage_addr {
        Some(address) => address.as_str(),
        None if args.kubeconfig().is_none() => ":9090",
        None => "127.0.0.1:0",
    };
    let listener = listen(address, "--storage-addr").await?;
    let advertised = advertised(args, listener.local_addr()?);
    let options = args.storage_options(advertised.clone());
    let options = options.map_err(Failure::Usage)?;
    let storage = Storage::open(env, options).await;
    let storage = storage.map_err(|error| Failure::Work(error.to_string()))?;
    Ok((storage, (listener, advertised)))
}

/// Servers that run beside the controllers, and end after them.
#[derive(Default)]
pub(super) struct Served {
    stop: Signal,
    tasks: Vec<JoinHandle<()>>,
}

impl Served {
    /// Serves artifacts, and hands posts to whoever shares the port.
    pub(super) fn files(
        &mut self,
        env: &Env,
        (listener, advertised): (TcpListener, String),
        posts: Option<Arc<dyn Posts>>,
        peers: Option<(Storage, Arc<dyn NamedArtifacts>)>,
        log: &Logger,
    ) {
        let mut files = FileServer::new(env, ServerLimits::default());
        if let Some((storage, named)) = peers {
            files = files.with_peers(storage, named);
        }
        if let Some(posts) = posts {
            files = files.with_posts(posts);
        }
        let ending = self.stop.clone();
        self.tasks.push(tokio::spawn(async move {
            files.run(listener, ending.raised()).await;
        }));
        log.info("serving artifacts", &[("address", &advertised)]);
    }

    /// Serves metrics and health.
    pub(super) async fn texts(
        &mut self,
        args: &Args,
        handle: &Handle,
        log: &Logger,
    ) -> Result<(), Failure> {
        let asked = [
            ("metrics", "--metrics-addr", &args.metrics_addr),
            ("health", "--health-addr", &args.health_addr),
        ];
        for (what, flag, address) in asked {
            // Flux's controllers take 0 for "none".
            let Some(address) = address
                .as_deref()
                .filter(|given| !matches!(*given, "" | "0"))
            else {
                continue;
            };
            let listener = listen(address, flag).await?;
            let shown = listener.local_addr()?.to_string();
            log.info(&format!("serving {what}"), &[("address", &shown)]);
            let serving = serve_plain(listener, handle.endpoints(), self.stop.clone());
            self.tasks.push(tokio::spawn(serving));
        }
        Ok(())
    }

    /// What servers are told to stop by.
    pub(super) fn stop(&self) -> Signal {
        self.stop.clone()
    }

    /// Waits for one more server at the end.
    pub(super) fn add(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Ends all of them.
    pub(super) async fn end(self) {
        self.stop.raise();
        for task in self.tasks {
            // A server that broke has nothing more to end.
            let _ = task.await;
        }
    }
}
