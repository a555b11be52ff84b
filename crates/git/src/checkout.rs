//! From a commit to an archive, without a work tree.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use everflow_limits::{Budget, Exceeded, at_most};

use super::include::{Include, Included, Merging};
use super::object::{Commit, Kind, Mode, ObjectId, Tag, parse_tree};
use super::pack::Pack;
use super::submodule::{self, Submodule};
use super::{MOST_MODULES, too_many_modules};
use crate::Error;
use everflow_fetch::TemporaryDirectory;
use everflow_fetch::archive::ignore::{IGNORE_FILE, read_patterns, read_patterns_within};
use everflow_fetch::archive::unpack::SIZE_FLAG;
use everflow_fetch::archive::{
    Algorithm, ArchiveWriter, Budgeted, Ignore, Limit, Limits, Pattern, Summary,
};

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
    /// How many files, directories and links may be gone through, those of submodules, of included
    /// artifacts and those that are left out too.
    pub paths: u64,
    /// Content of other artifacts.
    pub includes: Vec<Include>,
}

impl Default for CheckoutOptions {
    /// Everything, SHA-256, up to 16 GiB and a million paths.
    fn default() -> Self {
        CheckoutOptions {
            ignore: None,
            sparse: Vec::new(),
            algorithm: Algorithm::Sha256,
            limit: 16 << 30,
            paths: MOST_PATHS,
            includes: Vec::new(),
        }
    }
}

/// How deep directories may nest, those of submodules below those around them.
const DEEPEST: usize = 400;
/// How many paths a commit may have. The largest public repositories (Chromium, Gecko) have less than
/// half of it, the Linux kernel a tenth.
pub(crate) const MOST_PATHS: u64 = 1_000_000;
/// The option that sets how many paths a commit may have.
pub(crate) const PATHS_FLAG: &str = "--max-git-paths";
/// How long paths may be on average, where there are as many as may be.
const USUAL_PATH: u64 = 256;
/// The longest path that a file system would take.
const LONGEST_PATH: usize = 4_096;
/// What an entry of a directory takes in memory beside its name, in bytes.
const ENTRY_WEIGHT: usize = 96;
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
    fn wants(&mut self, path: &[u8]) -> Result<bool, Error>;
    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error>;
}

impl Checkout {
    /// Writes the archive of the commit. This blocks for long.
    pub fn archive<W: Write>(
        &mut self,
        out: W,
        options: &CheckoutOptions,
        budget: &Budget,
    ) -> Result<(W, Summary), Error> {
        budget.charge(self.weight())?;
        let sparse: Vec<String> = options
            .sparse
            .iter()
            .map(|path| path.trim_start_matches("./").to_owned())
            .collect();
        let mut collecting = Collecting {
            patterns: Vec::new(),
            missing: options.sparse.clone(),
            budget,
        };
        let unpacked = format!("{}/include", self.place.path());
        let limits = Limits::new(
            Limit::new(options.limit, SIZE_FLAG),
            Limit::new(options.paths, PATHS_FLAG),
        );
        let disk = self.pack.disk();
        let included = Included::unpack(disk, &options.includes, &unpacked, limits, budget)?;
        let paths = Paths {
            count: included.len() as u64,
            bytes: 0,
            limit: options.paths,
        };
        self.walk(&sparse, &included, paths, &mut collecting, budget)?;
        if let Some(path) = collecting.missing.first() {
            return Err(Error::SparseMissing(path.clone()));
        }
        let mut patterns = collecting.patterns;
        if let Some(text) = &options.ignore {
            patterns.extend(read_patterns(text, &[]));
        }
        let mut archiving = Archiving {
            writer: ArchiveWriter::new(out, options.algorithm, limits.total)?,
            ignore: Ignore::with_defaults(patterns),
            budget,
        };
        self.walk(&sparse, &included, paths, &mut archiving, budget)?;
        Ok(archiving.writer.finish()?)
    }

    /// What it takes in memory with its submodules, in bytes.
    fn weight(&self) -> usize {
        let modules = self.submodules.values();
        let inner: usize = modules.map(|module| module.checkout.weight()).sum();
        self.pack.weight().saturating_add(inner)
    }

    /// The submodules that `.gitmodules` and the tree both name, with their commits.
    pub(crate) fn modules(&mut self, budget: &Budget) -> Result<Vec<(Submodule, ObjectId)>, Error> {
        let Some(text) = self.file(".gitmodules", budget)? else {
            return Ok(Vec::new());
        };
        let modules = submodule::parse(&String::from_utf8_lossy(&text));
        if modules.len() as u64 > MOST_MODULES {
            return Err(too_many_modules());
        }
        let paths: Vec<String> = modules.iter().map(|module| module.path.clone()).collect();
        let links = self.links(&paths, budget)?;
        self.pack.forget();
        let linked = modules.into_iter().filter_map(|module| {
            let commit = *links.get(&module.path)?;
            Some((module, commit))
        });
        Ok(linked.collect())
    }

    /// A file of the commit, when it is there and not too large.
    fn file(&mut self, name: &str, budget: &Budget) -> Result<Option<Vec<u8>>, Error> {
        let tree = self.pack.read(self.commit.tree, Kind::Tree, budget)?;
        let entries = parse_tree(self.commit.tree, &tree)?;
        let found = entries
            .iter()
            .find(|entry| entry.name == name.as_bytes() && entry.mode == Mode::File);
        match found {
            Some(entry) => read_list(&mut self.pack, entry.id, budget),
            None => Ok(None),
        }
    }

    /// The commits that the tree names for submodules, by path.
    fn links(
        &mut self,
        paths: &[String],
        budget: &Budget,
    ) -> Result<BTreeMap<String, ObjectId>, Error> {
        let mut links = BTreeMap::new();
        for path in paths {
            let mut tree = self.commit.tree;
            let parts: Vec<&str> = path.split('/').collect();
            for (at, part) in parts.iter().enumerate() {
                let content = self.pack.read(tree, Kind::Tree, budget)?;
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
        paths: Paths,
        visitor: &mut dyn Visitor,
        budget: &Budget,
    ) -> Result<(), Error> {
        let mut merging = Merging::new(visitor, included, budget);
        let mut walk = Walk {
            sparse,
            visitor: &mut merging,
            waiting: Vec::new(),
            paths,
            depth: 0,
            budget,
        };
        walk.checkout(self, b"", None)?;
        merging.flush(None)
    }
}

fn read_list(pack: &mut Pack, id: ObjectId, budget: &Budget) -> Result<Option<Vec<u8>>, Error> {
    let (size, content) = pack.blob(id, budget)?;
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

/// What a walk has gone through: the same tree may stand at any number of places, and each counts.
#[derive(Clone, Copy)]
struct Paths {
    count: u64,
    bytes: u64,
    limit: u64,
}

impl Paths {
    fn add(&mut self, count: usize) -> Result<(), Exceeded> {
        self.count = self.count.saturating_add(count as u64);
        at_most(self.count, self.limit, "paths in one commit", PATHS_FLAG)
    }

    fn path(&mut self, path: &[u8]) -> Result<(), Error> {
        if path.len() > LONGEST_PATH {
            let start = String::from_utf8_lossy(&path[..80]);
            return Err(Error::TooLarge {
                what: format!("the path that begins with {start:?}"),
                limit: LONGEST_PATH as u64,
            });
        }
        self.bytes = self.bytes.saturating_add(path.len() as u64);
        let limit = self.limit.saturating_mul(USUAL_PATH);
        at_most(
            self.bytes,
            limit,
            "bytes of paths in one commit",
            PATHS_FLAG,
        )?;
        Ok(())
    }
}

struct Walk<'a> {
    sparse: &'a [String],
    visitor: &'a mut dyn Visitor,
    /// Directories that exist only when something in them does.
    waiting: Vec<Vec<u8>>,
    paths: Paths,
    depth: usize,
    budget: &'a Budget,
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
        let done = self.tree(pack, submodules, commit.tree, prefix, b"", git_file);
        pack.forget();
        done
    }

    /// `prefix` is where the repository stands, `below` the path inside it.
    fn tree(
        &mut self,
        pack: &mut Pack,
        submodules: &mut BTreeMap<String, Module>,
        id: ObjectId,
        prefix: &[u8],
        below: &[u8],
        mut git_file: Option<String>,
    ) -> Result<(), Error> {
        if self.depth > DEEPEST {
            return Err(Error::TooLarge {
                what: "the depth of directories".to_owned(),
                limit: DEEPEST as u64,
            });
        }
        self.depth += 1;
        let entries = {
            let content = pack.read(id, Kind::Tree, self.budget)?;
            parse_tree(id, &content)?
        };
        self.paths.add(entries.len())?;
        // All directories around this one are held as well.
        let names = entries.iter().map(|entry| entry.name.len());
        let weight = names.sum::<usize>() + entries.len() * ENTRY_WEIGHT;
        self.budget.charge(weight)?;
        for entry in entries {
            self.budget.check()?;
            if git_file.is_some() && entry.name.as_slice() >= b".git".as_slice() {
                self.git_file(prefix, git_file.take())?;
            }
            let inside = join(below, &entry.name);
            let path = join(prefix, &inside);
            self.paths.path(&path)?;
            match entry.mode {
                Mode::Directory => {
                    self.directory(&path)?;
                    self.tree(pack, submodules, entry.id, prefix, &inside, None)?;
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
        self.budget.release(weight);
        self.depth -= 1;
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
        if !self.visitor.wants(path)? {
            return self.visitor.visit(path, Visit::Other);
        }
        let (size, content) = pack.blob(id, self.budget)?;
        let mut content = Budgeted::new(content, self.budget);
        let what = Visit::File {
            executable,
            size,
            content: &mut content,
        };
        let visited = self.visitor.visit(path, what);
        self.budget.check()?;
        visited
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
struct Collecting<'a> {
    patterns: Vec<Pattern>,
    missing: Vec<String>,
    budget: &'a Budget,
}

impl Visitor for Collecting<'_> {
    fn wants(&mut self, path: &[u8]) -> Result<bool, Error> {
        Ok(path.rsplit(|byte| *byte == b'/').next() == Some(IGNORE_FILE.as_bytes()))
    }

    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error> {
        if !self.missing.is_empty() {
            let path = String::from_utf8_lossy(path);
            self.missing
                .retain(|wanted| plain(wanted) != path && !plain(wanted).is_empty());
        }
        if let Visit::File { content, .. } = what
            && self.wants(path)?
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
            let patterns = read_patterns_within(&text, &scope, self.budget)?;
            self.patterns.extend(patterns);
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
struct Archiving<'a, W: Write> {
    writer: ArchiveWriter<W>,
    ignore: Ignore,
    budget: &'a Budget,
}

impl<W: Write> Archiving<'_, W> {
    fn leaves_out(&self, path: &[u8], directory: bool) -> Result<bool, Error> {
        let path = String::from_utf8_lossy(path);
        let said = self.ignore.leaves_out_within(&path, directory, self.budget);
        Ok(said?)
    }
}

impl<W: Write> Visitor for Archiving<'_, W> {
    fn wants(&mut self, path: &[u8]) -> Result<bool, Error> {
        Ok(!self.leaves_out(path, false)?)
    }

    fn visit(&mut self, path: &[u8], what: Visit<'_>) -> Result<(), Error> {
        match what {
            Visit::Directory => match self.leaves_out(path, true)? {
                true => Ok(()),
                false => Ok(self.writer.directory(path)?),
            },
            Visit::File {
                executable,
                size,
                content,
            } => match self.wants(path)? {
                true => Ok(self.writer.file(path, executable, size, content)?),
                false => Ok(()),
            },
            Visit::Other => Ok(()),
        }
    }
}
