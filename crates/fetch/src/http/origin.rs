//! Who may see credentials, and what may be shown of an answer.

use ::http::HeaderMap;
use ::http::header::{self, HeaderName};

use crate::Url;

/// Whether credentials that were given for one address may be sent to another: only when scheme, host
/// and port are the same. This is the rule for git, OCI, Helm and buckets, and for redirects. A server
/// that redirects from `http` to `https` is another one: whoever can answer for the first can name any.
pub(crate) fn may_send_credentials(given_for: &Url, to: &Url) -> bool {
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

/// How much of a server's text is shown.
const SHOWN: usize = 1_024;

/// A text of a server as it may be shown in messages: in one line, cut, without control characters.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for char in text.trim().chars() {
        if shown.len() >= SHOWN {
            shown.push('…');
            break;
        }
        match char {
            '\n' | '\t' => shown.push(' '),
            '\r' => {}
            char if char.is_control() || is_format(char) => shown.push('\u{fffd}'),
            char => shown.push(char),
        }
    }
    shown
}

/// Characters that change how the text around them is shown.
fn is_format(char: char) -> bool {
    matches!(
        char,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_servers_is_cut_and_loses_control_characters() {
        assert_eq!(
            printable(" a\r\nb\tc\x1b[31m\0 "),
            "a b c\u{fffd}[31m\u{fffd}"
        );
        assert_eq!(printable("x\u{202e}y"), "x\u{fffd}y");
        let long = printable(&"ä".repeat(5_000));
        assert!(long.len() <= SHOWN + 4 && long.ends_with('…'));
    }

    #[test]
    fn only_impersonal_headers_go_elsewhere() {
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
