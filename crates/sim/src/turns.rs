//! Faults that begin and end at moments on the clock.

use std::time::Duration;

use everflow_cluster::faults::Backup;

use crate::history::Actor;
use crate::plan::{Fault, Weather};
use crate::run::World;
use crate::scenario::UserOperation;
use crate::users;

impl World<'_> {
    pub(crate) fn begin_fault(&self, fault: &Fault) {
        match fault {
            Fault::Weather { replica, what, .. } => {
                self.shared.history.note(Actor::Fault, || {
                    format!("replica {replica}: {what:?} begins")
                });
                self.begin_weather(fault, *replica, what);
            }
            Fault::Crash {
                replica,
                down,
                wiped,
                ..
            } => {
                let life = self.shared.replicas().get(*replica).map(|state| state.life);
                if let Some(life) = life.filter(|life| self.shared.lives(*replica, *life)) {
                    self.shared
                        .hit(fault.class(), || format!("replica {replica} dies"));
                    self.shared.kill(*replica, life, *down, *wiped);
                }
            }
            Fault::Stop { replica, down, .. } => {
                let stop = {
                    let mut replicas = self.shared.replicas();
                    replicas.get_mut(*replica).and_then(|state| {
                        state.then = *down;
                        state.stop.take()
                    })
                };
                if let Some(stop) = stop {
                    self.shared.hit(fault.class(), || {
                        format!("replica {replica} is asked to stop")
                    });
                    stop.raise();
                }
            }
            Fault::Jump {
                replica, seconds, ..
            } => {
                if let Some(state) = self.shared.replicas().get(*replica) {
                    state.clock.jump(seconds * 1_000);
                }
                self.shared.hit(fault.class(), || {
                    format!("the clock of replica {replica} jumps {seconds}s")
                });
            }
            _ => {}
        }
    }

    pub(crate) fn end_fault(&self, fault: &Fault) {
        if let Fault::Weather { replica, what, .. } = fault {
            self.shared
                .history
                .note(Actor::Fault, || format!("replica {replica}: {what:?} ends"));
            if let Some(state) = self.shared.replicas().get(*replica)
                && matches!(what, Weather::ViewHeld | Weather::ViewBehind(_))
            {
                state.view.catch_up();
            }
            let now = self.shared.history.now();
            let mut state = self.shared.state();
            state.last_hit = state.last_hit.max(now);
        }
    }

    fn begin_weather(&self, fault: &Fault, replica: usize, what: &Weather) {
        let replicas = self.shared.replicas();
        let Some(state) = replicas.get(replica) else {
            return;
        };
        let breaks = matches!(what, Weather::ApiDown | Weather::ViewBehind(_));
        if breaks && state.alive {
            // What is open breaks; what comes is judged one by one.
            state.line.cut();
            state.line.mend();
        }
        let (view, clock) = (state.view.clone(), state.clock.clone());
        drop(replicas);
        match what {
            Weather::ViewHeld => view.hold_at(self.server.store().revision()),
            Weather::ViewBehind(millis) => {
                let then = self.shared.history.now();
                let then = then.saturating_sub(Duration::from_millis(*millis));
                view.hold_at(self.shared.state().revision_at(then).max(self.since));
            }
            Weather::Stopped => {
                let left = fault.ends().saturating_sub(self.shared.millis());
                clock.stop_for(Duration::from_millis(left));
            }
            _ => return,
        }
        self.shared.hit(fault.class(), || format!("{what:?}"));
    }

    /// The cluster goes back to a backup. What users have done to its objects since, they do again.
    pub(crate) fn restore(&self, fault: &Fault, of: Duration, backup: &Backup) {
        self.shared.hit(fault.class(), || {
            let (of, now) = (of.as_secs_f64(), self.server.store().revision());
            let to = backup.revision();
            format!("the cluster goes back to {of:.3}s: from revision {now} to {to}")
        });
        let now = self.shared.history.now();
        self.server.go_back(backup);
        for replica in self.shared.replicas().iter() {
            replica.view.catch_up();
        }
        let mut state = self.shared.state();
        state.restored = Some(now);
        state.revisions.push((now, backup.revision()));
        let lost = state.performed.iter().filter(|(at, _, deed)| {
            *at >= of
                && matches!(
                    deed,
                    UserOperation::Apply(_)
                        | UserOperation::Patch { .. }
                        | UserOperation::Delete(_)
                )
        });
        let lost: Vec<_> = lost.cloned().collect();
        state.to_do += lost.len();
        drop(state);
        let (shared, hosts, client) =
            (self.shared.clone(), self.hosts.clone(), self.client.clone());
        tokio::spawn(async move {
            for (_, number, deed) in lost {
                users::perform(&shared, &hosts, &client, &deed, number).await;
                let mut state = shared.state();
                state.to_do -= 1;
                state.last_deed = shared.history.now();
            }
        });
    }
}
