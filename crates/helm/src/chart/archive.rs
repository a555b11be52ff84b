//! Charts as `.tgz` archives.

use std::io;

use everflow_limits::{Budget, Exceeded};
use everflow_tar::{Archive, Entry, Kind, Limit, Limits, Meter, gunzip, shown};

use super::ChartFile;

/// What a chart may weigh unpacked.
pub const MAX_UNPACKED_CHART_BYTES: u64 = 100 * 1024 * 1024;
/// What one file of a chart directory may weigh.
pub const MAX_FILE_BYTES: u64 = 5 * 1024 * 1024;
/// How many files a chart may have.
const MAX_FILES: u64 = 20_000;
/// What a file takes in memory beside its name and content, in bytes.
const FILE_WEIGHT: usize = 128;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What a chart may hold, with all charts in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartLimits {
    /// Bytes of all files together, those of packed charts packed and unpacked.
    pub unpacked: Limit,
    /// Files, directories and whatever else archives hold.
    pub files: Limit,
}

impl Default for ChartLimits {
    /// Helm's 100 MiB, and 20,000 files; no option sets them.
    fn default() -> Self {
        ChartLimits {
            unpacked: Limit::new(MAX_UNPACKED_CHART_BYTES, ""),
            files: Limit::new(MAX_FILES, ""),
        }
    }
}

impl ChartLimits {
    /// The same for readers of archives.
    pub fn of_archives(self) -> Limits {
        Limits::new(self.unpacked, self.files)
    }
}

/// Why an archive is no chart, in helm's words.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not gzip, or cut short.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// Not tar.
    #[error(transparent)]
    Tar(everflow_tar::Error),
    /// An entry with an absolute path.
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    /// An entry beside the chart's directory.
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideBase(String),
    /// An entry that climbs out with `..`.
    #[error("chart illegally references parent directory")]
    ParentDirectory,
    /// An entry that names a drive.
    #[error("chart contains illegally named files")]
    IllegalName,
    /// `Chart.yaml` at the top instead of in a directory.
    #[error("chart yaml not in base directory")]
    ChartNotInBase,
    /// More content than a chart may have, with all charts in it.
    #[error("decompressed chart is larger than the maximum size {}: {file:?} is too much{}", most(.exceeded), remedy(.exceeded))]
    TooLarge {
        /// The file that is too much.
        file: String,
        /// The limit.
        #[source]
        exceeded: Exceeded,
    },
    /// More files than a chart may have, with all charts in it.
    #[error("chart contains more than {} files: {file:?} is one too many{}", most(.exceeded), remedy(.exceeded))]
    TooMany {
        /// The file that is too much.
        file: String,
        /// The limit.
        #[source]
        exceeded: Exceeded,
    },
    /// The work has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// Nothing in it.
    #[error("no files in chart archive")]
    Empty,
}

fn most(exceeded: &Exceeded) -> u64 {
    match exceeded {
        Exceeded::Count { limit, .. } => *limit,
        _ => 0,
    }
}

/// Only where an option sets the limit.
fn remedy(exceeded: &Exceeded) -> String {
    match exceeded {
        Exceeded::Count { flag, .. } if !flag.is_empty() => {
            format!("; make the chart smaller, or raise {flag}")
        }
        _ => String::new(),
    }
}

impl ArchiveError {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            ArchiveError::TooLarge { exceeded, .. }
            | ArchiveError::TooMany { exceeded, .. }
            | ArchiveError::Limit(exceeded) => Some(exceeded),
            ArchiveError::Tar(error) => error.exceeded(),
            _ => None,
        }
    }
}

impl From<everflow_tar::Error> for ArchiveError {
    fn from(error: everflow_tar::Error) -> Self {
        use everflow_tar::Error;
        match error {
            Error::TooLarge { entry, exceeded } => ArchiveError::TooLarge {
                file: entry,
                exceeded,
            },
            Error::TooMany { entry, exceeded } => ArchiveError::TooMany {
                file: entry,
                exceeded,
            },
            Error::Read(error) => ArchiveError::Unreadable(error),
            error => ArchiveError::Tar(error),
        }
    }
}

/// Unpacks a chart archive in memory; names are relative to the chart's own directory.
pub fn unpack(archive: &[u8]) -> Result<Vec<ChartFile>, ArchiveError> {
    let budget = Budget::unlimited();
    let mut meter = Meter::new(ChartLimits::default().of_archives(), &budget);
    unpack_within(archive, &mut meter)
}

/// The same for an archive that counts to a meter.
pub(crate) fn unpack_within(
    archive: &[u8],
    meter: &mut Meter<'_>,
) -> Result<Vec<ChartFile>, ArchiveError> {
    let budget = meter.budget();
    let mut files = Vec::new();
    for_each_file(archive, meter, &mut |name, entry| {
        budget.charge(name.len() + FILE_WEIGHT)?;
        let data = without_byte_order_mark(entry.read_content()?);
        files.push(ChartFile::new(name, data));
        Ok::<_, ArchiveError>(())
    })?;
    match files.is_empty() {
        true => Err(ArchiveError::Empty),
        false => Ok(files),
    }
}

/// Goes through the files of a chart archive. Their names are relative to the chart's own directory; their
/// content is skipped unless it is read.
pub(crate) fn for_each_file<E: From<ArchiveError>>(
    archive: &[u8],
    meter: &mut Meter<'_>,
    visit: &mut dyn FnMut(String, &mut Entry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    check_gzip(archive).map_err(ArchiveError::from)?;
    let plain = gunzip(archive, meter.budget());
    let mut entries = Archive::new(plain, meter);
    while let Some(mut entry) = entries.next_entry().map_err(ArchiveError::from)? {
        let name = String::from_utf8_lossy(entry.path()).into_owned();
        if entry.kind() == Kind::Directory || name.ends_with('/') {
            continue;
        }
        visit(chart_relative_name(&name)?, &mut entry)?;
    }
    Ok(())
}

fn check_gzip(archive: &[u8]) -> io::Result<()> {
    let (kind, text) = match archive {
        [] => (io::ErrorKind::UnexpectedEof, "EOF"),
        // Shorter than the header of gzip.
        [..] if archive.len() < 10 => (io::ErrorKind::UnexpectedEof, "unexpected EOF"),
        [0x1f, 0x8b, ..] => return Ok(()),
        _ => (io::ErrorKind::InvalidData, "gzip: invalid header"),
    };
    Err(io::Error::new(kind, text))
}

/// Drops a UTF-8 byte order mark: editors on Windows leave it, and YAML does not want it.
pub fn without_byte_order_mark(mut data: Vec<u8>) -> Vec<u8> {
    if data.starts_with(BYTE_ORDER_MARK) {
        data.drain(..BYTE_ORDER_MARK.len());
    }
    data
}

/// Takes the first directory off and refuses every way out of the chart.
fn chart_relative_name(raw: &str) -> Result<String, ArchiveError> {
    // Archives made on Windows separate with backslashes.
    let delimiter = if raw.contains('\\') { '\\' } else { '/' };
    let (first, rest) = raw.split_once(delimiter).unwrap_or((raw, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(ArchiveError::AbsolutePath);
    }
    let name = clean(&rest);
    if name == "." {
        return Err(ArchiveError::OutsideBase(shown(raw.as_bytes())));
    }
    if name.starts_with("..") {
        return Err(ArchiveError::ParentDirectory);
    }
    if names_a_drive(&name) {
        return Err(ArchiveError::IllegalName);
    }
    if first == "Chart.yaml" {
        return Err(ArchiveError::ChartNotInBase);
    }
    Ok(name)
}

fn names_a_drive(name: &str) -> bool {
    matches!(name.as_bytes(), [letter, b':', b'/', ..] if letter.is_ascii_alphabetic())
}

/// Go's `path.Clean` for a relative path.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    match parts.is_empty() {
        true => ".".to_owned(),
        false => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, data) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *data).unwrap();
        }
        let tar = builder.into_inner().unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn names_lose_their_first_directory_and_files_their_byte_order_mark() {
        let files = unpack(&archive(&[
            ("web/Chart.yaml", b"\xEF\xBB\xBFname: web"),
            ("web/templates/./a.yaml", b"a: 1"),
        ]))
        .unwrap();
        assert_eq!(files[0].name, "Chart.yaml");
        assert_eq!(&files[0].data[..], b"name: web");
        assert_eq!(files[1].name, "templates/a.yaml");
    }

    #[test]
    fn archive_paths_out_of_the_chart_are_refused() {
        let error = |name: &str| unpack(&archive(&[(name, b"x")])).unwrap_err().to_string();
        assert_eq!(
            error("web/../../etc/passwd"),
            "chart illegally references parent directory"
        );
        assert_eq!(
            error("web//etc/passwd"),
            "chart illegally contains absolute paths"
        );
        assert_eq!(error("web/c:/x"), "chart contains illegally named files");
        assert_eq!(
            error("web"),
            "chart illegally contains content outside the base directory: \"web\""
        );
        assert!(unpack(b"not gzip").is_err());
    }
}
