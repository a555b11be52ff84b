//! Charts as `.tgz` archives.

use std::io::Read;

use flate2::read::GzDecoder;

use super::ChartFile;

/// What a chart may weigh unpacked.
pub const MAX_UNPACKED_CHART_BYTES: u64 = 100 * 1024 * 1024;
/// What one file of a chart directory may weigh.
pub const MAX_FILE_BYTES: u64 = 5 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why an archive is no chart, in helm's words.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not gzip, or not tar, or cut short.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
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
    /// More than [`MAX_UNPACKED_CHART_BYTES`].
    #[error("decompressed chart is larger than the maximum size {MAX_UNPACKED_CHART_BYTES}")]
    TooLarge,
    /// Nothing in it.
    #[error("no files in chart archive")]
    Empty,
}

/// Unpacks a chart archive in memory; names are relative to the chart's own directory.
pub fn unpack(archive: &[u8]) -> Result<Vec<ChartFile>, ArchiveError> {
    if archive.len() < 10 || !archive.starts_with(&[0x1f, 0x8b]) {
        let reason = match archive.len() {
            0 => std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "EOF"),
            // Shorter than the header of gzip.
            1..10 => std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "unexpected EOF"),
            _ => std::io::Error::new(std::io::ErrorKind::InvalidData, "gzip: invalid header"),
        };
        return Err(reason.into());
    }
    let mut files = Vec::new();
    let mut remaining = MAX_UNPACKED_CHART_BYTES;
    let mut entries = tar::Archive::new(GzDecoder::new(archive));
    for entry in entries.entries()? {
        let mut entry = entry?;
        let header = entry.header();
        let kind = header.entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let raw_name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if raw_name.ends_with('/') {
            continue;
        }
        let name = chart_relative_name(&raw_name)?;
        if entry.size() > remaining {
            return Err(ArchiveError::TooLarge);
        }
        let mut data = Vec::new();
        let read = (&mut entry).take(remaining).read_to_end(&mut data)? as u64;
        remaining -= read.min(remaining);
        if read < entry.size() || remaining == 0 {
            return Err(ArchiveError::TooLarge);
        }
        files.push(ChartFile::new(name, without_byte_order_mark(data)));
    }
    match files.is_empty() {
        true => Err(ArchiveError::Empty),
        false => Ok(files),
    }
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
        return Err(ArchiveError::OutsideBase(raw.to_owned()));
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
    fn ways_out_are_refused() {
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
