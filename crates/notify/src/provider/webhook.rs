//! Services that take one request, or a few in a row.

use std::collections::VecDeque;

use crate::exchange::{Answer, Exchange, Outcome, Reply, Request, Step, check_reply};
use crate::failure::{Failure, Retry, Stage};
use crate::url::Url;

/// Judges an answer that is no passing trouble; the error is what is wrong with it.
pub(crate) type ResponseCheck = fn(&Answer) -> Result<(), String>;

/// Requests that are sent one after the other.
#[derive(Debug)]
pub(crate) struct Webhook {
    waiting: VecDeque<(&'static str, Request)>,
    under_way: Option<(&'static str, Request)>,
    response_check: ResponseCheck,
    /// What stands between the context of a failure and what is wrong with an answer.
    refused: &'static str,
}

impl Webhook {
    /// One request; `context` is what its failures begin with.
    pub(crate) fn new(context: &'static str, request: Request) -> Self {
        Webhook {
            waiting: VecDeque::from([(context, request)]),
            under_way: None,
            response_check: any_success,
            refused: "request failed: ",
        }
    }

    /// One more request, when those before it succeeded.
    pub(crate) fn then(mut self, context: &'static str, request: Request) -> Self {
        self.waiting.push_back((context, request));
        self
    }

    /// Another way to tell whether an answer is a good one.
    pub(crate) fn checked_by(mut self, response_check: ResponseCheck) -> Self {
        self.response_check = response_check;
        self
    }

    /// Without words between the context of a failure and what is wrong with an answer.
    pub(crate) fn without_prefix(mut self) -> Self {
        self.refused = "";
        self
    }

    fn advance(&mut self) -> Step {
        let Some((context, request)) = self.waiting.pop_front() else {
            return Step::Done(Outcome::Delivered);
        };
        if let Err(failure) = check_scheme(context, &request) {
            return failure.done();
        }
        self.under_way = Some((context, request.clone()));
        Step::Send(Box::new(request))
    }
}

impl Exchange for Webhook {
    fn start(&mut self) -> Step {
        self.advance()
    }

    fn next(&mut self, reply: Reply) -> Step {
        let Some((context, request)) = self.under_way.take() else {
            return crate::exchange::unexpected().done();
        };
        let answer = match check_reply(context, &request, reply) {
            Ok(answer) => answer,
            Err(failure) => return failure.done(),
        };
        match (self.response_check)(&answer) {
            Ok(()) => self.advance(),
            Err(why) => Failure {
                stage: Stage::Send,
                context: format!("{context}{}", self.refused),
                cause: why,
                request: request.shown(),
                retry: answer.retry_later(),
            }
            .done(),
        }
    }
}

/// What most services answer when they took a message.
pub(crate) fn any_success(answer: &Answer) -> Result<(), String> {
    match answer.is_success() {
        true => Ok(()),
        false => {
            let (status, body) = (answer.status, answer.shown());
            Err(format!("request failed with status code {status}: {body}"))
        }
    }
}

/// What cannot be sent over HTTP is not worth a try.
pub(crate) fn check_scheme(context: &str, request: &Request) -> Result<(), Failure> {
    let scheme = Url::parse(request.address.reveal())
        .map(|url| url.scheme)
        .unwrap_or_default();
    if matches!(scheme.as_str(), "http" | "https") {
        return Ok(());
    }
    let method = request.method.as_str();
    let method = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
    let cause = format!(
        "{} giving up after 1 attempt(s): {method} {:?}: unsupported protocol scheme {scheme:?}",
        request.shown(),
        request.address.to_string(),
    );
    Err(Failure {
        stage: Stage::Send,
        context: format!("{context}failed to execute request: "),
        cause,
        request: request.shown(),
        retry: Retry::Never,
    })
}

/// A delivery that is over before anything is sent.
#[derive(Debug)]
pub(crate) struct Immediate(pub(crate) Outcome);

impl Exchange for Immediate {
    fn start(&mut self) -> Step {
        Step::Done(self.0.clone())
    }

    fn next(&mut self, _: Reply) -> Step {
        crate::exchange::unexpected().done()
    }
}

/// A request whose credentials cannot be sent.
pub(crate) fn unsendable(context: &str, request: &Request, why: &str) -> Immediate {
    let method = request.method.as_str();
    let method = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
    let shown = request.shown();
    let address = request.address.to_string();
    Immediate(Outcome::Failed(Failure {
        stage: Stage::Send,
        context: format!("{context}failed to execute request: "),
        cause: format!("{shown} giving up after 1 attempt(s): {method} {address:?}: {why}"),
        request: shown,
        retry: Retry::Never,
    }))
}
