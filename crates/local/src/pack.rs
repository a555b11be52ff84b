//! The files of a repository as an artifact, with the rules of a source.

use std::collections::BTreeSet;
use std::io::Write;

use everflow_fetch::archive::ignore::read_patterns;
use everflow_fetch::archive::{Algorithm, ArchiveWriter, Ignore, Limit, Pattern, Summary};

use crate::Error;
use crate::tree::{File, Tree, scope};

/// Bytes that the files may have together; no option sets it.
const LARGEST: Limit = Limit::new(8 << 30, "");

/// Writes the files of a tree that a source takes as a `.tar.gz`: `.sourceignore` files and the
/// patterns of the spec leave files out, as they do for a repository that is fetched.
pub fn write<W: Write>(tree: &Tree, spec_ignore: &str, out: W) -> Result<(W, Summary), Error> {
    let files = taken(tree, spec_ignore)?;
    let mut archive = ArchiveWriter::new(out, Algorithm::Sha256, LARGEST)?;
    let mut directories = BTreeSet::new();
    for file in &files {
        let mut at = 0;
        while let Some(next) = file.path[at..].find('/') {
            let directory = &file.path[..at + next];
            if directories.insert(directory.to_owned()) {
                archive.directory(directory.as_bytes())?;
            }
            at += next + 1;
        }
        let mut content = tree.disk().open(&file.path).map_err(|source| Error::Read {
            path: file.path.clone(),
            source,
        })?;
        archive.file(file.path.as_bytes(), false, file.size, &mut content)?;
    }
    Ok(archive.finish()?)
}

fn taken(tree: &Tree, spec_ignore: &str) -> Result<Vec<File>, Error> {
    let mut files = tree.files()?;
    let mut patterns: Vec<Pattern> = Vec::new();
    for file in &files {
        if file.path == ".sourceignore" || file.path.ends_with("/.sourceignore") {
            let directory = file
                .path
                .rsplit_once('/')
                .map_or("", |(directory, _)| directory);
            let text = tree.text(&file.path).unwrap_or_default();
            patterns.extend(read_patterns(&text, &scope(directory)));
        }
    }
    patterns.extend(read_patterns(spec_ignore, &[]));
    let ignore = Ignore::with_defaults(patterns);
    files.retain(|file| !ignore.leaves_out(&file.path, false));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everflow_env::disk::write_whole;
    use everflow_env::{Disk, MemoryDisk};

    use super::*;

    #[test]
    fn takes_what_git_and_the_source_take() {
        let disk = MemoryDisk::new();
        let files = [
            (".git/HEAD", "ref"),
            (".gitignore", "target/\n"),
            (".sourceignore", "*.md\n"),
            ("apps/a.yaml", "a: 1"),
            ("apps/b/c.yaml", "a: 1"),
            ("README.md", "hello"),
            ("target/x.yaml", "a: 1"),
            ("skipped.yaml", "a: 1"),
        ];
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        let tree = Tree::new(Arc::new(disk) as Arc<dyn Disk>);
        let taken = taken(&tree, "skipped.yaml").unwrap();
        let paths: Vec<&str> = taken.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, [".sourceignore", "apps/a.yaml", "apps/b/c.yaml"]);
        let (bytes, summary) = write(&tree, "skipped.yaml", Vec::new()).unwrap();
        assert_eq!(summary.files, 3);
        assert_eq!(summary.size, bytes.len() as u64);
    }
}
