//! Sets the status of a commit, unless it is set already.

use std::fmt::Debug;

use super::flow::{Call, Flow, Following};
use super::status::{commit, description};
use crate::event::{ERROR, INFO};
use crate::exchange::{Answer, GithubApp, Outcome, Request};
use crate::{Event, Secret};

/// The state of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Work goes on.
    Pending,
    /// All is well.
    Success,
    /// Something is not.
    Failure,
}

/// What is to be said of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    /// The commit.
    pub(crate) commit: String,
    /// The name of the status.
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) description: String,
}

/// An API that keeps the status of commits.
pub(crate) trait StatusApi: Debug + Send {
    /// Whether it keeps that work goes on, too.
    fn keeps_pending(&self) -> bool {
        false
    }

    /// The app whose credentials must be exchanged for a token first.
    fn app(&self) -> Option<GithubApp> {
        None
    }

    /// Takes that token.
    fn take_token(&mut self, _token: Secret<String>) {}

    /// A call that shows that the service is there.
    fn version_check(&self) -> Option<Call> {
        None
    }

    /// What is said of events whose commit cannot be told, before the reason.
    fn no_commit(&self) -> &'static str {
        ""
    }

    /// What is said of events that are neither good nor bad news.
    fn no_state(&self) -> &'static str;

    /// Asks what is set.
    fn get_status(&self, status: &Status) -> Call;

    /// Whether the answer has it.
    fn is_set(&self, status: &Status, answer: &Answer) -> bool;

    /// Sets it.
    fn set_status(&self, status: &Status) -> Call;

    /// What is wrong, in the words of the service.
    fn refusal(&self, request: &Request, answer: &Answer) -> String;

    /// Whether an answer that looks like a success is none.
    fn is_refusal(&self, _answer: &Answer) -> bool {
        false
    }

    /// Whether passing trouble of the service is waited out within the attempt.
    fn retries_soon(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Version,
    Looking,
    Setting,
}

/// Sets the status of a commit.
#[derive(Debug)]
pub(crate) struct SetStatus {
    api: Box<dyn StatusApi>,
    /// What to say, or why there is nothing to say.
    status: Result<Status, Outcome>,
    phase: Phase,
}

impl SetStatus {
    pub(crate) fn new(api: Box<dyn StatusApi>, event: &Event, name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("commit status cannot be empty".to_owned());
        }
        Ok(SetStatus {
            status: status(&*api, event, name),
            phase: Phase::Version,
            api,
        })
    }

    fn get_status(&mut self) -> Following {
        self.phase = Phase::Looking;
        match &self.status {
            Ok(status) => Following::call(self.api.get_status(status)),
            Err(outcome) => Following::Done(outcome.clone()),
        }
    }
}

fn status(api: &dyn StatusApi, event: &Event, name: &str) -> Result<Status, Outcome> {
    let failed = |why: String| Outcome::Failed(crate::failure::Failure::never(why));
    if event.is_progressing() && !api.keeps_pending() {
        return Err(Outcome::Skipped("the event only tells that work goes on"));
    }
    let commit = commit(event).map_err(|why| failed(format!("{}{why}", no_commit(api, &why))))?;
    let state = match event.severity.as_str() {
        _ if event.is_progressing() => State::Pending,
        INFO => State::Success,
        ERROR => State::Failure,
        _ => return Err(failed(api.no_state().to_owned())),
    };
    Ok(Status {
        commit,
        name: name.to_owned(),
        state,
        description: description(event),
    })
}

/// Some services say more of a revision that names no commit, none of a missing one.
fn no_commit(api: &dyn StatusApi, why: &str) -> &'static str {
    match why.starts_with("missing") {
        true => "",
        false => api.no_commit(),
    }
}

impl Flow for SetStatus {
    fn app(&self) -> Option<GithubApp> {
        self.status.as_ref().ok().and_then(|_| self.api.app())
    }

    fn take_token(&mut self, token: Secret<String>, _: Option<String>) {
        self.api.take_token(token);
    }

    fn begin(&mut self) -> Following {
        match self.api.version_check() {
            Some(call) => Following::call(call),
            None => self.get_status(),
        }
    }

    fn answered(&mut self, answer: &Answer) -> Following {
        match (self.phase, &self.status) {
            (Phase::Version, _) => self.get_status(),
            (Phase::Looking, Ok(status)) if self.api.is_set(status, answer) => {
                Following::Done(Outcome::Skipped("the commit has this status already"))
            }
            (Phase::Looking, Ok(status)) => {
                let call = self.api.set_status(status);
                self.phase = Phase::Setting;
                Following::call(call)
            }
            (_, Err(outcome)) => Following::Done(outcome.clone()),
            (Phase::Setting, _) => Following::Done(Outcome::Delivered),
        }
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        self.api.refusal(request, answer)
    }

    fn is_refusal(&self, answer: &Answer) -> bool {
        self.api.is_refusal(answer)
    }

    fn retries_soon(&self) -> bool {
        self.api.retries_soon()
    }
}

/// Whether the newest status of this name, in a list that begins with it, says the same. Those that lack one of the
/// fields do not count.
pub(crate) fn newest_is(list: &everflow_json::Value, fields: [&str; 3], wanted: [&str; 3]) -> bool {
    let list = list.as_array().into_iter().flatten();
    let mut named = list.filter_map(|one| {
        let [name, state, description] = fields.map(|field| one.pointer(field)?.as_str());
        (name? == wanted[0]).then_some((state?, description?))
    });
    named.next() == Some((wanted[1], wanted[2]))
}
