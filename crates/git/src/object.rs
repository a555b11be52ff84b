//! Git's objects: ids, commits, tags and trees.

use std::fmt;

use everflow_limits::at_most;

use super::checkout::{MOST_PATHS, PATHS_FLAG};
use crate::Error;
use everflow_fetch::archive::digest::hex;

/// The name of an object: the SHA-1 of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 20]);

impl ObjectId {
    /// Reads forty hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 40 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut id = [0; 20];
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(ObjectId(id))
    }

    /// The id of some content, which must not be one that was made to collide with another.
    pub fn of(kind: Kind, content: &[u8]) -> Result<Self, Error> {
        let mut hasher = IdHasher::new(kind, content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Hashes an object piece by piece. SHA-1 alone no longer tells contents apart; the traces that
/// known ways to make collisions leave are looked for, as git does.
pub(crate) struct IdHasher(sha1dc::Hasher);

impl IdHasher {
    pub(crate) fn new(kind: Kind, size: u64) -> Self {
        let mut hasher = IdHasher(sha1dc::Hasher::new());
        hasher.update(format!("{} {size}\0", kind.name()).as_bytes());
        hasher
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Result<ObjectId, Error> {
        match self.0.finalize() {
            Ok(digest) => Ok(ObjectId(digest.into())),
            Err(collision) => Err(Error::Collision(collision.digest().to_string())),
        }
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A commit.
    Commit,
    /// A directory.
    Tree,
    /// A file's content.
    Blob,
    /// An annotated tag.
    Tag,
}

impl Kind {
    /// The name in an object's header.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
            Kind::Tag => "tag",
        }
    }
}

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    /// Their name.
    pub name: String,
    /// Their address.
    pub email: String,
    /// Seconds since 1970.
    pub seconds: i64,
}

impl Person {
    fn parse(text: &str) -> Self {
        let (name, rest) = text.split_once('<').unwrap_or((text, ""));
        let (email, rest) = rest.split_once('>').unwrap_or((rest, ""));
        let seconds = rest.split_whitespace().next().unwrap_or_default();
        Person {
            name: name.trim().to_owned(),
            email: email.to_owned(),
            seconds: seconds.parse().unwrap_or_default(),
        }
    }
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: ObjectId,
    /// Its root directory.
    pub tree: ObjectId,
    /// Who wrote it.
    pub author: Person,
    /// Who stored it.
    pub committer: Person,
    /// The message.
    pub message: String,
    /// The signature, in armour; empty when there is none.
    pub signature: String,
    /// What the signature is about: the commit without it.
    pub signed: Vec<u8>,
}

/// An annotated tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Its id.
    pub id: ObjectId,
    /// What it points to.
    pub target: ObjectId,
    /// What kind of object that is.
    pub target_kind: String,
    /// Its name.
    pub name: String,
    /// Who made it.
    pub tagger: Person,
    /// The message.
    pub message: String,
    /// The signature, in armour; empty when there is none.
    pub signature: String,
    /// What the signature is about: the tag without it.
    pub signed: Vec<u8>,
}

fn broken(kind: &str, id: ObjectId) -> Error {
    Error::Protocol(format!("the {kind} {id} is malformed"))
}

/// The header lines of a commit or tag with their continuation lines, and the message.
fn headers(content: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut rest = content;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        match (line.strip_prefix(' '), lines.last_mut()) {
            (Some(more), Some((_, value))) => {
                value.push('\n');
                value.push_str(more);
            }
            _ => {
                let (key, value) = line.split_once(' ').unwrap_or((&line, ""));
                lines.push((key.to_owned(), value.to_owned()));
            }
        }
    }
    (lines, rest)
}

fn value<'a>(lines: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let line = lines.iter().find(|(name, _)| name == key)?;
    Some(&line.1)
}

impl Commit {
    /// Reads a commit.
    pub fn parse(id: ObjectId, content: &[u8]) -> Result<Self, Error> {
        let (lines, message) = headers(content);
        let person = |key| value(&lines, key).map(Person::parse).unwrap_or_default();
        Ok(Commit {
            id,
            tree: value(&lines, "tree")
                .and_then(ObjectId::parse)
                .ok_or_else(|| broken("commit", id))?,
            author: person("author"),
            committer: person("committer"),
            message: String::from_utf8_lossy(message).into_owned(),
            signature: value(&lines, "gpgsig")
                .map(|signature| format!("{signature}\n"))
                .unwrap_or_default(),
            signed: without_signature(content),
        })
    }

    /// The first line of the message, cut at fifty characters.
    pub fn short_message(&self) -> String {
        let subject = self.message.split('\n').next().unwrap_or_default();
        match subject.char_indices().nth(50) {
            Some((at, _)) => format!("{}...", &subject[..at]),
            None => subject.to_owned(),
        }
    }
}

/// The commit without its signature header.
fn without_signature(content: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(content.len());
    let mut rest = content;
    let mut dropping = false;
    loop {
        let end = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) if end > 0 => end + 1,
            // The empty line: the message follows.
            _ => {
                kept.extend_from_slice(rest);
                return kept;
            }
        };
        let line = &rest[..end];
        dropping = match dropping && line.starts_with(b" ") {
            true => true,
            false => line.starts_with(b"gpgsig ") || line.starts_with(b"gpgsig-sha256 "),
        };
        if !dropping {
            kept.extend_from_slice(line);
        }
        rest = &rest[end..];
    }
}

const TAG_SIGNATURES: [&[u8]; 3] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
];

impl Tag {
    /// Reads a tag.
    pub fn parse(id: ObjectId, content: &[u8]) -> Result<Self, Error> {
        let (lines, message) = headers(content);
        let start = content.len() - message.len();
        // The signature stands at the end of the message, at the start of a line.
        let signature = (start..content.len()).rfind(|&at| {
            (at == start || content[at - 1] == b'\n')
                && TAG_SIGNATURES
                    .iter()
                    .any(|mark| content[at..].starts_with(mark))
        });
        let at = signature.unwrap_or(content.len());
        Ok(Tag {
            id,
            target: value(&lines, "object")
                .and_then(ObjectId::parse)
                .ok_or_else(|| broken("tag", id))?,
            target_kind: value(&lines, "type").unwrap_or_default().to_owned(),
            name: value(&lines, "tag").unwrap_or_default().to_owned(),
            tagger: value(&lines, "tagger")
                .map(Person::parse)
                .unwrap_or_default(),
            message: String::from_utf8_lossy(&content[start..at]).into_owned(),
            signature: String::from_utf8_lossy(&content[at..]).into_owned(),
            signed: content[..at].to_vec(),
        })
    }
}

/// What stands in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its name, one part of a path.
    pub name: Vec<u8>,
    /// What it is.
    pub mode: Mode,
    /// Its content.
    pub id: ObjectId,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A file that can be run.
    Executable,
    /// A symbolic link.
    Link,
    /// Another repository.
    Submodule,
}

/// Reads a directory, sorted by the bytes of the names: the order of a file system's walk, which
/// is not the one that git stores.
pub fn parse_tree(id: ObjectId, mut content: &[u8]) -> Result<Vec<TreeEntry>, Error> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let (entry, rest) = parse_entry(content).ok_or_else(|| broken("tree", id))?;
        let name = String::from_utf8_lossy(&entry.name);
        if matches!(&*name, "" | "." | "..") || name.contains(['/', '\0', '\\']) {
            return Err(Error::Protocol(format!(
                "the tree {id} has an entry with the name {name:?}"
            )));
        }
        entries.push(entry);
        content = rest;
        at_most(
            entries.len() as u64,
            MOST_PATHS,
            "entries in one directory",
            PATHS_FLAG,
        )?;
    }
    entries.sort_by(|one: &TreeEntry, two| one.name.cmp(&two.name));
    if entries.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(broken("tree", id));
    }
    Ok(entries)
}

fn parse_entry(content: &[u8]) -> Option<(TreeEntry, &[u8])> {
    let space = content.iter().position(|byte| *byte == b' ')?;
    let mode = u32::from_str_radix(std::str::from_utf8(&content[..space]).ok()?, 8).ok()?;
    let rest = &content[space + 1..];
    let end = rest.iter().position(|byte| *byte == 0)?;
    let id = rest.get(end + 1..end + 21)?;
    let mode = match mode & 0o170_000 {
        0o040_000 => Mode::Directory,
        0o120_000 => Mode::Link,
        0o160_000 => Mode::Submodule,
        0o100_000 if mode & 0o111 != 0 => Mode::Executable,
        0o100_000 => Mode::File,
        _ => return None,
    };
    let entry = TreeEntry {
        name: rest[..end].to_vec(),
        mode,
        id: ObjectId(id.try_into().ok()?),
    };
    Some((entry, &rest[end + 21..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn object_ids_match_git() {
        let empty = ObjectId::of(Kind::Tree, b"").unwrap();
        assert_eq!(empty.to_string(), ID);
        assert_eq!(ObjectId::parse(ID), Some(empty));
        let hi = ObjectId::of(Kind::Blob, b"hi\n").unwrap();
        assert_eq!(hi.to_string(), "45b983be36b73c0788dc9cbcb76cbb80fc7bb057");
        assert_eq!(ObjectId::parse("4b825dc"), None);
    }

    /// The start of the two public files with the same SHA-1, and where they differ.
    const SHATTERED: &str = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f48656967\
        68742033203020522f547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f7253\
        706163652037203020522f4c656e6774682038203020522f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0aff\
        d8fffe00245348412d3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";
    const BLOCKS: [&str; 2] = [
        "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac2\
         2fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c\
         782c76215660dd309791d06bd0af3f98cda4bc4629b1",
        "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e97272\
         2fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c\
         78305a21566461309789606bd0bf3f98cda8044629a1",
    ];

    fn unhex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn contents_that_were_made_to_collide_are_refused() {
        let mut plain = Vec::new();
        for block in BLOCKS {
            let content = unhex(&format!("{SHATTERED}{block}"));
            assert_eq!(content.len(), 320);
            // However the pieces come.
            for piece in [1, 63, 64, 320] {
                let mut hasher = IdHasher(sha1dc::Hasher::new());
                for part in content.chunks(piece) {
                    hasher.update(part);
                }
                let error = hasher.finish().unwrap_err();
                assert!(matches!(&error, Error::Collision(_)), "{error}");
                assert_eq!(error.reason(), "GitOperationFailed");
                assert!(
                    error
                        .to_string()
                        .contains("f92d74e3874587aaf443d1db961d4e26dde13e9c")
                );
            }
            use sha1::Digest as _;
            plain.push(sha1::Sha1::digest(&content));
        }
        assert_eq!(plain[0], plain[1]);
    }

    #[test]
    fn commits_are_taken_apart() {
        let text = format!(
            "tree {ID}\nparent {ID}\nauthor A B <a@b> 1767225600 +0100\ncommitter C <c@d> 5 +0000\n\
             gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n\
             encoding x\n\ntitle\n\nbody gpgsig x\n"
        );
        let commit = Commit::parse(ObjectId([1; 20]), text.as_bytes()).unwrap();
        assert_eq!(commit.author.name, "A B");
        assert_eq!(commit.author.seconds, 1_767_225_600);
        assert_eq!(commit.committer.email, "c@d");
        assert_eq!(commit.short_message(), "title");
        assert_eq!(
            commit.signature,
            "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n"
        );
        let signed = String::from_utf8(commit.signed).unwrap();
        assert!(
            signed.ends_with("+0000\nencoding x\n\ntitle\n\nbody gpgsig x\n"),
            "{signed}"
        );
        assert!(Commit::parse(ObjectId([1; 20]), b"nothing").is_err());
    }

    #[test]
    fn tags_are_taken_apart() {
        let text = format!(
            "object {ID}\ntype commit\ntag v1\ntagger A <a@b> 7 +0000\n\nmessage\n\
             -----BEGIN PGP SIGNATURE-----\nabc\n"
        );
        let tag = Tag::parse(ObjectId([1; 20]), text.as_bytes()).unwrap();
        assert_eq!(
            (tag.name.as_str(), tag.target_kind.as_str()),
            ("v1", "commit")
        );
        assert_eq!(tag.message, "message\n");
        assert!(tag.signature.starts_with("-----BEGIN PGP"));
        assert!(tag.signed.ends_with(b"\n\nmessage\n"));
    }

    #[test]
    fn trees_are_sorted_by_name_and_odd_names_refused() {
        let tree = |entries: &[(&str, &str)]| {
            let mut bytes = Vec::new();
            for (mode, name) in entries {
                bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                bytes.extend_from_slice(&[7; 20]);
            }
            parse_tree(ObjectId([1; 20]), &bytes)
        };
        let entries = tree(&[
            ("100644", "a.b"),
            ("40000", "a"),
            ("120000", "l"),
            ("160000", "s"),
        ]);
        let entries = entries.unwrap();
        let names: Vec<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(names, [&b"a"[..], b"a.b", b"l", b"s"]);
        for name in ["..", ".", "", "a/b", "a\\b"] {
            assert!(tree(&[("100644", name)]).is_err(), "{name}");
        }
        assert!(tree(&[("100644", "x"), ("100644", "x")]).is_err());
        assert!(parse_tree(ObjectId([1; 20]), b"100644 x\0short").is_err());
    }
}
