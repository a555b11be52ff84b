//! Files that nobody needs tomorrow.

use std::io;
use std::sync::Arc;

use everflow_env::disk::FileWriter;
use everflow_env::{Disk, Env};

use crate::Error;

/// The directory of the `Env`'s disk for unfinished work. It is emptied at start.
pub const TEMPORARY: &str = "tmp";

/// A directory of one's own in the temporary area, gone when dropped.
#[derive(Debug)]
pub struct TemporaryDirectory {
    disk: Arc<dyn Disk>,
    path: String,
}

impl TemporaryDirectory {
    /// Makes one. This blocks, though not for long.
    pub fn new(env: &Env, what: &str) -> Result<Self, Error> {
        let path = format!("{TEMPORARY}/{what}-{:016x}", env.random.next());
        env.disk
            .create_dir(&path)
            .map_err(|error| Error::disk("create", &path, error))?;
        Ok(TemporaryDirectory {
            disk: env.disk.clone(),
            path,
        })
    }

    /// Where it is on the disk.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = self.disk.remove_dir(&self.path);
    }
}

/// A file of one's own in the temporary area, gone when dropped unless it got another name.
#[derive(Debug)]
pub struct TemporaryFile {
    disk: Arc<dyn Disk>,
    path: String,
}

impl TemporaryFile {
    /// Makes one. This blocks, though not for long.
    pub fn create(env: &Env, what: &str) -> Result<(Self, Box<dyn FileWriter>), Error> {
        let path = format!("{TEMPORARY}/{what}-{:016x}", env.random.next());
        let disk = env.disk.clone();
        let made = disk.create(&path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                disk.create_dir(TEMPORARY)?;
                disk.create(&path)
            }
            _ => Err(error),
        });
        let writer = made.map_err(|error| Error::disk("create", &path, error))?;
        Ok((TemporaryFile { disk, path }, writer))
    }

    /// Where it is on the disk.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = self.disk.remove(&self.path);
    }
}
