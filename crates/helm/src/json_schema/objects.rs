//! Holding objects against a schema.

use std::rc::Rc;

use everflow_json::{Map, Value};
use regex::Regex;

use super::document::Draft;
use super::keywords::{Keyword, Keywords};
use super::message::{Kind, Violation};
use super::validate::{Evaluated, Place, Step, take};

impl<'d> Place<'_, 'd> {
    pub(super) fn check_object(
        &self,
        object: &'d Map,
        evaluated: &mut Evaluated,
        errors: &mut Vec<Violation>,
    ) {
        self.check_count(Keyword::MinProperties, object.len(), errors);
        self.check_count(Keyword::MaxProperties, object.len(), errors);
        if let Some(missing) = missing_of(self.keyword(Keyword::Required), object) {
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
            if !object.contains_key(property) {
                continue;
            }
            if dependency.is_array() {
                if let Some(missing) = missing_of(Some(dependency), object) {
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
        let patterns = self.compiled_patterns(errors);
        let mut additional = Vec::new();
        for (name, value) in object {
            let mut seen = false;
            if let Some(schema) = self
                .keyword(Keyword::Properties)
                .and_then(|all| all.get(name))
            {
                seen = true;
                errors.extend(self.inside(schema, value, name).check().err());
            }
            for (pattern, schema) in &patterns {
                if pattern.is_match(name) {
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
                evaluated.properties.insert(name.to_string());
            }
        }
        if !additional.is_empty() {
            errors.push(self.violation(Kind::AdditionalProperties(additional)));
        }
    }

    pub(super) fn compiled_patterns(&self, errors: &mut Vec<Violation>) -> Vec<(Regex, &'d Value)> {
        let Some(Value::Object(patterns)) = self.keyword(Keyword::PatternProperties) else {
            return Vec::new();
        };
        let mut compiled = Vec::new();
        for (pattern, schema) in patterns {
            match self.run.pattern(pattern) {
                Ok(regex) => compiled.push((regex, schema)),
                Err(unusable) => errors.push(self.violation(unusable)),
            }
        }
        compiled
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
            };
            if let Err(violation) = place.check() {
                let causes = match *violation.kind {
                    Kind::Group => violation.causes,
                    _ => vec![violation],
                };
                errors.push(Violation {
                    location: String::new(),
                    kind: Box::new(Kind::PropertyName(name.to_string())),
                    causes,
                });
            }
        }
    }
}

fn missing_of(required: Option<&Value>, object: &Map) -> Option<Vec<String>> {
    let missing: Vec<String> = required?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !object.contains_key(name))
        .map(str::to_owned)
        .collect();
    (!missing.is_empty()).then_some(missing)
}
