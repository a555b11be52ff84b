//! Events posted to a notification controller elsewhere.

use std::time::Duration;

use everflow_env::{Env, within};
use tokio::sync::mpsc;

use super::sink::{EventSink, Notice};
use crate::http::{Url, post};
use crate::metrics::Metrics;

/// How long one post may take, and how often it is tried.
const POST_DEADLINE: Duration = Duration::from_secs(5);
const POST_TRIES: u32 = 5;

/// What the address is called in metrics.
const NAME: &str = "address";

/// Puts events into the queue for the address.
#[derive(Debug)]
pub(super) struct AddressSink {
    queue: mpsc::Sender<Notice>,
}

/// Posts what is in the queue.
#[derive(Debug)]
pub(super) struct AddressPoster {
    pub(super) env: Env,
    pub(super) url: Url,
    pub(super) metrics: Metrics,
    pub(super) instance: String,
    pub(super) queue: mpsc::Receiver<Notice>,
}

impl AddressSink {
    /// A sink and the queue it fills, which holds so many.
    pub(super) fn new(waiting: usize) -> (Self, mpsc::Receiver<Notice>) {
        let (queue, receiver) = mpsc::channel(waiting);
        (AddressSink { queue }, receiver)
    }
}

impl EventSink for AddressSink {
    fn name(&self) -> &'static str {
        NAME
    }

    fn take(&self, notice: Notice) -> bool {
        self.queue.try_send(notice).is_ok()
    }
}

impl AddressPoster {
    /// Posts events, one after the other, until nobody is left who could hand in more.
    pub(super) async fn run(mut self) {
        while let Some(notice) = self.queue.recv().await {
            if !self.deliver(&notice).await {
                let labels = [("sink", NAME), ("why", "failed")];
                self.metrics.count("everflow_events_dropped_total", &labels);
            }
        }
    }

    async fn deliver(&self, notice: &Notice) -> bool {
        let body = notice.body(&self.instance);
        let mut pause = Duration::from_secs(1);
        for number in 0..POST_TRIES {
            if number > 0 {
                self.env.clock.sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(30));
            }
            let posting = post(&self.env, &self.url, &body);
            match within(&*self.env.clock, POST_DEADLINE, posting).await {
                // Too many requests means that it knows this event already.
                Ok(Ok(429)) => return true,
                Ok(Ok(code)) if code < 500 => return code < 400,
                _ => {}
            }
        }
        false
    }
}
