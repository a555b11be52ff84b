//! A place in an object that is being checked: the value there, and the path that leads to it. Paths are spelled out
//! only when there is something to say, so that checking a good object costs no memory.

use std::borrow::Cow;

use everflow_json::Value;

use super::names;
use crate::field::{Errors, FieldError, Path, go_json, go_quote};
use everflow_schema::quantity::Quantity;

/// How a place is reached from the one above it.
#[derive(Clone, Copy, Debug)]
enum Step<'v> {
    Field(&'v str),
    Index(usize),
    Key(&'v str),
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct At<'p, 'v> {
    /// The value; null where there is none.
    pub value: &'v Value,
    step: Option<Step<'v>>,
    above: Option<&'p At<'p, 'v>>,
}

static NULL: Value = Value::Null;

/// A value that is null where there is none.
pub fn or_null(value: Option<&Value>) -> &Value {
    value.unwrap_or(&NULL)
}

impl<'p, 'v> At<'p, 'v> {
    /// The whole object.
    pub fn root(value: &'v Value) -> Self {
        At {
            value,
            step: None,
            above: None,
        }
    }

    /// A field of this value.
    pub fn child<'c>(&'c self, key: &'v str) -> At<'c, 'v> {
        At {
            value: or_null(self.value.get(key)),
            step: Some(Step::Field(key)),
            above: Some(self),
        }
    }

    /// The same value under the name of another field, where the real server names the wrong one.
    pub fn named<'c>(&'c self, value: &'v Value, key: &'v str) -> At<'c, 'v> {
        At {
            value,
            step: Some(Step::Field(key)),
            above: Some(self),
        }
    }

    /// Another value at the same place.
    pub fn with<'s>(&'s self, value: &'s Value) -> At<'s, 's> {
        let here: At<'s, 's> = *self;
        At { value, ..here }
    }

    /// An entry of a map.
    pub fn key<'c>(&'c self, key: &'v str) -> At<'c, 'v> {
        At {
            value: or_null(self.value.get(key)),
            step: Some(Step::Key(key)),
            above: Some(self),
        }
    }

    /// An item of a list.
    pub fn index<'c>(&'c self, index: usize) -> At<'c, 'v> {
        At {
            value: or_null(self.value.get(index)),
            step: Some(Step::Index(index)),
            above: Some(self),
        }
    }

    /// The items of a list.
    pub fn items<'c>(&'c self) -> impl Iterator<Item = At<'c, 'v>> + 'c {
        (0..self.len()).map(|index| self.index(index))
    }

    /// The entries of a map, as [`At::key`] names them.
    pub fn entries<'c>(&'c self) -> impl Iterator<Item = (&'v str, At<'c, 'v>)> + 'c {
        let map = self.value.as_object();
        map.into_iter().flatten().map(|(key, value)| {
            (
                key.as_str(),
                At {
                    value,
                    step: Some(Step::Key(key)),
                    above: Some(self),
                },
            )
        })
    }

    /// The number of items or entries.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    /// Whether there are no items, entries or letters.
    pub fn is_empty(&self) -> bool {
        match self.value {
            Value::String(text) => text.is_empty(),
            _ => self.len() == 0,
        }
    }

    /// Whether there is a value at all.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text, empty when there is none.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The texts of a list.
    pub fn texts(&self) -> Vec<&'v str> {
        self.value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// The whole number, if there is one.
    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The whole number, zero when there is none.
    pub fn number(&self) -> i64 {
        self.int().unwrap_or_default()
    }

    /// Whether the value is true.
    pub fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// The quantity, if there is one.
    pub fn quantity(&self) -> Option<Quantity> {
        self.value
            .as_str()
            .and_then(|text| Quantity::parse(text).ok())
    }

    /// The path as it is printed.
    pub fn path(&self) -> Path {
        let above = self.above.map_or_else(Path::root, At::path);
        match self.step {
            None => above,
            Some(Step::Field(name)) => above.child(name),
            Some(Step::Index(index)) => above.index(index),
            Some(Step::Key(key)) => above.key(key),
        }
    }

    /// The value is missing.
    pub fn required(&self, errors: &mut Errors, detail: &str) {
        errors.push(FieldError::required(&self.path(), detail));
    }

    /// The text is missing or empty; says whether it is there.
    pub fn needs_text(&self, errors: &mut Errors) -> bool {
        if self.text().is_empty() {
            self.required(errors, "");
        }
        !self.text().is_empty()
    }

    /// The value is not valid; it is shown as it is, a missing text as an empty one.
    pub fn invalid<'d>(&self, errors: &mut Errors, detail: impl Into<Cow<'d, str>>) {
        let shown = if self.value.is_null() {
            Value::from("")
        } else {
            self.value.clone()
        };
        errors.push(FieldError::invalid(&self.path(), shown, detail.into()));
    }

    /// The value is not valid; it is shown as null when it is missing.
    pub fn invalid_or_null<'d>(&self, errors: &mut Errors, detail: impl Into<Cow<'d, str>>) {
        errors.push(FieldError::invalid(
            &self.path(),
            self.value.clone(),
            detail.into(),
        ));
    }

    /// The value is not valid, and another one is shown.
    pub fn invalid_as<'d>(
        &self,
        errors: &mut Errors,
        shown: impl Into<Value>,
        detail: impl Into<Cow<'d, str>>,
    ) {
        errors.push(FieldError::invalid(&self.path(), shown, detail.into()));
    }

    /// The value is not valid, shown as its internal type prints.
    pub fn invalid_internal(&self, errors: &mut Errors, ty: &str, detail: &str) {
        let shown = super::internal::text(ty, self.value);
        errors.push(FieldError::invalid_shown(&self.path(), shown, detail));
    }

    /// The value is not valid, and not shown.
    pub fn invalid_hidden(&self, errors: &mut Errors, detail: &str) {
        let mut error = FieldError::invalid(&self.path(), Value::Null, detail);
        error.shown = None;
        errors.push(error);
    }

    /// The text is not one of the known ones.
    pub fn unsupported(&self, errors: &mut Errors, known: &[&str]) {
        let shown = if self.value.is_null() {
            Value::from("")
        } else {
            self.value.clone()
        };
        errors.push(FieldError::not_supported(&self.path(), shown, known));
    }

    /// The value may not be given.
    pub fn forbidden(&self, errors: &mut Errors, detail: &str) {
        errors.push(FieldError::forbidden(&self.path(), detail));
    }

    /// The value occurs twice.
    pub fn duplicate(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(&self.path(), self.value.clone()));
    }

    /// The text occurs twice, even if it is missing.
    pub fn duplicate_text(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(&self.path(), self.text()));
    }

    /// What the text names does not exist.
    pub fn not_found(&self, errors: &mut Errors) {
        errors.push(FieldError::not_found(&self.path(), self.text()));
    }

    /// The value has more bytes than it may.
    pub fn too_long(&self, errors: &mut Errors, limit: usize) {
        errors.push(FieldError::too_long(&self.path(), limit as i64));
    }

    /// The list has more items than it may.
    pub fn too_many(&self, errors: &mut Errors, limit: usize) {
        errors.push(FieldError::too_many(
            &self.path(),
            self.len() as i64,
            limit as i64,
        ));
    }

    /// The text follows a rule for names.
    pub fn by(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        for problem in rule(self.text()) {
            self.invalid_as(errors, self.text(), problem);
        }
    }

    /// As [`At::by`], for texts that may be missing.
    pub fn by_if_any(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if !self.text().is_empty() {
            self.by(rule, errors);
        }
    }

    /// As [`At::by`]; a missing text is an error of its own.
    pub fn needed_by(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.needs_text(errors) {
            self.by(rule, errors);
        }
    }

    /// The text, if there is one, is one of these.
    pub fn one_of(&self, errors: &mut Errors, known: &[&str]) {
        if self.is_set() && !known.contains(&self.text()) {
            self.unsupported(errors, known);
        }
    }

    /// The text is one of these; a missing one is an error of its own.
    pub fn needs_one_of(&self, errors: &mut Errors, known: &[&str]) {
        if self.needs_text(errors) {
            self.one_of(errors, known);
        }
    }

    /// The number, if there is one, is zero or more.
    pub fn not_negative(&self, errors: &mut Errors) {
        if self.number() < 0 {
            self.invalid(errors, "must be greater than or equal to 0");
        }
    }

    /// The number lies between two bounds.
    pub fn within(&self, low: i64, high: i64, errors: &mut Errors) {
        let number = self.number();
        if !(low..=high).contains(&number) {
            self.invalid_as(
                errors,
                number,
                format!("must be between {low} and {high}, inclusive"),
            );
        }
    }

    /// The number of a port.
    pub fn port(&self, errors: &mut Errors) {
        self.within(1, 65535, errors);
    }

    /// The number or the name of a port.
    pub fn port_or_name(&self, errors: &mut Errors) {
        match self.value {
            Value::String(_) => self.by(names::port_name, errors),
            _ => self.port(errors),
        }
    }

    /// The value is the one it was.
    pub fn unchanged(&self, old: &Value, errors: &mut Errors) {
        if self.value != old {
            self.immutable(errors);
        }
    }

    /// The value was changed and must not be.
    pub fn immutable(&self, errors: &mut Errors) {
        self.invalid_shown_plain(errors, "field is immutable");
    }

    /// As [`At::unchanged`], for a text that is empty when it is missing.
    pub fn text_unchanged(&self, old: &Value, errors: &mut Errors) {
        if self.text() != old.as_str().unwrap_or_default() {
            self.invalid(errors, "field is immutable");
        }
    }

    /// As [`At::unchanged`], shown as its internal type prints.
    pub fn unchanged_internal(&self, old: &Value, ty: &str, errors: &mut Errors) {
        if self.value != old {
            self.invalid_internal(errors, ty, "field is immutable");
        }
    }

    fn invalid_shown_plain(&self, errors: &mut Errors, detail: &str) {
        let shown = match self.value {
            Value::String(text) => go_quote(text),
            other => go_json(other),
        };
        errors.push(FieldError::invalid_shown(&self.path(), shown, detail));
    }

    /// Labels, or what selects by labels.
    pub fn labels(&self, errors: &mut Errors) {
        for (key, value) in self.entries() {
            for problem in names::qualified_name(key) {
                self.invalid_as(errors, key, problem);
            }
            for problem in names::label_value(value.text()) {
                self.invalid_as(errors, value.text(), problem);
            }
        }
    }

    /// Checks the values of a selector's requirement with one of the operators that all selectors have; whether it has one.
    pub fn is_membership(&self, errors: &mut Errors) -> bool {
        let values = self.child("values");
        match self.child("operator").text() {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                    values.required(errors, detail);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail =
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    values.forbidden(errors, detail);
                }
            }
            _ => return false,
        }
        true
    }

    /// A label selector, if there is one.
    pub fn label_selector(&self, errors: &mut Errors) {
        self.child("matchLabels").labels(errors);
        for requirement in self.child("matchExpressions").items() {
            if !requirement.is_membership(errors) {
                let operator = requirement.child("operator");
                operator.invalid(errors, "not a valid selector operator");
            }
            requirement.child("key").by(names::qualified_name, errors);
            requirement
                .child("values")
                .items()
                .for_each(|value| value.by(names::label_value, errors));
        }
    }

    /// A path below some directory.
    pub fn descending_path(&self, errors: &mut Errors) {
        if self.text().starts_with('/') {
            self.invalid(errors, "must be a relative path");
        }
        self.no_backsteps(errors);
    }

    /// A path that never goes up.
    pub fn no_backsteps(&self, errors: &mut Errors) {
        if self.text().split('/').any(|part| part == "..") {
            self.invalid(errors, "must not contain '..'");
        }
    }

    /// A path below some directory that is not one of the server's own.
    pub fn unreserved_path(&self, errors: &mut Errors) {
        self.descending_path(errors);
        if self.text().starts_with("..") && !self.text().starts_with("../") {
            self.invalid(errors, "must not start with '..'");
        }
    }

    /// The mode of a file.
    pub fn file_mode(&self, errors: &mut Errors) {
        if self.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            self.invalid(
                errors,
                "must be a number between 0 and 0777 (octal), both inclusive",
            );
        }
    }
}

/// Whether a label selector selects these labels. A missing selector selects nothing, an empty one everything.
/// `None` stands for a selector that makes no sense.
pub fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let root = At::root(selector);
    let mut fits = root
        .child("matchLabels")
        .entries()
        .all(|(key, value)| labels.get(key) == Some(value.value));
    for requirement in root.child("matchExpressions").items() {
        let found = labels
            .get(requirement.child("key").text())
            .and_then(Value::as_str);
        let values = requirement.child("values").texts();
        let listed = found.is_some_and(|value| values.contains(&value));
        fits &= match requirement.child("operator").text() {
            "In" if !values.is_empty() => listed,
            "NotIn" if !values.is_empty() => !listed,
            "Exists" if values.is_empty() => found.is_some(),
            "DoesNotExist" if values.is_empty() => found.is_none(),
            _ => return None,
        };
    }
    let mut problems = Errors::new();
    root.label_selector(&mut problems);
    problems.is_empty().then_some(fits)
}
