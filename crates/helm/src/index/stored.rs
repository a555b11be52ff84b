//! One chart out of a stored index, without the others.

use std::io::{self, BufRead};

use everflow_json::Value as Json;

use super::time::GoTime;

/// What is needed of a chart version to choose and to fetch it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredVersion {
    /// The name of the chart, as its metadata say.
    pub name: String,
    /// The version.
    pub version: String,
    /// Where to get it.
    pub urls: Vec<String>,
    /// When it was added.
    pub created: GoTime,
    /// The digest of the archive, when the index has one.
    pub digest: String,
}

/// What an index has of a chart: nothing at all, or a list that may be empty.
pub type StoredVersions = Option<Vec<StoredVersion>>;

/// The longest text of a single chart version.
const LONGEST: usize = 16 << 20;

/// The versions of a chart in an index that [`Outline::write`](super::Outline::write) wrote. The
/// text is read only as far as needed, and nothing of it stays but what is returned.
pub fn find_versions(index: impl BufRead, chart: &str) -> io::Result<StoredVersions> {
    let mut scan = Scan { input: index };
    if !scan.enter_key(b'{', "entries")? {
        return Ok(None);
    }
    if !scan.enter_key(b'{', chart)? {
        return Ok(None);
    }
    let mut versions = Vec::new();
    if scan.peek()? != Some(b'[') {
        return Ok(Some(versions));
    }
    scan.bump()?;
    loop {
        match scan.peek()? {
            Some(b']') => return Ok(Some(versions)),
            Some(b',') => scan.bump()?,
            Some(_) => {
                let mut text = Vec::new();
                scan.value(Some(&mut text))?;
                if let Some(version) = decode(&text)? {
                    versions.push(version);
                }
            }
            None => return Err(broken()),
        }
    }
}

fn decode(text: &[u8]) -> io::Result<Option<StoredVersion>> {
    let value: Json = everflow_json::from_slice(text).map_err(|_| broken())?;
    let Json::Object(object) = value else {
        return Ok(None);
    };
    let string = |name: &str| {
        let text = object.get(name).and_then(Json::as_str);
        text.unwrap_or_default().to_owned()
    };
    let urls = object.get("urls").and_then(Json::as_array);
    Ok(Some(StoredVersion {
        name: string("name"),
        version: string("version"),
        urls: urls
            .into_iter()
            .flatten()
            .filter_map(|url| url.as_str().map(str::to_owned))
            .collect(),
        created: GoTime::parse(&string("created")).unwrap_or_default(),
        digest: string("digest"),
    }))
}

fn broken() -> io::Error {
    let text = "the stored index is damaged; it is fetched again when its file is removed";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Goes through JSON text byte by byte.
struct Scan<R> {
    input: R,
}

impl<R: BufRead> Scan<R> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.input.fill_buf()?;
            let blanks = buffer
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            match buffer.get(blanks) {
                Some(byte) => {
                    let byte = *byte;
                    self.input.consume(blanks);
                    return Ok(Some(byte));
                }
                None if buffer.is_empty() => return Ok(None),
                None => self.input.consume(blanks),
            }
        }
    }

    fn bump(&mut self) -> io::Result<()> {
        self.input.consume(1);
        Ok(())
    }

    /// Goes into an object up to the value of a key; false when the object ends before, or when
    /// there is something else than an object.
    fn enter_key(&mut self, opening: u8, wanted: &str) -> io::Result<bool> {
        if self.peek()? != Some(opening) {
            return Ok(false);
        }
        self.bump()?;
        loop {
            match self.peek()? {
                Some(b'}') => return Ok(false),
                Some(b',') => self.bump()?,
                Some(b'"') => {
                    let mut text = Vec::new();
                    self.value(Some(&mut text))?;
                    let key: String = everflow_json::from_slice(&text).map_err(|_| broken())?;
                    if self.peek()? != Some(b':') {
                        return Err(broken());
                    }
                    self.bump()?;
                    self.peek()?;
                    if key == wanted {
                        return Ok(true);
                    }
                    self.value(None)?;
                }
                _ => return Err(broken()),
            }
        }
    }

    /// Passes over a value, and copies it when wanted.
    fn value(&mut self, mut copy: Option<&mut Vec<u8>>) -> io::Result<()> {
        let mut depth = 0_u32;
        let mut in_string = false;
        let mut escaped = false;
        let mut in_word = false;
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(broken());
            }
            let mut end = None;
            for (at, byte) in buffer.iter().enumerate() {
                if in_string {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => {
                            in_string = false;
                            if depth == 0 {
                                end = Some(at + 1);
                                break;
                            }
                        }
                        _ => {}
                    }
                    continue;
                }
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 0 => {
                        end = Some(at);
                        break;
                    }
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            end = Some(at + 1);
                            break;
                        }
                    }
                    b',' if depth == 0 => {
                        end = Some(at);
                        break;
                    }
                    byte if byte.is_ascii_whitespace() && depth == 0 && in_word => {
                        end = Some(at);
                        break;
                    }
                    _ => in_word = true,
                }
            }
            let taken = end.unwrap_or(buffer.len());
            if let Some(copy) = copy.as_deref_mut() {
                if copy.len() + taken > LONGEST {
                    return Err(broken());
                }
                copy.extend_from_slice(&buffer[..taken]);
            }
            self.input.consume(taken);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const INDEX: &str = r#"{ "apiVersion": "v1", "x": [1, {"entries": null}, "]}\""],
        "entries": { "a": [], "n": null, "b\"q": [{"name":"b","version":"1.0.0",
          "urls":["u"],"created":"2026-01-01T00:00:00Z","digest":"d","home":"}]"}, {"name":"b","version":"0.1.0"}],
          "c": [ ] }, "z": 1 }"#;

    fn find(chart: &str) -> StoredVersions {
        // A tiny buffer: pieces end anywhere.
        find_versions(BufReader::with_capacity(3, INDEX.as_bytes()), chart).unwrap()
    }

    #[test]
    fn a_chart_is_found_among_others() {
        let found = find("b\"q").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].version, "1.0.0");
        assert_eq!(found[0].urls, ["u"]);
        assert_eq!(found[0].digest, "d");
        assert_eq!(found[1].created, GoTime::default());
        assert_eq!(find("a"), Some(Vec::new()));
        assert_eq!(find("c"), Some(Vec::new()));
        assert_eq!(find("n"), Some(Vec::new()));
        assert_eq!(find("apiVersion"), None);
        assert_eq!(find("z"), None);
    }

    #[test]
    fn a_damaged_index_is_an_error_and_never_a_panic() {
        for end in 0..INDEX.len() {
            let _ = find_versions(&INDEX.as_bytes()[..end], "c");
        }
        for text in ["", "[]", "null", "{\"entries\":[]}"] {
            assert_eq!(find_versions(text.as_bytes(), "a").unwrap(), None, "{text}");
        }
        assert!(find_versions(&b"{\"entries\":{\"a\":[{]"[..], "a").is_err());
        assert!(find_versions(&b"{\"entries\""[..], "a").is_err());
    }
}
