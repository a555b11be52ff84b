//! Holding a value against a schema.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use everflow_gotemplate::{BYTES_OF_A_STEP, FuncError, Meter};
use everflow_json::Value;

use super::document::{Document, Draft, LOCATION, escaped};
use super::equality::{equal, is_of_type, type_name, type_names};
use super::format;
use super::keywords::{Keyword, Keywords};
use super::message::{Kind, Violation};
use super::number::Exact;
use super::run::{Instance, Run};

/// How deep a value and its schema are followed together.
const MAX_DEPTH: usize = 512;
/// What a violation takes, with its line in the report.
const VIOLATION_BYTES: usize = 512;

/// Checks `value` against the document's root. Fails when there is not enough to do so.
pub(super) fn validate(
    document: &Document,
    value: &Value,
    meter: &Meter<'_>,
) -> Result<Option<Violation>, FuncError> {
    validate_as(document, value, &format!("{LOCATION}#"), meter)
}

/// Checks `value`, naming the schema `location` in the report.
pub(super) fn validate_as(
    document: &Document,
    value: &Value,
    location: &str,
    meter: &Meter<'_>,
) -> Result<Option<Violation>, FuncError> {
    let run = Run::new(document, meter);
    let outcome = {
        let keywords = Keywords::of(&document.root);
        let outside = Rc::from(LOCATION);
        let place = Place {
            run: &run,
            schema: &document.root,
            base: document.base_inside(&keywords, &outside).unwrap_or(outside),
            keywords,
            value,
            depth: 0,
            parent: None,
            step: Step::Root,
            instance: Cell::default(),
        };
        place.check()
    };
    if let Some(error) = run.used_up() {
        return Err(error);
    }
    let Err(violation) = outcome else {
        return Ok(None);
    };
    let bytes = violation.bytes;
    let causes = match *violation.kind {
        Kind::Group => violation.causes,
        _ => vec![violation],
    };
    Ok(Some(Violation {
        location: String::new(),
        kind: Box::new(Kind::Schema(location.to_owned())),
        causes,
        bytes,
    }))
}

/// A value where a schema meets it. Places know where they come from, so that a path is only spelt
/// out when there is something to report.
pub(super) struct Place<'p, 'd> {
    pub(super) run: &'p Run<'d>,
    pub(super) schema: &'d Value,
    pub(super) keywords: Keywords<'d>,
    pub(super) base: Rc<str>,
    pub(super) value: &'d Value,
    pub(super) depth: usize,
    pub(super) parent: Option<&'p Place<'p, 'd>>,
    pub(super) step: Step<'d>,
    pub(super) instance: Cell<Option<Instance>>,
}

/// How a place is reached from the one before it.
#[derive(Clone, Copy)]
pub(super) enum Step<'d> {
    /// It is the first, or the first about a name instead of a value.
    Root,
    /// The same value under another schema.
    Same,
    /// A property.
    Property(&'d str),
    /// An item.
    Item(usize),
}

/// Which properties and items some schema has looked at, for `unevaluated…`.
#[derive(Clone, Default)]
pub(super) struct Evaluated {
    pub(super) properties: BTreeSet<String>,
    pub(super) items: BTreeSet<usize>,
}

impl Evaluated {
    fn absorb(&mut self, other: Evaluated) {
        self.properties.extend(other.properties);
        self.items.extend(other.items);
    }
}

pub(super) type Outcome = Result<Evaluated, Violation>;

/// The keywords about numbers.
const BOUNDS: [Keyword; 5] = [
    Keyword::Minimum,
    Keyword::Maximum,
    Keyword::ExclusiveMinimum,
    Keyword::ExclusiveMaximum,
    Keyword::MultipleOf,
];

/// Whether a number keeps a bound.
type Relation = fn(&Exact, &Exact) -> bool;

impl<'d> Place<'_, 'd> {
    pub(super) fn violation(&self, kind: Kind) -> Violation {
        let location = self.location();
        // The line is indented by as much as it is deep.
        let bytes = VIOLATION_BYTES + 2 * location.len() + 2 * self.depth + kind.bytes();
        self.run.steps(1 + bytes / BYTES_OF_A_STEP);
        self.run.charge(bytes);
        Violation {
            location,
            kind: Box::new(kind),
            causes: Vec::new(),
            bytes,
        }
    }

    pub(super) fn caused(&self, kind: Kind, causes: Vec<Violation>) -> Violation {
        let below = causes
            .iter()
            .fold(0, |sum: usize, cause| sum.saturating_add(cause.bytes));
        let own = self.violation(kind);
        Violation {
            causes,
            bytes: own.bytes.saturating_add(below),
            ..own
        }
    }

    /// The value by its place in the tree.
    fn instance(&self) -> Instance {
        if let Some(known) = self.instance.get() {
            return known;
        }
        let parent = self.parent.map(Place::instance);
        let instance = match (self.step, parent) {
            (Step::Same, Some(same)) => same,
            (Step::Property(name), Some(parent)) => self.run.property(parent, name),
            (Step::Item(index), Some(parent)) => self.run.item(parent, index),
            _ => self.run.new_instance(),
        };
        self.instance.set(Some(instance));
        instance
    }

    /// Checks the target of a reference, unless that has been done.
    fn check_target(&self) -> Outcome {
        let instance = self.instance();
        if let Some(outcome) = self.run.outcome(self.schema, &self.base, instance) {
            return outcome;
        }
        let outcome = self.check();
        self.run
            .keep_outcome(self.schema, &self.base, instance, &outcome);
        outcome
    }

    /// The JSON pointer of the value.
    fn location(&self) -> String {
        let mut tokens = Vec::new();
        let mut place = Some(self);
        while let Some(current) = place {
            match current.step {
                Step::Root => break,
                Step::Same => {}
                Step::Property(name) => tokens.push(escaped(name)),
                Step::Item(index) => tokens.push(index.to_string()),
            }
            place = current.parent;
        }
        tokens.iter().rev().fold(String::new(), |mut path, token| {
            path.push('/');
            path.push_str(token);
            path
        })
    }

    /// Whether this schema is being applied to this very value already.
    fn is_cycle(&self) -> bool {
        let mut place = self;
        while let (Step::Same, Some(parent)) = (place.step, place.parent) {
            if std::ptr::eq(parent.schema, self.schema) {
                return true;
            }
            place = parent;
        }
        false
    }

    pub(super) fn step<'s>(
        &'s self,
        schema: &'d Value,
        value: &'d Value,
        step: Step<'d>,
    ) -> Place<'s, 'd> {
        let keywords = Keywords::of(schema);
        let base = self.run.document.base_inside(&keywords, &self.base);
        Place {
            run: self.run,
            schema,
            keywords,
            base: base.unwrap_or_else(|| Rc::clone(&self.base)),
            value,
            depth: self.depth + 1,
            parent: Some(self),
            step,
            instance: Cell::default(),
        }
    }

    /// The same value under another schema.
    pub(super) fn under<'s>(&'s self, schema: &'d Value) -> Place<'s, 'd> {
        self.step(schema, self.value, Step::Same)
    }

    /// A property under a schema.
    pub(super) fn inside<'s>(
        &'s self,
        schema: &'d Value,
        value: &'d Value,
        name: &'d str,
    ) -> Place<'s, 'd> {
        self.step(schema, value, Step::Property(name))
    }

    /// An item under a schema.
    pub(super) fn at<'s>(
        &'s self,
        schema: &'d Value,
        value: &'d Value,
        index: usize,
    ) -> Place<'s, 'd> {
        self.step(schema, value, Step::Item(index))
    }

    pub(super) fn keyword(&self, keyword: Keyword) -> Option<&'d Value> {
        self.keywords.get(keyword)
    }

    /// Checks the value against the schema.
    pub(super) fn check(&self) -> Outcome {
        let mark = self.run.meter.mark();
        if !self.run.steps(1 + self.keywords.entries) {
            return Err(Violation::unknown());
        }
        let outcome = self.check_keywords();
        if let Ok(evaluated) = &outcome {
            // What was found wrong on the way does not matter.
            self.run.meter.release_to(mark);
            self.run.charge(evaluated.bytes());
        }
        outcome
    }

    fn check_keywords(&self) -> Outcome {
        match self.schema {
            Value::Bool(true) => return Ok(Evaluated::default()),
            Value::Bool(false) => return Err(self.violation(Kind::FalseSchema)),
            _ => {}
        }
        if self.depth > MAX_DEPTH || self.is_cycle() {
            return Err(self.violation(Kind::ReferenceCycle));
        }
        self.check_identity()?;
        let mut evaluated = Evaluated::default();
        let mut errors = Vec::new();
        if let Some(reference) = self.keyword(Keyword::Ref).and_then(Value::as_str) {
            let outcome = self.check_reference(reference);
            if self.run.document.draft.reference_stands_alone() {
                return outcome;
            }
            take(outcome, &mut evaluated, &mut errors);
        }
        match self.value {
            Value::Object(object) => self.check_object(object, &mut evaluated, &mut errors),
            Value::Array(items) => self.check_array(items, &mut evaluated, &mut errors),
            Value::String(text) => self.check_string(text, &mut errors),
            Value::Number(_) => self.check_number(&mut errors),
            Value::Null | Value::Bool(_) => {}
        }
        for keyword in [Keyword::RecursiveRef, Keyword::DynamicRef] {
            if let Some(reference) = self.keyword(keyword).and_then(Value::as_str) {
                take(self.check_reference(reference), &mut evaluated, &mut errors);
            }
        }
        self.check_combinations(&mut evaluated, &mut errors);
        if self.run.document.draft >= Draft::Of2019 {
            self.check_unevaluated(&mut evaluated, &mut errors);
        }
        match errors.len() {
            0 => Ok(evaluated),
            1 => Err(errors.remove(0)),
            _ => Err(self.caused(Kind::Group, errors)),
        }
    }

    /// `type`, `const`, `enum` and `format`: the first that fails is the only one told.
    pub(super) fn check_identity(&self) -> Result<(), Violation> {
        if let Some(want) = self.keyword(Keyword::Type).map(type_names)
            && !want.is_empty()
            && !want.iter().any(|name| is_of_type(self.value, name))
        {
            let got = type_name(self.value);
            return Err(self.violation(Kind::Type { got, want }));
        }
        if let Some(want) = self.keyword(Keyword::Const)
            && !equal(self.value, want, self.run)
        {
            return Err(self.violation(Kind::Const(want.clone())));
        }
        if let Some(Value::Array(wanted)) = self.keyword(Keyword::Enum)
            && !wanted.iter().any(|want| equal(self.value, want, self.run))
        {
            return Err(self.violation(Kind::Enum(wanted.clone())));
        }
        if self.run.document.draft < Draft::Of2019
            && let Some(name) = self.keyword(Keyword::Format).and_then(Value::as_str)
            && let Err(cause) = format::check(name, self.value)
        {
            return Err(self.violation(Kind::Format {
                got: self.value.clone(),
                want: name.to_owned(),
                cause,
            }));
        }
        Ok(())
    }

    pub(super) fn check_reference(&self, reference: &str) -> Outcome {
        let length = self.base.len() + reference.len();
        if !self.run.steps(1 + length / BYTES_OF_A_STEP) {
            return Err(Violation::unknown());
        }
        let (target, base) = self
            .run
            .document
            .resolve(&self.base, reference)
            .map_err(|error| self.violation(Kind::Unusable(error.to_string())))?;
        let mut place = self.under(target);
        place.base = self
            .run
            .document
            .base_inside(&place.keywords, &base)
            .unwrap_or(base);
        place.check_target().map_err(|violation| {
            let causes = match *violation.kind {
                Kind::Group => violation.causes,
                _ => vec![violation],
            };
            self.caused(Kind::Reference, causes)
        })
    }

    pub(super) fn check_string(&self, text: &str, errors: &mut Vec<Violation>) {
        if self.keyword(Keyword::MinLength).is_some() || self.keyword(Keyword::MaxLength).is_some()
        {
            let length = text.chars().count();
            self.check_count(Keyword::MinLength, length, errors);
            self.check_count(Keyword::MaxLength, length, errors);
        }
        if let Some(pattern) = self.keyword(Keyword::Pattern).and_then(Value::as_str) {
            match self.run.matches(pattern, text) {
                Ok(true) => {}
                Ok(false) => errors.push(self.violation(Kind::Pattern {
                    got: text.to_owned(),
                    want: pattern.to_owned(),
                })),
                Err(unusable) => errors.push(self.violation(unusable)),
            }
        }
    }

    pub(super) fn check_number(&self, errors: &mut Vec<Violation>) {
        let Value::Number(found) = self.value else {
            return;
        };
        if !BOUNDS.iter().any(|bound| self.keyword(*bound).is_some()) {
            return;
        }
        let got = Exact::new(found);
        let exclusive = |keyword| self.keyword(keyword) == Some(&Value::Bool(true));
        let checks: [(Keyword, Relation); 5] = [
            (Keyword::Minimum, |got, want| got >= want),
            (Keyword::Maximum, |got, want| got <= want),
            (Keyword::ExclusiveMinimum, |got, want| got > want),
            (Keyword::ExclusiveMaximum, |got, want| got < want),
            (Keyword::MultipleOf, |got, want| got.is_multiple_of(want)),
        ];
        for (mut keyword, mut holds) in checks {
            let Some(want) = self.bound(keyword) else {
                continue;
            };
            // Draft 4 said `exclusiveMinimum: true` beside the bound.
            if keyword == Keyword::Minimum && exclusive(Keyword::ExclusiveMinimum) {
                (keyword, holds) = checks[2];
            } else if keyword == Keyword::Maximum && exclusive(Keyword::ExclusiveMaximum) {
                (keyword, holds) = checks[3];
            }
            if !holds(&got, &want) {
                let (keyword, got) = (keyword.text(), got.clone());
                errors.push(self.violation(Kind::Bound { keyword, got, want }));
            }
        }
    }

    pub(super) fn bound(&self, keyword: Keyword) -> Option<Exact> {
        match self.keyword(keyword) {
            Some(Value::Number(number)) => Some(Exact::new(number)),
            _ => None,
        }
    }

    pub(super) fn check_count(&self, keyword: Keyword, got: usize, errors: &mut Vec<Violation>) {
        let Some(want) = self.bound(keyword) else {
            return;
        };
        let keyword = keyword.text();
        let count = got as i64;
        let holds = match keyword.starts_with("min") {
            true => count >= want.as_count(),
            false => count <= want.as_count(),
        };
        if !holds {
            errors.push(self.violation(Kind::Count { keyword, got, want }));
        }
    }

    pub(super) fn check_combinations(
        &self,
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        if let Some(schema) = self.keyword(Keyword::Not)
            && self.under(schema).check().is_ok()
        {
            errors.push(self.violation(Kind::Not));
        }
        if let Some(Value::Array(schemas)) = self.keyword(Keyword::AllOf) {
            let mut failed = Vec::new();
            for schema in schemas {
                take(self.under(schema).check(), evaluated, &mut failed);
            }
            if !failed.is_empty() {
                errors.push(self.caused(Kind::AllOf, failed));
            }
        }
        if let Some(Value::Array(schemas)) = self.keyword(Keyword::AnyOf) {
            let mut failed = Vec::new();
            for schema in schemas {
                let before = failed.len();
                take(self.under(schema).check(), evaluated, &mut failed);
                // The others only matter to those who ask what has been looked at.
                if failed.len() == before && !self.run.document.tracks_evaluated {
                    break;
                }
            }
            if failed.len() == schemas.len() && !schemas.is_empty() {
                errors.push(self.caused(Kind::AnyOf, failed));
            }
        }
        if let Some(Value::Array(schemas)) = self.keyword(Keyword::OneOf) {
            self.check_one_of(schemas, evaluated, errors);
        }
        self.check_condition(evaluated, errors);
    }

    pub(super) fn check_one_of(
        &self,
        schemas: &'d [Value],
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let mut matched = None;
        let mut failed = Vec::new();
        for (index, schema) in schemas.iter().enumerate() {
            match (self.under(schema).check(), matched) {
                (Ok(seen), None) => {
                    matched = Some(index);
                    evaluated.absorb(seen);
                }
                (Ok(_), Some(first)) => {
                    errors.push(self.violation(Kind::OneOf(Some((first, index)))));
                    return;
                }
                (Err(violation), _) => failed.push(violation),
            }
        }
        if matched.is_none() && !schemas.is_empty() {
            errors.push(self.caused(Kind::OneOf(None), failed));
        }
    }

    pub(super) fn check_condition(&self, evaluated: &mut Evaluated, errors: &mut Vec<Violation>) {
        if self.run.document.draft < Draft::Seven {
            return;
        }
        let Some(condition) = self.keyword(Keyword::If) else {
            return;
        };
        let branch = match self.under(condition).check() {
            Ok(seen) => {
                evaluated.absorb(seen);
                Keyword::Then
            }
            Err(_) => Keyword::Else,
        };
        if let Some(schema) = self.keyword(branch) {
            take(self.under(schema).check(), evaluated, errors);
        }
    }

    pub(super) fn check_unevaluated(&self, evaluated: &mut Evaluated, errors: &mut Vec<Violation>) {
        if let (Some(schema), Value::Object(object)) =
            (self.keyword(Keyword::UnevaluatedProperties), self.value)
        {
            for (name, value) in object {
                if evaluated.properties.insert(name.to_string()) {
                    errors.extend(self.inside(schema, value, name).check().err());
                }
            }
        }
        if let (Some(schema), Value::Array(items)) =
            (self.keyword(Keyword::UnevaluatedItems), self.value)
        {
            for (index, item) in items.iter().enumerate() {
                if evaluated.items.insert(index) {
                    errors.extend(self.at(schema, item, index).check().err());
                }
            }
        }
    }
}

pub(super) fn take(outcome: Outcome, evaluated: &mut Evaluated, errors: &mut Vec<Violation>) {
    match outcome {
        Ok(seen) => evaluated.absorb(seen),
        Err(violation) => errors.push(violation),
    }
}
