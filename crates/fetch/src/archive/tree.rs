//! A tree of files on its way from one archive to another.
//!
//! Archives come in any order and ours are sorted, so content has to wait somewhere. It lies in
//! files of the temporary area; only names and places are held in memory.

use std::collections::BTreeMap;
use std::io::{self, Read, SeekFrom, Write};
use std::sync::Arc;

use everflow_env::Disk;
use everflow_limits::Budget;
use everflow_tar::{Budgeted, Limit, Limits};

use super::digest::Algorithm;
use super::ignore::{IGNORE_FILE, Ignore, Pattern, read_patterns_within};
use super::tar_writer::{ArchiveWriter, Summary};
use super::unpack::{Item, Links, copy_content, read_archive};
use crate::Error;

/// The largest file of patterns that is read.
const LARGEST_LIST: u64 = 1 << 20;

/// What a file takes in memory beside its path, and a directory in the path of a list of patterns.
const NODE_WEIGHT: usize = 160;
const PART_WEIGHT: usize = 48;

/// Where the content of a file lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// A file on the disk.
    pub file: Arc<str>,
    /// Where in it the content begins.
    pub offset: u64,
}

#[derive(Debug)]
enum Node {
    Directory,
    File {
        executable: bool,
        size: u64,
        place: Place,
    },
}

/// Files and directories by path.
#[derive(Debug, Default)]
pub struct Tree {
    /// With a zero byte between the parts of a path: so they sort as a walk meets them.
    nodes: BTreeMap<String, Node>,
}

fn key(path: &str) -> String {
    path.replace('/', "\0")
}

impl Tree {
    /// Nothing in it.
    pub fn new() -> Self {
        Tree::default()
    }

    /// How many files are in it.
    pub fn files(&self) -> usize {
        let file = |node: &&Node| matches!(node, Node::File { .. });
        self.nodes.values().filter(file).count()
    }

    /// Adds a directory and those around it. The path is plain.
    pub fn directory(&mut self, path: &str, budget: &Budget) -> Result<(), Error> {
        for (at, _) in path.match_indices('/') {
            self.one_directory(&path[..at], budget)?;
        }
        self.one_directory(path, budget)
    }

    fn one_directory(&mut self, path: &str, budget: &Budget) -> Result<(), Error> {
        match self.nodes.get(&key(path)) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File { .. }) => {
                Err(Error::Archive(format!("mkdir {path}: not a directory")))
            }
            None => self.insert(path, Node::Directory, budget),
        }
    }

    /// Adds a file; one that is there gets the new content. The path is plain.
    pub fn file(
        &mut self,
        path: &str,
        executable: bool,
        size: u64,
        place: Place,
        budget: &Budget,
    ) -> Result<(), Error> {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory, budget)?;
        }
        let executable = match self.nodes.get(&key(path)) {
            Some(Node::Directory) => {
                return Err(Error::Archive(format!("open {path}: is a directory")));
            }
            // As when a file is written again: its mode stays.
            Some(Node::File { executable, .. }) => *executable,
            None => executable,
        };
        let node = Node::File {
            executable,
            size,
            place,
        };
        self.insert(path, node, budget)
    }

    fn insert(&mut self, path: &str, node: Node, budget: &Budget) -> Result<(), Error> {
        budget.charge(path.len() + NODE_WEIGHT)?;
        self.nodes.insert(key(path), node);
        Ok(())
    }

    /// Unpacks a gzipped tar archive; all content goes to the one file `spill`. This blocks.
    pub fn unpack(
        packed: impl Read,
        disk: &dyn Disk,
        spill: &str,
        limits: Limits,
        budget: &Budget,
    ) -> Result<Self, Error> {
        let failed = |error| Error::disk("write", spill, error);
        let file = disk.create(spill).map_err(failed)?;
        let mut out = io::BufWriter::with_capacity(256 * 1024, file);
        let name: Arc<str> = spill.into();
        let mut tree = Tree::new();
        let mut offset = 0;
        read_archive(
            packed,
            limits,
            Links::Skip,
            budget,
            &mut |path, item| match item {
                Item::Directory => tree.directory(path, budget),
                Item::File {
                    executable,
                    size,
                    content,
                } => {
                    let place = Place {
                        file: name.clone(),
                        offset,
                    };
                    tree.file(path, executable, size, place, budget)?;
                    offset += copy_content(content, &mut out, spill)?;
                    Ok(())
                }
            },
        )?;
        out.flush().map_err(failed)?;
        Ok(tree)
    }

    /// The patterns of all `.sourceignore` files, those of outer directories first.
    pub fn patterns(&self, disk: &dyn Disk, budget: &Budget) -> Result<Vec<Pattern>, Error> {
        let mut lists: Vec<(Vec<String>, &Place, u64)> = Vec::new();
        for (key, node) in &self.nodes {
            budget.check()?;
            let (directory, name) = key.rsplit_once('\0').unwrap_or(("", key));
            let parts = || directory.split('\0').filter(|part| !part.is_empty());
            if name == IGNORE_FILE
                && !parts().any(|part| part == ".git")
                && let Node::File { place, size, .. } = node
            {
                budget.charge(key.len() + parts().count() * PART_WEIGHT)?;
                lists.push((parts().map(str::to_owned).collect(), place, *size));
            }
        }
        lists.sort_by(|one, two| one.0.cmp(&two.0));
        let mut patterns = Vec::new();
        for (scope, place, size) in lists {
            let mut bytes = Vec::new();
            open(disk, place)?
                .take(size.min(LARGEST_LIST))
                .read_to_end(&mut bytes)
                .map_err(|error| Error::disk("read", &place.file, error))?;
            let text = String::from_utf8_lossy(&bytes);
            patterns.extend(read_patterns_within(&text, &scope, budget)?);
        }
        Ok(patterns)
    }

    /// Writes the archive of all that is not left out. This blocks for long.
    pub fn archive<W: Write>(
        &self,
        disk: &dyn Disk,
        out: W,
        ignore: &Ignore,
        algorithm: Algorithm,
        limit: Limit,
        budget: &Budget,
    ) -> Result<(W, Summary), Error> {
        let mut writer = ArchiveWriter::new(out, algorithm, limit)?;
        let mut opened: Option<(Arc<str>, Box<dyn everflow_env::disk::FileReader>)> = None;
        for (key, node) in &self.nodes {
            budget.check()?;
            let path = key.replace('\0', "/");
            let is_directory = matches!(node, Node::Directory);
            if ignore.leaves_out_within(&path, is_directory, budget)? {
                continue;
            }
            match node {
                Node::Directory => writer.directory(path.as_bytes())?,
                Node::File {
                    executable,
                    size,
                    place,
                } => {
                    let mut file = match opened.take() {
                        Some((name, file)) if name == place.file => file,
                        _ => disk
                            .open(&place.file)
                            .map_err(|error| Error::disk("open", &place.file, error))?,
                    };
                    file.seek(SeekFrom::Start(place.offset))
                        .map_err(|error| Error::disk("read", &place.file, error))?;
                    let mut content = Budgeted::new(&mut file, budget);
                    writer.file(path.as_bytes(), *executable, *size, &mut content)?;
                    opened = Some((place.file.clone(), file));
                }
            }
        }
        writer.finish()
    }
}

fn open(disk: &dyn Disk, place: &Place) -> Result<Box<dyn everflow_env::disk::FileReader>, Error> {
    let failed = |error| Error::disk("read", &place.file, error);
    let mut file = disk.open(&place.file).map_err(failed)?;
    file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::MemoryDisk;

    fn placed(disk: &MemoryDisk, content: &[u8]) -> Place {
        disk.create_dir("tmp").unwrap();
        let mut file = disk.create("tmp/spill").unwrap();
        file.write_all(content).unwrap();
        Place {
            file: "tmp/spill".into(),
            offset: 0,
        }
    }

    #[test]
    fn entries_come_out_in_the_order_of_a_walk() {
        let disk = MemoryDisk::new();
        let place = placed(&disk, b"x");
        let (mut tree, free) = (Tree::new(), Budget::unlimited());
        for path in ["a.txt", "a/z", "a-b", "a/b/c", "B"] {
            tree.file(path, false, 1, place.clone(), &free).unwrap();
        }
        let nothing = Ignore::only(Vec::new());
        let (packed, summary) = tree
            .archive(
                &disk,
                Vec::new(),
                &nothing,
                Algorithm::Sha256,
                Limit::new(100, "--max"),
                &free,
            )
            .unwrap();
        assert_eq!(summary.files, 5);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            [".", "B", "a", "a/b", "a/b/c", "a/z", "a-b", "a.txt"]
        );
    }

    #[test]
    fn a_path_is_a_file_or_a_directory_but_not_both() {
        let disk = MemoryDisk::new();
        let place = placed(&disk, b"x");
        let (mut tree, free) = (Tree::new(), Budget::unlimited());
        tree.file("a", true, 1, place.clone(), &free).unwrap();
        let error = tree
            .file("a/b", false, 1, place.clone(), &free)
            .unwrap_err();
        assert_eq!(error.to_string(), "mkdir a: not a directory");
        tree.directory("d", &free).unwrap();
        let error = tree.file("d", false, 1, place, &free).unwrap_err();
        assert_eq!(error.to_string(), "open d: is a directory");
    }

    #[test]
    fn outer_patterns_come_first() {
        let disk = MemoryDisk::new();
        let place = placed(&disk, b"*.md\n");
        let (mut tree, free) = (Tree::new(), Budget::unlimited());
        for path in ["a/+/.sourceignore", "a/.sourceignore", ".git/.sourceignore"] {
            tree.file(path, false, 5, place.clone(), &free).unwrap();
        }
        let patterns = tree.patterns(&disk, &free).unwrap();
        assert_eq!(patterns.len(), 2);
        let ignore = Ignore::only(patterns);
        assert!(ignore.leaves_out("a/x.md", false));
        assert!(!ignore.leaves_out("x.md", false));
    }
}
