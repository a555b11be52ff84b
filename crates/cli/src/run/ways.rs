//! The ways to the API servers, as logs and metrics tell of them.

use std::path::Path;
use std::sync::Arc;

use everflow_env::Env;
use everflow_runtime::client::Client;
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::transport::{
    ClusterConfig, Endpoint, HttpsTransport, Learner, WayEvent, WayListener,
};

use super::flags::Args;
use crate::exit::Failure;

/// The client of a cluster, and what keeps its list of servers up to date.
pub(super) async fn connect(
    args: &Args,
    env: &Env,
    config: ClusterConfig,
    log: &Logger,
    metrics: &Metrics,
) -> Result<(Client, Option<Learner>), Failure> {
    let mut further = Vec::new();
    for text in &args.api_endpoint {
        let endpoint = Endpoint::parse(text).ok_or_else(|| {
            let text =
                format!("--api-endpoint {text:?} is not a URL such as https://10.0.0.1:6443");
            Failure::Usage(text)
        })?;
        further.push(endpoint);
    }
    let (namespace, can_learn) = (args.own_namespace(&config), config.can_learn());
    let listener = Some(listener(log.clone(), metrics.clone()));
    let transport = HttpsTransport::with_ways(env, config, &further, listener);
    let transport = transport.map_err(|error| Failure::Work(error.to_string()))?;
    let client = Client::new(Arc::new(transport.clone()), env.clock.clone());
    if !can_learn || args.no_api_endpoint_discovery {
        return Ok((client, None));
    }
    let mut learner = Learner::new(
        env.clone(),
        client.clone(),
        transport,
        namespace,
        log.clone(),
    );
    let remembered = args.api_endpoints_file.as_deref().map(read_list);
    learner.recall(&remembered.unwrap_or_default()).await;
    Ok((client, Some(learner)))
}

/// The mounted ConfigMap; it may not be there yet.
fn read_list(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn listener(log: Logger, metrics: Metrics) -> WayListener {
    Arc::new(move |event| {
        match event {
        WayEvent::Left { from, to, why } => {
            let (from, to) = (from.to_string(), to.to_string());
            let fields = [("from", from.as_str()), ("to", to.as_str()), ("why", why)];
            log.info("the API server is asked another way", &fields);
            metrics.count("everflow_api_endpoint_changes_total", &[("why", "failed")]);
        }
        WayEvent::Returned { from, to } => {
            let (from, to) = (from.to_string(), to.to_string());
            let fields = [("from", from.as_str()), ("to", to.as_str())];
            log.info("the API server is asked this way again", &fields);
            metrics.count("everflow_api_endpoint_changes_total", &[("why", "works")]);
        }
        WayEvent::Refused { at, why } => log.error(
            &format!("{at} is not used: whoever answers there cannot prove to be an API server of this cluster"),
            why,
        ),
        WayEvent::Health { at, works, taken } => {
            let at = at.to_string();
            let labels = [("endpoint", at.as_str())];
            let number = |yes| if yes { 1.0 } else { 0.0 };
            metrics.set("everflow_api_endpoint_healthy", &labels, number(works));
            metrics.set("everflow_api_endpoint_taken", &labels, number(taken));
        }
    }
    })
}
