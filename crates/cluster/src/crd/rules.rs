//! Rules in CEL on custom resources.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use everflow_cel::{Program, Value as CelValue, Variables};
use everflow_schema::{CelRule, Shape, TypeId, TypeTable};
use serde_json::Value;

use crate::field::{FieldError, Path, Problem};

/// Checks all rules of a schema; `old` is the object before the change.
pub fn check(
    types: &TypeTable,
    root: TypeId,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(types, root, object, old, &Path::root(), &mut errors);
    errors
}

/// Checks the rules of a definition's schema.
pub fn check_rules(
    _path: &str,
    _schema: &everflow_schema::Schema,
    _definition: &Value,
    _old: Option<&Value>,
) -> Vec<everflow_schema::structural::FieldError> {
    Vec::new()
}

fn program(text: &str) -> Option<Program> {
    static KNOWN: OnceLock<Mutex<BTreeMap<String, Option<Program>>>> = OnceLock::new();
    let mut known = KNOWN
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    known
        .entry(text.to_owned())
        .or_insert_with(|| Program::compile(text).ok())
        .clone()
}

fn walk(
    types: &TypeTable,
    id: TypeId,
    value: &Value,
    old: Option<&Value>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(node) = types.get(id) else { return };
    if let Some(validation) = &node.validation {
        for rule in &validation.rules {
            errors.extend(evaluate(rule, value, old, path));
        }
    }
    match (&node.shape, value) {
        (Shape::Object(object), Value::Object(map)) => {
            for (key, child) in map {
                let Some(next) = object.child(key) else {
                    continue;
                };
                let before = old.and_then(|old| old.get(key));
                let here = if object.field(key).is_some() {
                    path.child(key)
                } else {
                    path.key(key)
                };
                walk(types, next, child, before, &here, errors);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let before = match &list.kind {
                    everflow_schema::ListKind::Map { keys } => {
                        old.and_then(Value::as_array).and_then(|old| {
                            old.iter().find(|other| {
                                keys.iter()
                                    .all(|key| other.get(key.as_str()) == item.get(key.as_str()))
                            })
                        })
                    }
                    _ => None,
                };
                walk(types, list.item, item, before, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn mentions_old(rule: &str) -> bool {
    rule.contains("oldSelf")
}

fn evaluate(rule: &CelRule, value: &Value, old: Option<&Value>, path: &Path) -> Option<FieldError> {
    let optional = rule.optional_old_self == Some(true);
    if mentions_old(&rule.rule) && old.is_none() && !optional {
        return None;
    }
    if old == Some(value) && old.is_some() {
        // What did not change is not checked again.
        return None;
    }
    let program = program(&rule.rule)?;
    let mut variables = Variables::new().with("self", CelValue::from_json(value));
    if optional {
        variables = variables.with(
            "oldSelf",
            CelValue::Optional(old.map(|old| std::rc::Rc::new(CelValue::from_json(old)))),
        );
    } else if let Some(old) = old {
        variables = variables.with("oldSelf", CelValue::from_json(old));
    }
    let fixed = rule
        .message
        .as_deref()
        .map(str::trim)
        .filter(|text| !text.is_empty());
    match program.evaluate(&variables) {
        Ok(answer) if answer.equals(&CelValue::Bool(true)) => None,
        Ok(_) => {
            let made = rule
                .message_expression
                .as_deref()
                .and_then(|text| self::program(text)?.evaluate(&variables).ok())
                .and_then(|answer| {
                    if let CelValue::String(text) = answer {
                        Some(text.to_string())
                    } else {
                        None
                    }
                })
                .filter(|text| !text.trim().is_empty() && !text.contains('\n'));
            let message = made
                .or_else(|| fixed.map(str::to_owned))
                .unwrap_or_else(|| format!("failed rule: {}", rule.rule.trim()));
            Some(failure(rule, value, path, message))
        }
        Err(problem) => {
            let name = fixed.map_or_else(|| rule.rule.trim().to_owned(), str::to_owned);
            let shown = match value {
                Value::Object(_) => "\"object\"".to_owned(),
                Value::Array(_) => "\"array\"".to_owned(),
                Value::String(_) => "\"string\"".to_owned(),
                Value::Bool(_) => "\"boolean\"".to_owned(),
                Value::Number(number) if number.is_i64() => "\"integer\"".to_owned(),
                _ => "\"number\"".to_owned(),
            };
            Some(FieldError {
                problem: Problem::Invalid,
                field: path.clone(),
                shown: None,
                detail: String::new(),
                verbatim: Some(format!(
                    "Invalid value: {shown}: {problem} evaluating rule: {name}"
                )),
            })
        }
    }
}

fn failure(rule: &CelRule, value: &Value, path: &Path, message: String) -> FieldError {
    let mut field = path.clone();
    for part in rule
        .field_path
        .as_deref()
        .unwrap_or_default()
        .split('.')
        .filter(|part| !part.is_empty())
    {
        field = field.child(part);
    }
    match rule.reason.as_deref() {
        Some("FieldValueRequired") => FieldError::required(&field, message),
        Some("FieldValueForbidden") => FieldError::forbidden(&field, message),
        Some("FieldValueDuplicate") => FieldError {
            problem: Problem::Duplicate,
            field,
            shown: shown(value),
            detail: message,
            verbatim: None,
        },
        _ => FieldError {
            problem: Problem::Invalid,
            field,
            shown: shown(value),
            detail: message,
            verbatim: None,
        },
    }
}

/// Only simple values are shown.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Object(_) | Value::Array(_) => None,
        Value::String(text) => Some(crate::field::go_quote(text)),
        other => Some(other.to_string()),
    }
}
