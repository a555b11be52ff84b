//! A sequence of calls to an API, of which each depends on the answers to those before.

use crate::Secret;
use crate::exchange::{
    Answer, Exchange, GithubApp, Outcome, Reply, Request, Step, check_api_reply,
};
use crate::failure::{Failure, Retry, Stage};

/// A call to an API.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The request, or why it cannot be sent.
    pub(crate) request: Result<Request, String>,
    /// What failures begin with.
    pub(crate) context: &'static str,
    /// Whether it only finds out how to use the service.
    pub(crate) stage: Stage,
    /// Whether 404 is an answer like any other.
    pub(crate) may_miss: bool,
}

impl Call {
    pub(crate) fn new(context: &'static str, request: Result<Request, String>) -> Self {
        Call {
            request,
            context,
            stage: Stage::Send,
            may_miss: false,
        }
    }

    /// The call only finds out how to use the service.
    pub(crate) fn preparing(mut self) -> Self {
        self.stage = Stage::Prepare;
        self
    }

    /// 404 is an answer like any other.
    pub(crate) fn may_miss(mut self) -> Self {
        self.may_miss = true;
        self
    }
}

/// What follows.
#[derive(Debug)]
pub(crate) enum Following {
    /// This call is made.
    Call(Box<Call>),
    /// The sequence is over.
    Done(Outcome),
}

impl Following {
    pub(crate) fn call(call: Call) -> Self {
        Following::Call(Box::new(call))
    }

    /// The sequence is over: it cannot succeed.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Following::Done(Outcome::Failed(Failure::never(why)))
    }
}

/// A sequence of calls.
pub(crate) trait Flow: std::fmt::Debug + Send {
    /// The app whose credentials must be exchanged for a token first.
    fn app(&self) -> Option<GithubApp> {
        None
    }

    /// Takes the token of the app, and the app's short name.
    fn take_token(&mut self, _token: Secret<String>, _slug: Option<String>) {}

    /// The first call.
    fn begin(&mut self) -> Following;

    /// What follows a good answer.
    fn answered(&mut self, answer: &Answer) -> Following;

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

/// A sequence of calls as an exchange.
#[derive(Debug)]
pub(crate) struct FlowExchange<T> {
    flow: T,
    under_way: Option<(Request, Call)>,
}

impl<T: Flow> FlowExchange<T> {
    pub(crate) fn new(flow: T) -> Self {
        FlowExchange {
            flow,
            under_way: None,
        }
    }

    fn turn(&mut self, turn: Following) -> Step {
        let call = match turn {
            Following::Done(outcome) => return Step::Done(outcome),
            Following::Call(call) => *call,
        };
        match call.request.clone() {
            Ok(request) => {
                self.under_way = Some((request.clone(), call));
                Step::Send(Box::new(request))
            }
            Err(why) => Failure {
                stage: call.stage,
                context: call.context.to_owned(),
                ..Failure::never(why)
            }
            .done(),
        }
    }

    fn token(&mut self, reply: Reply) -> Step {
        match reply {
            Reply::Token { token, slug } => {
                self.flow.take_token(token, slug);
                let turn = self.flow.begin();
                self.turn(turn)
            }
            Reply::Unreachable(why) => Failure {
                stage: Stage::Prepare,
                retry: match why.is_final {
                    true => Retry::Never,
                    false => Retry::Later,
                },
                ..Failure::never(why.message)
            }
            .done(),
            _ => crate::exchange::unexpected().done(),
        }
    }

    fn refused(&self, request: &Request, call: &Call, answer: &Answer) -> Step {
        let retry = match answer.is_transient() {
            true if self.flow.retries_soon() => answer.retry_soon(),
            _ => answer.retry_later(),
        };
        Failure {
            stage: call.stage,
            context: call.context.to_owned(),
            cause: self.flow.refusal(request, answer),
            request: request.shown(),
            retry,
        }
        .done()
    }
}

impl<T: Flow> Exchange for FlowExchange<T> {
    fn start(&mut self) -> Step {
        if let Some(app) = self.flow.app() {
            return Step::GithubToken(Box::new(app));
        }
        let turn = self.flow.begin();
        self.turn(turn)
    }

    fn next(&mut self, reply: Reply) -> Step {
        let Some((request, call)) = self.under_way.take() else {
            return self.token(reply);
        };
        let answer = match check_api_reply(call.context, &request, reply) {
            Ok(answer) => answer,
            Err(failure) => {
                let stage = call.stage;
                return Failure { stage, ..failure }.done();
            }
        };
        let is_good = answer.is_success() && !self.flow.is_refusal(&answer);
        if is_good || call.may_miss && answer.status == 404 {
            let turn = self.flow.answered(&answer);
            return self.turn(turn);
        }
        self.refused(&request, &call, &answer)
    }
}
