//! Why an attempt does not get through.

use std::time::Duration;

use everflow_api::reason::Reason;
use everflow_runtime::attempt::Interrupted;
use everflow_runtime::client::Concealed;
use everflow_runtime::events::Severity;

/// Why an attempt does not get through.
#[derive(Debug)]
pub(crate) enum Stop {
    /// There is no point in going on.
    Interrupted(Interrupted),
    /// Something has to be there or be right first.
    Failed(Box<Failure>),
    /// Others have to finish what was applied so far.
    Unsettled {
        /// What is waited for, in words.
        what: String,
        /// For how long already.
        waited: Duration,
    },
    /// The Kustomization is gone.
    Gone,
}

/// What failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The reason of the Ready condition and of the event.
    pub(crate) reason: Reason,
    /// The message of the Ready condition.
    pub(crate) message: String,
    /// What the event says.
    pub(crate) event: EventText,
    /// What has to happen.
    pub(crate) then: RetryPolicy,
}

/// What is told of a failure in an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EventText {
    /// The message.
    Message,
    /// Another text.
    Text(String),
    /// Something that is no failure yet.
    Info(String),
    /// The message, unless the status says it already.
    Once,
    /// Nothing.
    Nothing,
}

/// What has to happen before an attempt can get further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// Time, or anything that wakes it.
    Retry,
    /// The API server has to come back, which may be any moment: nothing is wrong with what is delivered.
    Return,
    /// The source or a dependency has to change; it is looked at again soon.
    Wait,
    /// The source has to come; it is looked at again at the retry interval.
    WaitForSource,
    /// Someone has to change the spec.
    Change,
}

/// What of the spec cannot be right, and how to correct it.
#[derive(Debug)]
pub(crate) struct Misconfigured(pub(crate) String);

impl Misconfigured {
    /// An expression of `dependsOn` that cannot be read.
    pub(crate) fn dependency(name: &str, why: &str) -> Self {
        Misconfigured(format!(
            "terminal error: failed to evaluate dependency {name}: {why}\ncorrect readyExpr in spec.dependsOn"
        ))
    }
}

impl From<Misconfigured> for Failure {
    fn from(misconfigured: Misconfigured) -> Self {
        let start = "Reconciliation failed terminally due to configuration error";
        let message = format!("{start}: {}", misconfigured.0);
        Failure::new(Reason::InvalidCELExpression, message).then(RetryPolicy::Change)
    }
}

impl Stop {
    pub(crate) fn failed(reason: Reason, message: impl Into<String>) -> Self {
        Failure::new(reason, message).into()
    }
}

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Failure {
            reason,
            message: message.into(),
            event: EventText::Message,
            then: RetryPolicy::Retry,
        }
    }

    /// Leaves out texts that are not to be repeated.
    pub(crate) fn conceal(&mut self, texts: &Concealed) {
        self.message = texts.hide(&self.message);
        if let EventText::Text(text) | EventText::Info(text) = &mut self.event {
            *text = texts.hide(text);
        }
    }

    /// What is told in an event; `is_known` when the status says the same already.
    pub(crate) fn told(&self, is_known: bool) -> Option<(Severity, String)> {
        match &self.event {
            EventText::Nothing => None,
            EventText::Once if is_known => None,
            EventText::Message | EventText::Once => Some((Severity::Error, self.message.clone())),
            EventText::Text(text) => Some((Severity::Error, text.clone())),
            EventText::Info(text) => Some((Severity::Info, text.clone())),
        }
    }

    pub(crate) fn telling(mut self, event: EventText) -> Self {
        self.event = event;
        self
    }

    /// What may pass by itself is tried again sooner.
    pub(crate) fn passing(self, transient: bool) -> Self {
        match transient {
            true => self.then(RetryPolicy::Return),
            false => self,
        }
    }

    pub(crate) fn then(mut self, then: RetryPolicy) -> Self {
        self.then = then;
        self
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(Box::new(failure))
    }
}

impl From<Interrupted> for Stop {
    fn from(why: Interrupted) -> Self {
        Stop::Interrupted(why)
    }
}
