//! Requests to the embedded API server, without a socket between.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use everflow_cluster::rest::request_body::RequestBody;
use everflow_cluster::rest::watch::{Event, WatchPayload as EventPayload};
use everflow_cluster::service::{ApiBody, Events, Watching};
use everflow_cluster::store::Stored;
use everflow_cluster::{ApiService, Request as DirectRequest};
use everflow_env::BoxFuture;
use everflow_json::{Value, json};
use everflow_runtime::client::{
    Body, EventStream, Request, Response, SharedTree, Transport, TransportError, WatchPayload,
    to_wire,
};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, Full};

/// Sends requests to the embedded API server.
#[derive(Debug, Clone)]
pub struct EmbeddedTransport {
    service: ApiService,
    trees: bool,
}

impl EmbeddedTransport {
    /// Sends text and receives text, as over a connection.
    pub fn new(service: ApiService) -> Self {
        EmbeddedTransport {
            service,
            trees: false,
        }
    }

    /// Hands objects over as trees in both directions, without text in between: it says the same in less time.
    #[must_use]
    pub fn with_trees(mut self, trees: bool) -> Self {
        self.trees = trees;
        self
    }
}

impl Transport for EmbeddedTransport {
    fn send(&self, request: Request<'_>) -> BoxFuture<'static, Result<Response, TransportError>> {
        let service = self.service.clone();
        if !self.trees {
            let request = to_wire(request).map(Full::new);
            return Box::pin(async move { Ok(service.answer(request).await.map(text)) });
        }
        let answer = service.answer_in_process(direct(request));
        Box::pin(async move {
            let mut response = answer.await;
            let object: Option<Arc<Stored>> = response.extensions_mut().remove();
            let watch: Option<Watching> = response.extensions_mut().remove();
            let events = watch.and_then(|watch| watch.take());
            Ok(response.map(|body| match (object, events) {
                (Some(stored), _) => Body::Tree(Box::new(Served(stored))),
                (None, Some(events)) => Body::Events(stream(events)),
                (None, None) => text(body),
            }))
        })
    }
}

/// The request as the server takes it from its own process.
fn direct(request: Request<'_>) -> DirectRequest {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query();
    let target = target.map_or("", http::uri::PathAndQuery::as_str);
    let mut direct = DirectRequest::new(parts.method.as_str(), target, Bytes::new());
    for (name, value) in &parts.headers {
        direct = direct.header(name.as_str(), value.to_str().unwrap_or_default());
    }
    if let Some(tree) = body {
        direct.body = RequestBody::of_tree(tree.clone());
    }
    direct
}

fn text(body: ApiBody) -> Body {
    let frames = body.into_data_stream();
    let bytes = frames.map(|frame| frame.map_err(|error| TransportError::new(&error)));
    Body::Bytes(Box::pin(bytes))
}

/// An object of the server's store.
struct Served(Arc<Stored>);

impl AsRef<Value> for Served {
    fn as_ref(&self) -> &Value {
        &self.0.value
    }
}

/// A tree that is the server's no more.
struct Made(Value);

impl AsRef<Value> for Made {
    fn as_ref(&self) -> &Value {
        &self.0
    }
}

fn stream(events: Box<Events>) -> EventStream {
    let start = (events, VecDeque::new());
    Box::pin(unfold(
        start,
        |(mut events, mut waiting): (Box<Events>, VecDeque<Event>)| async move {
            loop {
                if let Some(event) = waiting.pop_front() {
                    return Some((Ok(payload(event)), (events, waiting)));
                }
                match events.next().await? {
                    Ok(more) => waiting.extend(more),
                    Err(error) => {
                        let error = TransportError::new(&error);
                        return Some((Err(error), (events, waiting)));
                    }
                }
            }
        },
    ))
}

fn payload(event: Event) -> WatchPayload {
    let tree: SharedTree = match event.payload {
        EventPayload::Line(line) => return WatchPayload::Line(line),
        EventPayload::Object(stored, _) => Box::new(Served(stored)),
        EventPayload::Bookmark { revision, all_told } => {
            Box::new(Made(bookmark(revision, all_told)))
        }
    };
    WatchPayload::Tree(event.kind, tree)
}

fn bookmark(revision: u64, all_told: bool) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if all_told {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    json!({"metadata": metadata})
}
