//! One Lease: what is known of it, and the requests that take, renew and release it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, Place};
use everflow_json::{Value, json};
use tokio::sync::Notify;

use super::{Epoch, LEASES, LeaseOptions};
use crate::client::{At, Client, DeleteOptions, WriteOptions, meta_text, revision};
use crate::error::Error;

/// What others have written, and since when we know it.
#[derive(Debug)]
struct Observed {
    lease: Value,
    since: Duration,
}

/// A Lease that may be ours.
#[derive(Debug)]
pub struct LeaseLock {
    env: Env,
    client: Client,
    options: LeaseOptions,
    labels: BTreeMap<String, String>,
    /// What is written beside the holder.
    pub(crate) annotations: BTreeMap<String, String>,
    /// An epoch that those of this Lease cannot outlast.
    pub(crate) above: Option<Epoch>,
    /// Told when the last work under an epoch has ended.
    pub(crate) idle: Arc<Notify>,
    observed: Option<Observed>,
    epoch: Option<Epoch>,
    /// How long writes took since these were taken last.
    pub(crate) spans: Vec<Duration>,
}

/// How long one request may take.
fn deadline(options: &LeaseOptions) -> Duration {
    options.retry_period.min(Duration::from_secs(10))
}

impl LeaseLock {
    /// A Lease of which nothing is known yet.
    pub fn new(env: &Env, client: &Client, options: LeaseOptions) -> Self {
        LeaseLock {
            client: client.with_deadline(deadline(&options)).urgent(),
            env: env.clone(),
            options,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            above: None,
            idle: Arc::default(),
            observed: None,
            epoch: None,
            spans: Vec::new(),
        }
    }

    /// The same with a label.
    #[must_use]
    pub fn labelled(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// How it is held.
    pub fn options(&self) -> &LeaseOptions {
        &self.options
    }

    /// The epoch, while it lasts.
    pub fn epoch(&self) -> Option<&Epoch> {
        self.epoch.as_ref().filter(|epoch| epoch.check().is_ok())
    }

    /// Who holds it, as far as is known; nobody after it was released.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.observed.as_ref()?.lease["spec"]["holderIdentity"].as_str();
        holder.filter(|holder| !holder.is_empty())
    }

    /// When it may be taken. What was never seen may be taken at any time.
    pub fn free_from(&self) -> Duration {
        let Some(observed) = self.observed.as_ref().filter(|_| self.holder().is_some()) else {
            return Duration::ZERO;
        };
        let seconds = observed.lease["spec"]["leaseDurationSeconds"].as_u64();
        observed.since + seconds.map_or(self.options.duration, Duration::from_secs)
    }

    /// Who holds it at a moment.
    pub fn held_by(&self, now: Duration) -> Option<&str> {
        let is_ours = self.epoch().is_some();
        self.holder().filter(|_| is_ours || now < self.free_from())
    }

    /// Takes in what a watch tells. What is older than what is known says nothing.
    pub fn observe(&mut self, lease: Option<Value>, now: Duration) {
        let known = self.observed.as_ref();
        let Some(lease) = lease else {
            // Gone, or not told yet: a write finds out.
            if self.epoch().is_none() {
                self.observed = None;
            }
            return;
        };
        if known.is_some_and(|known| revision(&known.lease) >= revision(&lease)) {
            return;
        }
        self.remember(lease, now);
    }

    /// Keeps what was read, and since when it is so. An epoch ends when somebody else holds the Lease.
    fn remember(&mut self, lease: Value, now: Duration) {
        let known = self.observed.take();
        let unchanged = known.as_ref().filter(|known| {
            known.lease["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]
        });
        let since = unchanged.map_or(now, |known| known.since);
        self.observed = Some(Observed { lease, since });
        if self.holder() != Some(&self.options.identity)
            && let Some(epoch) = self.epoch.take()
        {
            // Whatever happened: it is not ours.
            epoch.end();
        }
    }

    /// Renews it while it is ours; else looks at it, and takes it if that is wished and nobody holds it.
    pub async fn turn(&mut self, may_take: bool) -> Result<(), Error> {
        let lead = self.epoch().cloned();
        if let (Some(epoch), Some(observed)) = (&lead, &self.observed) {
            // The usual case: one write and no read.
            let lease = observed.lease.clone();
            match self.write(lease, Some(epoch)).await {
                Err(Error::Conflict(_) | Error::NotFound(_)) => {}
                result => return result,
            }
        }
        self.look(may_take).await
    }

    /// Takes it on top of what is known, without reading it first.
    pub async fn take(&mut self) -> Result<(), Error> {
        let taken = match &self.observed {
            Some(observed) => {
                let lease = observed.lease.clone();
                self.write(lease, None).await
            }
            None => self.create().await,
        };
        match taken {
            Err(Error::Conflict(_) | Error::NotFound(_) | Error::AlreadyExists(_)) => {
                self.look(true).await
            }
            result => result,
        }
    }

    /// Reads it, and takes it if that is wished and nobody holds it.
    pub async fn look(&mut self, may_take: bool) -> Result<(), Error> {
        let at = At::new(&self.options.namespace, &self.options.name);
        match self.client.get(&LEASES, at).await {
            Ok(lease) => self.consider(lease, may_take).await,
            Err(Error::NotFound(_)) if may_take => self.create().await,
            Err(Error::NotFound(_)) => {
                self.observed = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn consider(&mut self, lease: Value, may_take: bool) -> Result<(), Error> {
        let lead = self.epoch().cloned();
        let now = self.env.clock.elapsed();
        self.remember(lease.clone(), now);
        if self.holder() == Some(&self.options.identity) {
            return match lead.is_some() || may_take {
                true => self.write(lease, lead.as_ref()).await,
                false => Ok(()),
            };
        }
        match may_take && now >= self.free_from() {
            true => self.write(lease, None).await,
            false => Ok(()),
        }
    }

    async fn create(&mut self) -> Result<(), Error> {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.options.name, "namespace": self.options.namespace},
            "spec": self.spec(None, 0),
        });
        self.dress(&mut lease);
        let started = self.env.clock.elapsed();
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let namespace = self.options.namespace.clone();
        let created = self
            .client
            .create(&LEASES, &namespace, &lease, &options)
            .await;
        self.measure(started, created.as_ref().err());
        self.lead(created?, started, None);
        Ok(())
    }

    /// Takes or renews the Lease on top of one that was read. Without an epoch it begins one.
    async fn write(&mut self, mut lease: Value, epoch: Option<&Epoch>) -> Result<(), Error> {
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let transitions = transitions + u64::from(epoch.is_none());
        let acquired = lease["spec"]["acquireTime"].as_str().map(str::to_owned);
        lease["spec"] = self.spec(acquired.filter(|_| epoch.is_some()), transitions);
        self.dress(&mut lease);
        let started = self.env.clock.elapsed();
        let at = At::new(&self.options.namespace, &self.options.name);
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let stored = self.client.update(&LEASES, at, &lease, &options).await;
        self.measure(started, stored.as_ref().err());
        self.lead(stored?, started, epoch);
        Ok(())
    }

    /// Notes how long a write took. One that failed for no reason of the Lease's counts as one that took all its time.
    fn measure(&mut self, started: Duration, error: Option<&Error>) {
        let span = match error {
            None | Some(Error::Conflict(_) | Error::NotFound(_) | Error::AlreadyExists(_)) => {
                self.env.clock.elapsed().saturating_sub(started)
            }
            Some(_) => deadline(&self.options),
        };
        self.spans.push(span);
    }

    fn dress(&self, lease: &mut Value) {
        for (name, value) in &self.labels {
            lease["metadata"]["labels"][name.as_str()] = value.as_str().into();
        }
        for (name, value) in &self.annotations {
            lease["metadata"]["annotations"][name.as_str()] = value.as_str().into();
        }
    }

    fn lead(&mut self, lease: Value, started: Duration, epoch: Option<&Epoch>) {
        let mut ends = started + self.options.renew_deadline;
        self.env.planted(Place::EpochEnds, &mut ends);
        let number = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        self.observed = Some(Observed {
            lease,
            since: started,
        });
        if let Some(epoch) = epoch.filter(|epoch| epoch.check().is_ok()) {
            epoch.extend(ends);
            return;
        }
        let lease = format!("{}/{}", self.options.namespace, self.options.name);
        let (clock, above) = (self.env.clock.clone(), self.above.as_ref());
        let epoch = Epoch::new(number, &lease, clock, above, self.idle.clone());
        epoch.extend(ends);
        self.epoch = Some(epoch);
    }

    /// Gives it to whoever waits for it. All work under the epoch must have ended.
    pub async fn release(&mut self) -> Result<(), Error> {
        let epoch = self.epoch.take();
        let released = self.write_released().await;
        if let Some(epoch) = epoch {
            epoch.end();
        }
        released
    }

    async fn write_released(&mut self) -> Result<(), Error> {
        let Some(lease) = self.observed.take().map(|observed| observed.lease) else {
            return Ok(());
        };
        match self.write_free(lease).await {
            // A renewal whose answer was lost came between.
            Err(Error::Conflict(_)) => {}
            result => return result,
        }
        let at = At::new(&self.options.namespace, &self.options.name);
        let lease = self.client.get(&LEASES, at).await?;
        match lease["spec"]["holderIdentity"].as_str() == Some(&self.options.identity) {
            true => self.write_free(lease).await,
            false => Ok(()),
        }
    }

    async fn write_free(&mut self, mut lease: Value) -> Result<(), Error> {
        let now = self.env.clock.now().rfc3339_micro();
        lease["spec"]["holderIdentity"] = "".into();
        lease["spec"]["leaseDurationSeconds"] = 1.into();
        lease["spec"]["renewTime"] = now.as_str().into();
        lease["spec"]["acquireTime"] = now.into();
        let at = At::new(&self.options.namespace, &self.options.name);
        let options = WriteOptions::by(self.manager()).without_managed_fields();
        let stored = self.client.update(&LEASES, at, &lease, &options).await?;
        self.observed = Some(Observed {
            lease: stored,
            since: self.env.clock.elapsed(),
        });
        Ok(())
    }

    /// Deletes it, for Leases that only say that somebody is there.
    pub async fn remove(&mut self) -> Result<(), Error> {
        if let Some(epoch) = self.epoch.take() {
            epoch.end();
        }
        let Some(lease) = self.observed.take().map(|observed| observed.lease) else {
            return Ok(());
        };
        let at = At::new(&self.options.namespace, &self.options.name);
        let options = DeleteOptions::uid(meta_text(&lease, "uid"));
        match self.client.delete(&LEASES, at, &options).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
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
