//! What is in a bucket, and how it becomes an archive.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::http::{Method, header};
use everflow_env::{run_blocking, run_budgeted};
use everflow_limits::Budget;
use futures_util::StreamExt as _;

use super::answer::{Page, RequestFailure, page};
use super::endpoint::check_name;
use super::sign::query;
use super::{BucketClient, FAILED, LARGEST_PAGE};
use crate::archive::ignore::{IGNORE_FILE, read_patterns_within};
use crate::archive::unpack::SIZE_FLAG;
use crate::archive::{Algorithm, Digest, Digester, Ignore, Limit, Place, Tree};
use crate::download::save;
use crate::temporary::TemporaryDirectory;
use crate::{Deadline, Error};

/// How many bytes the keys and etags of all objects may have together.
const LONGEST_NAMES: usize = 256 << 20;
/// So many objects are downloaded at once.
const AT_ONCE: usize = 32;
/// The largest file of patterns that is read.
const LARGEST_LIST: u64 = 1 << 20;

/// What is in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// The etag of each object by its key.
    pub objects: BTreeMap<String, String>,
    /// The bucket's own `.sourceignore`.
    list: Option<Vec<u8>>,
}

impl Index {
    /// The digest that stands for the content: the revision of the source.
    pub fn revision(&self, algorithm: Algorithm) -> Digest {
        let mut digester = Digester::new(algorithm);
        for (key, etag) in &self.objects {
            digester.update(format!("{key} {etag}\n").as_bytes());
        }
        digester.finish()
    }

    /// Whether a revision, of any algorithm, stands for this content.
    pub fn is(&self, revision: &str) -> bool {
        match Digest::parse(revision) {
            Ok(digest) => self.revision(digest.algorithm()) == digest,
            Err(_) => false,
        }
    }
}

/// A finished file in the temporary area, to be published; it is gone when this is dropped.
#[derive(Debug)]
pub struct Fetched {
    place: TemporaryDirectory,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file.
    pub size: u64,
    /// What was downloaded: objects that vanished meanwhile are not in it, and those that changed
    /// have their new etag.
    pub index: Index,
}

impl Fetched {
    /// Where the file is.
    pub fn path(&self) -> String {
        self.place.file("artifact")
    }
}

fn failed(message: String) -> Error {
    Error::Source {
        reason: FAILED,
        message,
    }
}

fn object_failed(bucket: &str, key: &str, cause: &dyn std::fmt::Display) -> Error {
    failed(format!(
        "fetch from bucket '{bucket}' failed: failed to get '{key}' object: {cause}"
    ))
}

/// A key as a path below the root: what would lead out of it leads nowhere.
fn plain(key: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in key.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    (!parts.is_empty() && !key.contains('\0')).then(|| parts.join("/"))
}

/// One object on its way.
struct Object {
    number: usize,
    key: String,
    etag: String,
}

enum Got {
    File { size: u64, etag: String },
    Gone,
}

impl BucketClient {
    /// What is in the bucket and not left out by its `.sourceignore` or by `ignore`.
    pub async fn index(&self, ignore: Option<&str>, deadline: &Deadline) -> Result<Index, Error> {
        let bucket = &self.remote.bucket;
        self.confirm(deadline).await?;
        let list = self.list_file(deadline).await.map_err(|trouble| {
            failed(format!(
                "failed to get Etag for '{IGNORE_FILE}' object: {trouble}"
            ))
        })?;
        let own = String::from_utf8_lossy(list.as_deref().unwrap_or_default());
        let lists = Arc::new([own.into_owned(), ignore.unwrap_or_default().to_owned()]);
        let objects = self.objects(&lists, deadline).await.map_err(|trouble| {
            let message = format!(
                "indexation of objects from bucket '{bucket}' failed: \
                     listing objects from bucket '{bucket}' failed: {trouble}"
            );
            Error::step(FAILED, message, trouble.exceeded())
        })?;
        Ok(Index { objects, list })
    }

    async fn confirm(&self, deadline: &Deadline) -> Result<(), Error> {
        let bucket = &self.remote.bucket;
        let asked = match check_name(bucket) {
            Err(error) => Err(RequestFailure::Failed(error)),
            Ok(()) => self.request(Method::HEAD, "", None, deadline).await,
        };
        match asked {
            Ok(_) => Ok(()),
            Err(trouble) if trouble.is("NoSuchBucket") => {
                Err(failed(format!("bucket '{bucket}' not found")))
            }
            Err(trouble) => Err(failed(format!(
                "failed to confirm existence of '{bucket}' bucket: {trouble}"
            ))),
        }
    }

    async fn list_file(&self, deadline: &Deadline) -> Result<Option<Vec<u8>>, RequestFailure> {
        match self.request(Method::GET, IGNORE_FILE, None, deadline).await {
            Ok(response) => Ok(Some(response.body.read_all(LARGEST_LIST).await?)),
            Err(trouble) if trouble.is("NoSuchKey") => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    async fn objects(
        &self,
        lists: &Arc<[String; 2]>,
        deadline: &Deadline,
    ) -> Result<BTreeMap<String, String>, RequestFailure> {
        let old = self.endpoint.is_google();
        let prefix = self.remote.prefix.as_str();
        let mut objects = BTreeMap::new();
        let mut names = 0;
        let mut next: Option<String> = None;
        loop {
            let mut pairs = vec![
                ("delimiter", ""),
                ("encoding-type", "url"),
                ("prefix", prefix),
            ];
            match (old, &next) {
                (false, None) => pairs.push(("list-type", "2")),
                (false, Some(token)) => {
                    pairs.extend([("list-type", "2"), ("continuation-token", token.as_str())]);
                }
                (true, None) => {}
                (true, Some(marker)) => pairs.push(("marker", marker)),
            }
            let asked = Some(query(&pairs));
            let response = self.request(Method::GET, "", asked, deadline).await?;
            let bytes = response.body.read_all(LARGEST_PAGE).await?;
            let lists = lists.clone();
            let work = move |budget: &Budget| wanted(&bytes, old, &lists, budget);
            let read = run_budgeted(&*self.env.blocking, work).await;
            let read = read.ok_or(Error::Lost)??;
            for (key, etag) in read.objects {
                names += key.len() + etag.len();
                objects.insert(key, etag);
            }
            if names > LONGEST_NAMES {
                return Err(RequestFailure::Failed(Error::TooLarge {
                    what: "the text of all names in the bucket".to_owned(),
                    limit: LONGEST_NAMES as u64,
                }));
            }
            if objects.len() > self.remote.objects {
                return Err(RequestFailure::Failed(Error::TooLarge {
                    what: "the number of objects of the bucket".to_owned(),
                    limit: self.remote.objects as u64,
                }));
            }
            match read.next {
                None => return Ok(objects),
                Some(token) if next.as_ref() == Some(&token) => {
                    return Err(RequestFailure::Failed(Error::Protocol(
                        "the server gives the same page again and again".to_owned(),
                    )));
                }
                token => next = token,
            }
        }
    }

    /// Downloads what an index names and makes an archive of it.
    pub async fn fetch(
        &self,
        mut index: Index,
        algorithm: Algorithm,
        deadline: &Deadline,
    ) -> Result<Fetched, Error> {
        let env = self.env.clone();
        let place = run_blocking(&*self.env.blocking, move || {
            TemporaryDirectory::new(&env, "bucket")
        })
        .await
        .ok_or(Error::Lost)??;
        let total = AtomicU64::new(0);
        let objects: Vec<Object> = index
            .objects
            .iter()
            .enumerate()
            .map(|(number, (key, etag))| Object {
                number,
                key: key.clone(),
                etag: etag.clone(),
            })
            .collect();
        let (place_ref, total) = (&place, &total);
        let mut downloads = futures_util::stream::iter(objects)
            .map(|object| async move {
                let got = self.object(&object, place_ref, total, deadline).await;
                (object, got)
            })
            .buffer_unordered(AT_ONCE);
        let mut sizes = BTreeMap::new();
        while let Some((object, got)) = downloads.next().await {
            let got = got.map_err(|trouble| match trouble {
                RequestFailure::Failed(error @ (Error::Disk { .. } | Error::Lost)) => error,
                trouble => self.object_failed(&object.key, &trouble),
            })?;
            match got {
                Got::Gone => {
                    index.objects.remove(&object.key);
                }
                Got::File { size, etag } => {
                    if etag != object.etag {
                        index.objects.insert(object.key.clone(), etag);
                    }
                    sizes.insert(object.key, (object.number, size));
                }
            }
        }
        drop(downloads);
        let (digest, size) = self
            .pack(sizes, index.list.clone(), &place, algorithm)
            .await?;
        Ok(Fetched {
            place,
            digest,
            size,
            index,
        })
    }

    fn object_failed(&self, key: &str, cause: &dyn std::fmt::Display) -> Error {
        object_failed(&self.remote.bucket, key, cause)
    }

    async fn object(
        &self,
        object: &Object,
        place: &TemporaryDirectory,
        total: &AtomicU64,
        deadline: &Deadline,
    ) -> Result<Got, RequestFailure> {
        let asked = self.request(Method::GET, &object.key, None, deadline).await;
        let response = match asked {
            Err(trouble) if trouble.is("NoSuchKey") => return Ok(Got::Gone),
            asked => asked?,
        };
        let etag = match response.header(header::ETAG) {
            Some(etag) => etag.trim_matches('"').to_owned(),
            None => object.etag.clone(),
        };
        let path = place.file(&object.number.to_string());
        let left = self
            .remote
            .total
            .saturating_sub(total.load(Ordering::Relaxed));
        let limit = left.min(self.remote.limits.body);
        let (_, size) = save(&self.env, response.body, &path, Algorithm::Sha256, limit).await?;
        total.fetch_add(size, Ordering::Relaxed);
        Ok(Got::File { size, etag })
    }

    async fn pack(
        &self,
        sizes: Sizes,
        list: Option<Vec<u8>>,
        place: &TemporaryDirectory,
        algorithm: Algorithm,
    ) -> Result<(Digest, u64), Error> {
        let (disk, path) = (self.env.disk.clone(), place.file("artifact"));
        let limit = Limit::new(self.remote.total, SIZE_FLAG);
        let (bucket, directory) = (self.remote.bucket.clone(), place.path().to_owned());
        let list_path = place.file("list");
        let work = move |budget: &Budget| {
            let mut tree = tree(&bucket, &sizes, &directory, budget)?;
            if let Some(bytes) = list {
                let failing = |error| Error::disk("write", &list_path, error);
                let mut file = disk.create(&list_path).map_err(failing)?;
                file.write_all(&bytes).map_err(failing)?;
                let at = Place {
                    file: list_path.as_str().into(),
                    offset: 0,
                };
                tree.file(IGNORE_FILE, false, bytes.len() as u64, at, budget)?;
            }
            let failing = |error| Error::disk("write", &path, error);
            let out = BufWriter::with_capacity(256 * 1024, disk.create(&path).map_err(failing)?);
            let nothing = Ignore::only(Vec::new());
            let (out, summary) = tree.archive(&*disk, out, &nothing, algorithm, limit, budget)?;
            let mut file = out
                .into_inner()
                .map_err(|error| failing(error.into_error()))?;
            file.sync().map_err(failing)?;
            Ok((summary.digest, summary.size))
        };
        run_budgeted(&*self.env.blocking, work)
            .await
            .ok_or(Error::Lost)?
    }
}

/// Reads a page of the listing without what is left out.
fn wanted(
    bytes: &[u8],
    old: bool,
    lists: &[String; 2],
    budget: &Budget,
) -> Result<Page, RequestFailure> {
    let mut patterns = Vec::new();
    for list in lists {
        patterns.extend(read_patterns_within(list, &[], budget).map_err(Error::from)?);
    }
    let ignore = Ignore::only(patterns);
    let mut read = page(&String::from_utf8_lossy(bytes), old)?;
    let mut kept = Vec::new();
    for (key, etag) in read.objects {
        let is_aside = key.ends_with('/') || key == IGNORE_FILE;
        let left_out = ignore.leaves_out_within(&key, false, budget);
        if !left_out.map_err(Error::from)? && !is_aside {
            kept.push((key, etag));
        }
    }
    read.objects = kept;
    Ok(read)
}

/// By the key of an object: the number of the file that it was downloaded to, and how long that is.
type Sizes = BTreeMap<String, (usize, u64)>;

fn tree(bucket: &str, sizes: &Sizes, directory: &str, budget: &Budget) -> Result<Tree, Error> {
    let mut tree = Tree::new();
    for (key, (number, size)) in sizes {
        let file: Arc<str> = format!("{directory}/{number}").into();
        let path = plain(key)
            .ok_or_else(|| object_failed(bucket, key, &"its key cannot be a path of a file"))?;
        let at = Place { file, offset: 0 };
        tree.file(&path, false, *size, at, budget)
            .map_err(|error| match error {
                error @ Error::Limit(_) => error,
                error => object_failed(bucket, key, &error),
            })?;
    }
    Ok(tree)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn revisions_are_those_of_flux() {
        let mut index = Index::default();
        // The digest of nothing.
        assert_eq!(
            index.revision(Algorithm::Sha256).as_str(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        index.objects.insert("foo".to_owned(), "bar".to_owned());
        index.objects.insert("baz".to_owned(), "qux".to_owned());
        let lines = crate::archive::digest_of(Algorithm::Sha256, b"baz qux\nfoo bar\n");
        assert_eq!(index.revision(Algorithm::Sha256), lines);
        assert!(index.is(lines.as_str()));
        assert!(index.is(index.revision(Algorithm::Sha512).as_str()));
        assert!(!index.is("main@sha1:aa"));
    }

    #[test]
    fn keys_stay_below_the_root() {
        for (key, path) in [
            ("a/b", Some("a/b")),
            ("../../etc/passwd", Some("etc/passwd")),
            ("/abs//x/./y", Some("abs/x/y")),
            ("a/../..", None),
            (".", None),
            ("a\0b", None),
        ] {
            assert_eq!(plain(key).as_deref(), path, "{key:?}");
        }
    }
}
