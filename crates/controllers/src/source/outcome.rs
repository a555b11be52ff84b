//! How an attempt of a source ends.

use std::time::Duration;

use everflow_api::Reason;
use everflow_runtime::attempt::Interrupted;

/// An attempt that reached its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The artifact is what it should be.
    Done {
        /// What is said when there is a new artifact, or one again after a failure.
        said: String,
        /// The reason of the event for a new artifact.
        new: &'static str,
        /// The reason of the event for one again after a failure.
        again: &'static str,
    },
    /// Nothing changed at the remote, which is told to those who look closely.
    Unchanged {
        /// What is said of an artifact again after a failure.
        said: String,
        /// The reason of the event that nothing changed.
        reason: Reason,
        /// The event that nothing changed.
        message: String,
    },
}

impl Outcome {
    /// A new artifact, by the usual reasons.
    pub(crate) fn done(said: String) -> Self {
        Outcome::Done {
            said,
            new: "NewArtifact",
            again: Reason::Succeeded.as_str(),
        }
    }
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may pass: tried again, less and less often.
    Passing {
        /// The reason.
        reason: String,
        /// In words.
        message: String,
    },
    /// It cannot succeed until something changes.
    Stalling {
        /// The reason.
        reason: String,
        /// In words.
        message: String,
    },
    /// It waits for other objects, those that the draft names, which is no trouble.
    Waiting {
        /// The reason.
        reason: String,
        /// In words.
        message: String,
        /// No longer than this.
        no_later_than: Duration,
    },
}

impl Failure {
    pub(crate) fn passing(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Failure::Passing {
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub(crate) fn stalling(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Failure::Stalling {
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Failure::Passing { reason, .. }
            | Failure::Stalling { reason, .. }
            | Failure::Waiting { reason, .. } => reason,
        }
    }

    /// The same with what to do about it, where that is known.
    pub(crate) fn with_remedy(mut self, secret: Option<&str>) -> Self {
        if let Failure::Passing { reason, message } = &mut self {
            *message = super::advice::advised(message, secret);
            let about_secret = *reason == Reason::AuthenticationFailed.as_str();
            if let Some(name) = secret.filter(|_| about_secret)
                && !message.contains(name.rsplit('/').next().unwrap_or(name))
            {
                message.push_str(&format!("; look at the secret '{name}'"));
            }
        }
        self
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Passing { message, .. }
            | Failure::Stalling { message, .. }
            | Failure::Waiting { message, .. } => message,
        }
    }
}

/// Why an attempt ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It failed.
    Failed(Failure),
    /// There is no point in going on.
    Interrupted(Interrupted),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<Interrupted> for Stop {
    fn from(interrupted: Interrupted) -> Self {
        Stop::Interrupted(interrupted)
    }
}
