//! Faults that begin and end at moments on the clock.

use std::time::Duration;

use crate::history::Who;
use crate::plan::{Fault, Weather};
use crate::run::World;

impl World<'_> {
    pub(crate) fn begin_fault(&self, fault: &Fault) {
        match fault {
            Fault::Weather { replica, what, .. } => {
                self.shared
                    .history
                    .note(Who::Fault, || format!("replica {replica}: {what:?} begins"));
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
                .note(Who::Fault, || format!("replica {replica}: {what:?} ends"));
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
}
