//! What to do about a failure. Flux's messages say what happened; here they go on with a remedy.

/// Marks of failures, in the words that they come in, and what each is.
const MARKS: &[(&str, ErrorClass)] = &[
    ("knownhosts: key mismatch", ErrorClass::OtherHostKey),
    ("knownhosts: key is unknown", ErrorClass::UnknownHost),
    ("authentication required", ErrorClass::Refused),
    ("authorization failed", ErrorClass::Refused),
    ("unable to authenticate", ErrorClass::Refused),
    ("UNAUTHORIZED", ErrorClass::Refused),
    ("DENIED", ErrorClass::Refused),
    (": 401 ", ErrorClass::Refused),
    (": 403 ", ErrorClass::Refused),
    ("Access Denied", ErrorClass::Refused),
    (
        "signature we calculated does not match",
        ErrorClass::Refused,
    ),
    (
        "access key Id you provided does not exist",
        ErrorClass::Refused,
    ),
    ("repository not found", ErrorClass::NotThere),
    ("NAME_UNKNOWN", ErrorClass::NotThere),
    (": 404 ", ErrorClass::NotThere),
    ("no such host", ErrorClass::NoHost),
    ("connection refused", ErrorClass::Unreachable),
    ("no route to host", ErrorClass::Unreachable),
    ("network is unreachable", ErrorClass::Unreachable),
    ("connection reset", ErrorClass::Unreachable),
    ("couldn't find remote ref", ErrorClass::NoRef),
    ("unable to resolve ref", ErrorClass::NoRef),
    ("no match found for semver", ErrorClass::NoRef),
    ("unable to resolve commit object", ErrorClass::NoRef),
    ("MANIFEST_UNKNOWN", ErrorClass::NoRef),
    ("certificate", ErrorClass::Distrusted),
    ("TLS handshake", ErrorClass::Distrusted),
    ("Docker config", ErrorClass::DockerConfig),
    ("deadline exceeded", ErrorClass::Slow),
    ("secrets \"", ErrorClass::NoSecret),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorClass {
    OtherHostKey,
    UnknownHost,
    Refused,
    NotThere,
    NoHost,
    Unreachable,
    NoSecret,
    NoRef,
    Distrusted,
    DockerConfig,
    Slow,
}

/// The remedy for a failure; none where the message says it, or nobody knows one. `secret` is the
/// Secret with the credentials, as `NAMESPACE/NAME`.
pub(super) fn remedy(message: &str, secret: Option<&str>) -> Option<String> {
    let found = MARKS.iter().find(|(mark, _)| message.contains(mark));
    let (_, trouble) = found?;
    let named = |there: &str, elsewhere: &str| match secret {
        Some(secret) => there.replace("SECRET", &format!("secret '{secret}'")),
        None => elsewhere.to_owned(),
    };
    Some(match trouble {
        ErrorClass::OtherHostKey => named(
            "the host shows another key than 'known_hosts' of the SECRET has: make sure that it is \
             the right host, then bring 'known_hosts' up to date",
            "the host shows another key than known_hosts has",
        ),
        ErrorClass::UnknownHost => named(
            "add the host's key to 'known_hosts' of the SECRET",
            "add the host's key to known_hosts",
        ),
        ErrorClass::Refused => named(
            "the credentials of the SECRET were refused: check them and what they may do",
            "if it is private, name a secret with credentials in spec.secretRef",
        ),
        ErrorClass::NotThere => named(
            "check the address, and whether the credentials of the SECRET may see it",
            "check the address; if it is private, name a secret with credentials in spec.secretRef",
        ),
        ErrorClass::NoHost => "check the address, and the name server of the cluster".to_owned(),
        ErrorClass::Unreachable => {
            "check the address, that its server runs, and that network policies let this one reach it"
                .to_owned()
        }
        ErrorClass::NoSecret => "create the secret, or correct its name in spec".to_owned(),
        ErrorClass::NoRef => "check spec.ref".to_owned(),
        ErrorClass::Distrusted => {
            "check that the server speaks TLS, and that the CA given by a secret ('ca.crt') is the \
             one that signed its certificate"
                .to_owned()
        }
        ErrorClass::DockerConfig => named(
            "check the key '.dockerconfigjson' of the SECRET",
            "check the key '.dockerconfigjson' of the secret",
        ),
        ErrorClass::Slow => {
            "the host did not answer in time: check it, or raise spec.timeout".to_owned()
        }
    })
}

/// A message with its remedy.
pub(super) fn advised(message: &str, secret: Option<&str>) -> String {
    let end = if message.ends_with(": ") { "" } else { "; " };
    match remedy(message, secret) {
        Some(remedy) if !message.contains(&remedy) => format!("{message}{end}{remedy}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_with_a_remedy() {
        let secret = Some("apps/keys");
        for (message, words) in [
            (
                "unable to clone 'x': authentication required: ",
                "'apps/keys'",
            ),
            (
                "knownhosts: key mismatch",
                "'known_hosts' of the secret 'apps/keys'",
            ),
            ("couldn't find remote ref \"refs/heads/x\"", "spec.ref"),
            ("Get \"x\": context deadline exceeded", "spec.timeout"),
            ("failed to fetch x : 404 Not Found", "address"),
            ("dial tcp: lookup x: no such host", "name server"),
            (
                "dial tcp x: connect: connection refused",
                "network policies",
            ),
            ("secrets \"keys\" not found", "create the secret"),
        ] {
            let text = advised(message, secret);
            assert!(text.starts_with(message) && text.contains(words), "{text}");
        }
        assert!(advised("authentication required: ", None).contains("spec.secretRef"));
        assert_eq!(advised("something else", secret), "something else");
    }
}
