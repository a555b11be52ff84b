//! JSON Schema for `values.schema.json`, drafts 4 to 2020-12, with the messages that helm prints.
//!
//! A schema is walked as it stands in its document; references are looked up as they are met.
//! Nothing is fetched: a reference out of the document is an error that says so.

mod arrays;
mod document;
mod equality;
mod format;
mod keywords;
mod message;
mod metaschema;
mod number;
mod objects;
mod run;
mod validate;

pub use document::SchemaError;
pub use message::Violation;

use everflow_gotemplate::{FuncError, Meter};
use everflow_json::Value;

use document::Document;

/// A schema that has been read and found to be one.
#[derive(Debug)]
pub struct JsonSchema {
    document: Document,
}

impl JsonSchema {
    /// Takes a schema; fails if it is not valid against its own draft's rules.
    pub fn new(schema: Value, meter: &Meter<'_>) -> Result<Self, SchemaError> {
        let document = Document::new(schema, meter)?;
        metaschema::check(&document, meter)?;
        Ok(JsonSchema { document })
    }

    /// Checks a value and gives everything that is wrong with it, as lines that begin `- at '…'`. Fails
    /// when the meter's limits do not let it find out.
    pub fn validate(
        &self,
        value: &Value,
        meter: &Meter<'_>,
    ) -> Result<Option<Violation>, FuncError> {
        validate::validate(&self.document, value, meter)
    }
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_json::json;
    use everflow_limits::Budget;

    use super::*;

    fn report(schema: Value, value: Value) -> String {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let schema = JsonSchema::new(schema, &meter).unwrap();
        match schema.validate(&value, &meter).unwrap() {
            None => String::new(),
            Some(violation) => violation.lines(&meter).unwrap(),
        }
    }

    #[test]
    fn a_valid_value_has_no_report() {
        let schema = json!({"type": "object", "properties": {"port": {"type": "integer"}}});
        assert_eq!(report(schema, json!({"port": 80.0})), "");
    }

    #[test]
    fn the_report_has_a_line_for_everything_that_is_wrong() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                "list": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}
            }
        });
        assert_eq!(
            report(schema, json!({"port": 70000, "list": [1, 1], "x": 0})),
            "- at '': missing property 'name'\n\
             - at '/list': validation failed\n  \
             - at '/list': items at 0 and 1 are equal\n  \
             - at '/list/0': got number, want string\n  \
             - at '/list/1': got number, want string\n\
             - at '/port': maximum: got 70,000, want 65,535\n\
             - at '': additional properties 'x' not allowed"
        );
    }

    #[test]
    fn references_are_followed_and_cycles_end() {
        let schema = json!({
            "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}},
            "$ref": "#/$defs/tree"
        });
        assert_eq!(report(schema.clone(), json!({"a": {"b": {}}})), "");
        assert_eq!(
            report(schema, json!({"a": {"b": 1}})),
            "- at '/a/b': got number, want object"
        );
        let cycle = json!({"$ref": "#"});
        assert_eq!(
            report(cycle, json!({})),
            "- at '': the schema refers to itself without end"
        );
    }

    #[test]
    fn invalid_schema_is_refused_by_its_metaschema() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let error = JsonSchema::new(json!({"type": "nope"}), &meter)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "\"file:///values.schema.json#\" is not valid against metaschema: jsonschema \
             validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n\
             - at '': 'allOf' failed\n  \
             - at '/type': 'anyOf' failed\n    \
             - at '/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'\n    \
             - at '/type': got string, want array"
        );
    }

    #[test]
    fn draft_4_bounds_are_exclusive_by_a_flag() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 5,
            "exclusiveMinimum": true
        });
        assert_eq!(
            report(schema, json!(5)),
            "- at '': exclusiveMinimum: got 5, want 5"
        );
    }
}
