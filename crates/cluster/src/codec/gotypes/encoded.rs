//! Values that Go would write just as they are.

use everflow_json::Value;

use super::{GoType, GoTypes};
use crate::time::Timestamp;

impl GoTypes {
    /// Whether [`GoTypes::decode`] of a value is known to give the value itself and to find nothing. To look is much
    /// cheaper than to decode. `false` says nothing: what is rare is not looked at.
    pub fn is_surely_encoded(&self, ty: &GoType, value: &Value) -> bool {
        match (ty, value) {
            (GoType::Any, value) => !value.is_null(),
            (GoType::Pointer(inner), value) => {
                !value.is_null() && self.is_surely_encoded(inner, value)
            }
            (GoType::Slice(inner), Value::Array(items)) => {
                items.iter().all(|item| self.is_surely_encoded(inner, item))
            }
            (GoType::Map(inner), Value::Object(map)) => {
                map.values().all(|item| self.is_surely_encoded(inner, item))
            }
            (GoType::Struct(index), Value::Object(map)) => {
                let fields = &self.get(*index).fields;
                let is_encoded = |key: &str, value: &Value| {
                    let known = fields.iter().find(|field| field.name == key);
                    known.is_some_and(|field| {
                        self.is_surely_encoded(&field.ty, value) && self.is_written(field, value)
                    })
                };
                let mut unset = fields.iter().zip(self.unset(*index));
                unset.all(|(field, unset)| unset.is_none() || map.contains_key(field.name))
                    && map.iter().all(|(key, value)| is_encoded(key, value))
            }
            (GoType::String(_), Value::String(_)) | (GoType::Bool, Value::Bool(_)) => true,
            (GoType::Int64, Value::Number(number)) => number.is_i64(),
            (GoType::Time, Value::String(text)) => {
                text.len() == 20 && text.ends_with('Z') && Timestamp::parse(text).is_some()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::{Value, json};

    use crate::codec::gotypes::types;
    use crate::codec::json::Json;

    #[test]
    fn what_is_encoded_is_decoded_to_itself() {
        let types = types();
        let ty = types.struct_named("v1.ObjectMeta").unwrap();
        let managed = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-31T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]);
        let cases = [
            (
                json!({"name": "a", "generation": 2, "creationTimestamp": "2026-01-31T10:00:00Z", "managedFields": managed}),
                true,
            ),
            (
                json!({"name": "a", "creationTimestamp": "2026-01-31T10:00:00+01:00"}),
                false,
            ),
            (
                json!({"name": "a", "creationTimestamp": "2026-02-31T10:00:00Z"}),
                false,
            ),
            (json!({"name": ""}), false),
            (json!({"labels": {}}), false),
            (json!({"labels": {"a": "b"}, "finalizers": ["x/y"]}), true),
            (json!({"labels": {"a": 1}}), false),
            (json!({"other": 1}), false),
            (json!({"managedFields": []}), false),
            (
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]}),
                true,
            ),
            (
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}),
                false,
            ),
            (Value::Null, false),
        ];
        for (metadata, encoded) in cases {
            let (value, findings) = types.decode(&ty, &Json::from_value(&metadata));
            let same = value == metadata && findings.error.is_none() && findings.strict.is_empty();
            assert_eq!(same, encoded, "{metadata}");
            assert_eq!(
                types.is_surely_encoded(&ty, &metadata),
                encoded,
                "{metadata}"
            );
        }
    }
}
