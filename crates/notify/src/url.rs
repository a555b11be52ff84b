//! Addresses as Go's net/url reads and prints them: the requests that Flux makes are made of them.

/// An address in its parts.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// Behind the scheme, when no slash follows it.
    opaque: String,
    /// User and password as written.
    pub(crate) userinfo: Option<String>,
    /// Host and port.
    pub(crate) host: String,
    /// Decoded.
    pub(crate) path: String,
    /// As it was written, when that is not how it would be encoded.
    raw_path: String,
    pub(crate) query: Option<String>,
    fragment: Option<String>,
}

impl std::fmt::Debug for Url {
    /// Without what may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}/…", self.scheme, self.host)
    }
}

impl Url {
    /// What `url.Parse` makes of a text; the error is its cause alone.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (text, fragment) = match text.split_once('#') {
            Some((text, fragment)) => (text, Some(fragment.to_owned())),
            None => (text, None),
        };
        let mut url = Self::read(text, false)?;
        url.fragment = fragment;
        Ok(url)
    }

    /// What `url.ParseRequestURI` makes of a text: an absolute address or an absolute path.
    pub(crate) fn parse_request_uri(text: &str) -> Result<Self, String> {
        Self::read(text, true)
    }

    fn read(text: &str, is_request: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        let mut url = Url::default();
        if text == "*" {
            url.path = text.to_owned();
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let rest = match rest.split_once('?') {
            Some((rest, query)) => {
                url.query = Some(query.to_owned());
                rest
            }
            None => rest,
        };
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            let first = rest.split('/').next().unwrap_or_default();
            if first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let has_authority = rest.starts_with("//")
            && (!url.scheme.is_empty() || !is_request && !rest.starts_with("///"));
        let path = match has_authority {
            true => {
                let rest = &rest[2..];
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                url.read_authority(authority)?;
                path
            }
            false => rest,
        };
        url.set_escaped_path(path)?;
        Ok(url)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            Some((userinfo, host)) => {
                unescape(userinfo)?;
                self.userinfo = Some(userinfo.to_owned());
                host
            }
            None => authority,
        };
        let port_at = match host.rfind(']') {
            Some(end) => host[end..].find(':').map(|at| end + at),
            None => host.rfind(':'),
        };
        if let Some(at) = port_at
            && !host[at + 1..].bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(format!("invalid port {:?} after host", &host[at..]));
        }
        let wrong = |char: &char| " <>\"\\^`{|}".contains(*char);
        if let Some(char) = host.chars().find(wrong) {
            return Err(format!(
                "invalid character {:?} in host name",
                char.to_string()
            ));
        }
        self.host = host.to_owned();
        Ok(())
    }

    fn set_escaped_path(&mut self, path: &str) -> Result<(), String> {
        self.path = unescape(path)?;
        self.raw_path = match escape(&self.path, Part::Path) == path {
            true => String::new(),
            false => path.to_owned(),
        };
        Ok(())
    }

    /// Puts another path in the place of this one.
    pub(crate) fn with_path(mut self, path: String) -> Self {
        self.path = path;
        self.raw_path = String::new();
        self
    }

    /// Sets user and password.
    pub(crate) fn set_user(&mut self, user: &str, password: Option<&str>) {
        let encoded = |text| {
            escape(text, Part::Segment)
                .replace(':', "%3A")
                .replace('@', "%40")
        };
        self.userinfo = Some(match password {
            Some(password) => format!("{}:{}", encoded(user), encoded(password)),
            None => encoded(user),
        });
    }

    /// User and password, decoded.
    pub(crate) fn user_and_password(&self) -> Option<(String, Option<String>)> {
        let (user, password) = match self.userinfo.as_deref()?.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (self.userinfo.as_deref()?, None),
        };
        let decoded = |text| unescape(text).unwrap_or_default();
        Some((decoded(user), password.map(decoded)))
    }

    /// The host without its port.
    pub(crate) fn host_name(&self) -> &str {
        match self.host.rfind(']') {
            Some(end) => self.host[..end].trim_start_matches('['),
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    /// The port, when one is given.
    pub(crate) fn port(&self) -> Option<u16> {
        let behind = &self.host[self.host.rfind(']').unwrap_or(0)..];
        behind.rsplit_once(':')?.1.parse().ok()
    }

    /// The path as it is sent.
    pub(crate) fn escaped_path(&self) -> String {
        let is_valid = !self.raw_path.is_empty()
            && is_valid_encoded_path(&self.raw_path)
            && unescape(&self.raw_path).as_deref() == Ok(self.path.as_str());
        match is_valid {
            true => self.raw_path.clone(),
            false => escape(&self.path, Part::Path),
        }
    }

    /// The whole address, as `URL.String` prints it; it may hold secrets.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.userinfo.is_some() {
                out.push_str("//");
                if let Some(userinfo) = &self.userinfo {
                    out.push_str(userinfo);
                    out.push('@');
                }
                out.push_str(&self.host);
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            out.push_str(&path);
        }
        if let Some(query) = &self.query {
            out.push('?');
            out.push_str(query);
        }
        if let Some(fragment) = &self.fragment {
            out.push('#');
            out.push_str(fragment);
        }
        out
    }
}

/// The scheme and what follows its colon.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Which part of an address a text becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Path,
    Segment,
    Query,
}

/// Encodes what a part of an address must not hold as it stands.
pub(crate) fn escape(text: &str, part: Part) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' if part == Part::Query => out.push('+'),
            _ if must_escape(byte, part) => out.push_str(&format!("%{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

fn must_escape(byte: u8, part: Part) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => byte == b'?',
            Part::Segment => matches!(byte, b'/' | b';' | b',' | b'?'),
            Part::Query => true,
        },
        _ => true,
    }
}

fn is_valid_encoded_path(path: &str) -> bool {
    path.bytes().all(|byte| match byte {
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
        | b'@' | b'[' | b']' | b'%' => true,
        other => !must_escape(other, Part::Path),
    })
}

fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            out.push(byte);
            at += 1;
            continue;
        }
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        let value = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(value) = value.and_then(|two| u8::from_str_radix(two, 16).ok()) else {
            let end = (at + 3).min(bytes.len());
            let shown = String::from_utf8_lossy(&bytes[at..end]);
            return Err(format!("invalid URL escape {shown:?}"));
        };
        out.push(value);
        at += 3;
    }
    String::from_utf8(out).map_err(|_| "invalid UTF-8 in URL escapes".to_owned())
}

/// The pairs of a query, sorted by their names as `url.Values` prints them.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|(name, _)| *name);
    let printed: Vec<String> = pairs
        .iter()
        .map(|(name, value)| {
            format!(
                "{}={}",
                escape(name, Part::Query),
                escape(value, Part::Query)
            )
        })
        .collect();
    printed.join("&")
}

/// The pairs of a query or form, decoded; what is no valid escape is left out.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| unescape(&text.replace('+', " ")).ok();
    text.split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_printed_as_they_were_read() {
        for text in [
            "http://127.0.0.1:80/hook?x=1",
            "https://u:p%40@h/a%2Fb?q#f",
            "http://h/_matrix/rooms/!room:example.org/send",
            "/only/path",
            "http://[::1]:80/x",
        ] {
            let read = Url::parse(text).map(|url| url.text());
            assert_eq!(read.as_deref().unwrap_or("refused"), text);
        }
    }

    #[test]
    fn paths_with_characters_that_must_be_encoded_are_encoded_whole() {
        let url = Url::parse("http://h/!a/b c:x").unwrap();
        assert_eq!(url.escaped_path(), "/%21a/b%20c:x");
        let url = Url::parse("http://h/x")
            .unwrap()
            .with_path("/a?b".to_owned());
        assert_eq!(url.text(), "http://h/a%3Fb");
    }

    #[test]
    fn causes_are_those_of_go() {
        for (text, cause) in [
            ("", "empty url"),
            ("not-a-url", "invalid URI for request"),
            (":x", "missing protocol scheme"),
            ("Endpoint=sb://x", "invalid URI for request"),
            ("http://h:x/", "invalid port \":x\" after host"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("http://h/%zz", "invalid URL escape \"%zz\""),
            ("http://h/\n", "net/url: invalid control character in URL"),
        ] {
            assert_eq!(Url::parse_request_uri(text).unwrap_err(), cause, "{text}");
        }
    }

    #[test]
    fn queries_are_sorted_and_encoded() {
        assert_eq!(query(&[("b", "x/y z"), ("a", "1")]), "a=1&b=x%2Fy+z");
        assert_eq!(
            pairs("payload=%7B%7D&a=b+c&&x"),
            [("payload", "{}"), ("a", "b c"), ("x", "")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            if let Ok(url) = Url::parse(&text) {
                let _ = (url.text(), url.port(), url.host_name().len(), url.user_and_password());
            }
            let _ = Url::parse_request_uri(&text);
            let _ = pairs(&text);
        }

        #[test]
        fn escaping_round_trips(text in "\\PC{0,40}") {
            prop_assert_eq!(unescape(&escape(&text, Part::Segment)), Ok(text.clone()));
            prop_assert_eq!(unescape(&escape(&text, Part::Path)), Ok(text));
        }
    }
}
