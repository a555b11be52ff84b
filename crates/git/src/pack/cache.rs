//! Contents that are kept for a while.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// Bases of deltas are kept up to this many bytes.
const CACHE: usize = 24 << 20;

/// Reads what others hold too.
pub(super) struct SharedReader(pub(super) Arc<Vec<u8>>, pub(super) usize);

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
pub(super) struct Cache {
    contents: BTreeMap<u64, (u64, Arc<Vec<u8>>)>,
    ages: BTreeMap<u64, u64>,
    clock: u64,
    bytes: usize,
}

impl Cache {
    pub(super) fn get(&mut self, offset: u64) -> Option<Arc<Vec<u8>>> {
        let (age, content) = self.contents.get_mut(&offset)?;
        self.clock += 1;
        self.ages.remove(age);
        *age = self.clock;
        self.ages.insert(self.clock, offset);
        Some(content.clone())
    }

    pub(super) fn put(&mut self, offset: u64, content: Arc<Vec<u8>>) {
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
