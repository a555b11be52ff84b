//! Packs: many objects in one file, compressed, some as changes to others.
//!
//! The pack lies on disk and is never in memory as a whole. A first pass goes through it once and
//! names the objects that stand for themselves, a second one names the deltas. Afterwards objects
//! are read by name; large ones that are no deltas come as a stream.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use everflow_env::Disk;
use everflow_env::disk::FileReader;
use flate2::{Decompress, FlushDecompress, Status};
use sha1::{Digest as _, Sha1};

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
}

impl Default for PackLimits {
    /// 4 GiB packed, 16 GiB unpacked, 5 million objects, 256 MiB for one in memory.
    fn default() -> Self {
        PackLimits {
            packed: 4 << 30,
            objects: 5_000_000,
            unpacked: 16 << 30,
            in_memory: 256 << 20,
            chain: 4_096,
        }
    }
}

/// Files up to this many bytes are read at once.
const SMALL: u64 = 1 << 20;
/// Bases of deltas are kept up to this many bytes.
const CACHE: usize = 24 << 20;

fn broken(what: impl std::fmt::Display) -> Error {
    Error::Protocol(format!("the pack is malformed: {what}"))
}

fn cut_short(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => broken("it ends in the middle of an object"),
        _ => broken(error),
    }
}

/// What stands in front of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Whole(Kind),
    /// A change to the object at this place.
    OffsetDelta(u64),
    /// A change to the object of this name.
    NameDelta(ObjectId),
}

/// Reads the pack from some place on, knowing where it is.
struct Source {
    file: BufReader<Box<dyn FileReader>>,
    position: u64,
    /// Hashes all that goes by, in the first pass.
    hasher: Option<Sha1>,
    inflate: Decompress,
}

impl Source {
    fn open(disk: &dyn Disk, path: &str) -> Result<Self, Error> {
        let file = disk
            .open(path)
            .map_err(|error| Error::disk("open", path, error))?;
        Ok(Source {
            file: BufReader::with_capacity(64 * 1024, file),
            position: 0,
            hasher: None,
            inflate: Decompress::new(true),
        })
    }

    fn seek(&mut self, to: u64) -> Result<(), Error> {
        let distance = to as i64 - self.position as i64;
        self.file.seek_relative(distance).map_err(cut_short)?;
        self.position = to;
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.file.buffer()[..count]);
        }
        self.file.consume(count);
        self.position += count as u64;
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let byte = *self
            .file
            .fill_buf()
            .map_err(cut_short)?
            .first()
            .ok_or_else(|| broken("it ends in the middle of an object"))?;
        self.consume(1);
        Ok(byte)
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Error> {
        let mut bytes = [0; COUNT];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// The head of the object here: how it is stored, and its size (a delta's own size).
    fn head(&mut self) -> Result<(Stored, u64), Error> {
        let start = self.position;
        let mut byte = self.byte()?;
        let kind = byte >> 4 & 7;
        let mut size = u64::from(byte & 15);
        let mut shift = 4;
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if shift > 57 {
                return Err(broken("an object claims an impossible size"));
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        let stored = match kind {
            1 => Stored::Whole(Kind::Commit),
            2 => Stored::Whole(Kind::Tree),
            3 => Stored::Whole(Kind::Blob),
            4 => Stored::Whole(Kind::Tag),
            6 => Stored::OffsetDelta(self.offset_base(start)?),
            7 => Stored::NameDelta(ObjectId(self.array()?)),
            other => return Err(broken(format_args!("unknown object type {other}"))),
        };
        Ok((stored, size))
    }

    fn offset_base(&mut self, start: u64) -> Result<u64, Error> {
        let mut byte = self.byte()?;
        let mut back = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if back > 1 << 50 {
                return Err(broken("a delta's base lies outside"));
            }
            back = (back + 1) << 7 | u64::from(byte & 0x7f);
        }
        start
            .checked_sub(back)
            .filter(|_| back > 0)
            .ok_or_else(|| broken("a delta's base lies outside"))
    }

    /// Inflates the object here, `size` bytes and not one more or less.
    fn inflate(&mut self, size: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        self.inflate.reset(true);
        let mut out = [0; 16 * 1024];
        let mut given = 0_u64;
        loop {
            let (status, consumed, made) = self.inflate_piece(&mut out)?;
            given += made as u64;
            if given > size {
                return Err(broken("an object is larger than it claims"));
            }
            take(&out[..made]);
            match status {
                Status::StreamEnd if given == size => return Ok(()),
                Status::StreamEnd => {
                    return Err(broken("an object is smaller than it claims"));
                }
                _ if consumed == 0 && made == 0 => {
                    return Err(broken("an object does not end"));
                }
                _ => {}
            }
        }
    }

    fn inflate_piece(&mut self, out: &mut [u8]) -> Result<(Status, usize, usize), Error> {
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let input = self.file.fill_buf().map_err(cut_short)?;
        if input.is_empty() {
            return Err(broken("it ends in the middle of an object"));
        }
        let status = self
            .inflate
            .decompress(input, out, FlushDecompress::None)
            .map_err(|_| broken("an object is not compressed as it should be"))?;
        let consumed = (self.inflate.total_in() - before.0) as usize;
        let made = (self.inflate.total_out() - before.1) as usize;
        self.consume(consumed);
        Ok((status, consumed, made))
    }

    fn inflate_whole(&mut self, size: u64, limit: u64) -> Result<Vec<u8>, Error> {
        if size > limit {
            return Err(Error::TooLarge {
                what: "an object of the pack".to_owned(),
                limit,
            });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 20));
        self.inflate(size, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
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
}

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack")
            .field("objects", &self.known.len())
            .finish()
    }
}

/// A delta that has no name yet.
struct Unnamed {
    at: usize,
    base: Stored,
}

impl Pack {
    /// Goes through a pack and names its objects. This blocks for long.
    pub fn open(disk: Arc<dyn Disk>, path: &str, limits: PackLimits) -> Result<Self, Error> {
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
        };
        let unnamed = pack.first_pass(count)?;
        pack.check_trailer()?;
        pack.second_pass(unnamed)?;
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
        };
        pack.known.sort_unstable_by_key(|known| known.id);
        Ok(pack)
    }

    /// An object, and what it is; its content is what its name says.
    pub fn object(&mut self, id: ObjectId) -> Result<Option<Content>, Error> {
        let Some(known) = self.find(id) else {
            return Ok(None);
        };
        let kind = self.kind_at(known.offset)?;
        let content = self.content(known.offset)?;
        match ObjectId::of(kind, &content) == id {
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

    fn first_pass(&mut self, count: u32) -> Result<Vec<Unnamed>, Error> {
        let mut unnamed = Vec::new();
        let mut total = 0_u64;
        for _ in 0..count {
            let offset = self.source.position;
            let (stored, size) = self.source.head()?;
            match stored {
                Stored::Whole(kind) => {
                    let mut hasher = IdHasher::new(kind, size);
                    self.source
                        .inflate(size, &mut |piece| hasher.update(piece))?;
                    total = total.saturating_add(size);
                    self.known.push(Known {
                        id: hasher.finish(),
                        offset,
                        kind,
                        chain: Some(0),
                    });
                }
                base => {
                    let mut start = Vec::new();
                    self.source.inflate(size, &mut |piece| {
                        let room = 24_usize.saturating_sub(start.len());
                        start.extend_from_slice(&piece[..piece.len().min(room)]);
                    })?;
                    total = total.saturating_add(delta::result_size(&start)?);
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
            if total > self.limits.unpacked {
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

    /// Names the deltas, in rounds: each round names those whose base has a name.
    fn second_pass(&mut self, mut unnamed: Vec<Unnamed>) -> Result<(), Error> {
        let by_name = unnamed
            .iter()
            .any(|one| matches!(one.base, Stored::NameDelta(_)));
        let mut names: BTreeMap<ObjectId, u64> = BTreeMap::new();
        if by_name {
            let whole = self.known.iter().filter(|known| known.chain.is_some());
            names.extend(whole.map(|known| (known.id, known.offset)));
        }
        while !unnamed.is_empty() {
            let before = unnamed.len();
            let mut left = Vec::new();
            for one in unnamed {
                let base = match one.base {
                    Stored::OffsetDelta(base) => Some(base),
                    Stored::NameDelta(id) => names.get(&id).copied(),
                    Stored::Whole(_) => None,
                };
                let named = base.and_then(|base| self.named_at(base));
                let Some((base, chain)) = named else {
                    left.push(one);
                    continue;
                };
                if chain >= self.limits.chain {
                    return Err(broken("too many deltas stand on each other"));
                }
                let offset = self.known[one.at].offset;
                if let Stored::NameDelta(_) = one.base {
                    self.bases.insert(offset, base.offset);
                }
                let content = self.content_of_delta(offset, base.offset)?;
                let id = ObjectId::of(base.kind, &content);
                self.cache.put(offset, Arc::new(content));
                if by_name {
                    names.insert(id, offset);
                }
                self.known[one.at] = Known {
                    id,
                    offset,
                    kind: base.kind,
                    chain: Some(chain + 1),
                };
            }
            if left.len() == before {
                return Err(broken(
                    "the base of a delta is missing, or deltas stand on each other in a circle",
                ));
            }
            unnamed = left;
        }
        Ok(())
    }

    /// During the passes: an object by its place, when it has a name.
    fn named_at(&self, offset: u64) -> Option<(Known, u16)> {
        let found = self
            .known
            .binary_search_by_key(&offset, |known| known.offset);
        let known = self.known[found.ok()?];
        Some((known, known.chain?))
    }

    fn content_of_delta(&mut self, offset: u64, base: u64) -> Result<Vec<u8>, Error> {
        let base = self.content(base)?;
        self.source.seek(offset)?;
        let (_, size) = self.source.head()?;
        let change = self.source.inflate_whole(size, self.limits.in_memory)?;
        delta::apply(&base, &change, self.limits.in_memory)
    }

    /// The content of the object at a place; its deltas are applied one after the other.
    fn content(&mut self, offset: u64) -> Result<Arc<Vec<u8>>, Error> {
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
                    let content = self.source.inflate_whole(size, self.limits.in_memory)?;
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
            let change = self.source.inflate_whole(size, self.limits.in_memory)?;
            content = Arc::new(delta::apply(&content, &change, self.limits.in_memory)?);
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
    pub fn read(&mut self, id: ObjectId, kind: Kind) -> Result<Arc<Vec<u8>>, Error> {
        let known = self.expect(id, kind)?;
        self.content(known.offset)
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
    pub fn blob(&mut self, id: ObjectId) -> Result<(u64, Box<dyn Read + '_>), Error> {
        let known = self.expect(id, Kind::Blob)?;
        self.source.seek(known.offset)?;
        let (stored, size) = self.source.head()?;
        if matches!(stored, Stored::Whole(_)) && size <= SMALL {
            let content = self.source.inflate_whole(size, SMALL)?;
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
        let content = self.content(known.offset)?;
        Ok((content.len() as u64, Box::new(SharedReader(content, 0))))
    }
}

struct SharedReader(Arc<Vec<u8>>, usize);

impl Read for SharedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.0[self.1..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.1 += count;
        Ok(count)
    }
}

/// Contents that deltas may stand on, the latest used ones.
#[derive(Default)]
struct Cache {
    contents: BTreeMap<u64, (u64, Arc<Vec<u8>>)>,
    ages: BTreeMap<u64, u64>,
    clock: u64,
    bytes: usize,
}

impl Cache {
    fn get(&mut self, offset: u64) -> Option<Arc<Vec<u8>>> {
        let (age, content) = self.contents.get_mut(&offset)?;
        self.clock += 1;
        self.ages.remove(age);
        *age = self.clock;
        self.ages.insert(self.clock, offset);
        Some(content.clone())
    }

    fn put(&mut self, offset: u64, content: Arc<Vec<u8>>) {
        if content.len() > CACHE / 2 || self.contents.contains_key(&offset) {
            return;
        }
        self.bytes += content.len();
        self.clock += 1;
        self.ages.insert(self.clock, offset);
        self.contents.insert(offset, (self.clock, content));
        while self.bytes > CACHE {
            let Some((_, oldest)) = self.ages.pop_first() else {
                return;
            };
            if let Some((_, content)) = self.contents.remove(&oldest) {
                self.bytes -= content.len();
            }
        }
    }
}
