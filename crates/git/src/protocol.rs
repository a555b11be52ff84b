//! What is said on the wire, as functions on lines: protocol version 2 and the older one.

use super::object::ObjectId;
use super::pkt::{put_delimiter, put_flush, put_line, text};
use crate::Error;

/// A branch, tag or other name on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    /// The full name, as `refs/heads/main`.
    pub name: String,
    /// The object that it names.
    pub id: ObjectId,
    /// For an annotated tag, the object behind it.
    pub peeled: Option<ObjectId>,
}

impl Ref {
    /// The commit that the name stands for.
    pub fn commit(&self) -> ObjectId {
        self.peeled.unwrap_or(self.id)
    }
}

/// What the server can do.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// Whether it speaks version 2.
    pub version_2: bool,
    lines: Vec<String>,
}

impl Capabilities {
    /// Version 2, where each capability is a line.
    pub fn version_2() -> Self {
        Capabilities {
            version_2: true,
            lines: Vec::new(),
        }
    }

    /// Takes a line of version 2.
    pub fn add(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Whether a capability is there.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// What follows the equals sign; empty when there is nothing.
    fn value(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None => rest.is_empty().then_some(""),
            }
        })
    }

    /// Whether the `fetch` command has a feature; in the older protocol features stand alone.
    pub fn fetch_has(&self, feature: &str) -> bool {
        match self.version_2 {
            true => self
                .value("fetch")
                .is_some_and(|value| value.split(' ').any(|one| one == feature)),
            false => self.has(feature),
        }
    }

    /// An error for repositories that name their objects by another hash.
    pub fn check_format(&self) -> Result<(), Error> {
        match self.value("object-format") {
            None | Some("sha1") => Ok(()),
            Some(other) => Err(Error::Protocol(format!(
                "the repository uses the object format {other}, which is not supported; use sha1"
            ))),
        }
    }
}

const AGENT: &str = concat!("agent=everflow/", env!("CARGO_PKG_VERSION"));

/// Asks for names that begin with one of the prefixes.
pub fn ls_refs(capabilities: &Capabilities, prefixes: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    put_line(&mut out, "command=ls-refs");
    put_common(&mut out, capabilities);
    put_delimiter(&mut out);
    put_line(&mut out, "peel");
    put_line(&mut out, "symrefs");
    for prefix in prefixes {
        put_line(&mut out, &format!("ref-prefix {prefix}"));
    }
    put_flush(&mut out);
    out
}

fn put_common(out: &mut Vec<u8>, capabilities: &Capabilities) {
    if capabilities.has("agent") {
        put_line(out, AGENT);
    }
    if capabilities.has("object-format") {
        put_line(out, "object-format=sha1");
    }
}

/// Reads a line of the answer to [`ls_refs`].
pub fn parse_ref(line: &[u8]) -> Result<Option<Ref>, Error> {
    let line = text(line);
    let mut words = line.split(' ');
    let (Some(id), Some(name)) = (words.next(), words.next()) else {
        return Err(Error::Protocol(format!(
            "malformed reference line {line:?}"
        )));
    };
    let Some(id) = ObjectId::parse(id) else {
        // A branch that has no commit yet.
        return match id {
            "unborn" => Ok(None),
            _ => Err(Error::Protocol(format!(
                "malformed reference line {line:?}"
            ))),
        };
    };
    let peeled = words
        .find_map(|word| word.strip_prefix("peeled:"))
        .and_then(ObjectId::parse);
    Ok(Some(Ref {
        name: name.to_owned(),
        id,
        peeled,
    }))
}

/// The greeting of the older protocol: one line for each name, capabilities behind the first.
#[derive(Debug, Default)]
pub struct OldGreeting {
    /// What the server can do.
    pub capabilities: Capabilities,
    /// The names.
    pub refs: Vec<Ref>,
    begun: bool,
}

impl OldGreeting {
    /// Takes a line.
    pub fn add(&mut self, line: &[u8]) -> Result<(), Error> {
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let head = text(parts.next().unwrap_or_default());
        if !self.begun {
            if head == "version 1" {
                return Ok(());
            }
            self.begun = true;
            let features = text(parts.next().unwrap_or_default());
            self.capabilities.lines = features.split_whitespace().map(str::to_owned).collect();
        }
        if head.starts_with("shallow ") {
            return Ok(());
        }
        let parsed = head.split_once(' ').and_then(|(id, name)| {
            let id = ObjectId::parse(id)?;
            Some((id, name))
        });
        let Some((id, name)) = parsed else {
            return Err(Error::Protocol(format!(
                "malformed reference line {head:?}"
            )));
        };
        if name == "capabilities^{}" {
            return Ok(());
        }
        match (name.strip_suffix("^{}"), self.refs.last_mut()) {
            (Some(base), Some(last)) if last.name == base => last.peeled = Some(id),
            _ => self.refs.push(Ref {
                name: name.to_owned(),
                id,
                peeled: None,
            }),
        }
        Ok(())
    }
}

/// What to fetch.
#[derive(Debug, Clone)]
pub struct Wants {
    /// The objects, with what they need.
    pub ids: Vec<ObjectId>,
    /// Only the newest commit of each, when the server can.
    pub shallow: bool,
    /// Leave out the trees, when the server can.
    pub commits_only: bool,
}

/// Asks for a pack.
pub fn fetch(capabilities: &Capabilities, wants: &Wants) -> Vec<u8> {
    match capabilities.version_2 {
        true => fetch_2(capabilities, wants),
        false => fetch_old(capabilities, wants),
    }
}

fn fetch_2(capabilities: &Capabilities, wants: &Wants) -> Vec<u8> {
    let mut out = Vec::new();
    put_line(&mut out, "command=fetch");
    put_common(&mut out, capabilities);
    put_delimiter(&mut out);
    put_line(&mut out, "ofs-delta");
    put_line(&mut out, "no-progress");
    if wants.shallow && capabilities.fetch_has("shallow") {
        put_line(&mut out, "deepen 1");
    }
    if wants.commits_only && capabilities.fetch_has("filter") {
        put_line(&mut out, "filter tree:0");
    }
    for id in &wants.ids {
        put_line(&mut out, &format!("want {id}"));
    }
    put_line(&mut out, "done");
    put_flush(&mut out);
    out
}

fn fetch_old(capabilities: &Capabilities, wants: &Wants) -> Vec<u8> {
    let mut features = String::new();
    for feature in ["side-band-64k", "side-band", "ofs-delta", "no-progress"] {
        let known = capabilities.has(feature)
            && !(feature == "side-band" && capabilities.has("side-band-64k"));
        if known {
            features.push(' ');
            features.push_str(feature);
        }
    }
    if capabilities.has("agent") {
        features.push(' ');
        features.push_str(AGENT);
    }
    let deepen = wants.shallow && capabilities.has("shallow");
    if deepen {
        features.push_str(" shallow");
    }
    let mut out = Vec::new();
    for (at, id) in wants.ids.iter().enumerate() {
        let features = if at == 0 { features.as_str() } else { "" };
        put_line(&mut out, &format!("want {id}{features}"));
    }
    if deepen {
        put_line(&mut out, "deepen 1");
    }
    put_flush(&mut out);
    put_line(&mut out, "done");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn id(text: &str) -> ObjectId {
        ObjectId::parse(text).unwrap()
    }

    #[test]
    fn lines_of_references_are_read() {
        let line = format!("{ONE} refs/tags/v1 peeled:{TWO}\n");
        let tag = parse_ref(line.as_bytes()).unwrap().unwrap();
        assert_eq!((tag.id, tag.commit()), (id(ONE), id(TWO)));
        let line = format!("{ONE} HEAD symref-target:refs/heads/main");
        let head = parse_ref(line.as_bytes()).unwrap().unwrap();
        assert_eq!((head.name.as_str(), head.peeled), ("HEAD", None));
        assert_eq!(
            parse_ref(b"unborn HEAD symref-target:refs/heads/x").unwrap(),
            None
        );
        assert!(parse_ref(b"nonsense").is_err());
        assert!(parse_ref(b"zz refs/x").is_err());
    }

    #[test]
    fn protocol_1_advertisement_is_read() {
        let mut greeting = OldGreeting::default();
        let first = format!("{ONE} HEAD\0side-band-64k shallow agent=git/2 object-format=sha1\n");
        for line in [
            "version 1\n".to_owned(),
            first,
            format!("{ONE} refs/tags/v1\n"),
            format!("{TWO} refs/tags/v1^{{}}\n"),
        ] {
            greeting.add(line.as_bytes()).unwrap();
        }
        assert_eq!(greeting.refs.len(), 2);
        assert_eq!(greeting.refs[1].peeled, Some(id(TWO)));
        assert!(greeting.capabilities.has("shallow"));
        assert!(!greeting.capabilities.has("side-band"));
        greeting.capabilities.check_format().unwrap();
        let wants = Wants {
            ids: vec![id(ONE), id(TWO)],
            shallow: true,
            commits_only: false,
        };
        let asked = String::from_utf8(fetch(&greeting.capabilities, &wants)).unwrap();
        assert!(
            asked.contains(&format!("want {ONE} side-band-64k agent=everflow/")),
            "{asked}"
        );
        assert!(
            asked.contains(&format!("0032want {TWO}\n000ddeepen 1\n00000009done\n")),
            "{asked}"
        );
    }

    #[test]
    fn version_2_asks_by_commands() {
        let mut capabilities = Capabilities::version_2();
        for line in [
            "agent=git/2",
            "ls-refs=unborn",
            "fetch=shallow filter",
            "object-format=sha1",
        ] {
            capabilities.add(line.to_owned());
        }
        let asked = ls_refs(&capabilities, &["refs/heads/main".to_owned()]);
        let asked = String::from_utf8(asked).unwrap();
        assert!(asked.starts_with("0014command=ls-refs\n"), "{asked}");
        assert!(
            asked.ends_with("001fref-prefix refs/heads/main\n0000"),
            "{asked}"
        );
        let wants = Wants {
            ids: vec![id(ONE)],
            shallow: true,
            commits_only: true,
        };
        let asked = String::from_utf8(fetch(&capabilities, &wants)).unwrap();
        assert!(
            asked.contains("deepen 1\n") && asked.contains("filter tree:0\n"),
            "{asked}"
        );
        let mut other = Capabilities::version_2();
        other.add("object-format=sha256".to_owned());
        assert!(other.check_format().is_err());
    }
}
