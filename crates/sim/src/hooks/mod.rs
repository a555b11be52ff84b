//! Where the world gets between a replica and everything else.

mod commits;
mod hosts;

use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::Request;
use everflow_cluster::faults::{EventVerdict, Faults, Verdict};
use everflow_cluster::rest::request::words;
use everflow_cluster::rest::watch::Event;
use everflow_cluster::status::ApiError;

use crate::history::Actor;
use crate::plan::{EventFate, Fate, Fault, RequestClass, Weather};
use crate::shared::{Doing, Shared};

pub use commits::{Observer, UserHook};

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

/// The parts of a path that leads to a collection or into one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'p> {
    group: &'p str,
    plural: &'p str,
    namespace: &'p str,
    name: &'p str,
    subresource: &'p str,
}

impl<'p> Parts<'p> {
    /// Of a path; all are empty where it leads elsewhere.
    pub fn of(path: &'p str) -> Self {
        Self::read(path).unwrap_or_default()
    }

    fn read(path: &'p str) -> Option<Self> {
        let mut words = words(path.trim_matches('/'), b'/');
        let group = match words.next()? {
            "api" => "",
            "apis" => words.next()?,
            _ => return None,
        };
        // The version.
        words.next()?;
        let first = words.next()?;
        let mut after = words.clone();
        let inside = match (after.next(), after.next()) {
            // A namespace has parts of its own.
            (Some(_), Some("status" | "finalize")) => false,
            (Some(_), Some(_)) => first == "namespaces",
            _ => false,
        };
        let (namespace, plural) = match inside {
            true => (words.next()?, words.next()?),
            false => ("", first),
        };
        Some(Parts {
            group,
            plural,
            namespace,
            name: words.next().unwrap_or_default(),
            subresource: words.next().unwrap_or_default(),
        })
    }

    /// Whether the path leads to what the store has in a table.
    fn is_in(&self, table: &str) -> bool {
        match self.plural {
            "" => table.is_empty(),
            plural => joins(table, self.group, plural),
        }
    }

    /// Whether the path leads to the object that a table has under a key, or to none, so that the server makes its name
    /// up.
    fn may_be(&self, key: &str) -> bool {
        match (self.namespace, self.name) {
            (_, "") => true,
            ("", name) => key == name,
            (namespace, name) => joins(key, namespace, name),
        }
    }

    fn is_key(&self, key: &str) -> bool {
        match key.split_once('/') {
            Some(key) => key == (self.namespace, self.name),
            None => self.namespace.is_empty() && self.name == key,
        }
    }
}

/// Whether a text is two others with a slash between.
fn joins(text: &str, first: &str, second: &str) -> bool {
    let rest = text.strip_prefix(first);
    rest.and_then(|rest| rest.strip_prefix('/')) == Some(second)
}

/// The kinds that one request counts as: there are at most three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kinds([Option<RequestClass>; 3]);

impl Kinds {
    fn one(kind: RequestClass) -> Self {
        Kinds([Some(kind), None, None])
    }

    fn contains(&self, kind: RequestClass) -> bool {
        self.0.contains(&Some(kind))
    }
}

/// The kinds that a request counts as.
fn kinds_of(request: &Request) -> Kinds {
    let parts = Parts::of(&request.path);
    if (parts.group, parts.plural) == ("coordination.k8s.io", "leases") {
        return Kinds::one(RequestClass::Lease);
    }
    if request
        .param("watch")
        .is_some_and(|value| value != "false" && value != "0")
    {
        return Kinds::one(RequestClass::Watch);
    }
    let told = parts.plural == "events";
    let (second, third) = match request.method.as_str() {
        "GET" if !parts.plural.is_empty() && parts.name.is_empty() => {
            (Some(RequestClass::List), None)
        }
        "GET" => (Some(RequestClass::Get), None),
        _ if told || request.param("dryRun").is_some() => (None, None),
        method => {
            let media = request.first_header("content-type").unwrap_or_default();
            let which = match method {
                _ if parts.subresource == "status" => Some(RequestClass::Status),
                "DELETE" => Some(RequestClass::Delete),
                "PATCH" if media.starts_with("application/apply-patch") => {
                    Some(RequestClass::Apply)
                }
                _ => None,
            };
            (Some(RequestClass::Write), which)
        }
    };
    Kinds([Some(RequestClass::Any), second, third])
}

fn failed(code: u16, reason: &'static str, text: &str) -> Verdict {
    Verdict::Fail(ApiError::new(code, reason, text))
}

fn too_busy(seconds: u32) -> Verdict {
    let mut error = ApiError::new(429, "TooManyRequests", "simulated: too many requests");
    error.headers.push(("Retry-After", seconds.to_string()));
    error.details = Some(everflow_json::json!({"retryAfterSeconds": seconds}));
    Verdict::Fail(error)
}

fn unconverted() -> Verdict {
    failed(500, "InternalError", "simulated: conversion webhook failed")
}

/// Whether a request reads a whole collection, once or for ever.
fn is_list(request: &Request) -> bool {
    let parts = Parts::of(&request.path);
    request.method == "GET" && !parts.plural.is_empty() && parts.name.is_empty()
}

fn is_write_of(request: &Request, kind: &str) -> bool {
    request.method != "GET" && Parts::of(&request.path).plural == kind
}

/// Whether a request has to do with an object: itself, or a collection that holds it.
fn touches(request: &Request, kind: &str, name: &str) -> bool {
    let parts = Parts::of(&request.path);
    parts.plural == kind && (parts.is_key(name) || is_list(request))
}

/// What tells requests apart that are done late.
fn mark(request: &Request) -> String {
    format!("{} {} {}", request.method, request.path, request.body.len())
}

impl Hook {
    fn who(&self) -> Actor {
        Actor::Replica(self.replica, self.life)
    }

    /// Counts a request and finds what becomes of it.
    fn fate(&self, request: &Request) -> Option<Fate> {
        let kinds = kinds_of(request);
        self.shared.count(self.replica);
        let mut state = self.shared.state();
        let numbers = kinds.0.map(|kind| {
            let number = state.requests.entry((self.replica, kind?)).or_default();
            *number += 1;
            Some((kind?, *number))
        });
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
            } if *replica == self.replica && numbers.contains(&Some((*asked, *nth))) => {
                Some((fault.class(), *fate))
            }
            _ => None,
        });
        let (class, fate) = fate?;
        self.shared.trouble(self.replica, fate.lasts());
        self.shared.hit(class, || {
            format!("{} {}: {fate:?}", request.method, request.path)
        });
        Some(fate)
    }

    /// A request that is done when nobody waits for it any more. Reads are just lost.
    fn land_late(&self, request: &Request, millis: u64, breaks: bool) -> Verdict {
        let kinds = kinds_of(request);
        if !kinds.contains(RequestClass::Write) && kinds != Kinds::one(RequestClass::Lease) {
            return match breaks {
                true => Verdict::Drop,
                false => Verdict::Delay(Duration::from_millis(millis)),
            };
        }
        let (after, now) = (Duration::from_millis(millis), self.shared.history.now());
        let mut state = self.shared.state();
        state.landing.push((now + after, mark(request), now));
        Verdict::Later { after, breaks }
    }

    fn under_weather(&self, request: &Request) -> Option<Verdict> {
        for (fault, what, left) in self.shared.weather(self.replica) {
            let verdict = match what {
                Weather::ApiDown => Verdict::Drop,
                Weather::ApiSilent => Verdict::Delay(Duration::from_millis(left)),
                Weather::ApiSlow(millis) => Verdict::Delay(Duration::from_millis(*millis)),
                Weather::Conflicts if kinds_of(request).contains(RequestClass::Write) => {
                    let mut state = self.shared.state();
                    state.conflicts += 1;
                    match state.conflicts % 3 {
                        0 => continue,
                        _ => failed(409, "Conflict", "simulated: somebody was faster"),
                    }
                }
                Weather::KindBroken(kind)
                    if request.method == "GET" && Parts::of(&request.path).plural == *kind =>
                {
                    unconverted()
                }
                Weather::ListBroken(kind)
                    if is_list(request) && Parts::of(&request.path).plural == *kind =>
                {
                    unconverted()
                }
                Weather::ObjectBroken(kind, name) if touches(request, kind, name) => unconverted(),
                Weather::WritesSlow(kind, millis) if is_write_of(request, kind) => {
                    Verdict::Delay(Duration::from_millis(*millis))
                }
                Weather::WritesDenied(kind) if is_write_of(request, kind) => failed(
                    500,
                    "InternalError",
                    "simulated: failed calling webhook: no endpoints available",
                ),
                Weather::Forbidden(user)
                    if request.first_header("impersonate-user") == Some(user.as_str()) =>
                {
                    failed(403, "Forbidden", "simulated: this user may do nothing")
                }
                Weather::ApiBusy(seconds)
                    if kinds_of(request) != Kinds::one(RequestClass::Lease) =>
                {
                    too_busy(*seconds)
                }
                // It was restarted, and knows nothing of what the watch has seen.
                Weather::ViewBehind(_)
                    if kinds_of(request) == Kinds::one(RequestClass::Watch)
                        && request.param("sendInitialEvents").is_none() =>
                {
                    failed(410, "Expired", "simulated: too old resource version")
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
            Fate::LandsLate(millis) => self.land_late(request, millis, true),
            Fate::HangsAndLands(millis) => self.land_late(request, millis, false),
            Fate::FailsAfter
            | Fate::LostAfter
            | Fate::AnswerLate(_)
            | Fate::DiesAfter(_)
            | Fate::Stops(_) => {
                let mut state = self.shared.state();
                state.afterwards.insert(address(request), fate);
                Verdict::Pass
            }
        }
    }

    fn handling(&self, request: &Request) {
        let mut state = self.shared.state();
        let mut late = None;
        if !state.landing.is_empty() {
            let now = self.shared.history.now();
            let mut landing = state.landing.iter();
            let landed = landing.position(|(due, which, _)| *due <= now && *which == mark(request));
            late = landed.map(|at| state.landing.swap_remove(at).2);
        }
        state.doing = Some(Doing {
            who: self.who(),
            path: request.path.clone(),
            late,
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
        if let Some(Fate::Stops(millis)) = fate
            && let Some(state) = self.shared.replicas().get(self.replica)
        {
            state.clock.stop_for(Duration::from_millis(millis));
        }
        if let Some(left) = self.shared.stopped(self.replica) {
            return Verdict::Delay(left);
        }
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

    fn event(&self, request: &Request, event: &Event) -> EventVerdict {
        let shared = &self.shared;
        if let Some(left) = shared.stopped(self.replica) {
            return EventVerdict::Delay(left);
        }
        if event.kind == "BOOKMARK" {
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
        let plural = Parts::of(&request.path).plural;
        shared
            .history
            .note(self.who(), || format!("hears {}", heard(plural, event)));
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
        let numbers = ["", plural].map(|of| (of, state.count_event(self.replica, of)));
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
        shared.trouble(self.replica, fate.lasts());
        shared.hit(class, || format!("{}: {fate:?}", heard(plural, event)));
        match fate {
            EventFate::Late(millis) => EventVerdict::Delay(Duration::from_millis(millis)),
            EventFate::Lost => EventVerdict::Drop,
            EventFate::Twice => EventVerdict::Duplicate,
            EventFate::Behind(others) => EventVerdict::Behind(others),
            EventFate::Ends => EventVerdict::Close,
            EventFate::Expires => EventVerdict::Expire,
            EventFate::Garbled => EventVerdict::Replace(garbled(event)),
            EventFate::Dies(down) => {
                shared.kill(self.replica, self.life, down, false);
                EventVerdict::Close
            }
        }
    }
}

/// An event that nobody can read: what there is of it breaks off in the middle, or says nothing.
fn garbled(event: &Event) -> bytes::Bytes {
    let (kind, line) = (event.kind, event.line());
    match line.len() % 2 {
        0 => bytes::Bytes::from(format!(
            "{{\"type\":{kind:?},\"object\":{{\"metadata\":{{\"name\":\"?\"}},\"spec\":7}}}}\n"
        )),
        _ => {
            let mut half = line[..line.len() / 2].to_vec();
            half.push(b'\n');
            half.into()
        }
    }
}

/// A watch event in words.
fn heard(plural: &str, event: &Event) -> String {
    let kind = event.kind;
    let event: everflow_json::Value = everflow_json::from_slice(&event.line()).unwrap_or_default();
    let metadata = &event["object"]["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{kind} {plural} {}/{} at {}",
        text("namespace"),
        text("name"),
        text("resourceVersion")
    )
}
