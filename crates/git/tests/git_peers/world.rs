//! Repositories of the real git, and what is fetched of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everflow_env::{Env, MemoryDialer};
use everflow_fetch::{Deadline, Url};
use everflow_git::Error;
use everflow_git::{Checkout, CheckoutOptions, GitClient, GitRef, Remote, Update, write_archive};

use crate::support::git;

pub(crate) struct World {
    pub(crate) dialer: MemoryDialer,
    pub(crate) env: Env,
    pub(crate) root: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dialer = MemoryDialer::new();
        World {
            env: Env::simulated(5, dialer.clone()),
            dialer,
            root: tempfile::tempdir().unwrap(),
        }
    }

    /// A repository with work tree that is also served.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        git(&path, 1, &["init", "-q", "-b", "main"]);
        path
    }

    pub(crate) async fn update(
        &self,
        remote: Remote,
        reference: &GitRef,
        submodules: bool,
    ) -> Result<Checkout, Error> {
        let client = GitClient::new(&self.env, remote)?;
        let deadline = Deadline::after(&self.env.clock, Duration::from_secs(60));
        match client
            .update(reference, None, submodules, &deadline)
            .await?
        {
            Update::Fetched(checkout) => Ok(*checkout),
            Update::Unchanged(_) => unreachable!(),
        }
    }

    pub(crate) async fn files(&self, checkout: Checkout) -> Vec<(String, u64)> {
        self.env.disk.create_dir("out").unwrap();
        write_archive(&self.env, checkout, "out/x", CheckoutOptions::default())
            .await
            .unwrap();
        let file = self.env.disk.open("out/x").unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            (
                entry.path().unwrap().to_str().unwrap().to_owned(),
                entry.size(),
            )
        });
        entries.collect()
    }
}

pub(crate) fn branch(name: &str) -> GitRef {
    GitRef {
        branch: name.to_owned(),
        ..GitRef::default()
    }
}

pub(crate) fn commit(path: &Path, when: u32, file: &str, content: &[u8]) -> String {
    let full = path.join(file);
    std::fs::create_dir_all(full.parent().unwrap()).unwrap();
    std::fs::write(full, content).unwrap();
    git(path, when, &["add", "-A"]);
    git(path, when, &["commit", "-q", "-m", "change"]);
    git(path, when, &["rev-parse", "HEAD"])
}

/// Many versions of one file, so that packs hold deltas.
pub(crate) fn with_deltas(path: &Path) -> String {
    let mut id = String::new();
    for version in 0..6_u32 {
        let mut text = String::new();
        for line in 0..3000 {
            let shown = if line % 500 == version { version } else { 0 };
            text.push_str(&format!("line {line} of the file, state {shown}\n"));
        }
        std::fs::write(path.join(format!("copy-{version}.txt")), &text).unwrap();
        id = commit(path, version + 1, "big.txt", text.as_bytes());
    }
    git(path, 1, &["gc", "-q", "--aggressive"]);
    id
}

pub(crate) fn remote(url: &str) -> Remote {
    Remote::new(Url::parse(url).unwrap())
}
