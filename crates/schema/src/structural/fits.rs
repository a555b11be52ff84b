//! A first look at values: most of them are valid, and then no text about them is needed.

use everflow_json::{Map, Value};

use super::formats;
use super::numbers::converts_to;
use super::validate::{Validator, declared_types};
use crate::model::{JsonType, Shape, Type, TypeId};
use crate::validation::Validation;

impl Validator {
    /// Whether a value is known to be valid. False means unknown: run the full check.
    pub(super) fn surely_fits(&self, data: &Value, type_id: TypeId) -> bool {
        let Some(node) = self.schema().types.get(type_id) else {
            return true;
        };
        let validation = node.validation.as_deref();
        if !validation.is_none_or(|validation| is_simple(validation) && allows(validation, data)) {
            return false;
        }
        let types = declared_types(node);
        let wants = |wanted: JsonType| types.is_empty() || types.contains(&wanted);
        match data {
            Value::Null => types.is_empty() || node.nullable,
            Value::Bool(_) => wants(JsonType::Boolean),
            Value::Number(number) => match number.as_i64() {
                Some(number) => integer_fits(validation, types, number),
                None => false,
            },
            Value::String(text) => {
                wants(JsonType::String)
                    && validation.is_none_or(|validation| self.text_fits(validation, types, text))
            }
            Value::Array(items) => {
                wants(JsonType::Array)
                    && validation.is_none_or(|validation| size_fits(validation, items.len()))
                    && self.items_fit(node, items)
            }
            Value::Object(fields) => {
                wants(JsonType::Object)
                    && validation.is_none_or(|validation| {
                        validation.min_properties.is_none() && validation.max_properties.is_none()
                    })
                    && self.fields_fit(node, fields)
            }
        }
    }

    fn text_fits(&self, validation: &Validation, types: &[JsonType], text: &str) -> bool {
        let is_bounded = validation.max_length.is_some() || validation.min_length.is_some();
        if is_bounded {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            if validation.max_length.is_some_and(|max| length > max)
                || validation.min_length.is_some_and(|min| length < min)
            {
                return false;
            }
        }
        if validation.pattern.is_some() && !self.matches_pattern(validation, text) {
            return false;
        }
        let format = formats::usable(validation.format.as_deref(), types);
        format.is_none_or(|format| formats::matches_format(format, text))
    }

    fn items_fit(&self, node: &Type, items: &[Value]) -> bool {
        let Shape::List(list) = &node.shape else {
            return true;
        };
        items.iter().all(|item| self.surely_fits(item, list.item))
    }

    fn fields_fit(&self, node: &Type, fields: &Map) -> bool {
        let Shape::Object(object) = &node.shape else {
            return true;
        };
        let has = |name: &smol_str::SmolStr| fields.contains_key(name);
        object.required.iter().all(has)
            && fields.iter().all(|(name, value)| match object.field(name) {
                Some(field) => self.surely_fits(value, field.type_id),
                None if object.additional_allowed == Some(false) => false,
                None => object
                    .additional
                    .is_none_or(|additional| self.surely_fits(value, additional)),
            })
    }
}

/// Whether there are no keywords that ask for more than one look.
fn is_simple(validation: &Validation) -> bool {
    validation.any_of.is_empty()
        && validation.one_of.is_empty()
        && validation.all_of.is_empty()
        && validation.not.is_none()
        && !validation.unique_items
        && validation.multiple_of.is_none()
}

fn allows(validation: &Validation, data: &Value) -> bool {
    let allowed = &validation.enum_values;
    allowed.is_empty() || allowed.iter().any(|allowed| converts_to(data, allowed))
}

fn integer_fits(validation: Option<&Validation>, types: &[JsonType], number: i64) -> bool {
    let format = validation.and_then(|validation| validation.format.as_deref());
    let fits_type = match (types, format) {
        ([JsonType::Integer], Some("int32")) => i32::try_from(number).is_ok(),
        ([JsonType::Integer], None | Some("int64")) => true,
        ([] | [JsonType::Number], None) => true,
        _ => false,
    };
    fits_type && validation.is_none_or(|validation| is_within_limits(validation, number))
}

/// Whether a number is between limits that are small and whole, as nearly all are.
fn is_within_limits(validation: &Validation, number: i64) -> bool {
    let small = |limit: &Value| limit.as_i64().filter(|limit| i32::try_from(*limit).is_ok());
    let is_above = |limit: &Value| {
        small(limit).is_some_and(|limit| match validation.exclusive_minimum {
            true => number > limit,
            false => number >= limit,
        })
    };
    let is_below = |limit: &Value| {
        small(limit).is_some_and(|limit| match validation.exclusive_maximum {
            true => number < limit,
            false => number <= limit,
        })
    };
    validation.minimum.as_ref().is_none_or(is_above)
        && validation.maximum.as_ref().is_none_or(is_below)
}

fn size_fits(validation: &Validation, items: usize) -> bool {
    let size = i64::try_from(items).unwrap_or(i64::MAX);
    validation.min_items.is_none_or(|min| size >= min)
        && validation.max_items.is_none_or(|max| size <= max)
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;
    use crate::Schema;

    #[test]
    fn fast_path_accepts_only_valid_values() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 9},
            "kind": {"type": "string", "enum": ["A", "B"]},
            "when": {"type": "string", "format": "date-time"},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
            "maybe": {"type": "string", "nullable": true}
        }});
        let validator = Validator::new(Schema::from_structural(&schema).unwrap());
        let cases = [
            (json!({"name": "a"}), true),
            (json!({}), false),
            (json!({"name": ""}), false),
            (json!({"name": "abcd"}), false),
            (json!({"name": "A"}), false),
            (json!({"name": "a", "count": 0}), true),
            (json!({"name": "a", "count": -1}), false),
            (json!({"name": "a", "count": 10}), false),
            (json!({"name": "a", "count": "1"}), false),
            (json!({"name": "a", "kind": "B"}), true),
            (json!({"name": "a", "kind": "C"}), false),
            (json!({"name": "a", "when": "2026-01-01T00:00:00Z"}), true),
            (json!({"name": "a", "when": "now"}), false),
            (json!({"name": "a", "list": [true, false]}), true),
            (json!({"name": "a", "list": [true, false, true]}), false),
            (json!({"name": "a", "list": [1]}), false),
            (json!({"name": "a", "map": {"x": 1}}), true),
            (json!({"name": "a", "map": {"x": 3_000_000_000_i64}}), false),
            (json!({"name": "a", "maybe": null}), true),
            (json!({"name": null}), false),
        ];
        for (value, fits) in cases {
            let root = validator.schema().root;
            assert_eq!(validator.surely_fits(&value, root), fits, "{value}");
            assert_eq!(validator.validate(&value).is_empty(), fits, "{value}");
        }
    }
}
