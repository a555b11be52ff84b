//! Content of other artifacts inside an archive.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use everflow_env::Disk;
use everflow_limits::{Budget, at_most};

use super::checkout::{PATHS_FLAG, Visit, Visitor};
use crate::Error;
use everflow_fetch::Error as Fetch;
use everflow_fetch::archive::unpack::copy_content;
use everflow_fetch::archive::{Budgeted, Item, Limits, Links, read_archive};

/// An artifact of another source that is put into this one's archive.
#[derive(Debug, Clone)]
pub struct Include {
    /// The artifact's file on the disk.
    pub artifact: String,
    /// What of it is taken; all when empty.
    pub from_path: String,
    /// Where it is put.
    pub to_path: String,
}

/// A path made plain; leading, trailing and odd parts fall away.
fn plain(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "." | ".."))
        .collect();
    parts.join("/")
}

enum Node {
    Directory,
    File {
        executable: bool,
        size: u64,
        /// Where the content lies on the disk.
        content: String,
    },
}

/// Paths compare part by part, as a walk through directories meets them.
fn walk_order(one: &[u8], two: &[u8]) -> Ordering {
    one.split(|byte| *byte == b'/')
        .cmp(two.split(|byte| *byte == b'/'))
}

/// What is included, in the order of a walk.
pub(super) struct Included {
    nodes: Vec<(String, Node)>,
    disk: Arc<dyn Disk>,
}

impl Included {
    /// Unpacks the artifacts below a directory.
    pub(super) fn unpack(
        disk: &Arc<dyn Disk>,
        includes: &[Include],
        directory: &str,
        limits: Limits,
        budget: &Budget,
    ) -> Result<Self, Error> {
        let mut unpacking = Unpacking {
            disk: &**disk,
            directory,
            limits,
            budget,
            all: BTreeMap::new(),
            places: 0,
        };
        if !includes.is_empty() {
            disk.create_dir(directory)
                .map_err(|error| Error::disk("create", directory, error))?;
        }
        for include in includes {
            unpacking.one(include)?;
        }
        let mut nodes: Vec<(String, Node)> = unpacking.all.into_iter().collect();
        nodes.sort_by(|one, two| walk_order(one.0.as_bytes(), two.0.as_bytes()));
        Ok(Included {
            nodes,
            disk: disk.clone(),
        })
    }

    /// How many files and directories there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// What a file or directory takes in memory beside its name, in bytes.
const NODE_WEIGHT: usize = 160;

/// Artifacts on their way to the disk; their limits hold for all of them together.
struct Unpacking<'a> {
    disk: &'a dyn Disk,
    directory: &'a str,
    limits: Limits,
    budget: &'a Budget,
    all: BTreeMap<String, Node>,
    /// How many files were written.
    places: usize,
}

impl Unpacking<'_> {
    fn directory(&mut self, path: &str) -> Result<(), Fetch> {
        if !self.all.contains_key(path) {
            self.insert(path.to_owned(), Node::Directory)?;
        }
        Ok(())
    }

    fn insert(&mut self, path: String, node: Node) -> Result<(), Fetch> {
        self.budget.charge(path.len() + NODE_WEIGHT)?;
        self.all.insert(path, node);
        let (count, limit) = (self.all.len() as u64, self.limits.entries.most);
        at_most(count, limit, "paths in included artifacts", PATHS_FLAG)?;
        Ok(())
    }

    fn file(
        &mut self,
        target: String,
        executable: bool,
        size: u64,
        content: &mut dyn io::Read,
    ) -> Result<(), Fetch> {
        let whole = self.limits.total.most;
        self.limits.total.most = whole.checked_sub(size).ok_or_else(|| Fetch::TooLarge {
            what: format!("the included content at {target:?}"),
            limit: whole,
        })?;
        // Artifacts may replace files of others: no place is used twice.
        let place = format!("{}/{}", self.directory, self.places);
        self.places += 1;
        let file = self.disk.create(&place);
        let mut file = file.map_err(|error| Fetch::disk("write", &place, error))?;
        copy_content(content, &mut file, &place)?;
        let node = Node::File {
            executable,
            size,
            content: place.clone(),
        };
        self.insert(target, node)
    }

    fn one(&mut self, include: &Include) -> Result<(), Error> {
        let file = self
            .disk
            .open(&include.artifact)
            .map_err(|error| Error::disk("open", &include.artifact, error))?;
        let (from, to) = (plain(&include.from_path), plain(&include.to_path));
        let mut found = from.is_empty();
        for (at, _) in to.match_indices('/') {
            self.directory(&to[..at])?;
        }
        if !to.is_empty() {
            self.directory(&to)?;
        }
        let limits = self.limits;
        read_archive(file, limits, Links::Skip, self.budget, &mut |path, item| {
            let inside = match (path.strip_prefix(from.as_str()), from.is_empty()) {
                (_, true) => path,
                (Some(""), false) => "",
                (Some(rest), false) if rest.starts_with('/') => &rest[1..],
                _ => return Ok(()),
            };
            found = true;
            let target = match (to.is_empty(), inside.is_empty()) {
                (_, true) => to.clone(),
                (true, false) => inside.to_owned(),
                (false, false) => format!("{to}/{inside}"),
            };
            match item {
                Item::Directory if target.is_empty() => Ok(()),
                Item::Directory => self.directory(&target),
                Item::File {
                    executable,
                    size,
                    content,
                } => self.file(target, executable, size, content),
            }
        })?;
        match found {
            true => Ok(()),
            false => Err(Error::IncludeMissing(include.from_path.clone())),
        }
    }
}

/// A visitor that also gets what is included, each in its place; an included file replaces one
/// of the repository.
pub(super) struct Merging<'a> {
    inner: &'a mut dyn Visitor,
    waiting: VecDeque<&'a (String, Node)>,
    disk: &'a dyn Disk,
    budget: &'a Budget,
}

impl<'a> Merging<'a> {
    pub(super) fn new(
        inner: &'a mut dyn Visitor,
        included: &'a Included,
        budget: &'a Budget,
    ) -> Self {
        Merging {
            inner,
            waiting: included.nodes.iter().collect(),
            disk: &*included.disk,
            budget,
        }
    }

    /// Gives out what comes before a path, or all that is left.
    pub(super) fn flush(&mut self, before: Option<&[u8]>) -> Result<(), Error> {
        while let Some((path, node)) = self.waiting.front() {
            if before.is_some_and(|before| walk_order(path.as_bytes(), before).is_ge()) {
                return Ok(());
            }
            self.waiting.pop_front();
            self.give(path, node)?;
        }
        Ok(())
    }

    fn give(&mut self, path: &str, node: &Node) -> Result<(), Error> {
        self.budget.check()?;
        match node {
            Node::Directory => self.inner.visit(path.as_bytes(), Visit::Directory),
            Node::File {
                executable,
                size,
                content,
            } => {
                let file = self
                    .disk
                    .open(content)
                    .map_err(|error| Error::disk("open", content, error))?;
                let mut file = Budgeted::new(file, self.budget);
                let what = Visit::File {
                    executable: *executable,
                    size: *size,
                    content: &mut file,
                };
                let visited = self.inner.visit(path.as_bytes(), what);
                self.budget.check()?;
                visited
            }
        }
    }
}

impl Visitor for Merging<'_> {
    fn wants(&mut self, path: &[u8]) -> Result<bool, Error> {
        self.inner.wants(path)
    }

    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error> {
        self.flush(Some(path))?;
        match self.waiting.front() {
            Some((waiting, node)) if waiting.as_bytes() == path => {
                self.waiting.pop_front();
                self.give(waiting, node)
            }
            _ => self.inner.visit(path, what),
        }
    }
}
