//! Directories and files of this machine as the content of an artifact.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use everflow_fetch::archive::ignore::read_patterns;
use everflow_fetch::archive::{Algorithm, ArchiveWriter, Ignore, Limit};
use everflow_fetch::oci::LARGEST_PUSH;

use super::work;
use crate::exit::Failure;

/// What nobody wants in an artifact, as flux has it.
pub const IGNORED: &str = ".git/,.gitignore,.gitmodules,.gitattributes,*.jpg,*.jpeg,*.gif,*.png,*.wmv,\
                           *.flv,*.tar.gz,*.zip";
/// How deep directories may nest.
const DEEPEST: usize = 100;

/// What goes into an artifact.
#[derive(clap::Args, Debug)]
pub struct ContentFlags {
    /// Paths to exclude, in .gitignore syntax
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', default_value = IGNORED)]
    ignore_paths: Vec<String>,
    /// Additional paths to exclude
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    add_ignore_paths: Vec<String>,
}

/// Where content comes from.
#[derive(clap::Args, Debug)]
pub struct LinkFlags {
    /// Include the targets of symbolic links instead of excluding the links
    #[arg(long)]
    pub resolve_symlinks: bool,
}

/// A file of an artifact.
struct Found {
    /// Below the root.
    path: String,
    file: Option<PathBuf>,
}

/// The content of a directory or a file as a gzipped archive; `-` is standard input.
pub fn pack(path: &str, content: &ContentFlags, follow: bool) -> Result<Vec<u8>, Failure> {
    let limit = Limit::new(LARGEST_PUSH, "");
    let mut writer = ArchiveWriter::new(Vec::new(), Algorithm::Sha256, limit)
        .map_err(|error| work(error.to_string()))?;
    if path == "-" {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(LARGEST_PUSH);
        input.read_to_end(&mut bytes)?;
        let size = bytes.len() as u64;
        writer
            .file(b"manifests.yaml", false, size, &mut &bytes[..])
            .map_err(|error| work(error.to_string()))?;
    } else {
        for found in files(Path::new(path), content, follow)? {
            add(&mut writer, &found).map_err(|why| work(format!("{}: {why}", found.path)))?;
        }
    }
    let (bytes, _) = writer.finish().map_err(|error| work(error.to_string()))?;
    Ok(bytes)
}

fn add(writer: &mut ArchiveWriter<Vec<u8>>, found: &Found) -> Result<(), String> {
    let Some(file) = &found.file else {
        let added = writer.directory(found.path.as_bytes());
        return added.map_err(|error| error.to_string());
    };
    let mut content = fs::File::open(file).map_err(|error| error.to_string())?;
    let meta = content.metadata().map_err(|error| error.to_string())?;
    writer
        .file(
            found.path.as_bytes(),
            is_executable(&meta),
            meta.len(),
            &mut content,
        )
        .map_err(|error| error.to_string())
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

fn files(root: &Path, content: &ContentFlags, follow: bool) -> Result<Vec<Found>, Failure> {
    if root.is_file() {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        return Ok(vec![Found {
            path: name.into_owned(),
            file: Some(root.to_owned()),
        }]);
    }
    let lines = [content.ignore_paths.as_slice(), &content.add_ignore_paths].concat();
    let walk = Walk {
        root,
        ignore: Ignore::only(read_patterns(&lines.join("\n"), &[])),
        follow,
    };
    let mut found = Vec::new();
    walk.below("", 0, &mut found)?;
    Ok(found)
}

struct Walk<'w> {
    root: &'w Path,
    ignore: Ignore,
    follow: bool,
}

impl Walk<'_> {
    /// Names of one directory in the order of their bytes, a directory before what is in it.
    fn below(&self, inner: &str, depth: usize, found: &mut Vec<Found>) -> Result<(), Failure> {
        if depth > DEEPEST {
            return Err(work(format!(
                "{inner}: directories are nested more than {DEEPEST} levels deep: is there a link that \
                 leads back?"
            )));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(inner))? {
            names.push(entry?.file_name());
        }
        names.sort_unstable();
        for name in names {
            let name = name.to_str().ok_or_else(|| {
                work(format!("{}: the name is not UTF-8", name.to_string_lossy()))
            })?;
            let path = match inner {
                "" => name.to_owned(),
                inner => format!("{inner}/{name}"),
            };
            let place = self.root.join(&path);
            let meta = match self.follow {
                true => fs::metadata(&place)?,
                false => fs::symlink_metadata(&place)?,
            };
            if self.ignore.leaves_out(&path, meta.is_dir()) {
                continue;
            }
            if meta.is_dir() {
                found.push(Found {
                    path: path.clone(),
                    file: None,
                });
                self.below(&path, depth + 1, found)?;
            } else if meta.is_file() {
                found.push(Found {
                    path,
                    file: Some(place),
                });
            }
        }
        Ok(())
    }
}

/// A path that must exist.
pub fn existing(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Err(work(format!("invalid path {path:?}")));
    }
    match path == "-" || Path::new(path).exists() {
        true => Ok(()),
        false => Err(work(format!(
            "invalid path '{path}', must point to an existing directory or file"
        ))),
    }
}
