//! A real API server, spoken to by curl.

use everflow_corpus::real::{self, ApiServer};
use everflow_json::{Value, json};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub accept: &'static str,
    pub body: Option<Value>,
}

impl Request {
    pub fn new(method: &'static str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            accept: "application/json",
            body,
        }
    }

    fn as_sent(&self) -> real::Request<'_> {
        let mut headers = vec![("Accept", self.accept.to_owned())];
        if self.body.is_some() {
            let content_type = match self.method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            headers.push(("Content-Type", content_type.to_owned()));
        }
        real::Request {
            method: self.method,
            path: &self.path,
            headers,
            body: self.body.as_ref().map(|body| body.to_string().into_bytes()),
        }
    }
}

/// What the server answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

/// A real API server with definitions.
pub struct Server(ApiServer);

impl Server {
    /// Starts one with these definitions.
    pub fn with_definitions(name: &str, definitions: &[Value]) -> Option<Self> {
        let server = Server(ApiServer::start(name)?);
        server.install(definitions);
        Some(server)
    }

    fn install(&self, definitions: &[Value]) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let requests: Vec<Request> = definitions
            .iter()
            .map(|definition| Request::new("POST", path, Some(definition.clone())))
            .collect();
        for reply in self.send(&requests) {
            assert_eq!(reply.status, 201, "{}", reply.body);
        }
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().unwrap();
            self.wait_for(name);
        }
    }

    fn wait_for(&self, definition: &str) {
        let (plural, group) = definition.split_once('.').unwrap();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
        let stored = self.one(Request::new("GET", path, None)).body;
        let version = stored["spec"]["versions"][0]["name"].as_str().unwrap();
        let path = format!("/apis/{group}/{version}/{plural}");
        for _ in 0..300 {
            if self.one(Request::new("GET", &path, None)).status == 200 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{definition} is not served");
    }

    /// Sends one request.
    pub fn one(&self, request: Request) -> Reply {
        self.send(&[request]).remove(0)
    }

    /// Sends requests one after the other over one connection.
    pub fn send(&self, requests: &[Request]) -> Vec<Reply> {
        let requests: Vec<_> = requests.iter().map(Request::as_sent).collect();
        let answers = self.0.send(&requests).into_iter();
        answers
            .map(|answer| Reply {
                status: answer.status,
                body: everflow_json::from_slice(&answer.body)
                    .unwrap_or(json!(String::from_utf8_lossy(&answer.body))),
            })
            .collect()
    }
}
