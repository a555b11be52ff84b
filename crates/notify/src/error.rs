//! What can be wrong with events, providers and receivers.

/// Why something cannot be read, prepared or accepted. Messages hold no secrets: addresses that come from a
/// Secret are left out of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body of an event is not one.
    #[error("decoding the event failed: {0}")]
    BadEvent(String),
    /// A body is larger than the servers take.
    #[error("request body exceeds the maximum size of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The Alert may not tell of objects in other namespaces.
    #[error(
        "discarding event, access denied to cross-namespace sources: alert '{alert}' can't process event from '{object}', cross-namespace references have been blocked"
    )]
    CrossNamespace {
        /// `NAMESPACE/NAME` of the Alert.
        alert: String,
        /// `KIND/NAMESPACE/NAME` of the object.
        object: String,
    },
    /// The Provider could not be read.
    #[error("failed to read provider: {0}")]
    Provider(String),
    /// A ServiceAccount is named, and the gate for that is closed.
    #[error(
        "to use spec.serviceAccountName for provider authentication please enable the ObjectLevelWorkloadIdentity feature gate in the controller"
    )]
    IdentityGateClosed,
    /// The provider wants the identity of a cloud, and there is none to be had.
    #[error(
        "{service} needs the identity of a cloud, which is not supported yet: set 'token' in the Secret of spec.secretRef"
    )]
    IdentityUnavailable {
        /// Which service.
        service: &'static str,
    },
    /// The expression for the name of a commit status does not give one.
    #[error(
        "failed to create commit status: failed to evaluate the spec.commitStatusExpr CEL expression for the event: {0}"
    )]
    CommitStatus(String),
    /// The Provider or its Secrets are wrong.
    #[error("failed to initialize notifier for provider '{provider}': {why}")]
    Settings {
        /// The name of the Provider.
        provider: String,
        /// What is wrong.
        why: String,
    },
    /// A CEL expression cannot be used.
    #[error("{0}")]
    Expression(String),
    /// A token is not valid.
    #[error("{0}")]
    Token(String),
}
