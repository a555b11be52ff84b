//! Leadership by a Lease, with an epoch that ends before anyone else can begin one.
//!
//! A holder counts from the moment before it sent a renewal; whoever waits for the Lease counts
//! from the moment after it saw that renewal. So with clocks that run equally fast, to within the
//! difference of lease duration and renew deadline, no two epochs overlap. Times of day play no
//! part in it.

mod election;
mod epoch;
mod lock;

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::client::Resource;

pub use election::{Election, Leadership};
pub use epoch::{Epoch, EpochUse};
pub use lock::LeaseLock;

/// Where Leases are.
pub const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// How a Lease is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; different for each process.
    pub identity: String,
    /// After so long without a renewal others may take it.
    pub duration: Duration,
    /// After so long without a renewal we stop.
    pub renew_deadline: Duration,
    /// How often it is renewed, or tried for.
    pub retry_period: Duration,
    /// Whether it is handed over when we stop.
    pub release: bool,
}

impl LeaseOptions {
    /// Flux's times and names. A label selector gives a shard a Lease of its own.
    pub fn new(namespace: &str, controller: &str, selector: &str, identity: String) -> Self {
        LeaseOptions {
            namespace: namespace.to_owned(),
            name: lease_name(controller, selector),
            identity,
            duration: Duration::from_secs(35),
            renew_deadline: Duration::from_secs(30),
            retry_period: Duration::from_secs(5),
            release: true,
        }
    }
}

/// What keeps times of a Lease from working together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseTimesError {
    /// Others could take the Lease before its holder has stopped.
    #[error(
        "the lease duration ({duration:?}) must be longer than the renew deadline ({deadline:?}): else another may begin \
         before the holder has stopped"
    )]
    Overlap {
        /// The lease duration.
        duration: Duration,
        /// The renew deadline.
        deadline: Duration,
    },
    /// One renewal that is late or lost would end it.
    #[error(
        "the renew deadline ({deadline:?}) must be longer than 1.2 times the retry period ({period:?}): else one late \
         renewal ends the lease"
    )]
    NoRetry {
        /// The renew deadline.
        deadline: Duration,
        /// The retry period.
        period: Duration,
    },
    /// A Lease is counted in whole seconds.
    #[error("the lease duration ({0:?}) must be at least one second")]
    TooShort(Duration),
    /// Kubernetes counts the seconds of a Lease in 32 bits.
    #[error("the lease duration ({0:?}) must be at most 2147483647 seconds")]
    TooLong(Duration),
    /// It would be renewed without a pause.
    #[error("the retry period must be longer than zero")]
    NoPause,
}

impl LeaseOptions {
    /// Whether the times can work together: what client-go refuses is refused.
    pub fn check(&self) -> Result<(), LeaseTimesError> {
        let (duration, deadline, period) = (self.duration, self.renew_deadline, self.retry_period);
        if duration < Duration::from_secs(1) {
            return Err(LeaseTimesError::TooShort(duration));
        }
        if duration > Duration::from_secs(i32::MAX.unsigned_abs().into()) {
            return Err(LeaseTimesError::TooLong(duration));
        }
        if duration <= deadline {
            return Err(LeaseTimesError::Overlap { duration, deadline });
        }
        if period.is_zero() {
            return Err(LeaseTimesError::NoPause);
        }
        if deadline <= period.mul_f64(1.2) {
            return Err(LeaseTimesError::NoRetry { deadline, period });
        }
        Ok(())
    }

    /// The duration as it is written: whole seconds, never less than what is meant.
    fn whole_seconds(&self) -> u64 {
        self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0)
    }
}

/// The name of a controller's Lease, as Flux forms it.
pub fn lease_name(controller: &str, selector: &str) -> String {
    if selector.is_empty() {
        return format!("{controller}-leader-election");
    }
    let digest = Sha256::digest(selector.as_bytes());
    let hex: String = digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{controller}-leader-election-{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_work_together_are_refused() {
        let with = |duration: f64, deadline: f64, period: f64| {
            let mut options = LeaseOptions::new("a", "b", "", "c".into());
            options.duration = Duration::from_secs_f64(duration);
            options.renew_deadline = Duration::from_secs_f64(deadline);
            options.retry_period = Duration::from_secs_f64(period);
            options
        };
        for (duration, deadline, period) in
            [(35.0, 30.0, 5.0), (60.0, 40.0, 5.0), (15.0, 10.0, 2.0)]
        {
            assert_eq!(with(duration, deadline, period).check(), Ok(()));
        }
        let refused = [
            (30.0, 30.0, 5.0, "before the holder has stopped"),
            (10.0, 9.0, 8.0, "1.2 times the retry period (8s)"),
            (0.5, 0.4, 0.1, "at least one second"),
            (3.6e9, 30.0, 5.0, "at most 2147483647 seconds"),
            (10.0, 5.0, 0.0, "longer than zero"),
        ];
        for (duration, deadline, period, word) in refused {
            let error = with(duration, deadline, period).check().unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        // Nobody may take it before the whole of the last second is over.
        assert_eq!(with(1.9, 1.5, 0.5).whole_seconds(), 2);
    }

    #[test]
    fn leases_are_named_as_flux_names_them() {
        assert_eq!(
            lease_name("source-controller", ""),
            "source-controller-leader-election"
        );
        let shard = lease_name("source-controller", "sharding.fluxcd.io/key=shard1");
        let digest = shard
            .strip_prefix("source-controller-leader-election-")
            .unwrap();
        assert_eq!(digest.len(), 8);
    }
}
