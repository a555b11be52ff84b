//! Git repositories in memory, and a server of them: protocol version 2, packs without deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use everflow_fetch::git::{Kind, ObjectId};
use serde_json::{Map, Value};
use sha1::{Digest as _, Sha1};

use super::net::{Answer, Asked};

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum File {
    Plain(Vec<u8>),
    Executable(Vec<u8>),
    Link(String),
    Module(ObjectId),
}

type Files = BTreeMap<String, File>;

/// A repository, with the files of its work tree.
#[derive(Debug, Default)]
pub struct Repository {
    objects: BTreeMap<ObjectId, (Kind, Vec<u8>)>,
    refs: BTreeMap<String, ObjectId>,
    branch: String,
    files: Files,
    trees: BTreeMap<ObjectId, Files>,
    parents: BTreeMap<ObjectId, Option<ObjectId>>,
    /// All commits in the order they were made.
    pub commits: Vec<ObjectId>,
}

impl Repository {
    pub fn new() -> Self {
        Repository {
            branch: "main".to_owned(),
            ..Repository::default()
        }
    }

    fn put(&mut self, kind: Kind, content: Vec<u8>) -> ObjectId {
        let id = ObjectId::of(kind, &content);
        self.objects.insert(id, (kind, content));
        id
    }

    fn head(&self) -> Option<ObjectId> {
        self.refs
            .get(&format!("refs/heads/{}", self.branch))
            .copied()
    }

    /// Changes the work tree; `null` removes.
    pub fn write(&mut self, files: &Map<String, Value>) {
        for (path, content) in files {
            let file = match content {
                Value::Null => {
                    self.files.remove(path);
                    continue;
                }
                Value::String(text) => File::Plain(text.clone().into_bytes()),
                Value::Object(special) if special.contains_key("exec") => {
                    File::Executable(special["exec"].as_str().unwrap().as_bytes().to_vec())
                }
                Value::Object(special) => File::Link(special["link"].as_str().unwrap().to_owned()),
                other => panic!("{path}: {other}"),
            };
            self.files.insert(path.clone(), file);
        }
    }

    pub fn put_file(&mut self, path: &str, file: File) {
        self.files.insert(path.to_owned(), file);
    }

    fn tree(&mut self, files: &Files) -> ObjectId {
        let mut here: BTreeMap<String, (&'static str, ObjectId)> = BTreeMap::new();
        let mut below: BTreeMap<String, Files> = BTreeMap::new();
        for (path, file) in files {
            if let Some((directory, rest)) = path.split_once('/') {
                let inner = below.entry(directory.to_owned()).or_default();
                inner.insert(rest.to_owned(), file.clone());
                continue;
            }
            let (mode, id) = match file {
                File::Plain(content) => ("100644", self.put(Kind::Blob, content.clone())),
                File::Executable(content) => ("100755", self.put(Kind::Blob, content.clone())),
                File::Link(target) => ("120000", self.put(Kind::Blob, target.clone().into_bytes())),
                File::Module(id) => ("160000", *id),
            };
            here.insert(path.clone(), (mode, id));
        }
        for (directory, inner) in below {
            let id = self.tree(&inner);
            // Directories sort as if they ended with a slash.
            here.insert(format!("{directory}/"), ("40000", id));
        }
        let mut content = Vec::new();
        for (name, (mode, id)) in here {
            content
                .extend_from_slice(format!("{mode} {}\0", name.trim_end_matches('/')).as_bytes());
            content.extend_from_slice(&id.0);
        }
        self.put(Kind::Tree, content)
    }

    fn seconds(&self, number: usize) -> i64 {
        const FIRST_OF_2026: i64 = 1_767_225_600;
        FIRST_OF_2026 + 86_400 * (number.clamp(1, 9) as i64 - 1)
    }

    /// Commits the work tree to the branch.
    pub fn commit(&mut self, message: &str) {
        let parent = self.head();
        self.commit_on(message, parent);
    }

    fn commit_on(&mut self, message: &str, parent: Option<ObjectId>) {
        let files = self.files.clone();
        let tree = self.tree(&files);
        let when = self.seconds(self.commits.len() + 1);
        let person = format!("Dev <dev@example.com> {when} +0000");
        let parents = parent
            .map(|id| format!("parent {id}\n"))
            .unwrap_or_default();
        let content = format!(
            "tree {tree}\n{parents}author {person}\ncommitter {person}\n\n{}\n",
            message.trim_end()
        );
        let id = self.put(Kind::Commit, content.into_bytes());
        self.trees.insert(id, files);
        self.parents.insert(id, parent);
        self.refs.insert(format!("refs/heads/{}", self.branch), id);
        self.commits.push(id);
    }

    /// Replaces the newest commit of the branch.
    pub fn amend(&mut self, message: &str) {
        let parent = self.head().and_then(|head| self.parents[&head]);
        self.commit_on(message, parent);
    }

    pub fn checkout(&mut self, branch: &str) {
        self.branch = branch.to_owned();
        if let Some(head) = self.head() {
            self.files = self.trees[&head].clone();
        }
    }

    /// Makes and checks out a branch, from here, or checks out the one that is there.
    pub fn branch(&mut self, branch: &str) {
        let name = format!("refs/heads/{branch}");
        if let (false, Some(head)) = (self.refs.contains_key(&name), self.head()) {
            self.refs.insert(name, head);
        }
        self.checkout(branch);
    }

    pub fn delete_branch(&mut self, branch: &str) {
        self.refs.remove(&format!("refs/heads/{branch}"));
    }

    pub fn tag(&mut self, name: &str, annotated: bool) {
        let Some(head) = self.head() else { return };
        let target = match annotated {
            false => head,
            true => {
                let when = self.seconds(self.commits.len());
                let content = format!(
                    "object {head}\ntype commit\ntag {name}\n\
                     tagger Dev <dev@example.com> {when} +0000\n\ntag\n"
                );
                self.put(Kind::Tag, content.into_bytes())
            }
        };
        self.refs.insert(format!("refs/tags/{name}"), target);
    }

    /// A further commit as scenarios describe them.
    pub fn more(&mut self, step: &Value, files: &Value) {
        if let Some(branch) = step["branch"].as_str() {
            self.branch(branch);
        }
        if let Some(files) = files.as_object() {
            self.write(files);
            let usual = format!("commit {}", self.commits.len() + 1);
            self.commit(step["msg"].as_str().unwrap_or(&usual));
        }
        let tags = match &step["tag"] {
            Value::String(tag) => vec![tag.as_str()],
            Value::Array(tags) => tags.iter().map(|tag| tag.as_str().unwrap()).collect(),
            _ => Vec::new(),
        };
        for tag in tags {
            self.tag(tag, step["annotated"].as_bool().unwrap_or(false));
        }
    }

    fn peeled(&self, mut id: ObjectId) -> ObjectId {
        while let Some((Kind::Tag, content)) = self.objects.get(&id) {
            let line = std::str::from_utf8(content)
                .unwrap()
                .lines()
                .next()
                .unwrap();
            id = ObjectId::parse(line.strip_prefix("object ").unwrap()).unwrap();
        }
        id
    }

    fn list(&self, lines: &[String]) -> Vec<u8> {
        let prefixes: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("ref-prefix "))
            .collect();
        let mut out = Vec::new();
        let shown = |name: &str| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        if let Some(head) = self.refs.get("refs/heads/main").filter(|_| shown("HEAD")) {
            line(
                &mut out,
                format!("{head} HEAD symref-target:refs/heads/main\n").as_bytes(),
            );
        }
        for (name, id) in self.refs.iter().filter(|(name, _)| shown(name)) {
            let peeled = self.peeled(*id);
            let suffix = match peeled == *id {
                true => String::new(),
                false => format!(" peeled:{peeled}"),
            };
            line(&mut out, format!("{id} {name}{suffix}\n").as_bytes());
        }
        out.extend_from_slice(b"0000");
        out
    }

    fn reach(&self, id: ObjectId, shallow: bool, found: &mut BTreeSet<ObjectId>) {
        let Some((kind, content)) = self.objects.get(&id) else {
            return;
        };
        if !found.insert(id) {
            return;
        }
        let named = |key: &str| -> Vec<ObjectId> {
            let text = String::from_utf8_lossy(content);
            let lines = text.lines().take_while(|line| !line.is_empty());
            lines
                .filter_map(|line| ObjectId::parse(line.strip_prefix(key)?))
                .collect()
        };
        match kind {
            Kind::Blob => {}
            Kind::Tag => named("object ")
                .into_iter()
                .for_each(|id| self.reach(id, shallow, found)),
            Kind::Commit => {
                named("tree ")
                    .into_iter()
                    .for_each(|id| self.reach(id, shallow, found));
                if !shallow {
                    named("parent ")
                        .into_iter()
                        .for_each(|id| self.reach(id, shallow, found));
                }
            }
            Kind::Tree => {
                let mut rest = content.as_slice();
                while let Some(end) = rest.iter().position(|byte| *byte == 0) {
                    let id = ObjectId(rest[end + 1..end + 21].try_into().unwrap());
                    self.reach(id, shallow, found);
                    rest = &rest[end + 21..];
                }
            }
        }
    }

    fn fetch(&self, lines: &[String]) -> Vec<u8> {
        let wants: Vec<ObjectId> = lines
            .iter()
            .filter_map(|line| ObjectId::parse(line.strip_prefix("want ")?))
            .collect();
        let shallow = lines.iter().any(|line| line.starts_with("deepen "));
        let mut out = Vec::new();
        if let Some(unknown) = wants.iter().find(|id| !self.objects.contains_key(id)) {
            line(
                &mut out,
                format!("ERR upload-pack: not our ref {unknown}").as_bytes(),
            );
            return out;
        }
        let mut found = BTreeSet::new();
        for want in &wants {
            self.reach(*want, shallow, &mut found);
        }
        if shallow {
            line(&mut out, b"shallow-info\n");
            for want in &wants {
                let commit = self.peeled(*want);
                if self.parents.get(&commit).is_some_and(Option::is_some) {
                    line(&mut out, format!("shallow {commit}").as_bytes());
                }
            }
            out.extend_from_slice(b"0001");
        }
        line(&mut out, b"packfile\n");
        for piece in self.pack(&found).chunks(60_000) {
            let mut banded = vec![1];
            banded.extend_from_slice(piece);
            line(&mut out, &banded);
        }
        out.extend_from_slice(b"0000");
        out
    }

    fn pack(&self, ids: &BTreeSet<ObjectId>) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend_from_slice(&(ids.len() as u32).to_be_bytes());
        for id in ids {
            let (kind, content) = &self.objects[id];
            let number = match kind {
                Kind::Commit => 1,
                Kind::Tree => 2,
                Kind::Blob => 3,
                Kind::Tag => 4,
            };
            let mut size = content.len();
            let mut byte = (number << 4) | (size & 15) as u8;
            size >>= 4;
            while size > 0 {
                pack.push(byte | 0x80);
                byte = (size & 0x7f) as u8;
                size >>= 7;
            }
            pack.push(byte);
            let mut encoder =
                flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap();
        }
        let sum = Sha1::digest(&pack);
        pack.extend_from_slice(&sum);
        pack
    }
}

fn line(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("{:04x}", content.len() + 4).as_bytes());
    out.extend_from_slice(content);
}

/// The lines of a request.
fn lines(mut body: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while body.len() >= 4 {
        let length = usize::from_str_radix(std::str::from_utf8(&body[..4]).unwrap(), 16).unwrap();
        let length = length.max(4);
        let text = String::from_utf8_lossy(&body[4..length])
            .trim_end()
            .to_owned();
        if !text.is_empty() {
            lines.push(text);
        }
        body = &body[length..];
    }
    lines
}

/// What a server of the second version of the protocol says first.
pub fn advertisement() -> Vec<u8> {
    let mut out = Vec::new();
    for text in [
        "version 2\n",
        "agent=git/test\n",
        "ls-refs=unborn\n",
        "fetch=shallow\n",
        "object-format=sha1\n",
    ] {
        line(&mut out, text.as_bytes());
    }
    out.extend_from_slice(b"0000");
    out
}

/// The answer to one command.
pub fn command(repository: &Repository, body: &[u8]) -> Vec<u8> {
    let lines = lines(body);
    match lines.iter().any(|line| line == "command=ls-refs") {
        true => repository.list(&lines),
        false => repository.fetch(&lines),
    }
}

/// Ways in which a server lies about a pack, by the first part of the path.
fn spoiled(how: &str, out: Vec<u8>) -> Answer {
    const MEDIA: &str = "application/x-git-upload-pack-result";
    let start = out.windows(4).position(|four| four == b"PACK");
    let Some(start) = start else {
        return Answer::new(200, MEDIA, out);
    };
    let mut out = out;
    match how {
        "stall" => {
            let sent = start + 40;
            return Answer::HangAfter { body: out, sent };
        }
        // The end of the pack is missing, and the stream ends in good order.
        "short" => {
            let kept = start + 30;
            out.truncate(kept);
            let length = format!("{:04x}", kept - (start - 5));
            out[start - 5..start - 1].copy_from_slice(length.as_bytes());
            out.extend_from_slice(b"0000");
        }
        // One byte of an object is another.
        "flip" => out[start + 20] ^= 0x55,
        // It promises more objects than there are.
        "count" => out[start + 8..start + 12].copy_from_slice(&u32::MAX.to_be_bytes()),
        "version" => out[start + 7] = 9,
        // The first object claims to be larger than any disk.
        "size" => out[start + 12..start + 22].copy_from_slice(&[0xff; 10]),
        other => panic!("there is no way {other} to spoil a pack"),
    }
    Answer::new(200, MEDIA, out)
}

/// Answers as a git server with these repositories, and with the quirks of the recording's.
pub fn answer(repositories: &BTreeMap<String, Repository>, asked: &Asked) -> Answer {
    let (path, _) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    if path.starts_with("/hang/") {
        return Answer::Hang;
    }
    if path.starts_with("/forbid/") {
        return Answer::status(403);
    }
    if path.starts_with("/err/") {
        return Answer::status(500);
    }
    let bearer = asked.header("authorization") == Some("Bearer tok");
    if path.starts_with("/auth/") && !asked.is_signed_in() && !bearer {
        return Answer::status(401);
    }
    let path = path.strip_prefix("/auth").unwrap_or(path);
    let (how, path) = match path.strip_prefix("/spoiled/") {
        Some(rest) => rest.split_once('/').unwrap(),
        None => ("", path),
    };
    let Some((name, rest)) = path.trim_start_matches('/').split_once(".git/") else {
        return Answer::status(404);
    };
    let Some(repository) = repositories.get(name) else {
        return Answer::status(404);
    };
    match rest {
        "info/refs" => {
            let mut out = Vec::new();
            line(&mut out, b"# service=git-upload-pack\n");
            out.extend_from_slice(b"0000");
            out.extend_from_slice(&advertisement());
            Answer::new(200, "application/x-git-upload-pack-advertisement", out)
        }
        "git-upload-pack" => {
            let out = command(repository, &asked.body);
            match how {
                "" => Answer::new(200, "application/x-git-upload-pack-result", out),
                how => spoiled(how, out),
            }
        }
        _ => Answer::status(404),
    }
}
