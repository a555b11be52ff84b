//! Holding objects against a schema.

use std::cell::Cell;
use std::rc::Rc;

use everflow_json::{Map, Value};

use super::document::Draft;
use super::keywords::{Keyword, Keywords};
use super::message::{Kind, Violation};
use super::validate::{Evaluated, Place, Step, take};

/// What noting the name of a property takes beside its text.
const NAME_BYTES: usize = 64;

impl<'d> Place<'_, 'd> {
    pub(super) fn check_object(
        &self,
        object: &'d Map,
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        self.check_count(Keyword::MinProperties, object.len(), errors);
        self.check_count(Keyword::MaxProperties, object.len(), errors);
        if let Some(missing) = self.missing_of(self.keyword(Keyword::Required), object) {
            errors.push(self.violation(Kind::Required(missing)));
        }
        self.check_dependencies(Keyword::Dependencies, object, evaluated, errors);
        self.check_properties(object, evaluated, errors);
        if self.run.document.draft == Draft::Four {
            return;
        }
        if let Some(schema) = self.keyword(Keyword::PropertyNames) {
            self.check_property_names(schema, object, errors);
        }
        self.check_dependencies(Keyword::DependentSchemas, object, evaluated, errors);
        self.check_dependencies(Keyword::DependentRequired, object, evaluated, errors);
    }

    pub(super) fn check_dependencies(
        &self,
        keyword: Keyword,
        object: &'d Map,
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let Some(Value::Object(dependencies)) = self.keyword(keyword) else {
            return;
        };
        for (property, dependency) in dependencies {
            if !self.run.steps(1) {
                return;
            }
            if !object.contains_key(property) {
                continue;
            }
            if dependency.is_array() {
                if let Some(missing) = self.missing_of(Some(dependency), object) {
                    let property = property.clone();
                    errors.push(self.violation(Kind::Dependency {
                        property: property.to_string(),
                        missing,
                    }));
                }
            } else {
                take(self.under(dependency).check(), evaluated, errors);
            }
        }
    }

    pub(super) fn check_properties(
        &self,
        object: &'d Map,
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        let patterns = self.patterns(errors);
        let mut additional = Vec::new();
        for (name, value) in object {
            if !self.run.steps(1 + patterns.len()) {
                return;
            }
            let mut seen = false;
            if let Some(schema) = self
                .keyword(Keyword::Properties)
                .and_then(|all| all.get(name))
            {
                seen = true;
                errors.extend(self.inside(schema, value, name).check().err());
            }
            for (pattern, schema) in &patterns {
                if self.run.matches(pattern, name) == Ok(true) {
                    seen = true;
                    errors.extend(self.inside(schema, value, name).check().err());
                }
            }
            if !seen && let Some(schema) = self.keyword(Keyword::AdditionalProperties) {
                seen = true;
                match schema {
                    Value::Bool(false) => additional.push(name.to_string()),
                    _ => errors.extend(self.inside(schema, value, name).check().err()),
                }
            }
            if seen && self.run.document.tracks_evaluated {
                self.run.charge(NAME_BYTES + name.len());
                evaluated.properties.insert(name.to_string());
            }
        }
        if !additional.is_empty() {
            errors.push(self.violation(Kind::AdditionalProperties(additional)));
        }
    }

    /// The patterns that can be used, with their schemas.
    fn patterns(&self, errors: &mut Vec<Violation>) -> Vec<(&'d str, &'d Value)> {
        let Some(Value::Object(patterns)) = self.keyword(Keyword::PatternProperties) else {
            return Vec::new();
        };
        let mut usable = Vec::new();
        for (pattern, schema) in patterns {
            if !self.run.steps(1) {
                break;
            }
            match self.run.matches(pattern, "") {
                Ok(_) => usable.push((pattern.as_str(), schema)),
                Err(unusable) => errors.push(self.violation(unusable)),
            }
        }
        usable
    }

    pub(super) fn check_property_names(
        &self,
        schema: &'d Value,
        object: &Map,
        errors: &mut Vec<Violation>,
    ) {
        for name in object.keys() {
            let value = Value::String(name.clone());
            let place = Place {
                run: self.run,
                schema,
                keywords: Keywords::of(schema),
                base: Rc::clone(&self.base),
                value: &value,
                depth: self.depth + 1,
                parent: None,
                step: Step::Root,
                instance: Cell::default(),
            };
            if let Err(violation) = place.check() {
                let bytes = violation.bytes;
                let causes = match *violation.kind {
                    Kind::Group => violation.causes,
                    _ => vec![violation],
                };
                let named = self.violation(Kind::PropertyName(name.to_string()));
                errors.push(Violation {
                    location: String::new(),
                    causes,
                    bytes: named.bytes.saturating_add(bytes),
                    ..named
                });
            }
        }
    }

    /// The required properties that are not there.
    fn missing_of(&self, required: Option<&Value>, object: &Map) -> Option<Vec<String>> {
        let required = required?.as_array()?;
        if !self.run.steps(required.len()) {
            return None;
        }
        let missing: Vec<String> = required
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| !object.contains_key(name))
            .map(str::to_owned)
            .collect();
        (!missing.is_empty()).then_some(missing)
    }
}
