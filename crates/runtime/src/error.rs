//! What can go wrong.

use std::time::Duration;

use everflow_json::Value;

use crate::client::TransportError;

/// What the API server says when it refuses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The stable reason, empty when the server gave none.
    pub reason: String,
    /// What the server says.
    pub message: String,
    /// The details of the answer.
    pub details: Value,
}

/// Everything that can go wrong in the runtime.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object, or the collection, is not there.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// An object of that name is there already.
    #[error("{0}")]
    AlreadyExists(Box<Refusal>),
    /// Someone else wrote in between.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// The revision asked for is too old.
    #[error("{0}")]
    Expired(Box<Refusal>),
    /// The server has too much to do.
    #[error("{refusal}")]
    TooManyRequests {
        /// What the server says.
        refusal: Box<Refusal>,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(Box<Refusal>),
    /// The server does not know the caller.
    #[error("{0}")]
    Unauthorized(Box<Refusal>),
    /// The object breaks a rule, or a tested value is another.
    #[error("{0}")]
    Invalid(Box<Refusal>),
    /// The server refuses the request for another reason.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The server failed.
    #[error("{0}")]
    ServerError(Box<Refusal>),
    /// No answer in time. Whether the request took effect is not known.
    #[error("{what}: no answer within {}s", span.as_secs_f64())]
    Timeout {
        /// Which request.
        what: String,
        /// How long it was waited for.
        span: Duration,
    },
    /// The connection failed. Whether the request took effect is not known.
    #[error("{what}: {source}")]
    Transport {
        /// Which request.
        what: String,
        /// Why.
        source: TransportError,
    },
    /// The answer makes no sense.
    #[error("{what}: the answer cannot be read: {why}")]
    Undecodable {
        /// Which request.
        what: String,
        /// Why.
        why: String,
    },
    /// The server does not serve this kind.
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind {
        /// The kind asked for.
        kind: String,
        /// Group and version asked for.
        version: String,
    },
    /// The leadership under which this was to be done is over.
    #[error("leadership of epoch {epoch} is over: nothing more is written under it")]
    Fenced {
        /// The epoch that is over.
        epoch: u64,
    },
    /// A kubeconfig or the credentials in it cannot be used.
    #[error("{path}: {why}")]
    Config {
        /// The file, or what stands for it.
        path: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// Someone else changed the object again and again.
    #[error("{what}: changed by others {tries} times in a row")]
    Contended {
        /// What was to be done.
        what: String,
        /// How often it was tried.
        tries: u32,
    },
}

impl Error {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::NotFound(_) => "NotFound",
            Error::AlreadyExists(_) => "AlreadyExists",
            Error::Conflict(_) => "Conflict",
            Error::Expired(_) => "Expired",
            Error::TooManyRequests { .. } => "TooManyRequests",
            Error::Forbidden(_) => "Forbidden",
            Error::Unauthorized(_) => "Unauthorized",
            Error::Invalid(_) => "Invalid",
            Error::Refused(_) => "Refused",
            Error::ServerError(_) => "ServerError",
            Error::Timeout { .. } => "Timeout",
            Error::Transport { .. } => "Transport",
            Error::Undecodable { .. } => "Undecodable",
            Error::NoKind { .. } => "NoKind",
            Error::Fenced { .. } => "Fenced",
            Error::Config { .. } => "Config",
            Error::Contended { .. } => "Contended",
        }
    }

    /// What the server said, if it said something.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::NotFound(refusal)
            | Error::AlreadyExists(refusal)
            | Error::Conflict(refusal)
            | Error::Expired(refusal)
            | Error::TooManyRequests { refusal, .. }
            | Error::Forbidden(refusal)
            | Error::Unauthorized(refusal)
            | Error::Invalid(refusal)
            | Error::Refused(refusal)
            | Error::ServerError(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same request may well succeed a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::TooManyRequests { .. }
            | Error::ServerError(_)
            | Error::Timeout { .. }
            | Error::Transport { .. }
            | Error::Undecodable { .. }
            | Error::Unauthorized(_) => true,
            Error::Conflict(refusal) => !is_of_owners(refusal),
            _ => false,
        }
    }

    /// Whether it is the kind that is not there, or not served yet, rather than the namespace.
    pub fn lacks_kind(&self) -> bool {
        match self {
            Error::NoKind { .. } => true,
            Error::NotFound(refusal) => refusal.details["kind"] != "namespaces",
            _ => false,
        }
    }

    /// Whether there was no answer at all, so that the request may still be under way.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Error::Timeout { .. } | Error::Transport { .. })
    }

    /// Whether a write that ended so may have happened all the same.
    pub fn may_have_happened(&self) -> bool {
        matches!(
            self,
            Error::ServerError(_)
                | Error::Timeout { .. }
                | Error::Transport { .. }
                | Error::Undecodable { .. }
        )
    }

    /// When the server wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::TooManyRequests { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error that a failed answer stands for.
    pub(crate) fn from_refusal(refusal: Refusal, retry_after: Option<Duration>) -> Self {
        let boxed = Box::new(refusal);
        match (boxed.code, boxed.reason.as_str()) {
            (_, "Expired" | "Gone") | (410, _) => Error::Expired(boxed),
            (409, "AlreadyExists") => Error::AlreadyExists(boxed),
            (409, _) => Error::Conflict(boxed),
            (404, _) => Error::NotFound(boxed),
            (429, _) => Error::TooManyRequests {
                refusal: boxed,
                retry_after,
            },
            (403, _) => Error::Forbidden(boxed),
            (401, _) => Error::Unauthorized(boxed),
            (422, _) => Error::Invalid(boxed),
            (500.., _) => Error::ServerError(boxed),
            _ => Error::Refused(boxed),
        }
    }
}

/// Whether a conflict is about fields that others own, which stays, rather than about who was faster.
fn is_of_owners(refusal: &Refusal) -> bool {
    let causes = refusal.details["causes"].as_array();
    let mut causes = causes.into_iter().flatten();
    causes.any(|cause| cause["reason"] == "FieldManagerConflict")
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn write_conflict_is_transient_and_field_manager_conflict_is_not() {
        let conflict = |details: Value| {
            let refusal = Refusal {
                code: 409,
                reason: "Conflict".into(),
                message: String::new(),
                details,
            };
            Error::from_refusal(refusal, None)
        };
        assert!(conflict(json!({"name": "a", "kind": "configmaps"})).is_transient());
        let owned = json!({"causes": [{"reason": "FieldManagerConflict", "field": ".data.a"}]});
        assert!(!conflict(owned).is_transient());
    }
}
