//! From a commit to an archive, without a work tree.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use super::include::{Include, Included, Merging};
use super::object::{Commit, Kind, Mode, ObjectId, Tag, parse_tree};
use super::pack::Pack;
use crate::Error;
use crate::archive::ignore::{IGNORE_FILE, read_patterns};
use crate::archive::{Algorithm, ArchiveWriter, Ignore, Pattern, Summary, UnpackLimits};
use crate::temporary::TemporaryDirectory;

/// A fetched commit with all that belongs to it.
#[derive(Debug)]
pub struct Checkout {
    /// The commit.
    pub commit: Commit,
    /// The annotated tag that led to it.
    pub tag: Option<Tag>,
    /// The full name that led to it; empty for a bare commit.
    pub reference: String,
    /// As `main@sha1:…`.
    pub revision: String,
    pub(crate) pack: Pack,
    pub(crate) submodules: BTreeMap<String, Module>,
    pub(crate) place: Arc<TemporaryDirectory>,
}

/// A submodule where it stands.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) checkout: Checkout,
}

/// How to make an archive of a commit.
#[derive(Debug, Clone)]
pub struct CheckoutOptions {
    /// Patterns beside those in `.sourceignore` files.
    pub ignore: Option<String>,
    /// Only these directories; all when empty.
    pub sparse: Vec<String>,
    /// The digest to compute.
    pub algorithm: Algorithm,
    /// Bytes of all files together.
    pub limit: u64,
    /// Content of other artifacts.
    pub includes: Vec<Include>,
}

impl Default for CheckoutOptions {
    /// Everything, SHA-256, up to 16 GiB.
    fn default() -> Self {
        CheckoutOptions {
            ignore: None,
            sparse: Vec::new(),
            algorithm: Algorithm::Sha256,
            limit: 16 << 30,
            includes: Vec::new(),
        }
    }
}

/// How deep directories may nest.
const DEEPEST: usize = 400;
/// The largest file of patterns or of submodules.
const LARGEST_LIST: u64 = 1 << 20;

/// What a walk comes by.
pub(super) enum Visit<'a> {
    Directory,
    File {
        executable: bool,
        size: u64,
        content: &'a mut dyn Read,
    },
    /// Something that is not archived but shows that its directory exists.
    Other,
}

/// Takes what a walk comes by; whether content is wanted is asked first.
pub(super) trait Visitor {
    fn wants(&mut self, path: &[u8]) -> bool;
    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error>;
}

impl Checkout {
    /// Writes the archive of the commit. This blocks for long.
    pub fn archive<W: Write>(
        &mut self,
        out: W,
        options: &CheckoutOptions,
    ) -> Result<(W, Summary), Error> {
        let sparse: Vec<String> = options
            .sparse
            .iter()
            .map(|path| path.trim_start_matches("./").to_owned())
            .collect();
        let mut collecting = Collecting {
            patterns: Vec::new(),
            missing: options.sparse.clone(),
        };
        let unpacked = format!("{}/include", self.place.path());
        let limits = UnpackLimits {
            total: options.limit,
            file: options.limit,
            ..UnpackLimits::default()
        };
        let included = Included::unpack(self.pack.disk(), &options.includes, &unpacked, limits)?;
        self.walk(&sparse, &included, &mut collecting)?;
        if let Some(path) = collecting.missing.first() {
            return Err(Error::SparseMissing(path.clone()));
        }
        let mut patterns = collecting.patterns;
        if let Some(text) = &options.ignore {
            patterns.extend(read_patterns(text, &[]));
        }
        let mut archiving = Archiving {
            writer: ArchiveWriter::new(out, options.algorithm, options.limit)?,
            ignore: Ignore::with_defaults(patterns),
        };
        self.walk(&sparse, &included, &mut archiving)?;
        archiving.writer.finish()
    }

    /// A file of the commit, when it is there and not too large.
    pub(crate) fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let tree = self.pack.read(self.commit.tree, Kind::Tree)?;
        let entries = parse_tree(self.commit.tree, &tree)?;
        let found = entries
            .iter()
            .find(|entry| entry.name == name.as_bytes() && entry.mode == Mode::File);
        match found {
            Some(entry) => read_list(&mut self.pack, entry.id),
            None => Ok(None),
        }
    }

    /// The commits that the tree names for submodules, by path.
    pub(crate) fn links(&mut self, paths: &[String]) -> Result<BTreeMap<String, ObjectId>, Error> {
        let mut links = BTreeMap::new();
        for path in paths {
            let mut tree = self.commit.tree;
            let parts: Vec<&str> = path.split('/').collect();
            for (at, part) in parts.iter().enumerate() {
                let content = self.pack.read(tree, Kind::Tree)?;
                let entries = parse_tree(tree, &content)?;
                let Some(entry) = entries
                    .into_iter()
                    .find(|entry| entry.name == part.as_bytes())
                else {
                    break;
                };
                match entry.mode {
                    Mode::Directory => tree = entry.id,
                    Mode::Submodule if at + 1 == parts.len() => {
                        links.insert(path.clone(), entry.id);
                    }
                    _ => break,
                }
            }
        }
        Ok(links)
    }

    fn walk(
        &mut self,
        sparse: &[String],
        included: &Included,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error> {
        let mut merging = Merging::new(visitor, included);
        let mut walk = Walk {
            sparse,
            visitor: &mut merging,
            waiting: Vec::new(),
        };
        walk.checkout(self, b"", None)?;
        merging.flush(None)
    }
}

fn read_list(pack: &mut Pack, id: ObjectId) -> Result<Option<Vec<u8>>, Error> {
    let (size, content) = pack.blob(id)?;
    if size > LARGEST_LIST {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    content
        .take(LARGEST_LIST)
        .read_to_end(&mut bytes)
        .map_err(Error::archive_io)?;
    Ok(Some(bytes))
}

struct Walk<'a> {
    sparse: &'a [String],
    visitor: &'a mut dyn Visitor,
    /// Directories that exist only when something in them does.
    waiting: Vec<Vec<u8>>,
}

impl Walk<'_> {
    fn checkout(
        &mut self,
        checkout: &mut Checkout,
        prefix: &[u8],
        git_file: Option<String>,
    ) -> Result<(), Error> {
        let Checkout {
            pack,
            submodules,
            commit,
            ..
        } = checkout;
        self.tree(pack, submodules, commit.tree, prefix, b"", git_file, 0)
    }

    /// `prefix` is where the repository stands, `below` the path inside it.
    #[allow(clippy::too_many_arguments)]
    fn tree(
        &mut self,
        pack: &mut Pack,
        submodules: &mut BTreeMap<String, Module>,
        id: ObjectId,
        prefix: &[u8],
        below: &[u8],
        mut git_file: Option<String>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::TooLarge {
                what: "the depth of directories".to_owned(),
                limit: DEEPEST as u64,
            });
        }
        let content = pack.read(id, Kind::Tree)?;
        for entry in parse_tree(id, &content)? {
            if git_file.is_some() && entry.name.as_slice() >= b".git".as_slice() {
                self.git_file(prefix, git_file.take())?;
            }
            let inside = join(below, &entry.name);
            let path = join(prefix, &inside);
            match entry.mode {
                Mode::Directory => {
                    self.directory(&path)?;
                    self.tree(pack, submodules, entry.id, prefix, &inside, None, depth + 1)?;
                    self.waiting.retain(|waiting| *waiting != path);
                }
                Mode::Submodule if self.included(&path) || !submodules.is_empty() => {
                    self.directory(&path)?;
                    let name = String::from_utf8_lossy(&inside).into_owned();
                    if self.included(&path) {
                        self.flush()?;
                    }
                    if let Some(module) = submodules.get_mut(&name) {
                        let ups = "../".repeat(path.split(|byte| *byte == b'/').count());
                        let text = format!("gitdir: {ups}.git/modules/{}\n", module.name);
                        self.checkout(&mut module.checkout, &path, Some(text))?;
                    }
                    self.waiting.retain(|waiting| *waiting != path);
                }
                Mode::Submodule => {}
                Mode::Link => {
                    if self.included(&path) {
                        self.flush()?;
                        self.visitor.visit(&path, Visit::Other)?;
                    }
                }
                Mode::File | Mode::Executable => {
                    if self.included(&path) {
                        self.flush()?;
                        let executable = entry.mode == Mode::Executable;
                        self.file(pack, entry.id, &path, executable)?;
                    }
                }
            }
        }
        self.git_file(prefix, git_file)
    }

    fn included(&self, path: &[u8]) -> bool {
        self.sparse.is_empty()
            || self
                .sparse
                .iter()
                .any(|wanted| path.starts_with(wanted.as_bytes()))
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), Error> {
        match self.sparse.is_empty() {
            true => self.visitor.visit(path, Visit::Directory),
            false => {
                self.waiting.push(path.to_vec());
                Ok(())
            }
        }
    }

    /// Something exists: so do the directories around it.
    fn flush(&mut self) -> Result<(), Error> {
        for path in std::mem::take(&mut self.waiting) {
            self.visitor.visit(&path, Visit::Directory)?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        pack: &mut Pack,
        id: ObjectId,
        path: &[u8],
        executable: bool,
    ) -> Result<(), Error> {
        if !self.visitor.wants(path) {
            return self.visitor.visit(path, Visit::Other);
        }
        let (size, mut content) = pack.blob(id)?;
        let what = Visit::File {
            executable,
            size,
            content: &mut *content,
        };
        self.visitor.visit(path, what)
    }

    /// The file that git leaves in a submodule.
    fn git_file(&mut self, prefix: &[u8], text: Option<String>) -> Result<(), Error> {
        let Some(text) = text else {
            return Ok(());
        };
        let path = join(prefix, b".git");
        if !self.included(&path) {
            return Ok(());
        }
        self.flush()?;
        let size = text.len() as u64;
        let what = Visit::File {
            executable: false,
            size,
            content: &mut Cursor::new(text),
        };
        self.visitor.visit(&path, what)
    }
}

fn join(one: &[u8], two: &[u8]) -> Vec<u8> {
    match one.is_empty() {
        true => two.to_vec(),
        false => [one, b"/", two].concat(),
    }
}

/// The first walk: patterns, and which of the wanted directories exist.
struct Collecting {
    patterns: Vec<Pattern>,
    missing: Vec<String>,
}

impl Visitor for Collecting {
    fn wants(&mut self, path: &[u8]) -> bool {
        path.rsplit(|byte| *byte == b'/').next() == Some(IGNORE_FILE.as_bytes())
    }

    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error> {
        if !self.missing.is_empty() {
            let path = String::from_utf8_lossy(path);
            self.missing
                .retain(|wanted| plain(wanted) != path && !plain(wanted).is_empty());
        }
        if let Visit::File { content, .. } = what
            && self.wants(path)
        {
            let mut bytes = Vec::new();
            content
                .take(LARGEST_LIST)
                .read_to_end(&mut bytes)
                .map_err(Error::archive_io)?;
            let path = String::from_utf8_lossy(path);
            let scope: Vec<String> = match path.rsplit_once('/') {
                Some((directory, _)) => directory.split('/').map(str::to_owned).collect(),
                None => Vec::new(),
            };
            let text = String::from_utf8_lossy(&bytes);
            self.patterns.extend(read_patterns(&text, &scope));
        }
        Ok(())
    }
}

/// A path as a user may write it, made plain.
fn plain(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "." | ".."))
        .collect();
    parts.join("/")
}

/// The second walk.
struct Archiving<W: Write> {
    writer: ArchiveWriter<W>,
    ignore: Ignore,
}

impl<W: Write> Visitor for Archiving<W> {
    fn wants(&mut self, path: &[u8]) -> bool {
        !self
            .ignore
            .leaves_out(&String::from_utf8_lossy(path), false)
    }

    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error> {
        match what {
            Visit::Directory => {
                match self.ignore.leaves_out(&String::from_utf8_lossy(path), true) {
                    true => Ok(()),
                    false => self.writer.directory(path),
                }
            }
            Visit::File {
                executable,
                size,
                content,
            } => match self.wants(path) {
                true => self.writer.file(path, executable, size, content),
                false => Ok(()),
            },
            Visit::Other => Ok(()),
        }
    }
}
