//! Connections to hosts and changes on disk: what becomes of them.

use std::io;

use super::Hook;
use crate::disk::{Change, DiskJudge};
use crate::net::LineJudge;
use crate::plan::{DiskFate, Fault, HostFate, Weather};

impl LineJudge for Hook {
    fn connect(&self, host: &str) -> Option<HostFate> {
        let shared = &self.shared;
        if !shared.lives(self.replica, self.life) {
            return Some(HostFate::Silent);
        }
        shared.count(self.replica);
        shared
            .history
            .note(self.who(), || format!("connects to {host}"));
        for (fault, what, _) in shared.weather(self.replica) {
            let fate = match what {
                Weather::HostDown(name) if name == host => HostFate::Refused,
                Weather::HostSilent(name) if name == host => HostFate::Silent,
                Weather::HostAnswers(name, status) if name == host => HostFate::Answers(*status),
                _ => continue,
            };
            shared.hit(fault.class(), || format!("{host}: {fate:?}"));
            return Some(fate);
        }
        let mut state = shared.state();
        let number = state.connections.entry(host.to_owned()).or_default();
        *number += 1;
        let number = *number;
        if state.healed {
            return None;
        }
        drop(state);
        let found = shared.faults.iter().find_map(|fault| match fault {
            Fault::Host {
                host: name,
                nth,
                fate,
            } if name == host && *nth == number => Some((fault.class(), *fate)),
            _ => None,
        });
        let (class, fate) = found?;
        shared.trouble(self.replica, 60_000);
        shared.hit(class, || format!("{host}: {fate:?}"));
        Some(fate)
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl DiskJudge for Hook {
    fn before(&self, change: Change<'_>) -> io::Result<()> {
        let shared = &self.shared;
        if !shared.lives(self.replica, self.life) {
            return Err(dead());
        }
        let mut state = shared.state();
        let number = state.changes.entry(self.replica).or_default();
        *number += 1;
        let number = *number;
        let healed = state.healed;
        drop(state);
        if healed {
            return Ok(());
        }
        for (fault, what, _) in shared.weather(self.replica) {
            if *what == Weather::DiskFull && matches!(change, Change::Create(_) | Change::Sync(_)) {
                shared.hit(fault.class(), || format!("it {change}: no space"));
                let text = "no space left on device";
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
        }
        let fate = self.disk_fate(number);
        if fate.is_some() {
            shared.trouble(self.replica, 0);
        }
        match fate {
            Some((class, DiskFate::Fails)) => {
                shared.hit(class, || format!("it {change}: that fails"));
                Err(io::Error::other("input/output error"))
            }
            Some((class, DiskFate::Full)) => {
                shared.hit(class, || format!("it {change}: no space"));
                let text = "no space left on device";
                Err(io::Error::new(io::ErrorKind::StorageFull, text))
            }
            Some((class, DiskFate::DiesBefore(down))) => {
                shared.hit(class, || format!("before it {change}"));
                shared.kill(self.replica, self.life, down, false);
                Err(dead())
            }
            Some((_, DiskFate::DiesAfter(_))) | None => Ok(()),
        }
    }

    fn after(&self, change: Change<'_>) {
        let shared = &self.shared;
        shared.history.note(self.who(), || change.to_string());
        shared.ask(|oracles| oracles.disk(shared, self.replica, change));
        let number = shared.state().changes.get(&self.replica).copied();
        if shared.state().healed {
            return;
        }
        if let Some((class, DiskFate::DiesAfter(down))) =
            number.and_then(|number| self.disk_fate(number))
        {
            shared.hit(class, || format!("after it {change}"));
            shared.kill(self.replica, self.life, down, false);
        }
    }
}

impl Hook {
    fn disk_fate(&self, number: u64) -> Option<(&'static str, DiskFate)> {
        self.shared.faults.iter().find_map(|fault| match fault {
            Fault::Disk { replica, nth, fate } if *replica == self.replica && *nth == number => {
                Some((fault.class(), *fate))
            }
            _ => None,
        })
    }
}
