//! Packs: many objects in one file, compressed, some as changes to others.
//!
//! The pack lies on disk and is never in memory as a whole. A first pass goes through it once and
//! names the objects that stand for themselves, a second one names the deltas. Afterwards objects
//! are read by name; large ones that are no deltas come as a stream.

mod cache;
mod naming;
mod source;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use everflow_env::Disk;
use everflow_limits::{Budget, at_most};
use sha1::{Digest as _, Sha1};

use cache::{Cache, SharedReader};
use naming::Unnamed;
use source::{Source, Stored};

use super::object::{IdHasher, Kind, ObjectId};
use super::{delta, pack_index};
use crate::Error;

/// What a pack may hold at most.
#[derive(Debug, Clone, Copy)]
pub struct PackLimits {
    /// Bytes of the pack itself.
    pub packed: u64,
    /// Number of objects.
    pub objects: u32,
    /// Bytes of all objects together.
    pub unpacked: u64,
    /// Bytes of an object that must be in memory: deltas, their bases, commits, tags and trees.
    pub in_memory: u64,
    /// How many deltas may stand on each other.
    pub chain: u16,
    /// Bytes that are put together from deltas in all, over every time that an object is read.
    pub made: u64,
}

impl Default for PackLimits {
    /// 4 GiB packed, 16 GiB unpacked, 5 million objects, 256 MiB for one in memory. The newest commit
    /// of the Linux kernel has 90,000 objects and 1.5 GiB.
    fn default() -> Self {
        PackLimits {
            packed: 4 << 30,
            objects: 5_000_000,
            unpacked: 16 << 30,
            in_memory: 256 << 20,
            chain: 4_096,
            made: 256 << 30,
        }
    }
}

/// Files up to this many bytes are read at once.
const SMALL: u64 = 1 << 20;

fn broken(what: impl std::fmt::Display) -> Error {
    Error::Protocol(format!("the pack is malformed: {what}"))
}

fn cut_short(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => broken("it ends in the middle of an object"),
        _ => broken(error),
    }
}

/// What an object is, and what it holds.
type Content = (Kind, Arc<Vec<u8>>);

/// What is known of an object after both passes.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: ObjectId,
    offset: u64,
    kind: Kind,
    /// How many deltas lie under it; `None` as long as it has no name.
    chain: Option<u16>,
}

/// A pack with the names of its objects.
pub struct Pack {
    disk: Arc<dyn Disk>,
    path: String,
    source: Source,
    limits: PackLimits,
    /// Sorted by place during the passes, by name afterwards.
    known: Vec<Known>,
    /// Where the bases of deltas are that name them.
    bases: BTreeMap<u64, u64>,
    cache: Cache,
    /// Bytes that were put together so far.
    made: u64,
    /// Bytes of all objects together, as far as they were counted.
    unpacked: u64,
}

/// What one object takes while the objects are named, in bytes.
const WEIGHT: usize = size_of::<Known>() + 16;
/// So many objects are charged at once.
const CHARGED: usize = 1_024;

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack")
            .field("objects", &self.known.len())
            .finish()
    }
}

impl Pack {
    /// Goes through a pack and names its objects. This blocks for long.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &str,
        limits: PackLimits,
        budget: &Budget,
    ) -> Result<Self, Error> {
        let mut source = Source::open(&*disk, path)?;
        source.hasher = Some(Sha1::new());
        if source.array::<4>()? != *b"PACK" {
            return Err(broken("it does not begin as a pack"));
        }
        if !matches!(u32::from_be_bytes(source.array()?), 2 | 3) {
            return Err(broken("unknown version"));
        }
        let count = u32::from_be_bytes(source.array()?);
        if count > limits.objects {
            return Err(Error::TooLarge {
                what: "the number of objects in the pack".to_owned(),
                limit: u64::from(limits.objects),
            });
        }
        let mut pack = Pack {
            disk,
            path: path.to_owned(),
            source,
            limits,
            known: Vec::new(),
            bases: BTreeMap::new(),
            cache: Cache::default(),
            made: 0,
            unpacked: 0,
        };
        let unnamed = pack.first_pass(count, budget)?;
        pack.check_trailer()?;
        pack.second_pass(&unnamed, budget)?;
        pack.known.sort_unstable_by_key(|known| known.id);
        Ok(pack)
    }

    /// Opens a pack by the index beside it, which says where objects are. Objects are checked when
    /// they are read.
    pub fn indexed(
        disk: Arc<dyn Disk>,
        path: &str,
        index: &[u8],
        limits: PackLimits,
    ) -> Result<Self, Error> {
        let places = pack_index::read(index)
            .ok_or_else(|| broken("its index is none, or of an unknown version"))?;
        let source = Source::open(&*disk, path)?;
        let known = places.into_iter().map(|(id, offset)| Known {
            id,
            offset,
            // Only its head says what it is.
            kind: Kind::Blob,
            chain: None,
        });
        let mut pack = Pack {
            disk,
            path: path.to_owned(),
            source,
            limits,
            known: known.collect(),
            bases: BTreeMap::new(),
            cache: Cache::default(),
            made: 0,
            unpacked: 0,
        };
        pack.known.sort_unstable_by_key(|known| known.id);
        Ok(pack)
    }

    /// An object, and what it is; its content is what its name says.
    pub fn object(&mut self, id: ObjectId, budget: &Budget) -> Result<Option<Content>, Error> {
        let Some(known) = self.find(id) else {
            return Ok(None);
        };
        let kind = self.kind_at(known.offset)?;
        let content = self.content(known.offset, budget)?;
        match ObjectId::of(kind, &content)? == id {
            true => Ok(Some((kind, content))),
            false => Err(broken(format_args!("the object {id} is another one"))),
        }
    }

    /// What the object at a place is: what it stands on says it.
    fn kind_at(&mut self, mut place: u64) -> Result<Kind, Error> {
        for _ in 0..=self.limits.chain {
            self.source.seek(place)?;
            place = match self.source.head()?.0 {
                Stored::Whole(kind) => return Ok(kind),
                Stored::OffsetDelta(base) => base,
                Stored::NameDelta(id) => self.base_of(place, id)?,
            };
        }
        Err(broken("too many deltas stand on each other"))
    }

    /// The place of the base that a delta names.
    fn base_of(&self, place: u64, id: ObjectId) -> Result<u64, Error> {
        let known = self.bases.get(&place).copied();
        known
            .or_else(|| self.find(id).map(|base| base.offset))
            .ok_or_else(|| broken("the base of a delta is missing"))
    }

    fn first_pass(&mut self, count: u32, budget: &Budget) -> Result<Vec<Unnamed>, Error> {
        let mut unnamed = Vec::new();
        for number in 0..count as usize {
            if number.is_multiple_of(CHARGED) {
                budget.charge(CHARGED * WEIGHT)?;
            }
            let offset = self.source.position;
            let (stored, size) = self.source.head()?;
            match stored {
                Stored::Whole(kind) => {
                    let mut hasher = IdHasher::new(kind, size);
                    self.source
                        .inflate(size, budget, &mut |piece| hasher.update(piece))?;
                    self.unpacked = self.unpacked.saturating_add(size);
                    self.known.push(Known {
                        id: hasher.finish()?,
                        offset,
                        kind,
                        chain: Some(0),
                    });
                }
                base => {
                    self.in_memory(size)?;
                    let mut start = Vec::new();
                    self.source.inflate(size, budget, &mut |piece| {
                        let room = 24_usize.saturating_sub(start.len());
                        start.extend_from_slice(&piece[..piece.len().min(room)]);
                    })?;
                    self.unpacked = self
                        .unpacked
                        .saturating_add(size.max(delta::result_size(&start)?));
                    unnamed.push(Unnamed {
                        at: self.known.len(),
                        base,
                    });
                    self.known.push(Known {
                        id: ObjectId([0; 20]),
                        offset,
                        kind: Kind::Blob,
                        chain: None,
                    });
                }
            }
            if self.unpacked > self.limits.unpacked {
                return Err(Error::TooLarge {
                    what: "the content of the pack".to_owned(),
                    limit: self.limits.unpacked,
                });
            }
        }
        Ok(unnamed)
    }

    fn check_trailer(&mut self) -> Result<(), Error> {
        let computed = self.source.hasher.take().unwrap_or_default().finalize();
        let claimed: [u8; 20] = self.source.array()?;
        match computed.as_slice() == claimed {
            true => Ok(()),
            false => Err(broken("its checksum does not fit its content")),
        }
    }

    /// A size that fits into memory.
    fn in_memory(&self, size: u64) -> Result<usize, Error> {
        let limit = self.limits.in_memory;
        let fits = usize::try_from(size).ok().filter(|_| size <= limit);
        fits.ok_or_else(|| Error::TooLarge {
            what: "an object of the pack".to_owned(),
            limit,
        })
    }

    /// Counts bytes that were put together.
    fn count_made(&mut self, bytes: usize) -> Result<(), Error> {
        self.made = self.made.saturating_add(bytes as u64);
        let what = "bytes put together from the pack";
        at_most(self.made, self.limits.made, what, "--max-git-made-bytes")?;
        Ok(())
    }

    /// The content of the object at a place; its deltas are applied one after the other.
    fn content(&mut self, offset: u64, budget: &Budget) -> Result<Arc<Vec<u8>>, Error> {
        let mut steps = Vec::new();
        let mut place = offset;
        let mut content = loop {
            if let Some(content) = self.cache.get(place) {
                break content;
            }
            self.source.seek(place)?;
            let (stored, size) = self.source.head()?;
            match stored {
                Stored::Whole(_) => {
                    let limit = self.limits.in_memory;
                    let content = self.source.inflate_whole(size, limit, budget)?;
                    self.count_made(content.len())?;
                    let content = Arc::new(content);
                    self.cache.put(place, content.clone());
                    break content;
                }
                Stored::OffsetDelta(base) => {
                    steps.push(place);
                    place = base;
                }
                Stored::NameDelta(id) => {
                    steps.push(place);
                    place = self.base_of(place, id)?;
                }
            }
            if steps.len() > usize::from(self.limits.chain) {
                return Err(broken("too many deltas stand on each other"));
            }
        };
        while let Some(place) = steps.pop() {
            self.source.seek(place)?;
            let (_, size) = self.source.head()?;
            let limit = self.limits.in_memory;
            let change = self.source.inflate_whole(size, limit, budget)?;
            content = Arc::new(delta::apply(&content, &change, limit)?);
            self.count_made(content.len())?;
            self.cache.put(place, content.clone());
        }
        Ok(content)
    }

    fn find(&self, id: ObjectId) -> Option<Known> {
        let found = self.known.binary_search_by_key(&id, |known| known.id);
        found.ok().map(|at| self.known[at])
    }

    /// The disk that it lies on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The names of all objects.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.known.iter().map(|known| known.id)
    }

    /// Bytes that were put together from deltas so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Bytes of all objects together; nothing is known of packs that were opened by their index.
    pub(crate) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// Lets go of contents that were kept for the next reads.
    pub(crate) fn forget(&mut self) {
        self.cache = Cache::default();
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.known.len().saturating_mul(WEIGHT)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether an object is here, and what it is.
    pub fn kind(&self, id: ObjectId) -> Option<Kind> {
        self.find(id).map(|known| known.kind)
    }

    /// An object of a kind, whole.
    pub fn read(
        &mut self,
        id: ObjectId,
        kind: Kind,
        budget: &Budget,
    ) -> Result<Arc<Vec<u8>>, Error> {
        let known = self.expect(id, kind)?;
        self.content(known.offset, budget)
    }

    fn expect(&self, id: ObjectId, kind: Kind) -> Result<Known, Error> {
        match self.find(id) {
            Some(known) if known.kind == kind => Ok(known),
            Some(known) => Err(Error::Protocol(format!(
                "the object {id} is a {}, not a {}",
                known.kind.name(),
                kind.name()
            ))),
            None => Err(Error::Protocol(format!(
                "object not found: the server did not send the {} {id}",
                kind.name()
            ))),
        }
    }

    /// A file's content as a stream, with its size.
    pub fn blob(
        &mut self,
        id: ObjectId,
        budget: &Budget,
    ) -> Result<(u64, Box<dyn Read + '_>), Error> {
        let known = self.expect(id, Kind::Blob)?;
        self.source.seek(known.offset)?;
        let (stored, size) = self.source.head()?;
        if matches!(stored, Stored::Whole(_)) && size <= SMALL {
            let content = self.source.inflate_whole(size, SMALL, budget)?;
            return Ok((size, Box::new(io::Cursor::new(content))));
        }
        if let Stored::Whole(_) = stored {
            let start = self.source.position;
            let mut file = self
                .disk
                .open(&self.path)
                .map_err(|error| Error::disk("open", &self.path, error))?;
            file.seek(SeekFrom::Start(start)).map_err(cut_short)?;
            let inflater = flate2::read::ZlibDecoder::new(file);
            return Ok((size, Box::new(inflater.take(size))));
        }
        let content = self.content(known.offset, budget)?;
        Ok((content.len() as u64, Box::new(SharedReader(content, 0))))
    }
}
