//! Where the world gets between a replica and everything else.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everflow_cluster::Request;
use everflow_cluster::faults::{Commits, EventVerdict, Faults, Verdict};
use everflow_cluster::status::ApiError;
use everflow_cluster::store::Stored;

use crate::disk::{Change, DiskJudge};
use crate::history::Who;
use crate::net::LineJudge;
use crate::oracles::Commit;
use crate::plan::{Asked, DiskFate, EventFate, Fate, Fault, HostFate, Weather};
use crate::shared::{Doing, Shared};

/// Judges what one life of a replica does.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The world.
    pub shared: Arc<Shared>,
    /// Which replica.
    pub replica: usize,
    /// Which of its lives.
    pub life: u32,
}

/// The parts of a path: table, key and subresource.
pub fn parts(path: &str) -> Option<(String, String, String)> {
    let mut words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let group = match *words.first()? {
        "api" if words.len() > 2 => {
            words.drain(..2);
            ""
        }
        "apis" if words.len() > 3 => {
            let group = words[1];
            words.drain(..3);
            group
        }
        _ => return None,
    };
    let mut namespace = "";
    if words.len() > 2 && words[0] == "namespaces" && !matches!(words[2], "status" | "finalize") {
        namespace = words[1];
        words.drain(..2);
    }
    let plural = words.first()?;
    let name = words.get(1).copied().unwrap_or_default();
    let part = words.get(2).copied().unwrap_or_default();
    let key = match (namespace, name) {
        (_, "") => String::new(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    Some((format!("{group}/{plural}"), key, part.to_owned()))
}

fn plural_of(path: &str) -> String {
    parts(path)
        .and_then(|(table, _, _)| table.rsplit('/').next().map(str::to_owned))
        .unwrap_or_default()
}

/// The kinds that a request counts as.
fn kinds_of(request: &Request) -> Vec<Asked> {
    let (table, key, part) = parts(&request.path).unwrap_or_default();
    if table == "coordination.k8s.io/leases" {
        return vec![Asked::Lease];
    }
    if request
        .param("watch")
        .is_some_and(|value| value != "false" && value != "0")
    {
        return vec![Asked::Watch];
    }
    let mut kinds = vec![Asked::Any];
    let told = table.ends_with("/events");
    match request.method.as_str() {
        "GET" if !table.is_empty() && key.is_empty() => kinds.push(Asked::List),
        "GET" => kinds.push(Asked::Get),
        _ if told || request.param("dryRun").is_some() => {}
        method => {
            kinds.push(Asked::Write);
            let media = request.first_header("content-type").unwrap_or_default();
            match method {
                _ if part == "status" => kinds.push(Asked::Status),
                "DELETE" => kinds.push(Asked::Delete),
                "PATCH" if media.starts_with("application/apply-patch") => kinds.push(Asked::Apply),
                _ => {}
            }
        }
    }
    kinds
}

fn failed(code: u16, reason: &'static str, text: &str) -> Verdict {
    Verdict::Fail(ApiError::new(code, reason, text))
}

fn too_busy(seconds: u32) -> Verdict {
    let mut error = ApiError::new(429, "TooManyRequests", "simulated: too many requests");
    error.headers.push(("Retry-After", seconds.to_string()));
    error.details = Some(serde_json::json!({"retryAfterSeconds": seconds}));
    Verdict::Fail(error)
}

impl Hook {
    fn who(&self) -> Who {
        Who::Replica(self.replica, self.life)
    }

    /// Counts a request and finds what becomes of it.
    fn fate(&self, request: &Request) -> Option<Fate> {
        let kinds = kinds_of(request);
        let mut state = self.shared.state();
        let mut numbers = Vec::new();
        for kind in kinds {
            let number = state.requests.entry((self.replica, kind)).or_default();
            *number += 1;
            numbers.push((kind, *number));
        }
        if state.healed {
            return None;
        }
        drop(state);
        let fate = self.shared.faults.iter().find_map(|fault| match fault {
            Fault::Request {
                replica,
                asked,
                nth,
                fate,
            } if *replica == self.replica && numbers.contains(&(*asked, *nth)) => {
                Some((fault.class(), *fate))
            }
            _ => None,
        });
        let (class, fate) = fate?;
        self.shared.hit(class, || {
            format!("{} {}: {fate:?}", request.method, request.path)
        });
        Some(fate)
    }

    fn under_weather(&self, request: &Request) -> Option<Verdict> {
        for (fault, what, left) in self.shared.weather(self.replica) {
            let verdict = match what {
                Weather::ApiDown => Verdict::Drop,
                Weather::ApiSilent => Verdict::Delay(Duration::from_millis(left)),
                Weather::ApiSlow(millis) => Verdict::Delay(Duration::from_millis(*millis)),
                Weather::Conflicts if kinds_of(request).contains(&Asked::Write) => {
                    let mut state = self.shared.state();
                    state.conflicts += 1;
                    match state.conflicts % 3 {
                        0 => continue,
                        _ => failed(409, "Conflict", "simulated: somebody was faster"),
                    }
                }
                Weather::KindBroken(kind)
                    if request.method == "GET" && plural_of(&request.path) == *kind =>
                {
                    failed(500, "InternalError", "simulated: conversion webhook failed")
                }
                _ => continue,
            };
            self.shared.hit(fault.class(), || {
                format!("{} {}: {what:?}", request.method, request.path)
            });
            return Some(verdict);
        }
        None
    }
}

fn address(request: &Request) -> usize {
    std::ptr::from_ref(request) as usize
}

impl Faults for Hook {
    fn before(&self, request: &Request) -> Verdict {
        // Whoever was at this address before is gone.
        self.shared.state().afterwards.remove(&address(request));
        if let Some(verdict) = self.under_weather(request) {
            return verdict;
        }
        let Some(fate) = self.fate(request) else {
            return Verdict::Pass;
        };
        match fate {
            Fate::FailsBefore => failed(500, "InternalError", "simulated: etcd timed out"),
            Fate::Unavailable => failed(503, "ServiceUnavailable", "simulated: not available"),
            Fate::Denied => failed(
                403,
                "Forbidden",
                "simulated: admission webhook denied the request",
            ),
            Fate::Conflicts => failed(409, "Conflict", "simulated: somebody was faster"),
            Fate::TooBusy(seconds) => too_busy(seconds),
            Fate::LostBefore => Verdict::Drop,
            Fate::Late(millis) => Verdict::Delay(Duration::from_millis(millis)),
            Fate::Twice => Verdict::Duplicate,
            Fate::DiesBefore(down) => {
                self.shared.kill(self.replica, self.life, down, false);
                Verdict::Pass
            }
            Fate::FailsAfter | Fate::LostAfter | Fate::AnswerLate(_) | Fate::DiesAfter(_) => {
                let mut state = self.shared.state();
                state.afterwards.insert(address(request), fate);
                Verdict::Pass
            }
        }
    }

    fn handling(&self, request: &Request) {
        let (table, key, part) = parts(&request.path).unwrap_or_default();
        self.shared.state().doing = Some(Doing {
            who: self.who(),
            method: request.method.clone(),
            table,
            key,
            part,
        });
    }

    fn after(&self, request: &Request, status: u16) -> Verdict {
        let mut state = self.shared.state();
        state.doing = None;
        let fate = state.afterwards.remove(&address(request));
        drop(state);
        self.shared.history.note(self.who(), || {
            let query: Vec<String> = request
                .query
                .iter()
                .filter(|(name, _)| name != "fieldManager" && name != "timeoutSeconds")
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let query = match query.is_empty() {
                true => String::new(),
                false => format!("?{}", query.join("&")),
            };
            format!("{} {}{query} → {status}", request.method, request.path)
        });
        match fate {
            None => Verdict::Pass,
            Some(Fate::FailsAfter) => failed(500, "InternalError", "simulated: etcd timed out"),
            Some(Fate::AnswerLate(millis)) => Verdict::Delay(Duration::from_millis(millis)),
            Some(Fate::DiesAfter(down)) => {
                self.shared.kill(self.replica, self.life, down, false);
                Verdict::Pass
            }
            Some(_) => Verdict::Drop,
        }
    }

    fn event(&self, request: &Request, kind: &str, line: &[u8]) -> EventVerdict {
        let plural = plural_of(&request.path);
        let shared = &self.shared;
        if kind == "BOOKMARK" {
            let held = shared
                .weather(self.replica)
                .into_iter()
                .find_map(|(_, what, left)| {
                    matches!(what, Weather::EventsHeld(of) if of.is_empty()).then_some(left)
                });
            return match held {
                Some(left) => EventVerdict::Delay(Duration::from_millis(left)),
                None => EventVerdict::Pass,
            };
        }
        shared.history.note(self.who(), || {
            format!("hears {}", heard(kind, &plural, line))
        });
        for (fault, what, left) in shared.weather(self.replica) {
            let (of, late) = match what {
                Weather::EventsLate(of, millis) => (of, *millis),
                Weather::EventsHeld(of) => (of, left),
                _ => continue,
            };
            if of.is_empty() || *of == plural {
                shared.hit(fault.class(), || format!("an event of {plural} is late"));
                return EventVerdict::Delay(Duration::from_millis(late));
            }
        }
        let mut state = shared.state();
        let mut numbers = Vec::new();
        for of in ["", plural.as_str()] {
            let number = state
                .events
                .entry((self.replica, of.to_owned()))
                .or_default();
            *number += 1;
            numbers.push((of, *number));
        }
        if state.healed {
            return EventVerdict::Pass;
        }
        drop(state);
        let found = shared.faults.iter().find_map(|fault| match fault {
            Fault::Event {
                replica,
                kind,
                nth,
                fate,
            } if *replica == self.replica && numbers.contains(&(kind.as_str(), *nth)) => {
                Some((fault.class(), *fate))
            }
            _ => None,
        });
        let Some((class, fate)) = found else {
            return EventVerdict::Pass;
        };
        shared.hit(class, || {
            format!("{}: {fate:?}", heard(kind, &plural, line))
        });
        match fate {
            EventFate::Late(millis) => EventVerdict::Delay(Duration::from_millis(millis)),
            EventFate::Lost => EventVerdict::Drop,
            EventFate::Twice => EventVerdict::Duplicate,
            EventFate::Behind(others) => EventVerdict::Behind(others),
            EventFate::Ends => EventVerdict::Close,
            EventFate::Expires => EventVerdict::Expire,
            EventFate::Dies(down) => {
                shared.kill(self.replica, self.life, down, false);
                EventVerdict::Close
            }
        }
    }
}

/// A watch event in words.
fn heard(kind: &str, plural: &str, line: &[u8]) -> String {
    let event: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    let metadata = &event["object"]["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{kind} {plural} {}/{} at {}",
        text("namespace"),
        text("name"),
        text("resourceVersion")
    )
}

impl LineJudge for Hook {
    fn connect(&self, host: &str) -> Option<HostFate> {
        let shared = &self.shared;
        if !shared.lives(self.replica, self.life) {
            return Some(HostFate::Silent);
        }
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
                shared.hit(fault.class(), || format!("{change:?}: no space"));
                let text = "no space left on device";
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
        }
        match self.disk_fate(number) {
            Some((class, DiskFate::Fails)) => {
                shared.hit(class, || format!("{change:?} fails"));
                Err(io::Error::other("input/output error"))
            }
            Some((class, DiskFate::Full)) => {
                shared.hit(class, || format!("{change:?}: no space"));
                let text = "no space left on device";
                Err(io::Error::new(io::ErrorKind::StorageFull, text))
            }
            Some((class, DiskFate::DiesBefore(down))) => {
                shared.hit(class, || format!("before {change:?}"));
                shared.kill(self.replica, self.life, down, false);
                Err(dead())
            }
            Some((_, DiskFate::DiesAfter(_))) | None => Ok(()),
        }
    }

    fn after(&self, change: Change<'_>) {
        let shared = &self.shared;
        shared.history.note(self.who(), || format!("{change:?}"));
        shared.ask(|oracles| oracles.disk(shared, self.replica, change));
        let number = shared.state().changes.get(&self.replica).copied();
        if shared.state().healed {
            return;
        }
        if let Some((class, DiskFate::DiesAfter(down))) =
            number.and_then(|number| self.disk_fate(number))
        {
            shared.hit(class, || format!("after {change:?}"));
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

/// Says whose requests the users' are. Nothing goes wrong with them.
#[derive(Debug, Clone)]
pub struct UserHook(pub Arc<Shared>);

impl Faults for UserHook {
    fn handling(&self, request: &Request) {
        let (table, key, part) = parts(&request.path).unwrap_or_default();
        self.0.state().doing = Some(Doing {
            who: Who::User,
            method: request.method.clone(),
            table,
            key,
            part,
        });
    }

    fn after(&self, _: &Request, _: u16) -> Verdict {
        self.0.state().doing = None;
        Verdict::Pass
    }
}

/// Is told of all that is written.
#[derive(Debug)]
pub struct Observer(pub Weak<Shared>);

impl Commits for Observer {
    fn committed(
        &self,
        table: &str,
        key: &str,
        new: Option<&Arc<Stored>>,
        old: Option<&Arc<Stored>>,
    ) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let doing = shared.state().doing.clone();
        let asked = doing
            .as_ref()
            .filter(|doing| doing.table == table && (doing.key == key || doing.key.is_empty()));
        let who = asked.map_or(Who::Cluster, |doing| doing.who);
        let commit = Commit {
            at: shared.history.now(),
            who,
            part: asked.map(|doing| doing.part.clone()).unwrap_or_default(),
            table,
            key,
            new: new.map(|stored| &*stored.value),
            old: old.map(|stored| &*stored.value),
        };
        shared.history.note(who, || commit.to_string());
        shared.ask(|oracles| oracles.commit(&shared, &commit));
    }
}
