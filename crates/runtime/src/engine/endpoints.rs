//! What an engine shows over HTTP.

use std::sync::Arc;

use super::Handle;
use crate::http::{PlainAnswer, PlainHandler};

impl Handle {
    /// Answers `/metrics`, `/healthz` and `/readyz`.
    pub fn endpoints(&self) -> PlainHandler {
        let handle = self.clone();
        Arc::new(move |path| {
            let answer = handle.answer(&path);
            Box::pin(async move { answer })
        })
    }

    fn answer(&self, path: &str) -> PlainAnswer {
        const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
        const TEXT: &str = "text/plain; charset=utf-8";
        const JSON: &str = "application/json";
        let verdict = |good: bool| match good {
            true => (200, TEXT, "ok".to_owned()),
            false => (503, JSON, self.health().to_value().to_string()),
        };
        match path.trim_end_matches('/') {
            "/metrics" => (200, METRICS, self.metrics()),
            "/healthz" => verdict(self.health().is_healthy()),
            "/readyz" => verdict(self.health().is_ready()),
            _ => (404, TEXT, "404 page not found\n".to_owned()),
        }
    }
}
