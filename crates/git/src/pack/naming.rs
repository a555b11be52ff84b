//! Names for the deltas of a pack.
//!
//! What a delta makes, and so its name, is known only when its base is. The deltas are gone through
//! from their bases on, and each content is made once, while that of its base is held. A base is let
//! go before the largest group of deltas above it is gone into, so that few contents are held at a
//! time however the deltas stand on each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_limits::Budget;

use super::super::delta;
use super::super::object::ObjectId;
use super::source::Stored;
use super::{Known, Pack, broken};
use crate::Error;

/// A delta that has no name yet.
pub(super) struct Unnamed {
    pub(super) at: usize,
    pub(super) base: Stored,
}

/// No base at a place of the pack.
const NONE: u32 = u32::MAX;

/// Which deltas wait for which base. Objects are numbered by their places.
struct Waiting {
    /// Bases and their deltas, sorted.
    by_place: Vec<(u32, u32)>,
    by_name: BTreeMap<ObjectId, Vec<u32>>,
    /// How many objects stand on each by place, with itself.
    above: Vec<u32>,
}

impl Waiting {
    fn new(known: &[Known], unnamed: &[Unnamed]) -> Self {
        let mut bases = vec![NONE; known.len()];
        let mut by_name: BTreeMap<ObjectId, Vec<u32>> = BTreeMap::new();
        for one in unnamed {
            match one.base {
                Stored::OffsetDelta(base) => {
                    let found = known.binary_search_by_key(&base, |known| known.offset);
                    bases[one.at] = found.map_or(NONE, |at| at as u32);
                }
                Stored::NameDelta(id) => by_name.entry(id).or_default().push(one.at as u32),
                Stored::Whole(_) => {}
            }
        }
        let mut above = vec![1_u32; known.len()];
        // A base by place lies before its deltas.
        for at in (0..known.len()).rev().filter(|at| bases[*at] != NONE) {
            let base = bases[at] as usize;
            above[base] = above[base].saturating_add(above[at]);
        }
        let edges = bases.iter().enumerate().filter(|(_, base)| **base != NONE);
        let mut by_place: Vec<(u32, u32)> = edges.map(|(at, base)| (*base, at as u32)).collect();
        by_place.sort_unstable();
        Waiting {
            by_place,
            by_name,
            above,
        }
    }

    /// The deltas that stand on an object, the one with most above it first. Each is given once.
    fn take(&mut self, at: usize, id: ObjectId) -> Vec<u32> {
        let start = self.by_place.partition_point(|edge| (edge.0 as usize) < at);
        let edges = self.by_place[start..].iter();
        let mut found: Vec<u32> = edges
            .take_while(|edge| edge.0 as usize == at)
            .map(|edge| edge.1)
            .collect();
        found.extend(self.by_name.remove(&id).unwrap_or_default());
        found.sort_by_key(|at| std::cmp::Reverse(self.above[*at as usize]));
        found
    }
}

/// An object whose deltas are being named.
struct Base {
    at: usize,
    content: Arc<Vec<u8>>,
    deltas: Vec<u32>,
}

impl Pack {
    /// Names the deltas.
    pub(super) fn second_pass(
        &mut self,
        unnamed: &[Unnamed],
        budget: &Budget,
    ) -> Result<(), Error> {
        if unnamed.is_empty() {
            return Ok(());
        }
        let mut waiting = Waiting::new(&self.known, unnamed);
        let mut named = 0;
        for at in 0..self.known.len() {
            budget.check()?;
            let Known {
                id, offset, chain, ..
            } = self.known[at];
            if chain != Some(0) {
                continue;
            }
            let deltas = waiting.take(at, id);
            if deltas.is_empty() {
                continue;
            }
            self.source.seek(offset)?;
            let (_, size) = self.source.head()?;
            let size = self.in_memory(size)?;
            budget.charge(size)?;
            let limit = self.limits.in_memory;
            let content = self.source.inflate_whole(size as u64, limit, budget)?;
            self.count_made(content.len())?;
            let content = Arc::new(content);
            let base = Base {
                at,
                content,
                deltas,
            };
            named += self.name_above(base, &mut waiting, budget)?;
        }
        if named < unnamed.len() {
            return Err(broken(
                "the base of a delta is missing, or deltas stand on each other in a circle",
            ));
        }
        Ok(())
    }

    /// Names all that stands on an object; how many that were.
    fn name_above(
        &mut self,
        base: Base,
        waiting: &mut Waiting,
        budget: &Budget,
    ) -> Result<usize, Error> {
        let mut named = 0;
        let mut stack = vec![base];
        while let Some(base) = stack.last_mut() {
            let Some(delta) = base.deltas.pop() else {
                budget.release(base.content.len());
                stack.pop();
                continue;
            };
            let delta = delta as usize;
            let below = self.known[base.at];
            let chain = below.chain.unwrap_or_default();
            if chain >= self.limits.chain {
                return Err(broken("too many deltas stand on each other"));
            }
            let offset = self.known[delta].offset;
            let content = self.changed(offset, below.offset, &base.content, budget)?;
            if base.deltas.is_empty() {
                budget.release(base.content.len());
                stack.pop();
            }
            let id = ObjectId::of(below.kind, &content)?;
            self.known[delta] = Known {
                id,
                offset,
                kind: below.kind,
                chain: Some(chain + 1),
            };
            named += 1;
            let deltas = waiting.take(delta, id);
            if deltas.is_empty() {
                budget.release(content.len());
                continue;
            }
            stack.push(Base {
                at: delta,
                content: Arc::new(content),
                deltas,
            });
        }
        Ok(named)
    }

    /// What a delta makes of its base. Its size stays charged.
    fn changed(
        &mut self,
        offset: u64,
        base_offset: u64,
        base: &[u8],
        budget: &Budget,
    ) -> Result<Vec<u8>, Error> {
        self.source.seek(offset)?;
        let (stored, size) = self.source.head()?;
        if let Stored::NameDelta(_) = stored {
            self.bases.insert(offset, base_offset);
        }
        let size = self.in_memory(size)?;
        budget.charge(size)?;
        let limit = self.limits.in_memory;
        let change = self.source.inflate_whole(size as u64, limit, budget)?;
        budget.charge(self.in_memory(delta::result_size(&change)?)?)?;
        let content = delta::apply(base, &change, limit)?;
        self.count_made(content.len())?;
        budget.release(size);
        Ok(content)
    }
}
