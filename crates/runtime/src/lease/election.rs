//! One leader at a time.

use std::time::Duration;

use everflow_env::{Env, watch};

use super::lock::LeaseLock;
use super::{Epoch, LeaseOptions};
use crate::client::{Client, Fence as _};
use crate::signal::Signal;

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

/// Tries to lead, and says whether we do.
#[derive(Debug)]
pub struct Election {
    env: Env,
    lock: LeaseLock,
    state: watch::Sender<Leadership>,
}

impl Election {
    /// An election that has not begun.
    pub fn new(env: Env, client: Client, options: LeaseOptions) -> Self {
        Election {
            lock: LeaseLock::new(&env, &client, options),
            env,
            state: watch::Sender::new(Leadership::Follower(None)),
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
            let _ = self.lock.turn(true).await;
            self.publish();
            let pause = self.pause();
            let _ = everflow_env::within(&*self.env.clock, pause, stop.raised()).await;
            self.stop_when_over();
        }
        let epoch = self.state.borrow().epoch().cloned();
        if let Some(epoch) = epoch {
            if self.lock.options().release {
                // What fails here only makes others wait for the Lease to run out.
                let _ = self.lock.release().await;
            }
            epoch.end();
        }
        self.state.send_replace(Leadership::Follower(None));
    }

    /// Until the next try; never past the end of the epoch.
    fn pause(&self) -> Duration {
        let period = self.lock.options().retry_period;
        let pause = match &*self.state.borrow() {
            Leadership::Leader(epoch) => match epoch.remaining() {
                Ok(left) => period.min(left),
                Err(_) => Duration::ZERO,
            },
            // Those who wait do not all come at once.
            Leadership::Follower(_) => {
                let spread = 1.0 + 0.2 * self.env.random.unit();
                period.mul_f64(spread)
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

    /// Says who leads, when that has changed.
    fn publish(&self) {
        let new = match self.lock.epoch() {
            Some(epoch) => Leadership::Leader(epoch.clone()),
            None => Leadership::Follower(self.lock.holder().map(str::to_owned)),
        };
        self.state.send_if_modified(|state| {
            let same = match (&*state, &new) {
                (Leadership::Leader(before), Leadership::Leader(now)) => before.is(now),
                (Leadership::Follower(before), Leadership::Follower(now)) => before == now,
                _ => false,
            };
            if !same {
                *state = new;
            }
            !same
        });
    }
}
