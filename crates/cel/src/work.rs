//! What evaluations may take beside their cost. The cost is the API server's: it counts calls and
//! characters, but neither what a call builds nor what it walks through.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use crate::error::EvalError;
use crate::value::{ListKind, Value};

/// How much work evaluations may do together: about a second of it. What they make takes at most [`BYTES`] for
/// each of these, however much of it is kept: 128 MB.
const LIMIT: u64 = 16_000_000;
/// How much an evaluation by itself may do: less than a tenth of a second. Whoever evaluates for many objects does so on
/// the thread that everything else waits for.
const LIMIT_OF_ONE: u64 = LIMIT / 16;
/// How many bytes count as one.
const BYTES: u64 = 8;
/// What an item of a list takes.
const ITEM: u64 = size_of::<Value>() as u64 / BYTES;
/// What an entry of a map takes: key, value, and their share of a node that is half empty.
const ENTRY: u64 = 4 * ITEM;
/// The longest text that a call may make.
const LONGEST: u64 = 16 << 20;
/// How deep a value may nest that an expression makes.
const DEEPEST: usize = 400;
/// The largest compiled pattern that counts as an ordinary one.
const SMALL_PATTERN: usize = 64 << 10;
/// What compiling patterns counts for.
const SMALL_PATTERN_WORK: u64 = 50_000;
const LARGE_PATTERN_WORK: u64 = 4_000_000;
/// How much slower a large pattern may be.
const LARGE_PATTERN_BYTE: u64 = 8;
/// How many patterns are kept.
const PATTERNS: usize = 32;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    is_large: bool,
}

/// What is left for evaluations that belong together, and the patterns that they have compiled.
#[derive(Debug)]
pub(crate) struct Work {
    left: Cell<u64>,
    patterns: RefCell<Vec<(Rc<str>, Pattern)>>,
}

/// What is given back when it is dropped.
pub(crate) struct Held<'w> {
    work: &'w Work,
    held: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let left = &self.work.left;
        // Nothing comes back once it was not enough.
        if left.get() > 0 {
            left.set(left.get() + self.held);
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Work {
            left: Cell::new(LIMIT),
            patterns: RefCell::default(),
        }
    }
}

impl Work {
    /// For an evaluation that belongs to no others.
    pub(crate) fn of_one() -> Self {
        Work {
            left: Cell::new(LIMIT_OF_ONE),
            patterns: RefCell::default(),
        }
    }

    fn spend(&self, work: u64) -> Result<(), EvalError> {
        match self.left.get().checked_sub(work) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.left.set(0);
                Err(EvalError::TooExpensive)
            }
        }
    }

    /// Counts a value that an expression has made: all that is in it, however often it is the same.
    pub(crate) fn admit(&self, value: Value) -> Result<Value, EvalError> {
        self.spend(self.weight(&value)?)?;
        Ok(value)
    }

    /// Counts the items that a macro walks over as long as it does so.
    pub(crate) fn hold(&self, items: usize) -> Result<Held<'_>, EvalError> {
        let work = 2 * ITEM * items as u64;
        self.spend(work)?;
        Ok(Held {
            work: self,
            held: work,
        })
    }

    /// Counts a call before it is made.
    pub(crate) fn before(&self, name: &str, args: &[Value]) -> Result<(), EvalError> {
        let made = result_size(name, args);
        if made > LONGEST {
            return Err(EvalError::TooExpensive);
        }
        let mut work = made / BYTES;
        for arg in args {
            work = work.saturating_add(match walks(name) {
                true => self.weight(arg)?,
                false => size(arg),
            });
        }
        self.spend(work)
    }

    /// Counts what a call has made.
    pub(crate) fn after(&self, name: &str, result: &Value) -> Result<(), EvalError> {
        match builds(name) {
            true => self.spend(self.weight(result)?),
            false => self.spend(size(result)),
        }
    }

    /// How many values there are in one; fails when that is more than what is left.
    fn weight(&self, value: &Value) -> Result<u64, EvalError> {
        let most = self.left.get();
        let mut left = most;
        match weigh(value, DEEPEST, &mut left) {
            true => Ok(most - left),
            false => Err(EvalError::TooExpensive),
        }
    }

    /// A compiled pattern, for a text of so many bytes.
    pub(crate) fn pattern(&self, pattern: &Rc<str>, text: usize) -> Result<Pattern, EvalError> {
        let known = {
            let patterns = self.patterns.borrow();
            let known = patterns.iter().find(|(text, _)| text == pattern);
            known.map(|(_, compiled)| compiled.clone())
        };
        let compiled = match known {
            Some(compiled) => compiled,
            None => self.compiled(pattern)?,
        };
        if compiled.is_large {
            self.spend((text as u64).saturating_mul(LARGE_PATTERN_BYTE))?;
        }
        Ok(compiled)
    }

    fn compiled(&self, pattern: &Rc<str>) -> Result<Pattern, EvalError> {
        self.spend(SMALL_PATTERN_WORK + pattern.len() as u64)?;
        let small = RegexBuilder::new(pattern).size_limit(SMALL_PATTERN).build();
        let compiled = match small {
            Err(regex::Error::CompiledTooBig(_)) => {
                self.spend(LARGE_PATTERN_WORK)?;
                Regex::new(pattern).map(|regex| (regex, true))
            }
            other => other.map(|regex| (regex, false)),
        };
        let (regex, is_large) = compiled.map_err(|error| {
            EvalError::other(format!("error parsing regexp: {pattern:?}: {error}"))
        })?;
        let compiled = Pattern { regex, is_large };
        let mut patterns = self.patterns.borrow_mut();
        // Of the large ones, which take megabytes, only the last is kept.
        patterns.retain(|(_, known)| !(is_large && known.is_large));
        if patterns.len() == PATTERNS {
            patterns.remove(0);
        }
        patterns.push((pattern.clone(), compiled.clone()));
        Ok(compiled)
    }
}

/// Whether a call looks at all that is in its arguments.
fn walks(name: &str) -> bool {
    matches!(
        name,
        "_==_" | "_!=_" | "@in" | "indexOf" | "lastIndexOf" | "distinct" | "format" | "sum"
    ) || name.starts_with("sets.")
}

/// Whether a call may make a value that weighs more than its arguments.
fn builds(name: &str) -> bool {
    matches!(name, "_+_" | "optional.of" | "optional.ofNonZeroValue")
}

/// What a value counts for by itself.
fn size(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64 / BYTES,
        Value::Bytes(bytes) => bytes.len() as u64 / BYTES,
        Value::List(list) => ITEM * (list.items.len() as u64 + 2),
        Value::Map(map) => ENTRY * map.len() as u64,
        _ => 0,
    }
}

/// Takes a value with all that is in it off what is left; false when that is not enough, or it
/// nests too deep.
fn weigh(value: &Value, depth: usize, left: &mut u64) -> bool {
    let mut own = size(value);
    if let Value::List(list) = value
        && list.kind != ListKind::Atomic
    {
        // Without an order each item is looked for.
        let count = list.items.len() as u64;
        own = own.saturating_add(count.saturating_mul(count) / 4);
    }
    let Some(rest) = left.checked_sub(own).filter(|_| depth > 0) else {
        return false;
    };
    *left = rest;
    match value {
        Value::List(list) => list.items.iter().all(|item| weigh(item, depth - 1, left)),
        Value::Map(map) => map.values().all(|item| weigh(item, depth - 1, left)),
        Value::Optional(Some(inner)) => weigh(inner, depth - 1, left),
        _ => true,
    }
}

/// How many bytes of text a call is about to make, where that may be much more than it is given.
fn result_size(name: &str, args: &[Value]) -> u64 {
    let product = |count: usize, length: usize| (count as u64).saturating_mul(length as u64);
    match (name, args) {
        (
            "replace",
            [
                Value::String(text),
                Value::String(old),
                Value::String(new),
                limit @ ..,
            ],
        ) => {
            let most = match limit {
                [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let count = match old.len() {
                0 => text.len() + 1,
                // There can be no more of them, so that counting is not worth while.
                length if text.len() / length < 1_000 => text.len() / length,
                _ => text.matches(&**old).count(),
            };
            product(count.min(most), new.len()).saturating_add(text.len() as u64)
        }
        ("join", [Value::List(list), separator @ ..]) => {
            let between = match separator {
                [Value::String(separator)] => separator.len(),
                _ => 0,
            };
            let parts = list.items.iter().map(|item| match item {
                Value::String(text) => text.len() as u64,
                _ => 0,
            });
            parts.fold(product(list.items.len(), between), u64::saturating_add)
        }
        ("format", [Value::String(template), _]) => precisions(template),
        _ => 0,
    }
}

/// The sum of the precisions in a template.
fn precisions(template: &str) -> u64 {
    let clauses = template.split("%.").skip(1);
    clauses.fold(0, |sum: u64, clause| {
        let digits = clause.bytes().take_while(u8::is_ascii_digit);
        let precision = digits.fold(0_u64, |value, digit| {
            value
                .saturating_mul(10)
                .saturating_add(u64::from(digit - b'0'))
        });
        sum.saturating_add(precision)
    })
}
