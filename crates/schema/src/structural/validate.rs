//! Checks values against a structural schema, with Kubernetes' texts.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use everflow_json::{Map, Value};
use smol_str::SmolStr;

use super::field_error::{FieldError, FieldErrorKind, NO_FIELD};
use super::formats;
use super::numbers::{NumberCheck, Numeric, converts_to, is_json_integer, numeric};
use super::pattern::{Pattern, PatternError};
use super::ratchet::Before;
use super::report::Report;
use crate::go_text;
use crate::model::{JsonType, Shape, Type, TypeId};
use crate::schema::Schema;
use crate::validation::Validation;

/// Checks values against one schema; patterns are compiled once, on first use.
#[derive(Debug)]
pub struct Validator {
    schema: Schema,
    patterns: BTreeMap<SmolStr, OnceLock<Result<Pattern, PatternError>>>,
}

impl Validator {
    /// A validator for a schema read by [`Schema::from_structural`].
    pub fn new(schema: Schema) -> Self {
        let patterns = schema
            .types
            .iter()
            .filter_map(|(_, node)| node.validation.as_ref()?.pattern.clone())
            .map(|pattern| (pattern, OnceLock::new()))
            .collect();
        Self { schema, patterns }
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Checks a new object.
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        if self.surely_fits(object, self.schema.root) {
            return Vec::new();
        }
        let run = Run {
            validator: self,
            prefix: "",
        };
        finish(run.node(object, self.schema.root, "", None))
    }

    /// Checks a changed object; parts that did not change may be invalid.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        if self.surely_fits(object, self.schema.root) {
            return Vec::new();
        }
        let run = Run {
            validator: self,
            prefix: "",
        };
        let before = Before {
            old,
            type_id: self.schema.root,
        };
        finish(run.changed(object, self.schema.root, "", before))
    }

    /// Checks the `status` of an object that was changed through its status subresource.
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let status_type = self.schema.types.child(self.schema.root, "status");
        let (Some(type_id), Some(status)) = (status_type, object.get("status")) else {
            return Vec::new();
        };
        if self.surely_fits(status, type_id) {
            return Vec::new();
        }
        let run = Run {
            validator: self,
            prefix: "status",
        };
        finish(match old.get("status") {
            Some(old) => run.changed(status, type_id, "", Before { old, type_id }),
            None => run.node(status, type_id, "", None),
        })
    }
}

impl Validator {
    fn compiled(&self, pattern: &SmolStr) -> Option<&Result<Pattern, PatternError>> {
        let slot = self.patterns.get(pattern)?;
        Some(slot.get_or_init(|| Pattern::new(pattern)))
    }

    /// Whether a text matches the pattern, if there is one.
    pub(super) fn matches_pattern(&self, validation: &Validation, text: &str) -> bool {
        validation.pattern.as_ref().is_none_or(|pattern| {
            let compiled = self.compiled(pattern);
            matches!(compiled, Some(Ok(compiled)) if compiled.is_match(text))
        })
    }
}

fn finish(report: Report) -> Vec<FieldError> {
    report
        .errors
        .into_iter()
        .map(|finding| finding.error)
        .collect()
}

/// One pass over a value.
struct Run<'v> {
    validator: &'v Validator,
    /// Stands before the field of every error, but not in its text.
    prefix: &'static str,
}

/// The data of one node at its place.
#[derive(Clone, Copy)]
struct Spot<'a> {
    data: &'a Value,
    path: &'a str,
    before: Option<Before<'a>>,
}

impl<'v> Run<'v> {
    /// Checks a value that has an old one: errors of an unchanged value are dropped.
    fn changed(&self, data: &Value, type_id: TypeId, path: &str, before: Before<'_>) -> Report {
        let mut report = self.node(data, type_id, path, Some(before));
        if !report.is_valid() && before.equals(&self.validator.schema.types, data) {
            report.errors.clear();
        }
        report
    }

    fn child(
        &self,
        data: &Value,
        type_id: TypeId,
        path: &str,
        before: Option<Before<'_>>,
    ) -> Report {
        match before {
            Some(before) => self.changed(data, type_id, path, before),
            None => self.node(data, type_id, path, None),
        }
    }

    fn node(
        &self,
        data: &Value,
        type_id: TypeId,
        path: &str,
        before: Option<Before<'_>>,
    ) -> Report {
        let mut report = Report::default();
        let Some(node) = self.validator.schema.types.get(type_id) else {
            return report;
        };
        let empty = Validation::default();
        let validation = node.validation.as_deref().unwrap_or(&empty);
        let spot = Spot { data, path, before };
        let types = declared_types(node);
        let format = formats::usable(validation.format.as_deref(), types);
        if data.is_null() {
            report.merge(self.check_type(node, types, format, spot));
            report.merge(self.check_enum(validation, spot));
            return report;
        }
        let mut part = |result: Report| {
            report.merge(result);
            report.matches += 1;
        };
        if !types.is_empty() || format.is_some() {
            part(self.check_type(node, types, format, spot));
        }
        part(self.check_alternatives(validation, spot));
        if let Value::String(text) = data {
            part(self.check_text(validation, text, path));
            if let Some(format) = format.filter(|format| formats::is_known_format(format)) {
                part(self.check_format(format, text, path));
            }
        }
        if let Some(number) = numeric(data) {
            part(self.check_number(validation, types, format, number, path));
        }
        if let Value::Array(items) = data {
            part(self.check_items(node, validation, items, spot));
        }
        part(self.check_enum(validation, spot));
        if let Value::Object(fields) = data {
            part(self.check_fields(node, validation, fields, spot));
        }
        report.matches += 1;
        report
    }

    fn field(&self, path: &str) -> String {
        let path = path.strip_prefix('.').unwrap_or(path);
        match (self.prefix, path) {
            ("", "") => NO_FIELD.to_owned(),
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }

    fn invalid(&self, report: &mut Report, path: &str, value: Value, problem: &str) {
        let text = format!("{path} in body {problem}");
        report.add(
            text.clone(),
            FieldError::invalid(self.field(path), value, text),
        );
    }

    /// An error about no field: the text names the path itself.
    fn composite(&self, report: &mut Report, text: String) {
        report.add(
            text.clone(),
            FieldError::invalid(self.field(""), Value::from(""), text),
        );
    }

    fn wrong_type(&self, path: &str, wanted: &str, found: &str) -> Report {
        let mut report = Report::default();
        let text = format!(
            "{path} in body must be of type {wanted}: {}",
            go_text::quote(found)
        );
        let error = FieldError::new(
            FieldErrorKind::TypeInvalid,
            self.field(path),
            Value::from(found),
            text.clone(),
        );
        report.add(text, error);
        report
    }

    fn check_type(
        &self,
        node: &Type,
        types: &[JsonType],
        format: Option<&str>,
        spot: Spot<'_>,
    ) -> Report {
        let matched = Report {
            matches: 1,
            ..Report::default()
        };
        let wanted = || {
            types
                .iter()
                .map(|one| one.as_str())
                .collect::<Vec<_>>()
                .join(",")
        };
        if spot.data.is_null() {
            if types.is_empty() || node.nullable {
                return matched;
            }
            return self.wrong_type(spot.path, &wanted(), "null");
        }
        let has = |wanted: JsonType| types.contains(&wanted);
        let (found, found_format) = match (spot.data, numeric(spot.data)) {
            (_, Some(Numeric::Integer(_))) => (JsonType::Integer, "int64"),
            (_, Some(Numeric::Float(_))) => (JsonType::Number, "float64"),
            (Value::Bool(_), _) => (JsonType::Boolean, ""),
            (Value::String(_), _) => (JsonType::String, ""),
            (Value::Array(_), _) => (JsonType::Array, ""),
            _ => (JsonType::Object, ""),
        };
        let whole_float = match numeric(spot.data) {
            Some(Numeric::Float(float)) => is_json_integer(float) && has(JsonType::Integer),
            _ => false,
        };
        let fits =
            has(found) || whole_float || (found == JsonType::Integer && has(JsonType::Number));
        let text_or_list = matches!(spot.data, Value::String(_) | Value::Array(_));
        if let Some(format) = format {
            if !text_or_list && !fits && found_format != format {
                return self.wrong_type(spot.path, format, found_format);
            }
            if text_or_list && !has(JsonType::Number) && !has(JsonType::Integer) {
                return matched;
            }
        }
        if fits {
            matched
        } else {
            self.wrong_type(spot.path, &wanted(), found.as_str())
        }
    }

    fn check_alternatives(&self, validation: &Validation, spot: Spot<'_>) -> Report {
        let mut report = Report::default();
        let try_one = |type_id: &TypeId| self.node(spot.data, *type_id, spot.path, spot.before);
        let quoted = go_text::quote(spot.path);
        if !validation.any_of.is_empty() {
            let mut best: Option<Report> = None;
            let mut valid = false;
            for type_id in &validation.any_of {
                let result = try_one(type_id);
                if result.is_valid() {
                    best = Some(result);
                    valid = true;
                    break;
                }
                if best
                    .as_ref()
                    .is_none_or(|best| result.matches > best.matches)
                {
                    best = Some(result);
                }
            }
            if !valid {
                self.composite(
                    &mut report,
                    format!("{quoted} must validate at least one schema (anyOf)"),
                );
            }
            report.merge(best.unwrap_or_default());
        }
        if !validation.one_of.is_empty() {
            self.check_one_of(validation, &quoted, &try_one, &mut report);
        }
        if !validation.all_of.is_empty() {
            let mut valid = 0;
            for type_id in &validation.all_of {
                let result = try_one(type_id);
                valid += usize::from(result.is_valid());
                report.merge(result);
            }
            if valid != validation.all_of.len() {
                let more = if valid == 0 { ". None validated" } else { "" };
                self.composite(
                    &mut report,
                    format!("{quoted} must validate all the schemas (allOf){more}"),
                );
            }
        }
        if let Some(type_id) = &validation.not
            && try_one(type_id).is_valid()
        {
            self.composite(
                &mut report,
                format!("{quoted} must not validate the schema (not)"),
            );
        }
        report.matches += 1;
        report
    }

    fn check_one_of(
        &self,
        validation: &Validation,
        quoted: &str,
        try_one: &dyn Fn(&TypeId) -> Report,
        report: &mut Report,
    ) {
        let mut best: Option<Report> = None;
        let mut first_valid: Option<Report> = None;
        let mut valid = 0;
        for type_id in &validation.one_of {
            let result = try_one(type_id);
            if result.is_valid() {
                valid += 1;
                first_valid.get_or_insert(result);
            } else if best
                .as_ref()
                .is_none_or(|best| result.matches > best.matches)
            {
                best = Some(result);
            }
        }
        if valid == 1 {
            report.merge(first_valid.unwrap_or_default());
            return;
        }
        let more = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };
        self.composite(
            report,
            format!("{quoted} must validate one and only one schema (oneOf). {more}"),
        );
        if valid == 0 {
            report.merge(best.unwrap_or_default());
        }
    }

    fn check_text(&self, validation: &Validation, text: &str, path: &str) -> Report {
        let mut report = Report::default();
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let value = || Value::from(text);
        if let Some(max) = validation.max_length.filter(|max| length > *max) {
            report.add(
                format!("{path} too long {max}"),
                FieldError::too_long(self.field(path), max),
            );
        } else if let Some(min) = validation.min_length.filter(|min| length < *min) {
            self.invalid(
                &mut report,
                path,
                value(),
                &format!("should be at least {min} chars long"),
            );
        } else if let Some(pattern) = &validation.pattern {
            match self.validator.compiled(pattern) {
                Some(Ok(compiled)) if compiled.is_match(text) => {}
                Some(Err(error)) => {
                    let problem =
                        format!("should match '{pattern}, but pattern is invalid: {error}'");
                    self.invalid(&mut report, path, value(), &problem);
                }
                _ => self.invalid(
                    &mut report,
                    path,
                    value(),
                    &format!("should match '{pattern}'"),
                ),
            }
        }
        report
    }

    fn check_format(&self, format: &str, text: &str, path: &str) -> Report {
        if formats::matches_format(format, text) {
            Report::default()
        } else {
            self.wrong_type(path, format, text)
        }
    }

    fn check_number(
        &self,
        validation: &Validation,
        types: &[JsonType],
        format: Option<&str>,
        number: Numeric,
        path: &str,
    ) -> Report {
        let json_type = match types {
            [one @ (JsonType::Integer | JsonType::Number)] => Some(*one),
            _ => None,
        };
        let format = json_type.and(format);
        let no_field = self.field("");
        let check = NumberCheck {
            validation,
            json_type,
            format,
            path,
            field: &|path| self.field(path),
            no_field: &no_field,
        };
        check.run(number)
    }

    fn check_items(
        &self,
        node: &Type,
        validation: &Validation,
        items: &[Value],
        spot: Spot<'_>,
    ) -> Report {
        let mut report = Report::default();
        let types = &self.validator.schema.types;
        if let Shape::List(list) = &node.shape {
            for (at, item) in items.iter().enumerate() {
                let before = spot.before.and_then(|before| before.item(types, item));
                report.merge(self.child(item, list.item, &format!("{}[{at}]", spot.path), before));
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = validation.min_items.filter(|min| size < *min) {
            let problem = format!("should have at least {min} items");
            self.invalid(&mut report, spot.path, Value::from(size), &problem);
        }
        if let Some(max) = validation.max_items.filter(|max| size > *max) {
            let error = FieldError::too_many(self.field(spot.path), items.len(), max);
            report.add(format!("{} too many items {max}", spot.path), error);
        }
        let repeated = || {
            items
                .iter()
                .enumerate()
                .any(|(at, item)| items[..at].contains(item))
        };
        if validation.unique_items && repeated() {
            self.invalid(
                &mut report,
                spot.path,
                Value::from(""),
                "shouldn't contain duplicates",
            );
        }
        report.matches += 1;
        report
    }

    fn check_enum(&self, validation: &Validation, spot: Spot<'_>) -> Report {
        let mut report = Report::default();
        let allowed = &validation.enum_values;
        if allowed.is_empty()
            || allowed
                .iter()
                .any(|allowed| converts_to(spot.data, allowed))
        {
            return report;
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| go_text::json(value), str::to_owned)
            })
            .collect();
        let error = FieldError::not_supported(self.field(spot.path), spot.data.clone(), &texts);
        report.add(format!("{} should be one of {texts:?}", spot.path), error);
        report
    }

    fn check_fields(
        &self,
        node: &Type,
        validation: &Validation,
        fields: &Map,
        spot: Spot<'_>,
    ) -> Report {
        let mut report = Report::default();
        let path = spot.path;
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(min) = validation.min_properties.filter(|min| size < *min) {
            self.invalid(
                &mut report,
                path,
                Value::from(size),
                &format!("should have at least {min} properties"),
            );
        }
        if let Some(max) = validation.max_properties.filter(|max| size > *max) {
            let error = FieldError::too_many(self.field(path), fields.len(), max);
            report.add(format!("{path} too many properties {max}"), error);
        }
        let Shape::Object(object) = &node.shape else {
            return report;
        };
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| object.field(name).is_none())
        {
            if object.additional_allowed == Some(false) {
                let text = format!("{path}.{name} in body is a forbidden property");
                report.add(
                    text.clone(),
                    FieldError::invalid(self.field(path), Value::from(name.as_str()), text),
                );
            } else if let Some(additional) = object.additional {
                let before = self.before_field(spot, name);
                report.merge(self.child(value, additional, &format!("{path}.{name}"), before));
            }
        }
        for field in &object.fields {
            let Some(value) = fields.get(field.name.as_str()) else {
                continue;
            };
            let below = if path.is_empty() {
                field.name.to_string()
            } else {
                format!("{path}.{}", field.name)
            };
            report.merge(self.child(
                value,
                field.type_id,
                &below,
                self.before_field(spot, &field.name),
            ));
        }
        for name in object
            .required
            .iter()
            .filter(|name| !fields.contains_key(name.as_str()))
        {
            let missing = format!("{path}.{name}");
            report.add(
                format!("{missing} is required"),
                FieldError::required(self.field(&missing), ""),
            );
        }
        report
    }

    /// The old value of a field. Kind and version at the root have none: what was stored has
    /// been converted.
    fn before_field<'a>(&self, spot: Spot<'a>, name: &str) -> Option<Before<'a>> {
        if spot.path.is_empty() && matches!(name, "apiVersion" | "kind") {
            return None;
        }
        spot.before?.field(&self.validator.schema.types, name)
    }
}

pub(super) fn declared_types(node: &Type) -> &[JsonType] {
    const INT_OR_STRING: &[JsonType] = &[JsonType::Integer, JsonType::String];
    match &node.shape {
        Shape::IntOrString => INT_OR_STRING,
        _ => node.json_type.as_slice(),
    }
}
