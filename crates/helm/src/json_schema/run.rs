//! What all places of one validation share: what it may use, compiled patterns, and what has been found
//! out already.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use everflow_gotemplate::{FuncError, Meter};
use everflow_json::Value;
use everflow_sprig::BoundedRegex;

use super::document::Document;
use super::message::{Kind, Violation};
use super::validate::{Evaluated, Outcome};

/// A value by its place in the tree that is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Instance(u32);

/// What tells the parts of a list or map apart: the index of an item, or the key of a property where it
/// stands in memory.
type Part = (usize, usize);

/// What one entry of a table takes.
const ENTRY_BYTES: usize = 128;

/// A place of a schema, the document it is read in, and a value that it was held against.
type Met = (*const Value, Rc<str>, Instance);

pub(super) struct Run<'d> {
    pub(super) document: &'d Document,
    pub(super) meter: &'d Meter<'d>,
    /// Why the validation ends without a result.
    used_up: RefCell<Option<FuncError>>,
    /// Patterns that have been compiled, or why they cannot be.
    patterns: RefCell<HashMap<String, Result<Rc<BoundedRegex>, String>>>,
    instances: RefCell<HashMap<(Instance, Part), Instance>>,
    last_instance: Cell<u32>,
    /// What came of holding a value against the target of a reference. Only references let a schema meet
    /// the same value more than once, and without this each doubles what is below it.
    outcomes: RefCell<HashMap<Met, Outcome>>,
}

impl<'d> Run<'d> {
    pub(super) fn new(document: &'d Document, meter: &'d Meter<'d>) -> Self {
        Run {
            document,
            meter,
            used_up: RefCell::default(),
            patterns: RefCell::default(),
            instances: RefCell::default(),
            last_instance: Cell::new(0),
            outcomes: RefCell::default(),
        }
    }

    /// Notes why the validation cannot go on.
    fn end(&self, error: FuncError) {
        self.used_up.borrow_mut().get_or_insert(error);
    }

    /// Why the validation ended early, if it did.
    pub(super) fn used_up(self) -> Option<FuncError> {
        self.used_up.into_inner()
    }

    /// Counts steps of work. False when the validation is to end.
    pub(super) fn steps(&self, count: usize) -> bool {
        if self.used_up.borrow().is_some() {
            return false;
        }
        match self.meter.steps(count as u64) {
            Ok(()) => true,
            Err(error) => {
                self.end(error);
                false
            }
        }
    }

    /// Charges what is held until the schema that it belongs to is found to fit.
    pub(super) fn charge(&self, bytes: usize) {
        if let Err(exceeded) = self.meter.charge(bytes) {
            self.end(exceeded.into());
        }
    }

    /// Charges what is held until the end.
    fn keep(&self, bytes: usize) {
        if let Err(exceeded) = self.meter.add_buffer(bytes) {
            self.end(exceeded.into());
        }
    }

    /// Whether a pattern matches; a pattern that cannot be used says why.
    pub(super) fn matches(&self, pattern: &str, text: &str) -> Result<bool, Kind> {
        let compiled = self.pattern(pattern).map_err(|error| {
            Kind::Unusable(format!("pattern {pattern:?} cannot be used: {error}"))
        })?;
        let matched = compiled.is_match(text.as_bytes(), self.meter);
        Ok(matched.unwrap_or_else(|error| {
            self.end(error);
            false
        }))
    }

    fn pattern(&self, pattern: &str) -> Result<Rc<BoundedRegex>, String> {
        if let Some(known) = self.patterns.borrow().get(pattern) {
            return known.clone();
        }
        let compiled = match BoundedRegex::compile(pattern, self.meter) {
            Ok(Some(compiled)) => Ok(Rc::new(compiled)),
            // The other one has the words for what is wrong.
            Ok(None) => Err(match regex::Regex::new(pattern) {
                Ok(_) => "it is too large".to_owned(),
                Err(error) => error.to_string(),
            }),
            Err(error) => {
                let told = error.to_string();
                self.end(error);
                return Err(told);
            }
        };
        let bytes = match &compiled {
            Ok(compiled) => compiled.bytes(),
            Err(error) => error.len(),
        };
        self.keep(ENTRY_BYTES + pattern.len() + bytes);
        self.patterns
            .borrow_mut()
            .insert(pattern.to_owned(), compiled.clone());
        compiled
    }

    /// A value that has not been met.
    pub(super) fn new_instance(&self) -> Instance {
        self.last_instance.set(self.last_instance.get() + 1);
        Instance(self.last_instance.get())
    }

    pub(super) fn property(&self, of: Instance, name: &str) -> Instance {
        self.part(of, (name.as_ptr().addr(), name.len()))
    }

    pub(super) fn item(&self, of: Instance, index: usize) -> Instance {
        self.part(of, (index, usize::MAX))
    }

    fn part(&self, of: Instance, part: Part) -> Instance {
        let known = self.instances.borrow().get(&(of, part)).copied();
        known.unwrap_or_else(|| {
            self.keep(ENTRY_BYTES);
            let instance = self.new_instance();
            self.instances.borrow_mut().insert((of, part), instance);
            instance
        })
    }

    /// What came of a reference before.
    pub(super) fn outcome(
        &self,
        schema: &Value,
        base: &Rc<str>,
        instance: Instance,
    ) -> Option<Outcome> {
        let outcomes = self.outcomes.borrow();
        let outcome = outcomes.get(&(std::ptr::from_ref(schema), Rc::clone(base), instance))?;
        let bytes = bytes_of(outcome);
        self.steps(bytes / everflow_gotemplate::BYTES_OF_A_STEP);
        self.charge(bytes);
        match self.used_up.borrow().is_some() {
            true => Some(Err(Violation::unknown())),
            false => Some(outcome.clone()),
        }
    }

    pub(super) fn keep_outcome(
        &self,
        schema: &Value,
        base: &Rc<str>,
        instance: Instance,
        outcome: &Outcome,
    ) {
        self.keep(ENTRY_BYTES + bytes_of(outcome));
        if self.used_up.borrow().is_none() {
            let key = (std::ptr::from_ref(schema), Rc::clone(base), instance);
            self.outcomes.borrow_mut().insert(key, outcome.clone());
        }
    }
}

fn bytes_of(outcome: &Outcome) -> usize {
    match outcome {
        Ok(evaluated) => evaluated.bytes(),
        Err(violation) => violation.bytes,
    }
}

impl Evaluated {
    /// What the names and places take.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.properties.iter().map(|name| 64 + name.len()).sum();
        names + 32 * self.items.len()
    }
}
