//! What a build has used of what it may.

use std::cell::Cell;

use everflow_limits::{Budget, at_most};

use crate::error::Result;
use crate::options::{FILES_FLAG, Limits, OBJECTS_FLAG};

/// The budget of a build, and what it has gone over so far.
pub struct Meter<'a> {
    pub budget: &'a Budget,
    limits: Limits,
    objects: Cell<u64>,
    files: Cell<u64>,
}

impl<'a> Meter<'a> {
    /// For a build that begins.
    pub fn new(budget: &'a Budget, limits: Limits) -> Self {
        Meter {
            budget,
            limits,
            objects: Cell::new(0),
            files: Cell::new(0),
        }
    }

    /// Counts objects that come in.
    pub fn add_objects(&self, count: usize) -> Result<()> {
        let objects = self.objects.get().saturating_add(count as u64);
        self.objects.set(objects);
        self.budget.check()?;
        Ok(at_most(
            objects,
            self.limits.objects,
            "objects in one build",
            OBJECTS_FLAG,
        )?)
    }

    /// Counts a file that is read, or a directory that is entered.
    pub fn add_file(&self) -> Result<()> {
        let files = self.files.get() + 1;
        self.files.set(files);
        self.budget.check()?;
        Ok(at_most(
            files,
            self.limits.files,
            "files and directories in one build",
            FILES_FLAG,
        )?)
    }
}
