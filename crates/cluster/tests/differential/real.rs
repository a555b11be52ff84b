//! The real server, spoken to by curl.

use everflow_corpus::real::{ApiServer, Request};
use everflow_json::Value;

use crate::Reply;
use crate::documents::Operation;

/// A real API server that answers operations.
pub struct Server(ApiServer);

impl Server {
    /// Starts one, when the comparison is wanted.
    pub fn start(name: &str) -> Option<Self> {
        ApiServer::start(name).map(Server)
    }

    /// Sends requests one after the other over one connection.
    pub fn send(&self, operations: &[Operation]) -> Vec<Reply> {
        let requests: Vec<Request<'_>> = operations.iter().map(request).collect();
        let answers = self.0.send(&requests).into_iter();
        answers
            .map(|answer| Reply {
                status: answer.status,
                body: everflow_json::from_slice(&answer.body).unwrap_or(Value::Null),
            })
            .collect()
    }

    /// Waits until the definition of widgets is served.
    pub fn wait_for_widgets(&self) {
        self.wait_for(&Operation {
            method: "GET".to_owned(),
            path: "/apis/differential.io/v1/widgets".to_owned(),
            content_type: "application/json",
            body: String::new(),
        });
    }

    /// Waits until a request is answered with 200.
    pub fn wait_for(&self, probe: &Operation) {
        for _ in 0..100 {
            if self.send(std::slice::from_ref(probe))[0].status == 200 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
}

fn request(operation: &Operation) -> Request<'_> {
    Request {
        method: &operation.method,
        path: &operation.path,
        headers: operation.headers(),
        body: (!operation.body.is_empty()).then(|| operation.body.clone().into_bytes()),
    }
}
