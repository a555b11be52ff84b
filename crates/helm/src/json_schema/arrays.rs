//! Holding lists against a schema.

use std::collections::HashMap;

use everflow_json::Value;

use super::document::Draft;
use super::equality::{equal, hash};
use super::keywords::Keyword;
use super::message::{Kind, Violation};
use super::run::Run;
use super::validate::{Evaluated, Place};

/// What noting an item takes.
const ITEM_BYTES: usize = 32;

impl<'d> Place<'_, 'd> {
    pub(super) fn check_array(
        &self,
        items: &'d [Value],
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        self.check_count(Keyword::MinItems, items.len(), errors);
        self.check_count(Keyword::MaxItems, items.len(), errors);
        if self.keyword(Keyword::UniqueItems) == Some(&Value::Bool(true))
            && let Some((first, second)) = first_duplicate(items, self.run)
        {
            errors.push(self.violation(Kind::UniqueItems(first, second)));
        }
        match self.run.document.draft < Draft::Of2020 {
            true => self.check_items_by_position(items, evaluated, errors),
            false => self.check_prefix_and_rest(items, evaluated, errors),
        }
        if let Some(schema) = self.keyword(Keyword::Contains) {
            self.check_contains(schema, items, evaluated, errors);
        }
    }

    pub(super) fn check_items_by_position(
        &self,
        items: &'d [Value],
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let mut done = 0;
        match self.keyword(Keyword::Items) {
            Some(Value::Array(schemas)) => {
                done = schemas.len().min(items.len());
                for (index, (schema, item)) in schemas.iter().zip(items).enumerate() {
                    errors.extend(self.at(schema, item, index).check().err());
                }
            }
            Some(schema) => {
                done = items.len();
                self.check_each(schema, items, 0, errors);
            }
            None => {}
        }
        match self.keyword(Keyword::AdditionalItems) {
            Some(Value::Bool(false)) if done < items.len() => {
                errors.push(self.violation(Kind::AdditionalItems(items.len() - done)));
            }
            Some(schema) if schema.is_object() && done < items.len() => {
                self.check_each(schema, items, done, errors);
                done = items.len();
            }
            _ => {}
        }
        if self.run.document.tracks_evaluated {
            self.run.charge(done * ITEM_BYTES);
            evaluated.items.extend(0..done);
        }
    }

    pub(super) fn check_prefix_and_rest(
        &self,
        items: &'d [Value],
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let mut done = 0;
        if let Some(Value::Array(schemas)) = self.keyword(Keyword::PrefixItems) {
            done = schemas.len().min(items.len());
            for (index, (schema, item)) in schemas.iter().zip(items).enumerate() {
                errors.extend(self.at(schema, item, index).check().err());
            }
        }
        if let Some(schema) = self.keyword(Keyword::Items) {
            self.check_each(schema, items, done, errors);
            done = items.len();
        }
        if self.run.document.tracks_evaluated {
            self.run.charge(done * ITEM_BYTES);
            evaluated.items.extend(0..done);
        }
    }

    pub(super) fn check_each(
        &self,
        schema: &'d Value,
        items: &'d [Value],
        from: usize,
        errors: &mut Vec<Violation>,
    ) {
        for (index, item) in items.iter().enumerate().skip(from) {
            errors.extend(self.at(schema, item, index).check().err());
        }
    }

    pub(super) fn check_contains(
        &self,
        schema: &'d Value,
        items: &'d [Value],
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let mut matched = Vec::new();
        let mut mismatches = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match self.at(schema, item, index).check() {
                Ok(_) => matched.push(index),
                Err(violation) => mismatches.push(violation),
            }
        }
        if self.run.document.draft >= Draft::Of2020 {
            evaluated.items.extend(&matched);
        }
        match self.bound(Keyword::MinContains) {
            Some(want) if (matched.len() as i64) < want.as_count() => {
                let matched = matched.clone();
                errors.push(self.caused(Kind::MinContains { matched, want }, mismatches));
            }
            None if matched.is_empty() => errors.push(self.caused(Kind::Contains, mismatches)),
            _ => {}
        }
        if let Some(want) = self.bound(Keyword::MaxContains)
            && matched.len() as i64 > want.as_count()
        {
            errors.push(self.violation(Kind::MaxContains { matched, want }));
        }
    }
}

/// The first two items that are equal.
fn first_duplicate(items: &[Value], run: &Run<'_>) -> Option<(usize, usize)> {
    let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
    for (second, item) in items.iter().enumerate() {
        run.charge(2 * ITEM_BYTES);
        let alike = by_hash.entry(hash(item, run)?).or_default();
        let first = alike.iter().find(|first| equal(&items[**first], item, run));
        if let Some(first) = first {
            return Some((*first, second));
        }
        alike.push(second);
    }
    None
}
