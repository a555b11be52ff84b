//! Leadership by a Lease, with an epoch that ends before anyone else can begin one.
//!
//! A holder counts from the moment before it sent a renewal; whoever waits for the Lease counts
//! from the moment after it saw that renewal. So with clocks that run equally fast, to within the
//! difference of lease duration and renew deadline, no two epochs overlap. Times of day play no
//! part in it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everflow_env::{Env, watch};
use everflow_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::{At, Client, Fence, Resource, WriteOptions};
use crate::error::Error;
use crate::signal::Signal;

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

/// A time of leadership. It ends by the monotonic clock, whatever happens.
#[derive(Clone)]
pub struct Epoch {
    number: u64,
    ends: Arc<AtomicU64>,
    clock: Arc<dyn everflow_env::Clock>,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("number", &self.number)
            .field("ends", &self.ends())
            .finish_non_exhaustive()
    }
}

impl Epoch {
    /// Which one: it grows with each change of the holder.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it still lasts.
    pub fn check(&self) -> Result<(), Error> {
        self.remaining().map(drop)
    }

    fn ends(&self) -> Duration {
        Duration::from_nanos(self.ends.load(Ordering::SeqCst))
    }

    fn extend(&self, ends: Duration) {
        let nanos = u64::try_from(ends.as_nanos()).unwrap_or(u64::MAX);
        self.ends.fetch_max(nanos, Ordering::SeqCst);
    }

    fn end(&self) {
        self.ends.store(0, Ordering::SeqCst);
    }
}

impl Fence for Epoch {
    fn remaining(&self) -> Result<Duration, Error> {
        let left = self.ends().saturating_sub(self.clock.elapsed());
        match left.is_zero() {
            true => Err(Error::Fenced { epoch: self.number }),
            false => Ok(left),
        }
    }
}

/// Who leads, as far as we know.
#[derive(Debug, Clone)]
pub enum Leadership {
    /// Someone else, or nobody yet; who, if known.
    Follower(Option<String>),
    /// We do, for this epoch.
    Leader(Epoch),
}

impl Leadership {
    /// The epoch, while we lead.
    pub fn epoch(&self) -> Option<&Epoch> {
        match self {
            Leadership::Leader(epoch) if epoch.check().is_ok() => Some(epoch),
            _ => None,
        }
    }
}

/// What others have written, and since when we know it.
#[derive(Debug, Default)]
struct Observed {
    lease: Value,
    since: Duration,
}

/// Tries to lead, and says whether we do.
#[derive(Debug)]
pub struct Election {
    env: Env,
    client: Client,
    options: LeaseOptions,
    state: watch::Sender<Leadership>,
    observed: Option<Observed>,
}

impl Election {
    /// An election that has not begun.
    pub fn new(env: Env, client: Client, options: LeaseOptions) -> Self {
        let deadline = options.retry_period.min(Duration::from_secs(10));
        let client = client.with_deadline(deadline).urgent();
        Election {
            env,
            client,
            options,
            state: watch::Sender::new(Leadership::Follower(None)),
            observed: None,
        }
    }

    /// Whether we lead, now and at each change.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.state.subscribe()
    }

    /// Runs until `stop` is raised, then hands the Lease over. Raise it only when all work under
    /// the epoch has ended.
    pub async fn run(mut self, stop: Signal) {
        while !stop.is_raised() {
            let _ = self.turn().await;
            let pause = self.pause();
            let _ = everflow_env::within(&*self.env.clock, pause, stop.raised()).await;
            self.stop_when_over();
        }
        let epoch = self.state.borrow().epoch().cloned();
        if let Some(epoch) = epoch {
            if self.options.release {
                // What fails here only makes others wait for the Lease to run out.
                let _ = self.release().await;
            }
            epoch.end();
        }
        self.state.send_replace(Leadership::Follower(None));
    }

    /// Until the next try; never past the end of the epoch.
    fn pause(&self) -> Duration {
        let pause = match &*self.state.borrow() {
            Leadership::Leader(epoch) => match epoch.remaining() {
                Ok(left) => self.options.retry_period.min(left),
                Err(_) => Duration::ZERO,
            },
            // Those who wait do not all come at once.
            Leadership::Follower(_) => {
                let spread = 1.0 + 0.2 * self.env.random.unit();
                self.options.retry_period.mul_f64(spread)
            }
        };
        pause.max(Duration::from_millis(10))
    }

    fn stop_when_over(&self) {
        self.state.send_if_modified(|state| {
            let over = matches!(&*state, Leadership::Leader(epoch) if epoch.check().is_err());
            if over {
                *state = Leadership::Follower(None);
            }
            over
        });
    }

    async fn turn(&mut self) -> Result<(), Error> {
        let lead = self.state.borrow().epoch().cloned();
        if let (Some(epoch), Some(observed)) = (&lead, &self.observed) {
            // The usual case: one write and no read.
            let lease = observed.lease.clone();
            match self.write(lease, Some(epoch)).await {
                Err(Error::Conflict(_) | Error::NotFound(_)) => {}
                result => return result,
            }
        }
        let at = At::new(&self.options.namespace, &self.options.name);
        match self.client.get(&LEASES, at).await {
            Ok(lease) => self.consider(lease, lead).await,
            Err(Error::NotFound(_)) => self.create().await,
            Err(error) => Err(error),
        }
    }

    async fn consider(&mut self, lease: Value, lead: Option<Epoch>) -> Result<(), Error> {
        let now = self.env.clock.elapsed();
        let known = self.observed.as_ref();
        let unchanged = known.is_some_and(|known| {
            known.lease["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]
        });
        let since = match known {
            Some(known) if unchanged => known.since,
            _ => now,
        };
        self.observed = Some(Observed {
            lease: lease.clone(),
            since,
        });
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder == self.options.identity {
            return self.write(lease.clone(), lead.as_ref()).await;
        }
        let seconds = spec["leaseDurationSeconds"].as_u64();
        let duration = seconds.map_or(self.options.duration, Duration::from_secs);
        if holder.is_empty() || now - since >= duration {
            return self.write(lease.clone(), None).await;
        }
        if let Some(epoch) = lead {
            // Someone took it although it was ours: whatever happened, we do not lead.
            epoch.end();
        }
        let holder = holder.to_owned();
        self.state.send_if_modified(|state| {
            let same = matches!(&*state, Leadership::Follower(Some(known)) if *known == holder);
            if !same {
                *state = Leadership::Follower(Some(holder));
            }
            !same
        });
        Ok(())
    }

    async fn create(&mut self) -> Result<(), Error> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.options.name, "namespace": self.options.namespace},
            "spec": self.spec(None, 0),
        });
        let started = self.env.clock.elapsed();
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let namespace = self.options.namespace.clone();
        let created = self
            .client
            .create(&LEASES, &namespace, &lease, &options)
            .await?;
        self.lead(created, started, None);
        Ok(())
    }

    /// Takes or renews the Lease on top of one that was read. Without an epoch it begins one.
    async fn write(&mut self, mut lease: Value, epoch: Option<&Epoch>) -> Result<(), Error> {
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let transitions = transitions + u64::from(epoch.is_none());
        let acquired = lease["spec"]["acquireTime"].as_str().map(str::to_owned);
        lease["spec"] = self.spec(acquired.filter(|_| epoch.is_some()), transitions);
        let started = self.env.clock.elapsed();
        let at = At::new(&self.options.namespace, &self.options.name);
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let stored = self.client.update(&LEASES, at, &lease, &options).await?;
        self.lead(stored, started, epoch);
        Ok(())
    }

    fn lead(&mut self, lease: Value, started: Duration, epoch: Option<&Epoch>) {
        let ends = started + self.options.renew_deadline;
        let number = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        self.observed = Some(Observed {
            lease,
            since: started,
        });
        if let Some(epoch) = epoch.filter(|epoch| epoch.check().is_ok()) {
            epoch.extend(ends);
            return;
        }
        let epoch = Epoch {
            number,
            ends: Arc::new(AtomicU64::new(0)),
            clock: self.env.clock.clone(),
        };
        epoch.extend(ends);
        self.state.send_replace(Leadership::Leader(epoch));
    }

    async fn release(&mut self) -> Result<(), Error> {
        let Some(mut lease) = self.observed.take().map(|observed| observed.lease) else {
            return Ok(());
        };
        let now = self.env.clock.now().rfc3339_micro();
        lease["spec"]["holderIdentity"] = "".into();
        lease["spec"]["leaseDurationSeconds"] = 1.into();
        lease["spec"]["renewTime"] = now.as_str().into();
        lease["spec"]["acquireTime"] = now.into();
        let at = At::new(&self.options.namespace, &self.options.name);
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let released = self.client.update(&LEASES, at, &lease, &options).await;
        released.map(drop)
    }

    fn spec(&self, acquired: Option<String>, transitions: u64) -> Value {
        let now = self.env.clock.now().rfc3339_micro();
        json!({
            "holderIdentity": self.options.identity,
            "leaseDurationSeconds": self.options.whole_seconds(),
            "acquireTime": acquired.unwrap_or_else(|| now.clone()),
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    }

    fn manager(&self) -> &str {
        let name = self.options.name.as_str();
        name.split("-leader-election").next().unwrap_or(name)
    }
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
