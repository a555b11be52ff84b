//! Why something was not delivered, and whether trying again helps.

use std::fmt;
use std::time::Duration;

use everflow_api::Reason;

use crate::Error;
use crate::alert::Warning;
use crate::event::ObjectReference;
use crate::exchange::{Outcome, Step};

/// When it was found out that something cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// While finding out how to flow to the provider.
    Prepare,
    /// While sending.
    Send,
}

/// Whether trying again helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// In seconds, or after the pause that the service asks for.
    Soon(Option<Duration>),
    /// In minutes: the service has trouble of its own.
    Later,
    /// No: the request itself is wrong.
    Never,
}

/// Why something was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// When it was found out.
    pub stage: Stage,
    /// What was being done, with a colon and a blank behind each step.
    pub context: String,
    /// What went wrong with it.
    pub cause: String,
    /// The request it was about, without secrets; empty when there was none.
    pub request: String,
    /// Whether trying again helps.
    pub retry: Retry,
}

impl Failure {
    /// A failure for good while sending.
    pub(crate) fn never(cause: impl Into<String>) -> Self {
        Failure {
            stage: Stage::Send,
            context: String::new(),
            cause: cause.into(),
            request: String::new(),
            retry: Retry::Never,
        }
    }

    pub(crate) fn done(self) -> Step {
        Step::Done(Outcome::Failed(self))
    }

    /// The warning for the Alert.
    pub fn warning(&self, object: &ObjectReference) -> Warning {
        let what = match self.stage {
            Stage::Prepare => "dispatch",
            Stage::Send => "send",
        };
        warning(what, object, &self.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.context, self.cause)
    }
}

impl Error {
    /// The warning for the Alert.
    pub fn warning(&self, object: &ObjectReference) -> Warning {
        warning("dispatch", object, &self.to_string())
    }
}

fn warning(what: &str, object: &ObjectReference, why: &str) -> Warning {
    Warning {
        reason: Reason::NotificationDispatchFailed,
        message: format!("failed to {what} notification for {}: {why}", object.path()),
    }
}
