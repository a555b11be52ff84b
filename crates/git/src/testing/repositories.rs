//! Git repositories in memory, and a server of them: protocol version 2, packs without deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use everflow_env::{MemoryDialer, Stream};
use everflow_fetch::testing::{Reply, Seen, accept, converse_with};
use everflow_json::{Map, Value};
use sha1::{Digest as _, Sha1};

use crate::{Kind, ObjectId};

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum File {
    /// A file.
    Plain(Vec<u8>),
    /// A file that can be run.
    Executable(Vec<u8>),
    /// A link to another path.
    Link(String),
    /// A commit of another repository.
    Module(ObjectId),
}

type Files = BTreeMap<String, File>;

/// A repository, with the files of its work tree.
#[derive(Debug)]
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

impl Default for Repository {
    fn default() -> Self {
        Repository::new()
    }
}

impl Repository {
    /// An empty one, on the branch `main`.
    pub fn new() -> Self {
        Repository {
            objects: BTreeMap::new(),
            refs: BTreeMap::new(),
            branch: "main".to_owned(),
            files: Files::default(),
            trees: BTreeMap::new(),
            parents: BTreeMap::new(),
            commits: Vec::new(),
        }
    }

    fn put(&mut self, kind: Kind, content: Vec<u8>) -> ObjectId {
        let id = ObjectId::of(kind, &content).unwrap_or(ObjectId([0; 20]));
        self.objects.insert(id, (kind, content));
        id
    }

    fn head(&self) -> Option<ObjectId> {
        self.refs
            .get(&format!("refs/heads/{}", self.branch))
            .copied()
    }

    /// Changes the work tree: text is a file, `null` removes, `{exec: …}` and `{link: …}` are what they say. Anything else
    /// is written down as it is.
    pub fn write(&mut self, files: &Map) {
        for (path, content) in files {
            let file = match content {
                Value::Null => {
                    self.files.remove(path.as_str());
                    continue;
                }
                Value::String(text) => File::Plain(text.as_bytes().to_vec()),
                other => match (other["exec"].as_str(), other["link"].as_str()) {
                    (Some(text), _) => File::Executable(text.as_bytes().to_vec()),
                    (None, Some(target)) => File::Link(target.to_owned()),
                    (None, None) => File::Plain(other.to_string().into_bytes()),
                },
            };
            self.files.insert(path.to_string(), file);
        }
    }

    /// Puts a file into the work tree.
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
        let parent = self
            .head()
            .and_then(|head| self.parents.get(&head).copied().flatten());
        self.commit_on(message, parent);
    }

    /// Goes to a branch; its files become the work tree.
    pub fn checkout(&mut self, branch: &str) {
        self.branch = branch.to_owned();
        if let Some(head) = self.head() {
            self.files = self.trees.get(&head).cloned().unwrap_or_default();
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

    /// Removes a branch.
    pub fn delete_branch(&mut self, branch: &str) {
        self.refs.remove(&format!("refs/heads/{branch}"));
    }

    /// Moves the branch to a commit made before, as a forced push does, and forgets what only led away from it: nobody can
    /// fetch those commits any more.
    pub fn reset(&mut self, commit: usize) {
        let Some(target) = self.commits.get(commit).copied() else {
            return;
        };
        self.refs
            .insert(format!("refs/heads/{}", self.branch), target);
        self.files = self.trees.get(&target).cloned().unwrap_or_default();
        let mut reached = BTreeSet::new();
        for id in self.refs.values() {
            self.reach(*id, false, &mut reached);
        }
        self.objects.retain(|id, _| reached.contains(id));
    }

    /// Names the newest commit.
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
            Value::Array(tags) => tags.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        for tag in tags {
            self.tag(tag, step["annotated"].as_bool().unwrap_or(false));
        }
    }

    fn peeled(&self, mut id: ObjectId) -> ObjectId {
        while let Some((Kind::Tag, content)) = self.objects.get(&id) {
            let text = String::from_utf8_lossy(content);
            let target = text
                .lines()
                .next()
                .and_then(|line| ObjectId::parse(line.strip_prefix("object ")?));
            match target {
                Some(target) => id = target,
                None => break,
            }
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
                    let Some((id, after)) = rest[end + 1..].split_first_chunk::<20>() else {
                        break;
                    };
                    self.reach(ObjectId(*id), shallow, found);
                    rest = after;
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
            let Some((kind, content)) = self.objects.get(id) else {
                continue;
            };
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
            deflate_stored(&mut pack, content);
        }
        let sum = Sha1::digest(&pack);
        pack.extend_from_slice(&sum);
        pack
    }
}

/// Writes content in zlib's format without making it smaller: to set up an encoder would take longer than all the rest.
fn deflate_stored(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(&[0x78, 0x01]);
    let mut blocks = content.chunks(usize::from(u16::MAX)).peekable();
    if blocks.peek().is_none() {
        out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    // Adler's checksum.
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in content {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend_from_slice(&(high << 16 | low).to_be_bytes());
}

fn line(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("{:04x}", content.len() + 4).as_bytes());
    out.extend_from_slice(content);
}

/// The lines of a request.
fn lines(mut body: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while body.len() >= 4 {
        let digits = std::str::from_utf8(&body[..4]).unwrap_or_default();
        let length = usize::from_str_radix(digits, 16).unwrap_or(4);
        let length = length.clamp(4, body.len());
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

impl Repository {
    /// The answer to one command.
    pub fn command(&self, body: &[u8]) -> Vec<u8> {
        let lines = lines(body);
        match lines.iter().any(|line| line == "command=ls-refs") {
            true => self.list(&lines),
            false => self.fetch(&lines),
        }
    }

    /// Answers a request for `info/refs` or `git-upload-pack`: the media type and the body.
    fn answer(&self, what: &str, body: &[u8]) -> Option<(&'static str, Vec<u8>)> {
        match what {
            "info/refs" => {
                let mut out = Vec::new();
                line(&mut out, b"# service=git-upload-pack\n");
                out.extend_from_slice(b"0000");
                out.extend_from_slice(&advertisement());
                Some(("application/x-git-upload-pack-advertisement", out))
            }
            "git-upload-pack" => {
                let out = self.command(body);
                Some(("application/x-git-upload-pack-result", out))
            }
            _ => None,
        }
    }
}

/// Repositories in the same process, by name: `http://host/NAME.git`. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Repositories {
    all: Arc<Mutex<BTreeMap<String, Repository>>>,
}

impl Repositories {
    /// None yet.
    pub fn new() -> Self {
        Repositories::default()
    }

    /// Works on a repository, which is made when it is not there.
    pub fn with<T>(&self, name: &str, work: impl FnOnce(&mut Repository) -> T) -> T {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let repository = all.entry(name.to_owned()).or_default();
        work(repository)
    }

    /// Removes a repository.
    pub fn remove(&self, name: &str) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(name);
    }

    /// Answers plain HTTP at a host and port in memory.
    pub fn listen(&self, dialer: &MemoryDialer, host: &str, port: u16) {
        let own = self.clone();
        accept(dialer, host, port, move |stream| {
            let own = own.clone();
            async move { own.serve(stream).await }
        });
    }

    /// Answers on one connection.
    pub async fn serve(&self, stream: impl Stream) {
        converse_with(stream, |seen| self.answer(seen)).await;
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let target = seen.line().split(' ').nth(1).unwrap_or_default();
        let (path, _) = target.split_once('?').unwrap_or((target, ""));
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let found = path.trim_start_matches('/').split_once(".git/");
        let found = found.and_then(|(name, what)| Some((all.get(name)?, what)));
        match found.and_then(|(repository, what)| repository.answer(what, &seen.body)) {
            Some((media_type, body)) => Reply::new(200, body).with("Content-Type", media_type),
            None => Reply::new(404, "not found"),
        }
    }
}
