//! The embedded API server in the same process.

use std::sync::Arc;

use bytes::Bytes;
use everflow_cluster::env::Environment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiService, Request};
use everflow_env::{BoxFuture, Clock, Random};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;

use crate::client::{BodyStream, Transport, TransportError};

/// Sends requests to the embedded API server, without a socket between.
#[derive(Debug, Clone)]
pub struct EmbeddedTransport {
    service: ApiService,
}

impl EmbeddedTransport {
    /// Sends to this service.
    pub fn new(service: ApiService) -> Self {
        EmbeddedTransport { service }
    }
}

impl Transport for EmbeddedTransport {
    fn is_in_process(&self) -> bool {
        true
    }

    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<BodyStream>, TransportError>> {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query();
        let target = target.map_or("", http::uri::PathAndQuery::as_str);
        let mut direct = Request::new(parts.method.as_str(), target, body);
        for (name, value) in &parts.headers {
            direct = direct.header(name.as_str(), value.to_str().unwrap_or_default());
        }
        self.send_in_process(direct)
    }

    fn send_in_process(
        &self,
        request: Request,
    ) -> BoxFuture<'static, Result<http::Response<BodyStream>, TransportError>> {
        let answer = self.service.clone().answer_in_process(request);
        Box::pin(async move {
            let response = answer.await;
            Ok(response.map(|body| {
                let frames = body.into_data_stream();
                let bytes = frames.map(|frame| frame.map_err(|error| TransportError::new(&error)));
                Box::pin(bytes) as BodyStream
            }))
        })
    }
}

/// Time and chance for the embedded API server from the same world as the controllers', so that
/// one seed fixes both.
#[derive(Debug, Clone)]
pub struct ServerWorld {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    features: Vec<String>,
}

impl ServerWorld {
    /// With this clock and this chance.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        ServerWorld {
            clock,
            random,
            features: Vec::new(),
        }
    }

    /// With these feature gates on.
    #[must_use]
    pub fn with_features(mut self, gates: &[String]) -> Self {
        self.features = gates.to_vec();
        self
    }
}

impl Environment for ServerWorld {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_micros(now.seconds * 1_000_000 + i64::from(now.nanos / 1_000))
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    fn has_feature(&self, gate: &str) -> bool {
        self.features.iter().any(|on| on == gate)
    }
}
