//! New objects: trees with changed files, commits, and the pack that carries them.

use std::collections::BTreeMap;
use std::io::Write as _;

use everflow_limits::Budget;
use sha1::{Digest as _, Sha1};

use super::object::{Kind, Mode, ObjectId, Person, TreeEntry, parse_tree};
use super::pack::Pack;
use crate::Error;

/// How many directories a path may have.
const DEEPEST: usize = 64;

/// What a file of a commit is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Its content.
    pub content: Vec<u8>,
    /// Whether a file that is there already stays as it is.
    pub keep_existing: bool,
}

impl FileEdit {
    /// The file has this content, whatever was there.
    pub fn write(content: impl Into<Vec<u8>>) -> Self {
        FileEdit {
            content: content.into(),
            keep_existing: false,
        }
    }

    /// The file has this content unless it is there already.
    pub fn create(content: impl Into<Vec<u8>>) -> Self {
        FileEdit {
            keep_existing: true,
            ..FileEdit::write(content)
        }
    }
}

/// An object that the server does not have yet.
pub(super) struct NewObject {
    kind: Kind,
    content: Vec<u8>,
}

/// Makes trees and keeps what is new.
pub(super) struct TreeWriter<'a> {
    /// The objects of the commit before; none in an empty repository.
    pack: Option<&'a mut Pack>,
    budget: &'a Budget,
    objects: Vec<NewObject>,
}

type Edits<'e> = Vec<(Vec<&'e str>, &'e FileEdit)>;

impl<'a> TreeWriter<'a> {
    pub(super) fn new(pack: Option<&'a mut Pack>, budget: &'a Budget) -> Self {
        TreeWriter {
            pack,
            budget,
            objects: Vec::new(),
        }
    }

    /// The tree `root` with the files as they are to be. The same when they are so already.
    pub(super) fn edit(
        &mut self,
        root: Option<ObjectId>,
        files: &BTreeMap<String, FileEdit>,
    ) -> Result<ObjectId, Error> {
        let mut edits = Vec::new();
        for (path, edit) in files {
            edits.push((parts(path)?, edit));
        }
        self.tree(root, "", edits)
    }

    /// What was made, to be sent.
    pub(super) fn into_objects(self) -> Vec<NewObject> {
        self.objects
    }

    fn tree(
        &mut self,
        existing: Option<ObjectId>,
        directory: &str,
        edits: Edits<'_>,
    ) -> Result<ObjectId, Error> {
        self.budget.check()?;
        let mut entries = match existing {
            Some(id) => self.read(id)?,
            None => Vec::new(),
        };
        let mut below: BTreeMap<&str, Edits<'_>> = BTreeMap::new();
        for (mut path, edit) in edits {
            let first = path.remove(0);
            match path.is_empty() {
                true => self.file(&mut entries, directory, first, edit)?,
                false => below.entry(first).or_default().push((path, edit)),
            }
        }
        for (name, edits) in below {
            let inner = format!("{directory}{name}/");
            let old = find(&entries, name).map(|at| (at, entries[at].mode, entries[at].id));
            let before = match old {
                Some((_, Mode::Directory, id)) => Some(id),
                Some(_) => return Err(in_the_way(&inner, "no directory")),
                None => None,
            };
            let id = self.tree(before, &inner, edits)?;
            put(&mut entries, name, Mode::Directory, id);
        }
        let content = encode_tree(&mut entries);
        let id = ObjectId::of(Kind::Tree, &content)?;
        if existing != Some(id) {
            self.objects.push(NewObject {
                kind: Kind::Tree,
                content,
            });
        }
        Ok(id)
    }

    fn file(
        &mut self,
        entries: &mut Vec<TreeEntry>,
        directory: &str,
        name: &str,
        edit: &FileEdit,
    ) -> Result<(), Error> {
        let id = ObjectId::of(Kind::Blob, &edit.content)?;
        let mut mode = Mode::File;
        if let Some(at) = find(entries, name) {
            let old = &entries[at];
            if !matches!(old.mode, Mode::File | Mode::Executable) {
                return Err(in_the_way(&format!("{directory}{name}"), "no plain file"));
            }
            if edit.keep_existing || old.id == id {
                return Ok(());
            }
            mode = old.mode;
        }
        self.objects.push(NewObject {
            kind: Kind::Blob,
            content: edit.content.clone(),
        });
        put(entries, name, mode, id);
        Ok(())
    }

    fn read(&mut self, id: ObjectId) -> Result<Vec<TreeEntry>, Error> {
        let Some(pack) = self.pack.as_deref_mut() else {
            return Ok(Vec::new());
        };
        let content = pack.read(id, Kind::Tree, self.budget)?;
        parse_tree(id, &content)
    }

    /// Adds a commit; its id.
    pub(super) fn commit(&mut self, content: Vec<u8>) -> Result<ObjectId, Error> {
        let id = ObjectId::of(Kind::Commit, &content)?;
        self.objects.push(NewObject {
            kind: Kind::Commit,
            content,
        });
        Ok(id)
    }
}

fn parts(path: &str) -> Result<Vec<&str>, Error> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_wrong =
        |part: &&str| matches!(*part, "" | "." | ".." | ".git") || part.contains(['\0', '\\']);
    match parts.iter().any(is_wrong) || parts.len() > DEEPEST {
        true => Err(Error::Git(format!(
            "{path:?} is no path of a repository: give one without '..', relative to its root"
        ))),
        false => Ok(parts),
    }
}

fn in_the_way(path: &str, what: &str) -> Error {
    Error::Git(format!(
        "'{path}' is {what} in the repository: remove it there, or choose another path"
    ))
}

fn find(entries: &[TreeEntry], name: &str) -> Option<usize> {
    entries
        .iter()
        .position(|entry| entry.name == name.as_bytes())
}

fn put(entries: &mut Vec<TreeEntry>, name: &str, mode: Mode, id: ObjectId) {
    match find(entries, name) {
        Some(at) => {
            entries[at].mode = mode;
            entries[at].id = id;
        }
        None => entries.push(TreeEntry {
            name: name.as_bytes().to_vec(),
            mode,
            id,
        }),
    }
}

/// A tree as git stores it: directories are sorted as if their names ended with a slash.
fn encode_tree(entries: &mut [TreeEntry]) -> Vec<u8> {
    let key = |entry: &TreeEntry| {
        let mut name = entry.name.clone();
        if entry.mode == Mode::Directory {
            name.push(b'/');
        }
        name
    };
    entries.sort_by_cached_key(key);
    let mut content = Vec::new();
    for entry in entries {
        let mode = match entry.mode {
            Mode::Directory => "40000",
            Mode::File => "100644",
            Mode::Executable => "100755",
            Mode::Link => "120000",
            Mode::Submodule => "160000",
        };
        content.extend_from_slice(mode.as_bytes());
        content.push(b' ');
        content.extend_from_slice(&entry.name);
        content.push(0);
        content.extend_from_slice(&entry.id.0);
    }
    content
}

/// A commit as git stores it, without a signature.
pub(super) fn encode_commit(
    tree: ObjectId,
    parent: Option<ObjectId>,
    author: &Person,
    message: &str,
) -> Vec<u8> {
    let plain = |text: &str| -> String {
        let kept = text
            .chars()
            .filter(|c| !matches!(c, '<' | '>' | '\n' | '\0'));
        kept.collect::<String>().trim().to_owned()
    };
    let (name, email) = (plain(&author.name), plain(&author.email));
    let person = format!("{name} <{email}> {} +0000", author.seconds);
    let parent = parent.map_or(String::new(), |id| format!("parent {id}\n"));
    let message = message.trim_end();
    format!("tree {tree}\n{parent}author {person}\ncommitter {person}\n\n{message}\n").into_bytes()
}

/// A commit with its signature in the header.
pub(super) fn with_signature(commit: &[u8], armour: &str) -> Vec<u8> {
    let end = commit.windows(2).position(|pair| pair == b"\n\n");
    let (head, rest) = commit.split_at(end.map_or(0, |at| at + 1));
    let mut content = head.to_vec();
    let folded = armour.trim_end().replace('\n', "\n ");
    content.extend_from_slice(format!("gpgsig {folded}\n").as_bytes());
    content.extend_from_slice(rest);
    content
}

/// The pack of some objects, none as a change to another.
pub(super) fn pack(objects: &[NewObject], budget: &Budget) -> Result<Vec<u8>, Error> {
    let written = |error: std::io::Error| Error::Archive(format!("the pack: {error}"));
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&(objects.len() as u32).to_be_bytes());
    for object in objects {
        budget.check()?;
        put_head(&mut bytes, object.kind, object.content.len());
        let mut writer = flate2::write::ZlibEncoder::new(bytes, flate2::Compression::default());
        writer.write_all(&object.content).map_err(written)?;
        bytes = writer.finish().map_err(written)?;
    }
    let sum = Sha1::digest(&bytes);
    bytes.extend_from_slice(&sum);
    Ok(bytes)
}

fn put_head(bytes: &mut Vec<u8>, kind: Kind, size: usize) {
    let number = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut byte = number << 4 | (size & 15) as u8;
    let mut rest = size >> 4;
    while rest > 0 {
        bytes.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    bytes.push(byte);
}

#[cfg(test)]
mod tests {
    use super::super::tests::open_pack;
    use super::super::{Commit, PackLimits};
    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, FileEdit> {
        let entry = |(path, text): &(&str, &str)| ((*path).to_owned(), FileEdit::write(*text));
        list.iter().map(entry).collect()
    }

    #[test]
    fn trees_and_packs_are_read_back() {
        let budget = Budget::unlimited();
        let mut writer = TreeWriter::new(None, &budget);
        let all = files(&[("a/b/c.yaml", "x: 1\n"), ("a.yaml", "y: 2\n"), ("a-b", "")]);
        let root = writer.edit(None, &all).unwrap();
        let objects = writer.into_objects();
        let bytes = pack(&objects, &budget).unwrap();
        let mut opened = open_pack(&bytes, PackLimits::default()).unwrap();
        let content = opened.read(root, Kind::Tree, &budget).unwrap();
        // Git's order: the directory `a` counts as `a/`, behind `a-b` and `a.yaml`.
        let names: Vec<&[u8]> = content
            .split(|byte| *byte == b' ')
            .skip(1)
            .map(|rest| rest.split(|byte| *byte == 0).next().unwrap())
            .collect();
        assert_eq!(names, [&b"a-b"[..], b"a.yaml", b"a"]);
        // The same files again make the same tree and nothing new.
        let mut writer = TreeWriter::new(Some(&mut opened), &budget);
        assert_eq!(writer.edit(Some(root), &all).unwrap(), root);
        assert!(writer.into_objects().is_empty());
    }

    #[test]
    fn paths_through_files_are_refused_and_kept_files_stay() {
        let budget = Budget::unlimited();
        let mut writer = TreeWriter::new(None, &budget);
        let root = writer.edit(None, &files(&[("a/b", "1"), ("k", "kept")]));
        let root = root.unwrap();
        let bytes = pack(&writer.into_objects(), &budget).unwrap();
        let mut opened = open_pack(&bytes, PackLimits::default()).unwrap();
        for path in ["a", "a/b/c", "../x", "a//b", ".git/config"] {
            let mut writer = TreeWriter::new(Some(&mut opened), &budget);
            let error = writer.edit(Some(root), &files(&[(path, "2")]));
            assert!(error.is_err(), "{path}");
        }
        let mut writer = TreeWriter::new(Some(&mut opened), &budget);
        let keep = BTreeMap::from([("k".to_owned(), FileEdit::create("other"))]);
        assert_eq!(writer.edit(Some(root), &keep).unwrap(), root);
    }

    #[test]
    fn commits_are_read_back() {
        let tree = ObjectId::of(Kind::Tree, b"").unwrap();
        let author = Person {
            name: "A <B>\n".to_owned(),
            email: "a@example.com".to_owned(),
            seconds: 7,
        };
        let content = encode_commit(tree, Some(tree), &author, "Add\n\nmore\n");
        let armour = "-----BEGIN SSH SIGNATURE-----\nabc\n-----END SSH SIGNATURE-----\n";
        let signed = with_signature(&content, armour);
        let id = ObjectId::of(Kind::Commit, &signed).unwrap();
        let commit = Commit::parse(id, &signed).unwrap();
        assert_eq!((commit.author.name.as_str(), commit.tree), ("A B", tree));
        assert_eq!(commit.message, "Add\n\nmore\n");
        assert_eq!(
            (commit.signature.as_str(), commit.signed),
            (armour, content)
        );
    }
}
