//! The cluster that all runs begin with: made once, forked for each.

use std::sync::{Arc, OnceLock};

use everflow_cluster::auth::User;
use everflow_cluster::controllers::Controller;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Options, Request};
use serde_json::{Value, json};

/// The namespaces that there are.
pub const NAMESPACES: [&str; 3] = ["flux-system", "apps", "other"];

/// A server with Flux's kinds. An hour passes between its making and the beginning of a run.
pub fn base() -> &'static ApiServer {
    static BASE: OnceLock<ApiServer> = OnceLock::new();
    BASE.get_or_init(|| {
        const START: i64 = 1_767_222_000_000_000;
        let env = ManualEnvironment::new(Timestamp::from_micros(START), 1);
        let options = Options {
            controllers: vec![
                Controller::Namespace,
                Controller::GarbageCollector,
                Controller::Workload,
            ],
            ..Options::default()
        };
        let server = ApiServer::new(Arc::new(env), options);
        for definition in everflow_api::crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            create(&server, path, &definition);
        }
        for name in NAMESPACES {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&server, "/api/v1/namespaces", &namespace);
        }
        server
    })
}

fn create(server: &ApiServer, path: &str, object: &Value) {
    let body = serde_json::to_vec(object).unwrap_or_default();
    let mut request = Request::new("POST", path, body).header("content-type", "application/json");
    request.user = Some(User::admin());
    let _ = server.handle(&request);
}
