//! Notifications: the dispatcher beside the controllers, and the servers for events and webhooks.

use std::sync::Arc;

use everflow_controllers::{ControllerKind, Setup};
use everflow_dispatch::receiver::ReceiverServer;
use everflow_dispatch::{Dispatcher, EventServer, Intake, Options, dispatcher};
use everflow_env::Env;
use everflow_fetch::storage::Posts;
use everflow_runtime::client::Client;
use everflow_runtime::engine::Handle;
use everflow_runtime::events::Recorder;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;

use super::flags::Args;
use super::wiring::{Served, listen};
use crate::exit::Failure;

/// Where webhooks are taken in a cluster.
const RECEIVERS: &str = ":9292";

/// What the dispatcher is made from.
pub(super) struct Parts<'p> {
    pub(super) env: &'p Env,
    pub(super) client: &'p Client,
    pub(super) log: &'p Logger,
    pub(super) metrics: &'p Metrics,
    pub(super) recorder: &'p Recorder,
    /// The namespace where replicas tell each other what was told.
    pub(super) shared_memory: Option<String>,
}

/// Whether this process sends notifications: not where another controller is told of events and does so.
pub(super) fn are_ours(args: &Args, kinds: &[ControllerKind]) -> bool {
    let is_elsewhere = args
        .events_addr
        .as_deref()
        .is_some_and(|address| !address.is_empty());
    !is_elsewhere && kinds.contains(&ControllerKind::Receiver)
}

/// The dispatcher, and what hands events to it.
pub(super) fn make(
    args: &Args,
    setup: &everflow_controllers::Options,
    parts: &Parts<'_>,
) -> (Intake, Dispatcher) {
    dispatcher(everflow_dispatch::Setup {
        env: parts.env.clone(),
        client: parts.client.clone(),
        log: parts.log.clone(),
        metrics: parts.metrics.clone(),
        recorder: parts.recorder.clone(),
        host_name: std::env::var("HOSTNAME").unwrap_or_else(|_| "everflow".to_owned()),
        options: Options {
            max_age: args.notification_max_age,
            interval: args.rate_limit_interval,
            no_cross_namespace_refs: setup.runtime.no_cross_namespace_refs,
            object_level_workload_identity: setup.gates.object_level_workload_identity,
            watch_namespace: setup.runtime.watch_namespace.clone(),
            shared_memory: parts.shared_memory.clone(),
            ..Options::default()
        },
    })
}

/// Serves events: on the port of the artifacts, which is then handed who takes them, or on one of their own.
pub(super) async fn serve_events(
    args: &Args,
    env: &Env,
    intake: Intake,
    served: &mut Served,
    log: &Logger,
) -> Result<Option<Arc<dyn Posts>>, Failure> {
    let server = EventServer::new(&env.clock, intake);
    match args.event_server_addr.as_deref() {
        Some("") => Ok(None),
        Some(address) if Some(address) != args.storage_addr.as_deref() => {
            let listener = listen(address, "--event-server-addr").await?;
            let shown = listener.local_addr()?.to_string();
            log.info("taking events", &[("address", &shown)]);
            let stop = served.stop();
            served.add(tokio::spawn(
                async move { server.run(listener, stop).await },
            ));
            Ok(None)
        }
        None if args.kubeconfig().is_some() => Ok(None),
        _ => {
            log.info("taking events on the port of the artifacts", &[]);
            Ok(Some(Arc::new(server)))
        }
    }
}

/// Serves webhooks.
pub(super) async fn serve_webhooks(
    args: &Args,
    setup: &Setup,
    handle: &Handle,
    served: &mut Served,
) -> Result<(), Failure> {
    let address = match args.receiver_addr.as_deref() {
        Some(address) => address,
        None if args.kubeconfig().is_none() => RECEIVERS,
        None => "",
    };
    let Some(store) = handle.store("Receiver").filter(|_| !address.is_empty()) else {
        return Ok(());
    };
    let options = everflow_notify::receiver::Options {
        no_cross_namespace_refs: setup.options.runtime.no_cross_namespace_refs,
    };
    let Setup {
        env,
        client,
        log,
        metrics,
        ..
    } = setup;
    let server = ReceiverServer::new(env, client, store, options, log, metrics);
    let listener = listen(address, "--receiver-addr").await?;
    let shown = listener.local_addr()?.to_string();
    log.info("taking webhooks", &[("address", &shown)]);
    let stop = served.stop();
    served.add(tokio::spawn(
        async move { server.run(listener, stop).await },
    ));
    Ok(())
}
