//! What is wrong with the rules of a schema.

use std::sync::Arc;

use everflow_json::{Value, json};
use everflow_schema::structural::{BadValue, FieldError, FieldErrorKind};
use everflow_schema::{CelRule, JsonType, ListKind, Schema, Shape, TypeId, TypeTable};

use super::compile::{Compiled, compile};
use super::decl::declared;
use crate::check::{DeclShape, DeclType};
use crate::escape::escape;

/// The most one expression may be estimated to cost.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// The most all expressions of a schema may be estimated to cost together.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many expensive rules are named.
const NAMED: usize = 4;

/// Compiles all rules of a schema that stands at `path` and tells what is wrong with them.
///
/// `unchanged` says that the schema was accepted before: then single rules may be expensive.
pub fn check_definition(schema: &Schema, path: &str, unchanged: bool) -> Vec<FieldError> {
    let mut check = Check {
        types: &schema.types,
        unchanged,
        errors: Vec::new(),
        total: 0,
        expensive: Vec::new(),
    };
    check.node(
        schema.root,
        &Place {
            path: path.to_owned(),
            cardinality: Some(1),
            decl: None,
            uncorrelatable: None,
            is_root: true,
        },
    );
    check.finish(path)
}

/// Where a node stands.
struct Place {
    path: String,
    /// How many values there can be at most.
    cardinality: Option<u64>,
    /// The node's type, where the parent has one.
    decl: Option<Arc<DeclType>>,
    /// The list whose items cannot be told from those before.
    uncorrelatable: Option<String>,
    is_root: bool,
}

struct Check<'s> {
    types: &'s TypeTable,
    unchanged: bool,
    errors: Vec<FieldError>,
    total: u64,
    expensive: Vec<(String, u64)>,
}

impl Check<'_> {
    fn node(&mut self, id: TypeId, place: &Place) {
        let types = self.types;
        let Some(node) = types.get(id) else {
            return;
        };
        let rules: &[CelRule] = node
            .validation
            .as_ref()
            .map_or(&[], |validation| &validation.rules);
        let embedded = place.is_root || node.embedded_resource;
        let mut decl = place.decl.clone();
        if decl.is_none() && !rules.is_empty() {
            decl = declared(types, id, embedded);
        }
        self.children(id, place, decl.as_ref());
        if rules.is_empty() {
            return;
        }
        let path = format!("{}.x-kubernetes-validations", place.path);
        let Some(decl) = decl else {
            self.errors.push(FieldError {
                kind: FieldErrorKind::Internal,
                field: path,
                bad_value: BadValue::Omitted,
                detail: "internal error: failed to construct type information for \
                         x-kubernetes-validations rules: unable to convert structural schema to \
                         CEL declarations"
                    .to_owned(),
            });
            return;
        };
        let compiled = compile(types, node, rules, &decl);
        for (at, (compiled, rule)) in compiled.iter().zip(rules).enumerate() {
            self.rule(compiled, rule, &format!("{path}[{at}]"), place);
        }
    }

    fn children(&mut self, id: TypeId, place: &Place, decl: Option<&Arc<DeclType>>) {
        let types = self.types;
        let Some(node) = types.get(id) else {
            return;
        };
        let limits = node.validation.as_deref();
        let factor = match (node.json_type, &node.shape) {
            (Some(JsonType::Object), Shape::Object(object))
                if object.additional.is_some() || object.additional_allowed.is_some() =>
            {
                limits.and_then(|limits| limits.max_properties)
            }
            (Some(JsonType::Array), _) => limits.and_then(|limits| limits.max_items),
            _ => Some(1),
        };
        let cardinality = place
            .cardinality
            .zip(factor)
            .map(|(known, factor)| known.saturating_mul(factor.max(0) as u64));
        let below = |path: String, decl, uncorrelatable| Place {
            path,
            cardinality,
            decl,
            uncorrelatable,
            is_root: false,
        };
        match &node.shape {
            Shape::Object(object) => {
                if let Some(additional) = object.additional {
                    let value = match decl.map(|decl| &decl.shape) {
                        Some(DeclShape::Map(value)) => Some(value.clone()),
                        _ => None,
                    };
                    let path = format!("{}.additionalProperties", place.path);
                    self.node(
                        additional,
                        &below(path, value, place.uncorrelatable.clone()),
                    );
                }
                for field in &object.fields {
                    let value = match decl.map(|decl| &decl.shape) {
                        Some(DeclShape::Object(fields)) => escape(&field.name)
                            .and_then(|name| fields.get(&name))
                            .cloned(),
                        _ => None,
                    };
                    let path = format!("{}.properties[{}]", place.path, field.name);
                    self.node(
                        field.type_id,
                        &below(path, value, place.uncorrelatable.clone()),
                    );
                }
            }
            Shape::List(list) => {
                let item = match decl.map(|decl| &decl.shape) {
                    Some(DeclShape::List(item)) => Some(item.clone()),
                    _ => None,
                };
                let is_map = matches!(list.kind, ListKind::Map { .. });
                let uncorrelatable = place
                    .uncorrelatable
                    .clone()
                    .or_else(|| (!is_map).then(|| place.path.clone()));
                let path = format!("{}.items", place.path);
                self.node(list.item, &below(path, item, uncorrelatable));
            }
            _ => {}
        }
    }

    fn rule(&mut self, compiled: &Compiled, rule: &CelRule, path: &str, place: &Place) {
        let cardinality = place.cardinality.unwrap_or(compiled.max_cardinality);
        let cost = compiled.max_cost.saturating_mul(cardinality);
        let field = format!("{path}.rule");
        self.cost("estimated rule cost", cost, &field);
        let invalid = |field: String, detail: &str| FieldError {
            kind: FieldErrorKind::Invalid,
            field,
            bad_value: BadValue::Text(shown(rule)),
            detail: detail.to_owned(),
        };
        if let Some(error) = &compiled.error {
            self.errors.push(invalid(field.clone(), error));
        }
        let message_field = format!("{path}.messageExpression");
        if let Some(error) = &compiled.message_error {
            self.errors.push(invalid(message_field, error));
        } else if compiled.message.is_some() {
            let name = "estimated messageExpression cost";
            self.cost(name, compiled.message_cost, &message_field);
        }
        if compiled.uses_old {
            if let Some(list) = &place.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {list}"
                );
                self.errors.push(FieldError::invalid(
                    field,
                    json!(rule.rule.as_str()),
                    detail,
                ));
            }
        } else if let Some(optional) = rule.optional_old_self {
            self.errors.push(FieldError::invalid(
                format!("{path}.optionalOldSelf"),
                json!(optional),
                "may not be set if oldSelf is not used in rule",
            ));
        }
    }

    fn cost(&mut self, name: &str, cost: u64, field: &str) {
        if !self.unchanged && cost > EXPRESSION_LIMIT {
            let detail = over_budget(name, cost, EXPRESSION_LIMIT);
            self.errors.push(FieldError::forbidden(field, detail));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((field.to_owned(), cost));
            self.expensive
                .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }

    fn finish(mut self, path: &str) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return self.errors;
        }
        for (field, _) in &self.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for \
                          entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(field, detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = over_budget(name, self.total, SCHEMA_LIMIT);
        self.errors.push(FieldError::forbidden(path, detail));
        self.errors
    }
}

fn over_budget(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as the server shows it: JSON in the order of its own fields.
fn shown(rule: &CelRule) -> String {
    let text = |value: Option<&str>| json!(value.unwrap_or_default());
    let fields: [(&str, Value); 6] = [
        ("Rule", json!(rule.rule.as_str())),
        ("Message", text(rule.message.as_deref())),
        (
            "MessageExpression",
            text(rule.message_expression.as_deref()),
        ),
        ("Reason", json!(rule.reason.as_deref())),
        ("FieldPath", text(rule.field_path.as_deref())),
        ("OptionalOldSelf", json!(rule.optional_old_self)),
    ];
    let parts: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("\"{key}\":{}", go_json(value)))
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// JSON as Go writes it, safe for HTML.
fn go_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
