//! Charts from disk.

use std::fs::{self, FileType};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use everflow_helm::chart::archive::{MAX_UNPACKED_CHART_BYTES, without_byte_order_mark};
use everflow_helm::chart::ignore::IgnoreRules;
use everflow_helm::chart::{Chart, ChartFile, load_archive, load_files};
use everflow_helm::values::Warnings;

use crate::exit::Failure;
use crate::output::print_text;

/// What `everflow helm show` prints.
#[derive(Subcommand, Debug)]
pub enum Show {
    /// Print Chart.yaml
    Chart {
        /// The chart: a directory or an archive
        chart: PathBuf,
    },
    /// Print values.yaml
    Values {
        /// The chart: a directory or an archive
        chart: PathBuf,
    },
    /// Print the README
    Readme {
        /// The chart: a directory or an archive
        chart: PathBuf,
    },
    /// Print the custom resource definitions under crds/
    Crds {
        /// The chart: a directory or an archive
        chart: PathBuf,
    },
}

/// Prints a part of a chart.
pub fn show(what: &Show) -> Result<(), Failure> {
    let (Show::Chart { chart: path }
    | Show::Values { chart: path }
    | Show::Readme { chart: path }
    | Show::Crds { chart: path }) = what;
    let chart = load(path, &mut Warnings::default())?;
    let raw = |name: &str| {
        chart
            .raw
            .iter()
            .find(|file| file.name.eq_ignore_ascii_case(name))
            .map(|file| file.text().into_owned())
            .unwrap_or_default()
    };
    match what {
        Show::Chart { .. } => print_text(&raw("Chart.yaml")),
        Show::Values { .. } => print_text(&raw("values.yaml")),
        Show::Readme { .. } => print_text(&raw("README.md")),
        Show::Crds { .. } => chart
            .crds()
            .iter()
            .try_for_each(|(_, file)| print_text(&format!("---\n{}\n", file.text().trim_end()))),
    }
}

/// A chart from a directory or an archive.
pub fn load(path: &Path, warnings: &mut Warnings) -> Result<Chart, Failure> {
    let shown = path.display();
    let kind =
        fs::metadata(path).map_err(|_| Failure::Work(format!("path \"{shown}\" not found")))?;
    let absolute = std::path::absolute(path)?;
    if kind.is_dir() {
        detect(&absolute)?;
        let files = directory_files(&absolute, warnings)?;
        return load_files(files, warnings).map_err(work);
    }
    let bytes = fs::read(path).map_err(|error| named(&absolute, &error))?;
    load_archive(&bytes, warnings).map_err(work)
}

fn work(error: impl std::fmt::Display) -> Failure {
    Failure::Work(error.to_string())
}

fn named(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Work(format!("open {}: {}", path.display(), go_reason(error)))
}

/// Go's words for the errors that users meet.
pub fn go_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Looks at `Chart.yaml` alone, to tell charts of unknown versions from broken ones.
fn detect(directory: &Path) -> Result<(), Failure> {
    let file = directory.join("Chart.yaml");
    let data = fs::read(&file).map_err(|error| {
        Failure::Work(format!(
            "unable to detect chart at {path}: open {path}: {}",
            go_reason(&error),
            path = file.display()
        ))
    })?;
    let yaml = everflow_yaml::sigs::yaml_to_json(&data).map_err(|error| {
        Failure::Work(format!(
            "cannot load Chart.yaml: error converting YAML to JSON: {error}"
        ))
    })?;
    match yaml
        .get("apiVersion")
        .and_then(everflow_json::Value::as_str)
    {
        None | Some("" | "v1" | "v2" | "v3") => Ok(()),
        Some(_) => Err(Failure::Work("unsupported chart version".to_owned())),
    }
}

/// All files of a chart in a directory that `.helmignore` does not leave out.
pub fn directory_files(root: &Path, warnings: &mut Warnings) -> Result<Vec<ChartFile>, Failure> {
    let ignore_text = match fs::read(root.join(".helmignore")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    };
    let mut walk = Walk {
        root,
        rules: IgnoreRules::parse(&ignore_text).map_err(work)?,
        remaining: MAX_UNPACKED_CHART_BYTES,
        files: Vec::new(),
        warnings,
    };
    walk.directory(root, 0)?;
    Ok(walk.files)
}

/// Directories in directories; links are followed, so that a bound is needed.
const MAX_DIRECTORY_DEPTH: usize = 100;

struct Walk<'a> {
    root: &'a Path,
    rules: IgnoreRules,
    remaining: u64,
    files: Vec<ChartFile>,
    warnings: &'a mut Warnings,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> Result<(), Failure> {
        if depth > MAX_DIRECTORY_DEPTH {
            return Err(Failure::Work(format!(
                "{} nests deeper than {MAX_DIRECTORY_DEPTH} directories; does a link lead back?",
                self.root.display()
            )));
        }
        let mut entries: Vec<_> = fs::read_dir(directory)
            .map_err(|error| named(directory, &error))?
            .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))))
            .collect::<Result<_, _>>()?;
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        for (name, kind) in entries {
            self.entry(&directory.join(name), kind, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, kind: FileType, depth: usize) -> Result<(), Failure> {
        let name = path
            .strip_prefix(self.root)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned();
        let kind = match kind.is_symlink() {
            false => kind,
            true => {
                let resolved = fs::canonicalize(path).map_err(|error| {
                    Failure::Work(format!(
                        "error evaluating symlink {}: lstat {}: {}",
                        path.display(),
                        first_missing(path).display(),
                        go_reason(&error)
                    ))
                })?;
                self.warnings.push(format!(
                    "level=INFO msg=\"found symbolic link in path. Contents of linked file \
                     included and used\" path={} resolved={}",
                    path.display(),
                    resolved.display()
                ));
                let target = fs::metadata(path).map_err(|error| named(path, &error))?;
                target.file_type()
            }
        };
        if self.rules.ignores(&name, kind.is_dir()) {
            return Ok(());
        }
        if kind.is_dir() {
            return self.directory(path, depth + 1);
        }
        if !kind.is_file() {
            return Err(Failure::Work(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )));
        }
        self.file(path, name)
    }

    /// At most one byte more than may still be read. The size that the system tells saves asking for
    /// the end of the file twice.
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let file = fs::File::open(path)?;
        let size = file.metadata()?.len().min(self.remaining + 1);
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.take(self.remaining + 1).read_to_end(&mut data)?;
        Ok(data)
    }

    fn file(&mut self, path: &Path, name: String) -> Result<(), Failure> {
        let data = self.read(path).map_err(|error| named(path, &error))?;
        let size = data.len() as u64;
        if size > self.remaining {
            return Err(Failure::Work(format!(
                "error reading {name}: chart exceeds maximum decompressed size of \
                 {MAX_UNPACKED_CHART_BYTES} bytes"
            )));
        }
        self.remaining -= size;
        self.files
            .push(ChartFile::new(name, without_byte_order_mark(data)));
        Ok(())
    }
}

/// Where following a link ends: the first part of its target that does not exist.
fn first_missing(link: &Path) -> PathBuf {
    let mut target = link.parent().unwrap_or(link).to_path_buf();
    let relative = fs::read_link(link).unwrap_or_default();
    for part in relative.components() {
        match part {
            std::path::Component::ParentDir => {
                target.pop();
            }
            other => target.push(other),
        }
        if fs::symlink_metadata(&target).is_err() {
            break;
        }
    }
    target
}

/// Prints what helm would log.
pub fn print_warnings(warnings: &Warnings) {
    let mut out = std::io::stderr().lock();
    for line in &warnings.0 {
        // Nobody is left to tell when standard error is closed.
        let _ = match line.starts_with("level=") {
            true => writeln!(out, "{line}"),
            false => writeln!(out, "level=INFO msg={line:?}"),
        };
    }
}
