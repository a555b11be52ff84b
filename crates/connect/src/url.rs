//! Addresses.

use std::fmt;

use crate::{Error, Secret};

/// An address with a host: `scheme://user:password@host:port/path?query`.
///
/// Printing it leaves out user, password and what the query may hold that is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// In lower case.
    pub scheme: String,
    /// The user before the host, decoded.
    pub username: Option<String>,
    /// The password before the host, decoded.
    pub password: Option<Secret<String>>,
    /// Name or address, without brackets.
    pub host: String,
    /// The port, when one is given.
    pub port: Option<u16>,
    /// With the leading slash, as written; empty when there is none.
    pub path: String,
    /// What stands behind the question mark.
    pub query: Option<String>,
}

impl Url {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |cause: &str| Error::Url(format!("parse {:?}: {cause}", shown(text)));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("missing protocol scheme"));
        };
        let plain = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
        if !scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            || !scheme.chars().all(plain)
        {
            return Err(wrong("first path segment in URL cannot contain colon"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, "")))
        {
            Some((name, word)) => {
                let name = decode(name).ok_or_else(|| wrong("net/url: invalid userinfo"))?;
                let word = decode(word).ok_or_else(|| wrong("net/url: invalid userinfo"))?;
                (Some(name), Some(word).filter(|word| !word.is_empty()))
            }
            None => (None, None),
        };
        let (host, port) = split_port(host).ok_or_else(|| wrong("invalid port after host"))?;
        if host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']) {
            return Err(wrong("invalid character in host name"));
        }
        Ok(Url {
            scheme: scheme.to_ascii_lowercase(),
            username: username.filter(|name| !name.is_empty()),
            password: password.map(Secret::new),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query,
        })
    }

    /// The port, or the usual one of the scheme.
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(match self.scheme.as_str() {
            "https" => 443,
            "ssh" => 22,
            "socks5" | "socks5h" => 1080,
            _ => 80,
        })
    }

    /// The host and, when it is given, the port, as they stand in the address.
    pub fn authority(&self) -> String {
        let host = bracketed(&self.host);
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Path and query as a request line has them.
    pub fn target(&self) -> String {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        let mut target = String::with_capacity(path.len());
        encode_into(path, &mut target);
        if let Some(query) = &self.query {
            target.push('?');
            encode_into(query, &mut target);
        }
        target
    }

    /// Whether both speak to the same server in the same way: by scheme, host and port.
    pub fn same_origin(&self, other: &Url) -> bool {
        self.scheme == other.scheme
            && same_host(&self.host, &other.host)
            && self.port_or_default() == other.port_or_default()
    }

    /// Scheme, host and port, as they are written.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority())
    }

    /// The whole address but for user and password, with what its query holds: for requests and for
    /// telling addresses apart, not to be shown.
    pub fn with_query(&self) -> Secret<String> {
        let query = self.query.as_ref();
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        Secret::new(format!("{}{}{query}", self.origin(), self.path))
    }

    /// An address that a server named, absolute or relative to this one.
    pub fn join(&self, location: &str) -> Result<Url, Error> {
        if location.contains("://") {
            return Url::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Url::parse(&format!("{}://{rest}", self.scheme));
        }
        let location = location.split('#').next().unwrap_or_default();
        let (path, query) = match location.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (location, None),
        };
        let path = if path.is_empty() {
            self.path.clone()
        } else if path.starts_with('/') {
            clean_path(path)
        } else {
            let base = self.path.rfind('/').map_or("", |at| &self.path[..at]);
            clean_path(&format!("{base}/{path}"))
        };
        Ok(Url {
            path,
            query,
            ..self.clone()
        })
    }

    /// The address with more at the end of its path.
    pub fn with_suffix(&self, suffix: &str) -> Url {
        Url {
            path: format!("{}/{suffix}", self.path.trim_end_matches('/')),
            query: None,
            ..self.clone()
        }
    }

    /// Without user and password.
    pub fn without_credentials(&self) -> Url {
        Url {
            username: None,
            password: None,
            ..self.clone()
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority(), self.path)?;
        let Some(query) = &self.query else {
            return Ok(());
        };
        for (at, pair) in query.split('&').enumerate() {
            f.write_str(if at == 0 { "?" } else { "&" })?;
            match pair.split_once('=') {
                Some((name, value)) if value.is_empty() || HARMLESS.contains(&name) => {
                    f.write_str(pair)?;
                }
                Some((name, _)) => write!(f, "{name}=REDACTED")?,
                None if pair.is_empty() => {}
                None => f.write_str("REDACTED")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

/// What queries of the protocols themselves hold, which is no secret and helps to understand errors.
const HARMLESS: [&str; 18] = [
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "from",
    "last",
    "list-type",
    "location",
    "marker",
    "max-keys",
    "mount",
    "n",
    "page",
    "per_page",
    "prefix",
    "scope",
    "service",
    "start-after",
    "version",
];

/// What may be shown of a text that should be an address: neither user and password nor its query.
pub fn shown(text: &str) -> String {
    let (address, query) = match text.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (text, None),
    };
    let address = address.rsplit_once('@').map_or(address, |(_, rest)| rest);
    match query {
        None => address.to_owned(),
        // The question mark may be one of a password.
        Some(query) if query.contains('@') => "REDACTED".to_owned(),
        Some(_) => format!("{address}?REDACTED"),
    }
}

/// Whether two names are those of the same host: case and the dot of the root make no difference.
pub fn same_host(one: &str, two: &str) -> bool {
    let plain = |host: &str| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    plain(one) == plain(two)
}

/// Addresses of version 6 stand in brackets.
pub fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = if let Some(rest) = host.strip_prefix('[') {
        let (name, rest) = rest.split_once(']')?;
        match rest {
            "" => (name, None),
            _ => (name, Some(rest.strip_prefix(':')?)),
        }
    } else {
        match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        }
    };
    match port {
        None | Some("") => Some((name, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((name, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Escapes what may not stand in a request line; escapes that are there stay.
fn encode_into(text: &str, out: &mut String) {
    use fmt::Write as _;
    for byte in text.bytes() {
        match byte {
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x7f.. => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
    }
}

/// Resolves `.` and `..`.
pub fn clean_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut trailing = false;
    for part in path.split('/').skip(1) {
        trailing = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    if trailing {
        parts.push("");
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_shown_without_credentials() {
        let url = Url::parse("https://me%40x:p%2Fw@git.example:8443/a b/c.git?x=1#frag").unwrap();
        assert_eq!(url.username.as_deref(), Some("me@x"));
        assert_eq!(url.password.as_ref().unwrap().reveal(), "p/w");
        assert_eq!(url.port_or_default(), 8443);
        assert_eq!(url.target(), "/a%20b/c.git?x=1");
        assert_eq!(
            url.to_string(),
            "https://git.example:8443/a b/c.git?x=REDACTED"
        );
        assert_eq!(
            url.with_query().reveal(),
            "https://git.example:8443/a b/c.git?x=1"
        );
        assert!(!format!("{url:?}").contains("p/w"));
        let url = Url::parse("http://[::1]:80").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", Some(80)));
        assert_eq!(url.to_string(), "http://[::1]:80");
        assert_eq!(url.target(), "/");
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_the_password() {
        for text in [
            "git.example/x",
            "http://h:port/",
            "http://u:secret@h:x/",
            "1http://x",
            "http://a\nb",
            "h/x?token=secret",
            "http://h:x/?token=secret@y",
            "http://u:secret?secret@h:x/",
            "http://h:x/?secret",
        ] {
            let error = Url::parse(text).unwrap_err();
            assert_eq!(error.reason(), "URLInvalid");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn texts_that_are_no_addresses_are_shown_without_passwords() {
        for (text, expected) in [
            ("http://u:hunter2@127.0.0.1:99999/x", "127.0.0.1:99999/x"),
            ("http://h:x/y?token=hunter2", "http://h:x/y?REDACTED"),
            ("http://u:hunter2?@h/x", "REDACTED"),
            ("git@host:x/y.git", "host:x/y.git"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn queries_are_shown_without_what_may_be_secret() {
        for (text, expected) in [
            (
                "http://h/x?token=hunter2&n=5",
                "http://h/x?token=REDACTED&n=5",
            ),
            ("http://h/x?hunter2", "http://h/x?REDACTED"),
            ("http://h/x?location=", "http://h/x?location="),
            ("http://h/x?&sig=a=hunter2", "http://h/x?&sig=REDACTED"),
            (
                "http://h/x?service=git-upload-pack",
                "http://h/x?service=git-upload-pack",
            ),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(url.to_string(), expected);
            assert_eq!(format!("{url:?}"), format!("Url({expected})"));
            assert_eq!(url.with_query().reveal(), text);
            assert!(!format!("{:?}", url.with_query()).contains("hunter2"));
        }
    }

    #[test]
    fn origins_are_equal_by_scheme_host_and_port() {
        let own = Url::parse("https://Git.example/x").unwrap();
        for (other, same) in [
            ("https://git.example:443/y", true),
            ("https://GIT.EXAMPLE./y?z", true),
            ("https://u:p@git.example", true),
            ("http://git.example/x", false),
            ("https://git.example:8443/x", false),
            ("https://git.example.evil/x", false),
            ("https://x.git.example/x", false),
            ("ssh://git.example:443/x", false),
        ] {
            let other = Url::parse(other).unwrap();
            assert_eq!(own.same_origin(&other), same, "{other}");
        }
    }

    #[test]
    fn relative_addresses_are_joined() {
        let url = Url::parse("https://h/a/b/c?q").unwrap();
        for (location, expected) in [
            ("/x", "https://h/x"),
            ("d", "https://h/a/b/d"),
            ("../d?z", "https://h/a/d?z"),
            ("//other/x", "https://other/x"),
            ("http://other:1/x", "http://other:1/x"),
            ("?z", "https://h/a/b/c?z"),
            ("..", "https://h/a/"),
        ] {
            let joined = url.join(location).unwrap();
            assert_eq!(joined.with_query().reveal(), expected);
        }
    }
}
