//! A repository on this machine, read without the program `git`: its names, commits and files.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use everflow_env::Disk;
use everflow_env::disk::{EntryKind, read_all};
use everflow_limits::{Budget, at_most};
use flate2::read::ZlibDecoder;

use super::checkout::{MOST_PATHS, PATHS_FLAG};
use super::object::{Commit, Kind, Mode, ObjectId, Tag, parse_tree};
use super::pack::{Pack, PackLimits};
use super::pack_index;
use crate::Error;

/// The largest object that is read.
const LARGEST: u64 = 256 << 20;
/// The largest file of names.
const LARGEST_LIST: u64 = 16 << 20;
/// How many tags may stand on each other, and how deep trees may be.
const DEEPEST: usize = 64;

/// Takes the path and the content of a file.
type Take<'t> = dyn FnMut(&str, &[u8]) -> Result<(), Error> + 't;

/// The directory `.git` of a repository.
#[derive(Debug)]
pub struct LocalRepository {
    /// Names and objects.
    common: Arc<dyn Disk>,
    /// `HEAD` of this work tree; the same disk unless there are several work trees.
    own: Arc<dyn Disk>,
    /// Packs that were opened so far.
    packs: BTreeMap<String, Pack>,
    /// Whoever reads their own repository waits for as long as they like.
    budget: Budget,
}

impl LocalRepository {
    /// A repository whose objects lie on `common` and whose `HEAD` lies on `own`.
    pub fn new(common: Arc<dyn Disk>, own: Arc<dyn Disk>) -> Self {
        LocalRepository {
            common,
            own,
            packs: BTreeMap::new(),
            budget: Budget::unlimited(),
        }
    }

    /// The commit that a text stands for: a branch, a tag, a remote branch, `HEAD`, an id or the
    /// start of one, with `~N` and `^N` behind it.
    pub fn commit(&mut self, text: &str) -> Result<ObjectId, Error> {
        let at = text.find(['~', '^']).unwrap_or(text.len());
        let (name, mut steps) = text.split_at(at);
        let unknown = || {
            Error::Protocol(format!(
                "{text:?} is no branch, tag or commit of the repository"
            ))
        };
        let id = match self.name(name) {
            Some(id) => id,
            None => self.abbreviated(name)?.ok_or_else(unknown)?,
        };
        let mut id = self.peel(id)?;
        while !steps.is_empty() {
            let (step, rest) = steps.split_at_checked(1).ok_or_else(unknown)?;
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            let number = rest[..digits].parse().unwrap_or(1_usize);
            steps = &rest[digits..];
            id = match step {
                "~" => (0..number).try_fold(id, |id, _| self.parent(id, 1))?,
                "^" if number == 0 => id,
                "^" => self.parent(id, number)?,
                _ => return Err(unknown()),
            };
        }
        Ok(id)
    }

    /// What a name stands for.
    fn name(&self, name: &str) -> Option<ObjectId> {
        if name == "HEAD" || name == "@" {
            return self.symbolic(&*self.own, "HEAD", 0);
        }
        let places = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
        places.iter().find_map(|place| {
            let path = format!("{place}{name}");
            path.starts_with("refs/")
                .then(|| self.symbolic(&*self.common, &path, 0))?
        })
    }

    fn symbolic(&self, disk: &dyn Disk, path: &str, depth: usize) -> Option<ObjectId> {
        let text = match read_all(disk, path, 4_096) {
            Ok(bytes) => String::from_utf8(bytes).ok()?,
            Err(_) => return self.packed(path),
        };
        match text.trim().strip_prefix("ref:") {
            Some(_) if depth > 8 => None,
            Some(target) => self.symbolic(&*self.common, target.trim(), depth + 1),
            None => ObjectId::parse(text.trim()),
        }
    }

    /// A name in the file of packed names.
    fn packed(&self, path: &str) -> Option<ObjectId> {
        let bytes = read_all(&*self.common, "packed-refs", LARGEST_LIST).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        text.lines().find_map(|line| {
            let (id, name) = line.split_once(' ')?;
            (name == path).then(|| ObjectId::parse(id))?
        })
    }

    /// The one object whose id begins so.
    fn abbreviated(&mut self, start: &str) -> Result<Option<ObjectId>, Error> {
        if let Some(id) = ObjectId::parse(start) {
            return Ok(Some(id));
        }
        let is_start =
            (4..40).contains(&start.len()) && start.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_start {
            return Ok(None);
        }
        let start = start.to_lowercase();
        let mut found = Vec::new();
        let directory = format!("objects/{}", &start[..2]);
        for entry in self.common.list(&directory).unwrap_or_default() {
            found.extend(ObjectId::parse(&format!("{}{}", &start[..2], entry.name)));
        }
        self.open_packs()?;
        for pack in self.packs.values() {
            found.extend(pack.ids());
        }
        found.retain(|id| id.to_string().starts_with(&start));
        found.sort_unstable_by_key(|id| id.0);
        found.dedup();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(Error::Protocol(format!(
                "{start} is the start of several objects; write more of the id"
            ))),
        }
    }

    /// The commit behind annotated tags.
    fn peel(&mut self, mut id: ObjectId) -> Result<ObjectId, Error> {
        for _ in 0..DEEPEST {
            let (kind, content) = self.object(id)?;
            match kind {
                Kind::Commit => return Ok(id),
                Kind::Tag => id = Tag::parse(id, &content)?.target,
                Kind::Tree | Kind::Blob => break,
            }
        }
        Err(Error::Protocol(format!("{id} is no commit")))
    }

    fn parent(&mut self, id: ObjectId, number: usize) -> Result<ObjectId, Error> {
        let (_, content) = self.object(id)?;
        let text = String::from_utf8_lossy(&content);
        let head = text.split("\n\n").next().unwrap_or_default();
        let mut parents = head.lines().filter_map(|line| line.strip_prefix("parent "));
        parents
            .nth(number.saturating_sub(1))
            .and_then(ObjectId::parse)
            .ok_or_else(|| Error::Protocol(format!("the commit {id} has no parent {number}")))
    }

    /// The files of a commit below a directory, with paths relative to it; links and other
    /// repositories are left out.
    pub fn files(
        &mut self,
        commit: ObjectId,
        below: &str,
        mut take: impl FnMut(&str, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (_, content) = self.object(commit)?;
        let mut tree = Commit::parse(commit, &content)?.tree;
        for part in below.split('/').filter(|part| !part.is_empty()) {
            let (_, content) = self.object(tree)?;
            let entries = parse_tree(tree, &content)?;
            let entry = entries
                .into_iter()
                .find(|entry| entry.name == part.as_bytes() && entry.mode == Mode::Directory);
            tree = entry
                .ok_or_else(|| {
                    Error::Protocol(format!(
                        "there is no directory {below} in the commit {commit}"
                    ))
                })?
                .id;
        }
        let mut paths = 0;
        self.walk(tree, "", 0, &mut paths, &mut take)
    }

    fn walk(
        &mut self,
        tree: ObjectId,
        at: &str,
        depth: usize,
        paths: &mut u64,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::Protocol(format!(
                "the directories at {at} nest too deep"
            )));
        }
        let (_, content) = self.object(tree)?;
        let entries = parse_tree(tree, &content)?;
        *paths = paths.saturating_add(entries.len() as u64);
        at_most(*paths, MOST_PATHS, "paths in one commit", PATHS_FLAG)?;
        for entry in entries {
            let name = String::from_utf8_lossy(&entry.name);
            let path = match at.is_empty() {
                true => name.into_owned(),
                false => format!("{at}/{name}"),
            };
            match entry.mode {
                Mode::Directory => self.walk(entry.id, &path, depth + 1, paths, take)?,
                Mode::File | Mode::Executable => take(&path, &self.object(entry.id)?.1)?,
                Mode::Link | Mode::Submodule => {}
            }
        }
        Ok(())
    }

    /// An object, from a file of its own or from a pack.
    fn object(&mut self, id: ObjectId) -> Result<(Kind, Vec<u8>), Error> {
        if let Some(loose) = self.loose(id)? {
            return Ok(loose);
        }
        self.open_packs()?;
        for pack in self.packs.values_mut() {
            if let Some((kind, content)) = pack.object(id, &self.budget)? {
                return Ok((kind, content.to_vec()));
            }
        }
        Err(Error::Protocol(format!(
            "the object {id} is not in the repository; a shallow or partial clone does not have all"
        )))
    }

    fn loose(&self, id: ObjectId) -> Result<Option<(Kind, Vec<u8>)>, Error> {
        let hex = id.to_string();
        let path = format!("objects/{}/{}", &hex[..2], &hex[2..]);
        let Ok(file) = self.common.open(&path) else {
            return Ok(None);
        };
        let mut content = Vec::new();
        ZlibDecoder::new(file)
            .take(LARGEST)
            .read_to_end(&mut content)
            .map_err(|error| Error::disk("read", &path, error))?;
        let broken = || Error::Protocol(format!("the object {id} is malformed"));
        let end = content
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(broken)?;
        let head = String::from_utf8_lossy(&content[..end]).into_owned();
        let kinds = [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag];
        let kind = head.split_once(' ').map_or("", |(kind, _)| kind);
        let kind = kinds.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or_else(broken)?;
        content.drain(..=end);
        if ObjectId::of(kind, &content)? != id {
            return Err(broken());
        }
        Ok(Some((kind, content)))
    }

    /// A pack by its index, or without one by going through it.
    fn open_pack(&self, path: &str) -> Result<Pack, Error> {
        let (disk, limits) = (self.common.clone(), PackLimits::default());
        let index = path.strip_suffix(".pack").unwrap_or(path);
        match read_all(&*disk, &format!("{index}.idx"), LARGEST) {
            Ok(index) if index.starts_with(&pack_index::MAGIC) => {
                Pack::indexed(disk, path, &index, limits)
            }
            _ => Pack::open(disk, path, limits, &self.budget),
        }
    }

    fn open_packs(&mut self) -> Result<(), Error> {
        let listed = self.common.list("objects/pack").unwrap_or_default();
        for entry in listed {
            let is_pack = entry.kind == EntryKind::File && entry.name.ends_with(".pack");
            let path = format!("objects/pack/{}", entry.name);
            if is_pack && !self.packs.contains_key(&path) {
                let pack = self.open_pack(&path)?;
                self.packs.insert(path, pack);
            }
        }
        Ok(())
    }
}
