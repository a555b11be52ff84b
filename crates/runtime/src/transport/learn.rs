//! Learns the API servers' own addresses while they can be asked for, and remembers them for when
//! they are needed: on disk, and in a ConfigMap that a kubelet can bring to a pod whose own way to
//! the API is broken.

use std::time::Duration;

use everflow_env::{Env, run_blocking};
use everflow_json::{Value, json};

use super::endpoint::{self, Endpoint};
use super::https::HttpsTransport;
use crate::client::{At, Client, Patch, Resource, WriteOptions};
use crate::error::Error;
use crate::log::Logger;

/// Where the servers' addresses are told.
const SLICES: Resource =
    Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
/// The ConfigMap that remembers them.
pub const CONFIG_MAP: &str = "everflow-api-endpoints";
/// The key in it: an address with its port on each line.
pub const CONFIG_MAP_KEY: &str = "endpoints";
/// The file that remembers them.
const FILE: &str = "api-endpoints";
/// How often they are asked for, and how soon again when nobody answered.
const INTERVAL: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_secs(10);
/// The longest file that is read.
const LONGEST_FILE: u64 = 64 << 10;

/// Keeps a transport's list of servers up to date.
#[derive(Debug)]
pub struct Learner {
    env: Env,
    client: Client,
    transport: HttpsTransport,
    namespace: String,
    log: Logger,
    known: Vec<Endpoint>,
    /// What failed last, so that it is said once.
    complained: Option<&'static str>,
}

impl Learner {
    /// A learner that remembers in a namespace, which is the engine's own.
    pub fn new(
        env: Env,
        client: Client,
        transport: HttpsTransport,
        namespace: String,
        log: Logger,
    ) -> Self {
        Learner {
            env,
            client,
            transport,
            namespace,
            log,
            known: Vec::new(),
            complained: None,
        }
    }

    /// Takes what was remembered: on disk, and in `text`, the content of a mounted ConfigMap. Call it
    /// before the first request. Whoever could write there gains nothing: a server that cannot prove
    /// to be one of the cluster's is not spoken to.
    pub async fn recall(&mut self, text: &str) {
        let disk = self.env.disk.clone();
        let read = run_blocking(&*self.env.blocking, move || {
            everflow_env::disk::read_all(&*disk, FILE, LONGEST_FILE)
        });
        let bytes = read.await.and_then(Result::ok).unwrap_or_default();
        let remembered = endpoint::of_text(&format!("{}\n{text}", String::from_utf8_lossy(&bytes)));
        if !remembered.is_empty() && self.transport.learn(&remembered) {
            let shown = shown(&remembered);
            let fields = [("endpoints", shown.as_str())];
            self.log
                .info("remembered addresses of API servers", &fields);
            self.known = remembered;
        }
    }

    /// Asks for the servers again and again.
    pub async fn run(mut self) {
        loop {
            let pause = match self.turn().await {
                Ok(()) => {
                    self.complained = None;
                    INTERVAL
                }
                Err(error) => {
                    let reason = error.reason();
                    if self.complained != Some(reason) {
                        self.complained = Some(reason);
                        let fields = [("error", error.to_string())];
                        let fields = fields.each_ref().map(|(name, text)| (*name, text.as_str()));
                        self.log.info(
                            "the addresses of the API servers cannot be learned",
                            &fields,
                        );
                    }
                    match error.is_unanswered() {
                        true => RETRY,
                        false => INTERVAL,
                    }
                }
            };
            let spread = 1.0 + 0.2 * self.env.random.unit();
            self.env.clock.sleep(pause.mul_f64(spread)).await;
        }
    }

    async fn turn(&mut self) -> Result<(), Error> {
        let at = At::new("default", "kubernetes");
        let told = endpoint::of_slice(&self.client.get(&SLICES, at).await?);
        // An API server that is just being started may tell nothing: that is no reason to forget.
        if told.is_empty() {
            return Ok(());
        }
        if told != self.known && self.transport.learn(&told) {
            let shown = shown(&told);
            self.log
                .info("learned addresses of API servers", &[("endpoints", &shown)]);
            self.write_file(endpoint::to_text(&told)).await;
            self.known = told;
        }
        self.write_config_map().await
    }

    async fn write_file(&self, text: String) {
        let disk = self.env.disk.clone();
        let write = run_blocking(&*self.env.blocking, move || {
            everflow_env::disk::write_whole(&*disk, FILE, text.as_bytes())
        });
        if let Some(Err(error)) = write.await {
            let text = error.to_string();
            let fields = [("error", text.as_str())];
            self.log.info(
                "the addresses of the API servers cannot be kept on disk",
                &fields,
            );
        }
    }

    /// Every replica writes the same, so whoever comes first does.
    async fn write_config_map(&self) -> Result<(), Error> {
        let text = endpoint::to_text(&self.known);
        let at = At::new(&self.namespace, CONFIG_MAP);
        match self.client.get(&CONFIG_MAPS, at).await {
            Ok(map) if map["data"][CONFIG_MAP_KEY] == text.as_str() => return Ok(()),
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let patch = Patch::Apply(config_map(&self.namespace, &text));
        let options = WriteOptions::by("everflow").force();
        self.client
            .patch(&CONFIG_MAPS, at, &patch, &options)
            .await
            .map(drop)
    }
}

fn config_map(namespace: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG_MAP,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "everflow"},
        },
        "data": {CONFIG_MAP_KEY: text},
    })
}

fn shown(endpoints: &[Endpoint]) -> String {
    let all: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    all.join(",")
}
