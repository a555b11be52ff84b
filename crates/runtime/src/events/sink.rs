//! Who is handed events beside the API server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_json::{Value, json};
use everflow_time::Timestamp;

use super::{Event, Severity};

/// An event with the object it is about, for those who send it on.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The reference to the object.
    pub involved: Value,
    /// The labels of the object as the attempt saw it; null when it has none.
    pub labels: Value,
    /// The event.
    pub event: Event,
    /// When it happened.
    pub at: Timestamp,
    /// The controller that it is reported under.
    pub controller: String,
}

impl Notice {
    /// The severity as notification controllers know it.
    pub fn severity(&self) -> &'static str {
        match self.event.severity {
            Severity::Error => "error",
            Severity::Info => "info",
            Severity::Trace => "trace",
        }
    }

    /// The body that a notification controller reads; `instance` is the name of this process.
    pub fn body(&self, instance: &str) -> Value {
        let mut body = json!({
            "involvedObject": self.involved,
            "severity": self.severity(),
            "timestamp": self.at.rfc3339(),
            "message": self.event.message,
            "reason": self.event.reason,
            "reportingController": self.controller,
            "reportingInstance": instance,
        });
        if !self.event.metadata.is_empty() {
            body["metadata"] = json!(self.event.metadata);
        }
        body
    }
}

/// Takes events that are sent on: a dispatcher in the same process, a notification controller elsewhere, a test.
pub trait EventSink: Send + Sync + fmt::Debug {
    /// What it is called in metrics.
    fn name(&self) -> &'static str;

    /// Takes an event; whether there was room for it. Attempts call this: it must never wait.
    fn take(&self, notice: Notice) -> bool;
}

/// Keeps what it is handed, for tests and previews.
#[derive(Debug, Clone, Default)]
pub struct CollectingSink {
    notices: Arc<Mutex<Vec<Notice>>>,
}

impl CollectingSink {
    /// Nothing yet.
    pub fn new() -> Self {
        CollectingSink::default()
    }

    /// All that came since the last call.
    pub fn drain(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventSink for CollectingSink {
    fn name(&self) -> &'static str {
        "collected"
    }

    fn take(&self, notice: Notice) -> bool {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
        true
    }
}
