//! The readers of kubeconfigs and of what a cluster answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everflow_corpus::hostile::{Reader, texts};
use everflow_env::{Env, MemoryDialer};
use everflow_runtime::client::{
    At, Body, Client, Request, Resource, Response, Selection, Transport, TransportError, WatchFrom,
};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use futures_util::future::BoxFuture;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("kubeconfig", kubeconfig, || texts(&[TOKEN, CERTIFICATE])).tokens(&[
        "exec: {command: x, args: [a], apiVersion: client.authentication.k8s.io/v1}",
        "auth-provider: {name: x}",
        "tokenFile: /etc/passwd",
        "&x ",
        "*x",
        "client-certificate: /a",
        "proxy-url: http://p",
        "server: ",
        "https://[",
        "name: ",
        "- ",
        "{",
        "[",
        "current-context: c\n",
    ]),
    Reader::new("answer", answer, || texts(&[LIST, OBJECT])).tokens(JSON),
    Reader::new("watch", watch, || texts(&[EVENTS])).tokens(JSON),
];

const JSON: &[&str] = &[
    "{\"type\":\"ADDED\",\"object\":",
    "\n",
    "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n",
    "{\"type\":\"BOOKMARK\",\"object\":{}}\n",
    "null",
    "[",
    "{\"a\":",
    "\"metadata\":{\"resourceVersion\":\"9\"},",
    "\"items\":[",
    "\"continue\":\"x\",",
    "{}",
];
const TOKEN: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: n}}]\nclusters: [{name: k, cluster: {server: 'https://a.example:6443/x', insecure-skip-tls-verify: true, tls-server-name: s, proxy-url: 'http://p:1'}}]\nusers: [{name: u, user: {token: t, as: j, as-groups: [g]}}]\n";
const CERTIFICATE: &str = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: a.example, certificate-authority-data: aGk=}}]\nusers: [{name: u, user: {client-certificate-data: aGk=, client-key-data: aGk=, username: a, password: b}}]\n";
const LIST: &str = r#"{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "continue": ""}, "items": [{"metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "3", "generation": 2}, "data": {"c": "d"}}]}"#;
const OBJECT: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "reason": "NotFound", "details": {"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3}, "code": 404, "items": []}"#;
const EVENTS: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"resourceVersion\":\"3\"}}}\n{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"resourceVersion\":\"6\"}}}\n";

fn kubeconfig(bytes: &[u8]) -> bool {
    let _ = ClusterConfig::from_text(bytes, Some("c"), "test", None);
    let Ok(config) = ClusterConfig::from_text(bytes, None, "test", None) else {
        return false;
    };
    let _ = config.url();
    let _ = HttpsTransport::new(&env(), config);
    true
}

fn env() -> Env {
    Env::simulated(1, MemoryDialer::new())
}

/// Answers everything with the same.
#[derive(Debug)]
struct Always {
    status: u16,
    body: Vec<u8>,
}

impl Transport for Always {
    fn send(&self, _request: Request<'_>) -> BoxFuture<'static, Result<Response, TransportError>> {
        let pieces: Vec<_> = self
            .body
            .chunks(100)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let body = Body::Bytes(Box::pin(futures_util::stream::iter(pieces)));
        let mut answer = Response::new(body);
        *answer.status_mut() = http::StatusCode::from_u16(self.status).unwrap();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn client(status: u16, body: &[u8]) -> Client {
    let body = body.to_vec();
    Client::new(Arc::new(Always { status, body }), env().clock.clone())
}

fn config_maps() -> Resource {
    Resource {
        group: String::new().into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(work)
}

fn answer(bytes: &[u8]) -> bool {
    run(async {
        let (resource, at) = (config_maps(), At::new("b", "a"));
        for status in [404, 409, 422, 429, 500] {
            let _ = client(status, bytes).get(&resource, at).await;
        }
        let _ = client(200, bytes).versions().await;
        let _ = client(200, bytes).resources("apps/v1").await;
        let list = client(200, bytes)
            .list(&resource, None, &Selection::default(), &Default::default())
            .await;
        let got = client(200, bytes).get(&resource, at).await;
        list.is_ok() && got.is_ok()
    })
}

fn watch(bytes: &[u8]) -> bool {
    run(async {
        let client = client(200, bytes);
        let span = Duration::from_secs(60);
        let stream = client
            .watch(
                &config_maps(),
                None,
                &Selection::default(),
                WatchFrom::Revision(1),
                span,
            )
            .await;
        let Ok(mut stream) = stream else {
            return false;
        };
        let mut count = 0;
        while let Ok(Some(_)) = stream.next().await {
            count += 1;
        }
        count > 2
    })
}
