//! Who may see credentials, and what may be shown of an answer.

use ::http::HeaderMap;
use ::http::header::{self, HeaderName};

use crate::Url;

/// Whether credentials that were given for one address may be sent to another: only when scheme, host
/// and port are the same. This is the rule for git, OCI, Helm and buckets, and for redirects. A server
/// that redirects from `http` to `https` is another one: whoever can answer for the first can name any.
pub fn may_send_credentials(given_for: &Url, to: &Url) -> bool {
    given_for.same_origin(to)
}

/// The headers that go along when another server than the one that was asked is asked in turn; no
/// other may hold anything that identifies us.
const IMPERSONAL: [HeaderName; 5] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
    header::USER_AGENT,
    HeaderName::from_static("git-protocol"),
];

/// The headers without those that may identify us.
pub(super) fn impersonal(headers: &HeaderMap) -> HeaderMap {
    let kept = headers
        .iter()
        .filter(|(name, _)| IMPERSONAL.contains(*name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_without_credentials_follow_redirects() {
        let mut headers = HeaderMap::new();
        for name in ["accept", "authorization", "cookie", "x-amz-security-token"] {
            let name = HeaderName::from_static(name);
            headers.insert(name, header::HeaderValue::from_static("x"));
        }
        let kept = impersonal(&headers);
        assert_eq!(
            kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["accept"]
        );
    }
}
