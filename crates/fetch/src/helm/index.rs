//! Indexes: downloaded, read, stored.

use std::io::{BufReader, BufWriter, Write as _};

use everflow_env::{Env, disk, run_blocking, run_budgeted};
use everflow_helm::index::{StoredVersions, find_versions, read_index};
use everflow_limits::Budget;

use super::{HelmClient, address, failed};
use crate::archive::{Algorithm, Budgeted, Digest, DigestWriter};
use crate::download;
use crate::temporary::TemporaryDirectory;
use crate::{Deadline, Error};

const RAW: &str = "index.raw";
const ASIDE: &str = "index.aside";
const JSON: &str = "index.json";

/// An index as its server gave it, in the temporary area until dropped.
#[derive(Debug)]
pub struct FetchedIndex {
    env: Env,
    directory: TemporaryDirectory,
    limit: u64,
    /// The digest of its bytes, which is the repository's revision.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
}

/// An index in the form in which it is stored, in the temporary area until dropped or published.
#[derive(Debug)]
pub struct LoadedIndex {
    directory: TemporaryDirectory,
    /// The revision: the digest of what the server gave.
    pub revision: Digest,
    /// The digest of the file to be stored.
    pub digest: Digest,
    /// The size of the file to be stored.
    pub size: u64,
    /// How many charts there are.
    pub charts: usize,
    /// How many versions of them.
    pub versions: usize,
    /// How many entries were left out because helm would not take them.
    pub dropped: u64,
}

impl LoadedIndex {
    /// The finished file, for [`Storage::publish`](crate::storage::Storage::publish).
    pub fn path(&self) -> String {
        self.directory.file(JSON)
    }

    /// The name of the file in the store.
    pub fn file_name(&self) -> String {
        format!("index-{}.yaml", self.revision.hex())
    }
}

impl HelmClient {
    /// Downloads the index. Its digest tells whether it is worth to be loaded.
    pub async fn fetch_index(
        &self,
        algorithm: Algorithm,
        deadline: &Deadline,
    ) -> Result<FetchedIndex, Error> {
        let prefix = "failed to cache index to temporary file";
        self.download_index(algorithm, deadline)
            .await
            .map_err(|error| match error {
                error @ Error::Disk { .. } => error,
                error => failed("Failed", format!("{prefix}: {error}")),
            })
    }

    async fn download_index(
        &self,
        algorithm: Algorithm,
        deadline: &Deadline,
    ) -> Result<FetchedIndex, Error> {
        let limit = self.repository.helm.index;
        let url = address::index_url(&self.repository.url);
        let response = self.get(&url, true, deadline).await?;
        let env = self.env.clone();
        let work = move || TemporaryDirectory::new(&env, "helm-index");
        let directory = run_blocking(&*self.env.blocking, work)
            .await
            .ok_or(Error::Lost)??;
        let path = directory.file(RAW);
        let saved = download::save(&self.env, response.body, &path, algorithm, limit).await;
        let (digest, size) = saved.map_err(|error| match error {
            Error::TooLarge { .. } => Error::Protocol(format!(
                "index exceeds the maximum index file size of {limit} bytes"
            )),
            Error::Deadline(_) => {
                Error::Deadline(" (Client.Timeout or context cancellation while reading body)")
            }
            other => other,
        })?;
        Ok(FetchedIndex {
            env: self.env.clone(),
            directory,
            limit,
            digest,
            size,
        })
    }

    /// What a stored index has of a chart.
    pub async fn versions_in(&self, stored: &str, chart: &str) -> Result<StoredVersions, Error> {
        versions_in(&self.env, stored, chart).await
    }
}

/// What an index that lies in the store has of a chart: nothing at all, or its versions.
pub async fn versions_in(env: &Env, stored: &str, chart: &str) -> Result<StoredVersions, Error> {
    let (disk, path, chart) = (env.disk.clone(), stored.to_owned(), chart.to_owned());
    let work = move |budget: &Budget| {
        let file = Budgeted::new(disk.open(&path)?, budget);
        find_versions(BufReader::with_capacity(64 << 10, file), &chart)
    };
    run_budgeted(&*env.blocking, work)
        .await
        .ok_or(Error::Lost)?
        .map_err(|error| Error::disk("read", stored, error))
}

impl FetchedIndex {
    /// Reads the index and writes it in the form in which it is stored.
    pub async fn load(self, algorithm: Algorithm) -> Result<LoadedIndex, Error> {
        let env = self.env.clone();
        let work = move |budget: &Budget| self.load_now(algorithm, budget);
        let loaded = run_budgeted(&*env.blocking, work);
        loaded.await.ok_or(Error::Lost)?
    }

    /// The work of [`FetchedIndex::load`]. The whole text is in memory only while it is read; what
    /// was read of it waits on the disk for its place in the order.
    fn load_now(self, algorithm: Algorithm, budget: &Budget) -> Result<LoadedIndex, Error> {
        let disk = &*self.env.disk;
        let (raw, aside, json) = (
            self.directory.file(RAW),
            self.directory.file(ASIDE),
            self.directory.file(JSON),
        );
        let writing = |error| Error::disk("write", &aside, error);
        let outline = {
            let bytes = disk::read_all(disk, &raw, self.limit)
                .map_err(|error| Error::disk("read", &raw, error))?;
            budget.charge(bytes.len())?;
            let file = Budgeted::new(disk.create(&aside).map_err(writing)?, budget);
            let mut file = BufWriter::with_capacity(64 << 10, file);
            let outline = read_index(&bytes, &mut file);
            budget.check()?;
            let outline = outline.map_err(|error| {
                failed("IndexationFailed", format!("failed to load index: {error}"))
            })?;
            file.flush().map_err(writing)?;
            outline
        };
        let writing = |error| Error::disk("write", &json, error);
        let reading = disk
            .open(&aside)
            .map_err(|error| Error::disk("read", &aside, error))?;
        let reading = Budgeted::new(reading, budget);
        let file = BufWriter::with_capacity(256 << 10, disk.create(&json).map_err(writing)?);
        let mut file = DigestWriter::new(file, algorithm);
        outline.write(reading, &mut file).map_err(writing)?;
        let (file, digest, size) = file.finish();
        let mut file = file
            .into_inner()
            .map_err(|error| writing(error.into_error()))?;
        file.sync().map_err(writing)?;
        Ok(LoadedIndex {
            directory: self.directory,
            revision: self.digest,
            digest,
            size,
            charts: outline.charts().count(),
            versions: outline.versions(),
            dropped: outline.dropped(),
        })
    }
}
