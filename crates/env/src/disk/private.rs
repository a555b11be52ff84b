//! Files and directories that only their owner may use, whatever the umask.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Makes a file, or empties the one that is there, and keeps others from it.
pub fn create_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).truncate(true))
}

/// Opens a file to read and write, makes it when it is not there, and keeps others from it.
pub fn open_or_create_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true))
}

/// Writes a whole file that others are kept from.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    create_file(path)?.write_all(content.as_ref())
}

/// Makes a directory, with its parents, that others are kept from. One that is there stays as it is.
pub fn create_dir(path: &Path) -> io::Result<()> {
    builder().recursive(true).create(path)
}

/// The same for a directory that must be new: nobody can have put one there before.
pub fn create_new_dir(path: &Path) -> io::Result<()> {
    builder().create(path)
}

fn builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.create(true).open(path)?;
    // It may have been there, and readable for others.
    #[cfg(unix)]
    {
        let metadata = file.metadata()?;
        if let Some((_, narrow)) = narrowed(&metadata).filter(|_| metadata.is_file()) {
            file.set_permissions(narrow)?;
        }
    }
    Ok(file)
}

/// Takes from others what they may do with a file or directory that is there already. Gives what its mode was, when
/// something had to change. A directory that is made to be shared, as `/tmp`, stays as it is.
#[cfg(unix)]
pub fn tighten(path: &Path) -> io::Result<Option<u32>> {
    let metadata = std::fs::metadata(path)?;
    let Some((before, narrow)) = narrowed(&metadata) else {
        return Ok(None);
    };
    std::fs::set_permissions(path, narrow)?;
    Ok(Some(before))
}

/// Other systems have no modes.
#[cfg(not(unix))]
pub fn tighten(_path: &Path) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Whether others may do something with a file or directory.
#[cfg(unix)]
pub fn open_to_others(path: &Path) -> io::Result<bool> {
    Ok(narrowed(&std::fs::metadata(path)?).is_some())
}

/// Other systems have no modes.
#[cfg(not(unix))]
pub fn open_to_others(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// The mode, and the one without what others may do, when there is a difference.
#[cfg(unix)]
fn narrowed(metadata: &std::fs::Metadata) -> Option<(u32, std::fs::Permissions)> {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS: u32 = 0o077;
    const STICKY: u32 = 0o1000;
    let mode = metadata.permissions().mode() & 0o7777;
    let shared = metadata.is_dir() && mode & STICKY != 0;
    let narrow = std::fs::Permissions::from_mode(mode & !OTHERS);
    (mode & OTHERS != 0 && !shared).then_some((mode, narrow))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_and_directories_are_made_for_their_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let (directory, file) = (place.path().join("a/b"), place.path().join("a/b/file"));
        create_dir(&directory).unwrap();
        create_dir(&directory).unwrap();
        write_file(&file, "text").unwrap();
        assert_eq!(mode(&place.path().join("a")), 0o700);
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
        assert!(create_new_dir(&directory).is_err());
    }

    #[test]
    fn permissions_of_existing_files_and_directories_are_tightened() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "old").unwrap();
        for open in [create_file, open_or_create_file] {
            set_mode(&file, 0o664);
            drop(open(&file).unwrap());
            assert_eq!(mode(&file), 0o600);
        }
        set_mode(place.path(), 0o2755);
        assert!(open_to_others(place.path()).unwrap());
        assert_eq!(tighten(place.path()).unwrap(), Some(0o2755));
        assert_eq!(mode(place.path()), 0o2700);
        assert_eq!(tighten(place.path()).unwrap(), None);
    }

    #[test]
    fn shared_directories_and_devices_stay_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        set_mode(place.path(), 0o1777);
        assert_eq!(tighten(place.path()).unwrap(), None);
        assert_eq!(mode(place.path()), 0o1777);
        let before = mode(Path::new("/dev/null"));
        write_file(Path::new("/dev/null"), "gone").unwrap();
        assert_eq!(mode(Path::new("/dev/null")), before);
    }
}
