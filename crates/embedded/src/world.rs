//! Time and chance of the embedded API server.

use std::sync::Arc;

use everflow_cluster::env::Environment;
use everflow_cluster::time::Timestamp;
use everflow_env::{Clock, Random};

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
