//! Which faults excuse that something is not told, or told again.

use std::time::Duration;

use crate::plan::{EventFate, Fault, Weather};

/// When replicas know all Alerts at the latest, although a fault kept them from hearing of them at the beginning.
pub(super) fn settled_after(fault: &Fault) -> Duration {
    let is_ours = |kind: &str| matches!(kind, "" | "alerts" | "providers");
    let early = Duration::from_secs(5);
    match fault {
        // A watch that lost an event compares with the server ten minutes later.
        Fault::Event { kind, fate, .. } if is_ours(kind) && !matches!(fate, EventFate::Dies(_)) => {
            Duration::from_secs(13 * 60)
        }
        Fault::Weather {
            from, lasts, what, ..
        } if Duration::from_millis(*from) < early
            || matches!(what, Weather::ViewBehind(_) | Weather::ViewHeld) =>
        {
            let hides = match what {
                Weather::EventsLate(kind, _) | Weather::EventsHeld(kind) => is_ours(kind),
                Weather::HostDown(_) | Weather::HostSilent(_) | Weather::HostAnswers(..) => false,
                Weather::DiskFull => false,
                _ => true,
            };
            match hides {
                true => Duration::from_millis(from + lasts) + Duration::from_secs(30),
                false => early,
            }
        }
        _ => Duration::from_secs(2),
    }
}

/// Whether replicas hear of each other in spite of a fault.
pub(super) fn lets_hear(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Host { .. } | Fault::Stop { .. } | Fault::Crash { wiped: false, .. }
    )
}

/// Whether a replica may forget by a fault what it has told.
pub(super) fn forgets(fault: &Fault) -> bool {
    match fault {
        Fault::Jump { .. } | Fault::Disk { .. } | Fault::Restore { .. } => true,
        Fault::Crash { wiped, .. } => *wiped,
        Fault::Weather { what, .. } => *what == Weather::DiskFull,
        _ => false,
    }
}
