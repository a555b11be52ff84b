//! Tells in plain words what went wrong.

use std::fmt;

use crate::plan::{
    DiskFate, EventFate, Fate, Fault, HostFate, Millis, Plan, RequestClass, Weather,
};
use crate::run::Outcome;
use crate::scenario::Scenario;

/// So many lines before the end are told.
const LINES: usize = 80;

fn span(millis: Millis) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        _ => format!("{:.1}s", millis as f64 / 1_000.0),
    }
}

/// A kind in words.
fn named(kind: &str) -> &str {
    if kind.is_empty() { "any kind" } else { kind }
}

impl fmt::Display for RequestClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestClass::Any => "request",
            RequestClass::Write => "write",
            RequestClass::Status => "write of a status",
            RequestClass::Apply => "apply",
            RequestClass::Delete => "delete",
            RequestClass::Get => "read",
            RequestClass::List => "list",
            RequestClass::Watch => "watch",
            RequestClass::Lease => "request for the Lease",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Request {
                replica,
                asked,
                nth,
                fate,
            } => {
                write!(f, "{asked} number {nth} of replica {replica} ")?;
                match fate {
                    Fate::FailsBefore => f.write_str("fails (500), and nothing was done"),
                    Fate::FailsAfter => f.write_str("fails (500), though it was done"),
                    Fate::Conflicts => f.write_str("is refused: conflict (409)"),
                    Fate::TooBusy(after) => {
                        write!(f, "is refused: too busy (429), come back after {after}s")
                    }
                    Fate::Unavailable => f.write_str("is refused: unavailable (503)"),
                    Fate::Denied => f.write_str("is denied by admission (403)"),
                    Fate::LostBefore => f.write_str("is lost on the way"),
                    Fate::LostAfter => f.write_str("is done, but the answer is lost"),
                    Fate::Late(millis) => write!(f, "takes {}", span(*millis)),
                    Fate::AnswerLate(millis) => {
                        write!(f, "is done, but the answer takes {}", span(*millis))
                    }
                    Fate::Twice => f.write_str("is done twice"),
                    Fate::DiesBefore(down) => {
                        write!(
                            f,
                            "is not done: the process dies before it, for {}",
                            span(*down)
                        )
                    }
                    Fate::DiesAfter(down) => {
                        write!(f, "is done, then the process dies, for {}", span(*down))
                    }
                    Fate::Stops(millis) => write!(
                        f,
                        "is done, then the process stands still for {}",
                        span(*millis)
                    ),
                    Fate::LandsLate(millis) => write!(
                        f,
                        "is lost to its client, and done all the same after {}",
                        span(*millis)
                    ),
                    Fate::HangsAndLands(millis) => write!(
                        f,
                        "gets no answer, and is done after {}, though its client may have given up",
                        span(*millis)
                    ),
                }
            }
            Fault::Event {
                replica,
                kind,
                nth,
                fate,
            } => {
                let kind = named(kind);
                write!(f, "event number {nth} of {kind} for replica {replica} ")?;
                match fate {
                    EventFate::Late(millis) => write!(f, "is {} late", span(*millis)),
                    EventFate::Lost => f.write_str("is lost"),
                    EventFate::Twice => f.write_str("comes twice"),
                    EventFate::Behind(others) => write!(f, "comes behind {others} later ones"),
                    EventFate::Ends => f.write_str("does not come: the watch ends"),
                    EventFate::Expires => f.write_str("does not come: history is gone (410)"),
                    EventFate::Garbled => f.write_str("cannot be read"),
                    EventFate::Dies(down) => write!(f, "kills the process, for {}", span(*down)),
                }
            }
            Fault::Host { host, nth, fate } => {
                write!(f, "connection number {nth} to {host} ")?;
                match fate {
                    HostFate::Refused => f.write_str("is refused"),
                    HostFate::Silent => f.write_str("is never answered"),
                    HostFate::SilentAfter(bytes) => write!(f, "falls silent after {bytes} bytes"),
                    HostFate::CutAfter(bytes) => write!(f, "breaks after {bytes} bytes"),
                    HostFate::Slow(millis) => write!(f, "takes {} to open", span(*millis)),
                    HostFate::Answers(status) => write!(f, "is answered with {status}"),
                    HostFate::TooBusy(after) => {
                        write!(f, "is answered with 429, come back after {after}s")
                    }
                }
            }
            Fault::Disk { replica, nth, fate } => {
                write!(f, "change number {nth} on the disk of replica {replica} ")?;
                match fate {
                    DiskFate::Fails => f.write_str("fails"),
                    DiskFate::Full => f.write_str("finds no space"),
                    DiskFate::DiesBefore(down) => {
                        write!(
                            f,
                            "does not happen: the process dies before it, for {}",
                            span(*down)
                        )
                    }
                    DiskFate::DiesAfter(down) => {
                        write!(f, "happens, then the process dies, for {}", span(*down))
                    }
                }
            }
            Fault::Weather {
                replica,
                from,
                lasts,
                what,
            } => {
                let (from, lasts) = (span(*from), span(*lasts));
                write!(f, "from {from} on, for {lasts}, for replica {replica}: ")?;
                match what {
                    Weather::ApiDown => f.write_str("connections to the API break"),
                    Weather::ApiSilent => f.write_str("the API does not answer"),
                    Weather::ApiSlow(millis) => write!(f, "the API takes {}", span(*millis)),
                    Weather::Conflicts => f.write_str("two of three writes conflict"),
                    Weather::EventsLate(kind, millis) => {
                        write!(f, "each event of {} is {} late", named(kind), span(*millis))
                    }
                    Weather::EventsHeld(kind) => write!(f, "no event of {} comes", named(kind)),
                    Weather::ViewHeld => f.write_str("its API server sees nothing new"),
                    Weather::ViewBehind(millis) => write!(
                        f,
                        "its API server is {} behind and sees nothing new",
                        span(*millis)
                    ),
                    Weather::Stopped => f.write_str("the process stands still"),
                    Weather::HostDown(host) => write!(f, "{host} is down"),
                    Weather::HostSilent(host) => write!(f, "{host} does not answer"),
                    Weather::HostAnswers(host, status) => write!(f, "{host} answers {status}"),
                    Weather::DiskFull => f.write_str("the disk is full"),
                    Weather::KindBroken(kind) => write!(f, "{kind} cannot be read"),
                    Weather::ListBroken(kind) => {
                        write!(
                            f,
                            "{kind} cannot be listed, though each of them can be read"
                        )
                    }
                    Weather::ObjectBroken(kind, name) => {
                        write!(f, "{kind} {name} cannot be converted, nor {kind} be listed")
                    }
                    Weather::WritesSlow(kind, millis) => {
                        write!(f, "admission of {kind} takes {}", span(*millis))
                    }
                    Weather::WritesDenied(kind) => write!(f, "admission refuses all {kind}"),
                    Weather::Forbidden(user) => write!(f, "nobody may act as {user}"),
                    Weather::ApiBusy(after) => {
                        write!(f, "the API is too busy (429), come back after {after}s")
                    }
                    Weather::Poisoned(object) => {
                        write!(f, "the process dies whenever it works on {object}")
                    }
                    Weather::WayDown(way) => write!(f, "{way} refuses connections to the API"),
                    Weather::WayCut(way) => write!(f, "nothing gets to the API by {way}"),
                    Weather::WayMute(way) => write!(f, "{way} takes requests and never answers"),
                    Weather::WaySlow(way, millis) => {
                        write!(f, "answers of the API by {way} take {}", span(*millis))
                    }
                }
            }
            Fault::Crash {
                replica,
                at,
                down,
                wiped,
            } => {
                let disk = if *wiped { ", its disk is lost," } else { "" };
                let (at, down) = (span(*at), span(*down));
                write!(f, "at {at} replica {replica} dies{disk} for {down}")
            }
            Fault::Stop { replica, at, down } => {
                let (at, down) = (span(*at), span(*down));
                write!(
                    f,
                    "at {at} replica {replica} is asked to stop; {down} later it is started again"
                )
            }
            Fault::Restore { at, back } => write!(
                f,
                "at {} the cluster is restored from a backup that is {} old",
                span(*at),
                span(*back)
            ),
            Fault::Jump {
                replica,
                at,
                seconds,
            } => write!(
                f,
                "at {} the clock of replica {replica} jumps by {seconds}s",
                span(*at)
            ),
        }
    }
}

/// What went wrong, and how it came about.
pub fn story(scenario: &Scenario, plan: &Plan, outcome: &Outcome) -> String {
    let mut text = format!("Scenario {}: {}\n", scenario.name, scenario.about);
    text.push_str("\nWhat is wrong:\n");
    for finding in &outcome.findings {
        let at = finding.at.as_secs_f64();
        text.push_str(&format!(
            "  [{}] after {at:.3}s: {}\n",
            finding.oracle, finding.text
        ));
    }
    text.push_str("\nWhat went wrong before:\n");
    let faults: Vec<&Fault> = scenario.faults.iter().chain(&plan.faults).collect();
    if faults.is_empty() {
        text.push_str("  nothing\n");
    }
    for fault in faults {
        text.push_str(&format!("  - {fault}\n"));
    }
    text.push_str("\nWhat happened:\n");
    let telling: Vec<&String> = outcome
        .history
        .iter()
        .filter(|line| is_telling(line))
        .collect();
    let end = telling
        .iter()
        .position(|line| line.contains("FAULT: WRONG"))
        .map_or(telling.len(), |at| at + 1);
    let start = end.saturating_sub(LINES);
    if start > 0 {
        text.push_str(&format!(
            "  ({start} earlier lines are left out; --trace shows all)\n"
        ));
    }
    for line in &telling[start..end] {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// Whether a line helps to understand: reads and talk do not.
fn is_telling(line: &str) -> bool {
    let noise = [
        ": GET ",
        "/events",
        " events ",
        ": connects to storage",
        "Lease",
        "/leases",
        "leases ",
    ];
    let written = line.contains(": PATCH ") || line.contains(": POST ") || line.contains(": PUT ");
    let disk = [": makes the file ", ": secures the file "]
        .iter()
        .any(|change| line.contains(change));
    line.contains("FAULT") || !(noise.iter().any(|part| line.contains(part)) || written || disk)
}
