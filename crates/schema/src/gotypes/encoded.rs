//! Values that Go would write just as they are.

use everflow_json::{Text, Value};

use super::{GoField, GoType, GoTypes};
use crate::time;

impl GoTypes {
    /// Whether [`GoTypes::decode`] of a value is known to give the value itself and to find nothing. To look is much
    /// cheaper than to decode. False means unknown: decode it.
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
                let mut unset = fields.iter().zip(self.unset(*index));
                unset.all(|(field, unset)| unset.is_none() || map.contains_key(field.name))
                    && map
                        .iter()
                        .all(|(key, value)| self.is_surely_field(fields, key, value))
            }
            (GoType::String(_), Value::String(_)) | (GoType::Bool, Value::Bool(_)) => true,
            (GoType::Int64, Value::Number(number)) => number.is_i64(),
            (GoType::Int32, Value::Number(number)) => number
                .as_i64()
                .is_some_and(|whole| i32::try_from(whole).is_ok()),
            (GoType::Time, Value::String(text)) => {
                text.len() == 20 && text.ends_with('Z') && time::parse(text).is_some()
            }
            (GoType::MicroTime, Value::String(text)) => {
                text.len() == 27
                    && text.ends_with('Z')
                    && text.as_bytes().get(19) == Some(&b'.')
                    && time::parse(text).is_some()
            }
            _ => false,
        }
    }

    /// Whether a field of a struct is known to be written just as it is.
    fn is_surely_field(&self, fields: &[GoField], key: &str, value: &Value) -> bool {
        let known = fields.iter().find(|field| field.name == key);
        known.is_some_and(|field| {
            self.is_surely_encoded(&field.ty, value) && self.is_written(field, value)
        })
    }

    /// What [`GoTypes::decode`] of an object gives where that is known without decoding it, and that it finds nothing: the
    /// object with the fields that are always written. None means unknown: decode it.
    pub fn decode_fast_path(&self, ty: &GoType, object: &Value) -> Option<Value> {
        let (GoType::Struct(index), Value::Object(map)) = (ty, object) else {
            return None;
        };
        let fields = &self.get(*index).fields;
        let encoded = |(key, value): (&Text, &Value)| self.is_surely_field(fields, key, value);
        if !map.iter().all(encoded) {
            return None;
        }
        let mut complete = map.clone();
        for (field, unset) in fields.iter().zip(self.unset(*index)) {
            if let Some(unset) = unset
                && !map.contains_key(field.name)
            {
                complete.insert(field.name.into(), unset.clone());
            }
        }
        Some(Value::Object(complete))
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::{Value, json};

    use crate::go_json::Json;
    use crate::gotypes::types;

    #[test]
    fn encoded_object_decodes_to_itself() {
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

    /// What is decoded without decoding is what decoding gives, also when parts are missing, empty or of another type.
    #[test]
    fn objects_are_decoded_to_what_decoding_gives() {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T10:00:00Z"});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 35, "leaseTransitions": 2,
                "acquireTime": "2026-01-31T10:00:00.000000Z", "renewTime": "2026-01-31T10:00:01.123456Z"}});
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "reason": "R", "message": "m",
            "involvedObject": {"kind": "K", "name": "n"}, "source": {"component": "c"}, "count": 1, "type": "Normal",
            "firstTimestamp": "2026-01-31T10:00:00Z", "lastTimestamp": "2026-01-31T10:00:00Z",
            "reportingComponent": "c", "reportingInstance": ""});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
        let pointers = [
            "",
            "/metadata",
            "/metadata/creationTimestamp",
            "/spec",
            "/spec/leaseTransitions",
            "/spec/renewTime",
            "/involvedObject",
            "/source",
            "/source/component",
            "/count",
            "/firstTimestamp",
            "/reportingInstance",
            "/data",
            "/data/a",
            "/message",
        ];
        let others = [
            Value::Null,
            json!(""),
            json!("x"),
            json!(1),
            json!(1.5),
            json!(5_000_000_000_i64),
            json!({}),
            json!([]),
            json!({"x": "y"}),
            json!("2026-01-31T10:00:00Z"),
            json!("2026-01-31T10:00:00.1Z"),
            json!("2026-01-31T10:00:00.12345Zx"),
            json!("2026-01-31T10:00:00,123456Z"),
            json!("2026-13-31T10:00:00.123456Z"),
            json!("2026-01-31 10:00:00.123456Z"),
        ];
        let (mut known, types) = (0, types());
        for (name, object) in [
            ("v1.Lease", lease),
            ("v1.Event", event),
            ("v1.ConfigMap", map),
        ] {
            let version = object["apiVersion"].as_str().unwrap();
            let ty = types
                .kind(version, object["kind"].as_str().unwrap())
                .unwrap();
            let mut cases = vec![object.clone()];
            for pointer in pointers {
                for other in &others {
                    let mut case = object.clone();
                    let Some(place) = case.pointer_mut(pointer) else {
                        continue;
                    };
                    *place = other.clone();
                    cases.push(case);
                }
                if let Some((above, last)) = pointer.rsplit_once('/') {
                    let mut case = object.clone();
                    let above = case.pointer_mut(above).and_then(Value::as_object_mut);
                    above.map(|map| map.remove(last));
                    cases.push(case);
                }
            }
            assert!(types.decode_fast_path(&ty, &object).is_some(), "{name}");
            for case in cases {
                let Some(decoded) = types.decode_fast_path(&ty, &case) else {
                    continue;
                };
                known += 1;
                let (value, findings) = types.decode(&ty, &Json::from_value(&case));
                assert_eq!(value, decoded, "{case}");
                assert!(
                    findings.error.is_none() && findings.strict.is_empty(),
                    "{case}"
                );
            }
        }
        assert!(known > 20, "{known}");
    }
}
