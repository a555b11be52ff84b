//! Expressions that are compiled and searched within bounds.

use everflow_gotemplate::{FuncError, Held, Meter};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use crate::support::fail;

/// How large an expression may become.
struct Size {
    /// Bytes of the compiled form.
    compiled: usize,
    /// Bytes of states that are remembered while searching, in each direction.
    cache: usize,
    /// Bytes that compiling needs.
    compiling: usize,
}

/// Nearly all expressions.
const USUAL: Size = Size {
    compiled: 256 << 10,
    cache: 256 << 10,
    compiling: 0,
};
const LARGE: Size = Size {
    compiled: 8 << 20,
    cache: 2 << 20,
    compiling: 40 << 20,
};
/// How deep expressions may nest.
const NEST_LIMIT: u32 = 4000;
/// The most that one search may cost: bytes of the compiled form times bytes of text. It cannot be
/// stopped meanwhile, and takes two seconds at the worst.
const MOST_SEARCHED: usize = 1 << 33;
/// With so many groups a search for their places costs twice as much.
const DOUBLING_GROUPS: usize = 40;

/// A compiled expression of bounded size. Searches take time in proportion to its size and the text.
#[derive(Debug)]
pub struct Bounded {
    pub(crate) regex: Regex,
    /// What it may need while it searches.
    cache_bytes: usize,
}

impl Bounded {
    /// Compiles an expression in the syntax of the regex crate. `None` where it is none, or too large.
    pub fn compile(pattern: &str, meter: &Meter<'_>) -> Result<Option<Self>, FuncError> {
        meter.check()?;
        if let Some(expression) = build(pattern, &USUAL) {
            return Ok(Some(expression));
        }
        let _held = meter.hold(LARGE.compiling)?;
        Ok(build(pattern, &LARGE))
    }

    /// The bytes of the compiled form.
    pub fn bytes(&self) -> usize {
        self.regex.memory_usage()
    }

    /// Whether it matches somewhere in a text.
    pub fn is_match(&self, text: &[u8], meter: &Meter<'_>) -> Result<bool, FuncError> {
        let _held = self.prepare(text, 0, meter)?;
        Ok(self.regex.is_match(text))
    }

    /// Refuses a search that could take too long, and charges what it needs. `groups` is how many groups
    /// it finds the places of.
    pub(crate) fn prepare<'m>(
        &self,
        text: &[u8],
        groups: usize,
        meter: &'m Meter<'_>,
    ) -> Result<Held<'m>, FuncError> {
        let compiled = self.bytes();
        let cost = compiled
            .saturating_mul(text.len())
            .saturating_mul(1 + groups / DOUBLING_GROUPS);
        if cost > MOST_SEARCHED {
            let length = text.len();
            return fail(format!(
                "the regular expression is too complex to search a text of {length} bytes"
            ));
        }
        meter.check()?;
        // Every state may remember the places of all groups.
        let places = if groups > 1 { compiled * groups } else { 0 };
        Ok(meter.hold(self.cache_bytes.saturating_add(places))?)
    }
}

fn build(pattern: &str, size: &Size) -> Option<Bounded> {
    let regex = Regex::builder()
        .syntax(syntax::Config::new().utf8(false).nest_limit(NEST_LIMIT))
        .configure(
            Regex::config()
                .utf8_empty(false)
                .nfa_size_limit(Some(size.compiled))
                .hybrid_cache_capacity(size.cache),
        )
        .build(pattern)
        .ok()?;
    Some(Bounded {
        cache_bytes: regex.memory_usage() + 2 * size.cache,
        regex,
    })
}
