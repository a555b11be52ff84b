//! Content of other artifacts inside an archive.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use everflow_env::Disk;

use super::checkout::{Visit, Visitor};
use crate::Error;
use crate::archive::{Item, Links, UnpackLimits, read_archive};

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
        limits: UnpackLimits,
    ) -> Result<Self, Error> {
        let mut all: BTreeMap<String, Node> = BTreeMap::new();
        if !includes.is_empty() {
            disk.create_dir(directory)
                .map_err(|error| Error::disk("create", directory, error))?;
        }
        for include in includes {
            unpack_one(&**disk, include, directory, limits, &mut all)?;
        }
        let mut nodes: Vec<(String, Node)> = all.into_iter().collect();
        nodes.sort_by(|one, two| walk_order(one.0.as_bytes(), two.0.as_bytes()));
        Ok(Included {
            nodes,
            disk: disk.clone(),
        })
    }
}

fn unpack_one(
    disk: &dyn Disk,
    include: &Include,
    directory: &str,
    limits: UnpackLimits,
    all: &mut BTreeMap<String, Node>,
) -> Result<(), Error> {
    let file = disk
        .open(&include.artifact)
        .map_err(|error| Error::disk("open", &include.artifact, error))?;
    let (from, to) = (plain(&include.from_path), plain(&include.to_path));
    let mut found = from.is_empty();
    for (at, _) in to.match_indices('/') {
        all.entry(to[..at].to_owned()).or_insert(Node::Directory);
    }
    if !to.is_empty() {
        all.entry(to.clone()).or_insert(Node::Directory);
    }
    read_archive(file, limits, Links::Skip, &mut |path, item| {
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
            Item::Directory if target.is_empty() => {}
            Item::Directory => {
                all.entry(target).or_insert(Node::Directory);
            }
            Item::File {
                executable,
                size,
                content,
            } => {
                let place = format!("{directory}/{}", all.len());
                let failed = |error| Error::disk("write", &place, error);
                let mut file = disk.create(&place).map_err(failed)?;
                io::copy(content, &mut file).map_err(failed)?;
                let node = Node::File {
                    executable,
                    size,
                    content: place.clone(),
                };
                all.insert(target, node);
            }
        }
        Ok(())
    })?;
    match found {
        true => Ok(()),
        false => Err(Error::IncludeMissing(include.from_path.clone())),
    }
}

/// A visitor that also gets what is included, each in its place; an included file replaces one
/// of the repository.
pub(super) struct Merging<'a> {
    inner: &'a mut dyn Visitor,
    waiting: VecDeque<&'a (String, Node)>,
    disk: &'a dyn Disk,
}

impl<'a> Merging<'a> {
    pub(super) fn new(inner: &'a mut dyn Visitor, included: &'a Included) -> Self {
        Merging {
            inner,
            waiting: included.nodes.iter().collect(),
            disk: &*included.disk,
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
        match node {
            Node::Directory => self.inner.visit(path.as_bytes(), Visit::Directory),
            Node::File {
                executable,
                size,
                content,
            } => {
                let mut file = self
                    .disk
                    .open(content)
                    .map_err(|error| Error::disk("open", content, error))?;
                let what = Visit::File {
                    executable: *executable,
                    size: *size,
                    content: &mut file,
                };
                self.inner.visit(path.as_bytes(), what)
            }
        }
    }
}

impl Visitor for Merging<'_> {
    fn wants(&mut self, path: &[u8]) -> bool {
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
