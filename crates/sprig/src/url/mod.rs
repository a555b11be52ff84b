//! URLs as Go's `net/url` takes them apart and puts them together.

mod address;

use std::net::IpAddr;

use everflow_gotemplate::gofmt;

/// The parts of a URL in which different characters need escaping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    User,
    Host,
    Zone,
    Fragment,
}

impl Place {
    /// Whether a byte may stand there as it is.
    fn allows(self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            return true;
        }
        let extra: &[u8] = match self {
            Self::Path => b"$&+,/:;=@",
            Self::User => b"$&+,;=",
            Self::Host | Self::Zone => b"!\"$&'()*+,:;<=>[]",
            Self::Fragment => b"!$&()*+,/:;=?@",
        };
        extra.contains(&byte)
    }
}

/// Name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl User {
    fn text(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Place::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Place::User));
        }
        out
    }
}

/// A URL in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub scheme: Vec<u8>,
    pub opaque: Vec<u8>,
    user: Option<User>,
    pub host: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub fragment: Vec<u8>,
}

impl Url {
    /// Takes a URL apart; the error is Go's.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let failed =
            |shown: &[u8], error: String| format!("parse {}: {error}", gofmt::quote(shown));
        let mut url = Self::parse_before_fragment(before).map_err(|error| failed(before, error))?;
        url.fragment = unescape(fragment.unwrap_or_default(), Place::Fragment)
            .map_err(|error| failed(text, error))?;
        Ok(url)
    }

    fn parse_before_fragment(text: &[u8]) -> Result<Self, String> {
        if text.iter().any(|&b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let mut url = Self::default();
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = cut(rest, b'?');
        url.query = query.unwrap_or_default().to_vec();
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if rest.starts_with(b"//") && (!url.scheme.is_empty() || !rest.starts_with(b"///")) {
            let authority = &rest[2..];
            let end = authority
                .iter()
                .position(|&b| b == b'/')
                .unwrap_or(authority.len());
            rest = &authority[end..];
            (url.user, url.host) = parse_authority(&url.scheme, &authority[..end])?;
        }
        url.path = unescape(rest, Place::Path)?;
        Ok(url)
    }

    /// The host without its port and brackets.
    pub(crate) fn hostname(&self) -> &[u8] {
        let mut host = self.host.as_slice();
        if let Some(colon) = host.iter().rposition(|&b| b == b':')
            && is_port(&host[colon..])
        {
            host = &host[..colon];
        }
        host.strip_prefix(b"[")
            .and_then(|inner| inner.strip_suffix(b"]"))
            .unwrap_or(host)
    }

    /// Name and password, escaped.
    pub(crate) fn user_info(&self) -> Vec<u8> {
        self.user.as_ref().map(User::text).unwrap_or_default()
    }

    /// Takes over name and password as written in a URL.
    pub(crate) fn set_user_info(&mut self, text: &[u8]) -> Result<(), String> {
        let probe = [b"proto://", text, b"@host"].concat();
        self.user = Self::parse(&probe)?.user;
        Ok(())
    }

    /// The URL in one piece.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Place::Fragment));
        }
        out
    }

    fn write_hierarchy(&self, out: &mut Vec<u8>) {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if has_authority || !self.scheme.is_empty() && !self.path.is_empty() {
            out.extend_from_slice(b"//");
        }
        if let Some(user) = &self.user {
            out.extend(user.text());
            out.push(b'@');
        }
        out.extend(escape(&self.host, Place::Host));
        let path = if self.path == b"*" {
            self.path.clone()
        } else {
            escape(&self.path, Place::Path)
        };
        if path.first().is_some_and(|&b| b != b'/') && !self.host.is_empty() {
            out.push(b'/');
        }
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&b| b == at) {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    }
}

fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok((&[], text))
}

fn parse_authority(scheme: &[u8], text: &[u8]) -> Result<(Option<User>, Vec<u8>), String> {
    let Some(at) = text.iter().rposition(|&b| b == b'@') else {
        return Ok((None, parse_host(scheme, text)?));
    };
    let host = parse_host(scheme, &text[at + 1..])?;
    let info = &text[..at];
    let valid = |b: &u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(b);
    if !info.iter().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = cut(info, b':');
    let user = User {
        name: unescape(name, Place::User)?,
        password: password
            .map(|text| unescape(text, Place::User))
            .transpose()?,
    };
    Ok((Some(user), host))
}

fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn bad_port(text: &[u8]) -> String {
    format!("invalid port {} after host", gofmt::quote(text))
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    match host.iter().rposition(|&b| b == b'[') {
        Some(0) => return parse_ip_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let Some(mut colon) = host.iter().position(|&b| b == b':') {
        if scheme != b"http" && scheme != b"https" {
            colon = host.iter().rposition(|&b| b == b':').unwrap_or(colon);
        }
        if !is_port(&host[colon..]) {
            return Err(bad_port(&host[colon..]));
        }
    }
    unescape(host, Place::Host)
}

fn parse_ip_literal(host: &[u8]) -> Result<Vec<u8>, String> {
    let close = host
        .iter()
        .rposition(|&b| b == b']')
        .ok_or_else(|| "missing ']' in host".to_owned())?;
    let port = &host[close + 1..];
    if !is_port(port) {
        return Err(bad_port(port));
    }
    let inner = &host[1..close];
    let zone = inner
        .windows(3)
        .position(|window| window == b"%25")
        .unwrap_or(inner.len());
    let mut address = unescape(&inner[..zone], Place::Host)?;
    let plain = String::from_utf8_lossy(&address).into_owned();
    address.extend(unescape(&inner[zone..], Place::Zone)?);
    match plain.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => {}
        Ok(IpAddr::V4(_)) => return Err("invalid IP-literal".to_owned()),
        Err(_) => {
            let shown = gofmt::quote(&address);
            let problem = address::complaint(&address);
            return Err(format!("invalid host: ParseAddr({shown}): {problem}"));
        }
    }
    Ok([b"[", address.as_slice(), b"]", port].concat())
}

fn escape(text: &[u8], place: Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if place.allows(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

fn unescape(text: &[u8], place: Place) -> Result<Vec<u8>, String> {
    let bad = |part: &[u8]| format!("invalid URL escape {}", gofmt::quote(part));
    let hex = |byte: Option<&u8>| byte.and_then(|&b| char::from(b).to_digit(16));
    let in_host = matches!(place, Place::Host | Place::Zone);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            if in_host && byte < 0x80 && !place.allows(byte) {
                let shown = gofmt::quote(&[byte]);
                return Err(format!("invalid character {shown} in host name"));
            }
            out.push(byte);
            rest = tail;
            continue;
        }
        let (Some(high), Some(low)) = (hex(tail.first()), hex(tail.get(1))) else {
            return Err(bad(&rest[..rest.len().min(3)]));
        };
        let (sequence, after) = rest.split_at(3);
        let value = (high * 16 + low) as u8;
        let percent = sequence == b"%25";
        if place == Place::Host && high < 8 && !percent
            || place == Place::Zone && !percent && value != b' ' && !Place::Host.allows(value)
        {
            return Err(bad(sequence));
        }
        out.push(value);
        rest = after;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart_and_together() {
        for text in [
            "http://user:p%40ss@host:80/a%20b?q=1#f",
            "mailto:a@b.c",
            "/just/path",
            "//host/path",
            "http://[::1]:80/",
        ] {
            let url = Url::parse(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(url.text()).unwrap(), text);
        }
    }

    #[test]
    fn error_messages_match_go() {
        for (text, complaint) in [
            (
                "http://h:port/",
                "parse \"http://h:port/\": invalid port \":port\" after host",
            ),
            (":x", "parse \":x\": missing protocol scheme"),
            ("a%zz", "parse \"a%zz\": invalid URL escape \"%zz\""),
            (
                "http://a b/",
                "parse \"http://a b/\": invalid character \" \" in host name",
            ),
        ] {
            assert_eq!(Url::parse(text.as_bytes()), Err(complaint.to_owned()));
        }
    }
}
