//! Objects read without their `managedFields`, which are half of an object and which hardly anybody
//! looks at: skipping them costs a fraction of building them.

use everflow_json::Value;
use everflow_json::text::read_without;

/// Reads an object.
pub(super) fn object(bytes: &[u8]) -> everflow_json::Result<Value> {
    read_without(bytes, &["metadata", "managedFields"])
}

/// Reads an event of a watch.
pub(super) fn event(bytes: &[u8]) -> everflow_json::Result<Value> {
    read_without(bytes, &["object", "metadata", "managedFields"])
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn only_managed_fields_of_the_metadata_are_left_out() {
        let whole = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"managedFields": "x"}}});
        let lean = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "labels": {"managedFields": "x"}}});
        assert_eq!(object(whole.to_string().as_bytes()).unwrap(), lean);
        let told = json!({"type": "ADDED", "object": whole});
        let read = event(told.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!({"type": "ADDED", "object": lean}));
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in [
            "null",
            "[1,2]",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
        ] {
            let plain: Value = everflow_json::from_str(text).unwrap();
            assert_eq!(object(text.as_bytes()).unwrap(), plain);
        }
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} x"] {
            assert!(object(text.as_bytes()).is_err(), "{text}");
        }
    }
}
