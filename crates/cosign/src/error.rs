use everflow_limits::Exceeded;

/// Why something is not verified.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A limit was reached, or the work was stopped.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// What was given as a public key is none that can be used.
    #[error("{0}")]
    Key(String),
    /// A rule for identities is no regular expression.
    #[error("malformed {what} in identity: {pattern} : {why}")]
    Rule {
        /// Whether it is the issuer or the subject.
        what: &'static str,
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// What was given as a root of trust is none.
    #[error("unable to parse trusted root: {0}")]
    Root(String),
    /// A signature that cannot be read.
    #[error("{0}")]
    Malformed(String),
    /// A signature that does not hold.
    #[error("{0}")]
    Unverified(String),
    /// A good signature by somebody else.
    #[error(
        "none of the expected identities matched what was in the certificate, got subjects [{subjects}] with issuer {issuer}"
    )]
    Identity {
        /// Who signed.
        subjects: String,
        /// Who says so.
        issuer: String,
    },
    /// The root of trust could not be refreshed.
    #[error("{0}")]
    Update(String),
}

impl Error {
    /// The stable name of what went wrong, for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Limit(exceeded) => exceeded.reason(),
            Error::Update(_) => "TrustRootRefreshFailed",
            _ => "VerificationError",
        }
    }
}
