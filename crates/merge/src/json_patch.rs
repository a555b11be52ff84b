//! JSON patch (RFC 6902) with the rules of the library that the API server uses.
//!
//! That library is laxer than the RFC in ways that clients rely on: array indexes count from the
//! end when negative, `replace` of an absent object key adds it, a path without a leading slash
//! loses its first part, `copy` of an absent key copies null, and `test` of an absent key against
//! null passes.

use everflow_json::Value;

use crate::MergeError;
use crate::depth::{MAX_DEPTH, ensure_depth, fits_in};
use crate::go_text::json_kind;

/// The API server refuses patches with more operations than this.
pub const MAX_OPERATIONS: usize = 10_000;

/// The API server stops when all `copy` operations of a patch together exceed this many bytes.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Applies the JSON patch `patch` (a list of operations) to `document`.
///
/// # Errors
/// [`MergeError::PatchNotAList`] and [`MergeError::PatchOperationNotAnObject`] for a document that
/// is no JSON patch (the server answers 400), [`MergeError::TooManyOperations`] (413), and
/// [`MergeError::JsonPatch`] when an operation does not apply (422).
pub fn apply(document: &Value, patch: &Value) -> Result<Value, MergeError> {
    ensure_depth(document)?;
    ensure_depth(patch)?;
    let operations = match patch {
        Value::Null => return Ok(document.clone()),
        Value::Array(operations) => operations,
        other => {
            return Err(MergeError::PatchNotAList {
                found: json_kind(other),
            });
        }
    };
    if let Some(other) = operations
        .iter()
        .find(|operation| !operation.is_object() && !operation.is_null())
    {
        return Err(MergeError::PatchOperationNotAnObject {
            found: json_kind(other),
        });
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(MergeError::TooManyOperations {
            count: operations.len(),
        });
    }
    let mut run = Run {
        document: document.clone(),
        copied: 0,
    };
    for operation in operations {
        run.step(&Operation(operation))?;
    }
    ensure_depth(&run.document)?;
    Ok(run.document)
}

fn failure(message: String) -> MergeError {
    MergeError::JsonPatch { message }
}

/// One operation of a patch, read field by field as the library does.
struct Operation<'a>(&'a Value);

impl<'a> Operation<'a> {
    fn kind(&self) -> &'a str {
        self.0
            .get("op")
            .and_then(Value::as_str)
            .unwrap_or("unknown")
    }

    fn text(&self, field: &str) -> Result<&'a str, MergeError> {
        match self.0.get(field) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(failure(format!(
                "{} operation failed to decode {field}: missing value",
                self.kind()
            ))),
        }
    }

    fn path(&self) -> Result<&'a str, MergeError> {
        self.text("path")
    }

    fn from(&self) -> Result<&'a str, MergeError> {
        self.text("from")
    }

    fn value(&self) -> Option<&'a Value> {
        self.0.get("value")
    }

    fn value_or_null(&self) -> Value {
        self.value().cloned().unwrap_or(Value::Null)
    }
}

/// The container that holds the target of a path, and the last part of the path.
struct Target<'d> {
    container: Container<'d>,
    key: String,
}

enum Container<'d> {
    Object(&'d mut everflow_json::Map),
    Array(&'d mut Vec<Value>),
}

struct Run {
    document: Value,
    copied: usize,
}

/// Refuses a value that would nest too deep at a path. Every step keeps the bound: a copy of a copy
/// doubles the depth.
fn ensure_depth_at(path: &str, value: &Value) -> Result<(), MergeError> {
    let above = path.matches('/').count();
    match MAX_DEPTH.checked_sub(above) {
        Some(left) if fits_in(value, left) => Ok(()),
        _ => Err(MergeError::TooDeep { limit: MAX_DEPTH }),
    }
}

impl Run {
    fn step(&mut self, operation: &Operation<'_>) -> Result<(), MergeError> {
        match operation.kind() {
            "add" => {
                let path = operation.path()?;
                let value = operation.value_or_null();
                ensure_depth_at(path, &value)?;
                self.target(path, "add", "")?
                    .add(value)
                    .map_err(|reason| failure(format!("error in add for path: '{path}': {reason}")))
            }
            "remove" => {
                let path = operation.path()?;
                self.target(path, "remove", "")?
                    .remove()
                    .map(drop)
                    .map_err(|reason| {
                        failure(format!("error in remove for path: '{path}': {reason}"))
                    })
            }
            "replace" => self.replace(operation),
            "move" => self.move_value(operation),
            "copy" => self.copy_value(operation),
            "test" => self.test(operation),
            other => Err(failure(format!("Unexpected kind: {other}"))),
        }
    }

    /// Finds the container of the last part of `path`.
    fn target(
        &mut self,
        path: &str,
        operation: &str,
        role: &str,
    ) -> Result<Target<'_>, MergeError> {
        let missing = || {
            failure(format!(
                "{operation} operation does not apply: doc is missing {role}path: \"{path}\": missing value"
            ))
        };
        let (_, rest) = path.split_once('/').ok_or_else(missing)?;
        let mut current = &mut self.document;
        let mut parts = rest.split('/').peekable();
        while let Some(part) = parts.next() {
            let key = unescape(part);
            if parts.peek().is_none() {
                let container = match current {
                    Value::Object(map) => Container::Object(map),
                    Value::Array(items) => Container::Array(items),
                    _ => return Err(missing()),
                };
                return Ok(Target { container, key });
            }
            current = match current {
                Value::Object(map) => map.get_mut(&key).ok_or_else(missing)?,
                Value::Array(items) => {
                    let index = existing_index(&key, items.len()).map_err(|_| missing())?;
                    items.get_mut(index).ok_or_else(missing)?
                }
                _ => return Err(missing()),
            };
        }
        Err(missing())
    }

    fn replace(&mut self, operation: &Operation<'_>) -> Result<(), MergeError> {
        let path = operation.path()?;
        if path.is_empty() {
            let value = operation.value_or_null();
            if !value.is_object() && !value.is_array() {
                return Err(failure(
                    "replace operation value must be object or array".to_owned(),
                ));
            }
            self.document = value;
            return Ok(());
        }
        let value = operation.value_or_null();
        ensure_depth_at(path, &value)?;
        let target = self.target(path, "replace", "")?;
        match target.container {
            // An absent key is added: the library only asks arrays whether the place exists.
            Container::Object(map) => {
                map.insert(target.key.into(), value);
                Ok(())
            }
            Container::Array(items) => {
                let index = existing_index(&target.key, items.len()).map_err(|_| {
                    failure(format!(
                        "replace operation does not apply: doc is missing key: {path}: missing value"
                    ))
                })?;
                items[index] = value;
                Ok(())
            }
        }
    }

    fn move_value(&mut self, operation: &Operation<'_>) -> Result<(), MergeError> {
        let from = operation.from()?;
        let value = self
            .target(from, "move", "from ")?
            .remove()
            .map_err(|reason| failure(format!("error in move for path: '{from}': {reason}")))?;
        let path = operation.path()?;
        ensure_depth_at(path, &value)?;
        self.target(path, "move", "destination ")?
            .add(value)
            .map_err(|reason| failure(format!("error in move for path: '{path}': {reason}")))
    }

    fn copy_value(&mut self, operation: &Operation<'_>) -> Result<(), MergeError> {
        let from = operation.from()?;
        let value = self
            .target(from, "copy", "from ")?
            .get()
            .map_err(|reason| failure(format!("error in copy for from: '{from}': {reason}")))?
            .cloned()
            .unwrap_or(Value::Null);
        self.copied += everflow_json::to_string(&value).map_or(0, |text| text.len());
        if self.copied > MAX_COPIED_BYTES {
            return Err(failure(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED_BYTES}",
                self.copied
            )));
        }
        let path = operation.path()?;
        ensure_depth_at(path, &value)?;
        self.target(path, "copy", "destination ")?
            .add(value)
            .map_err(|reason| failure(format!("error while adding value during copy: {reason}")))
    }

    fn test(&mut self, operation: &Operation<'_>) -> Result<(), MergeError> {
        let path = operation.path()?;
        let failed = || failure(format!("testing value {path} failed: test failed"));
        if path.is_empty() {
            return if operation.value() == Some(&self.document) {
                Ok(())
            } else {
                Err(failed())
            };
        }
        let target = self.target(path, "test", "")?;
        let found = target
            .get()
            .map_err(|reason| failure(format!("error in test for path: '{path}': {reason}")))?;
        let passes = match (found, operation.value()) {
            (None | Some(Value::Null), None | Some(Value::Null)) => true,
            (Some(found), Some(wanted)) => found == wanted,
            _ => false,
        };
        if passes { Ok(()) } else { Err(failed()) }
    }
}

impl Target<'_> {
    fn get(&self) -> Result<Option<&Value>, String> {
        match &self.container {
            Container::Object(map) => Ok(map.get(&self.key)),
            Container::Array(items) => Ok(items.get(existing_index(&self.key, items.len())?)),
        }
    }

    fn add(self, value: Value) -> Result<(), String> {
        match self.container {
            Container::Object(map) => {
                map.insert(self.key.into(), value);
                Ok(())
            }
            Container::Array(items) => {
                if self.key == "-" {
                    items.push(value);
                    return Ok(());
                }
                let index = existing_index(&self.key, items.len() + 1)?;
                items.insert(index, value);
                Ok(())
            }
        }
    }

    fn remove(self) -> Result<Value, String> {
        match self.container {
            Container::Object(map) => map.remove(&self.key).ok_or_else(|| {
                format!(
                    "Unable to remove nonexistent key: {}: missing value",
                    self.key
                )
            }),
            Container::Array(items) => Ok(items.remove(existing_index(&self.key, items.len())?)),
        }
    }
}

/// The position that an array index names among `length` places; negative ones count from the end.
fn existing_index(text: &str, length: usize) -> Result<usize, String> {
    let index: i64 = text
        .parse()
        .map_err(|_| format!("value was not a proper array index: '{text}'"))?;
    let invalid = || format!("Unable to access invalid index: {index}: invalid index referenced");
    let length = i64::try_from(length).map_err(|_| invalid())?;
    let position = if index < 0 { index + length } else { index };
    if position < 0 || position >= length {
        return Err(invalid());
    }
    usize::try_from(position).map_err(|_| invalid())
}

fn unescape(part: &str) -> String {
    if part.contains('~') {
        part.replace("~1", "/").replace("~0", "~")
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, MergeError> {
        apply(&document, &patch)
    }

    #[test]
    fn operations_of_the_rfc() {
        let document = json!({"a": {"b": [1, 2, 3]}, "x/y": "s"});
        let result = patched(
            document,
            json!([
                {"op": "test", "path": "/a/b/1", "value": 2},
                {"op": "add", "path": "/a/b/-", "value": 4},
                {"op": "add", "path": "/a/b/0", "value": 0},
                {"op": "remove", "path": "/a/b/1"},
                {"op": "copy", "from": "/x~1y", "path": "/copied"},
                {"op": "move", "from": "/x~1y", "path": "/moved"},
                {"op": "replace", "path": "/copied", "value": "t"}
            ]),
        )
        .unwrap();
        assert_eq!(
            result,
            json!({"a": {"b": [0, 2, 3, 4]}, "copied": "t", "moved": "s"})
        );
    }

    #[test]
    fn json_patch_deviates_from_the_rfc_like_the_server() {
        let list = json!({"l": ["a", "b"]});
        assert_eq!(
            patched(list.clone(), json!([{"op": "remove", "path": "/l/-1"}])).unwrap(),
            json!({"l": ["a"]})
        );
        assert_eq!(
            patched(
                list.clone(),
                json!([{"op": "add", "path": "/l/-1", "value": "c"}])
            )
            .unwrap(),
            json!({"l": ["a", "b", "c"]})
        );
        assert_eq!(
            patched(
                list.clone(),
                json!([{"op": "replace", "path": "/new", "value": 1}])
            )
            .unwrap(),
            json!({"l": ["a", "b"], "new": 1})
        );
        assert_eq!(
            patched(
                list.clone(),
                json!([{"op": "add", "path": "data/a", "value": 1}])
            )
            .unwrap(),
            json!({"l": ["a", "b"], "a": 1})
        );
        assert_eq!(
            patched(
                list.clone(),
                json!([{"op": "copy", "from": "/none", "path": "/n"}])
            )
            .unwrap(),
            json!({"l": ["a", "b"], "n": null})
        );
        assert!(
            patched(
                list.clone(),
                json!([{"op": "test", "path": "/none", "value": null}])
            )
            .is_ok()
        );
        assert_eq!(patched(list.clone(), Value::Null).unwrap(), list);
    }

    #[test]
    fn refusals() {
        for patch in [
            json!([{"op": "frob", "path": "/a"}]),
            json!([{"path": "/a"}]),
            json!([{"op": "remove"}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "add", "path": "/none/x", "value": 1}]),
            json!([{"op": "add", "path": "/l/9", "value": 1}]),
            json!([{"op": "replace", "path": "/l/5", "value": 1}]),
            json!([{"op": "test", "path": "/l/0"}]),
            json!([null]),
        ] {
            let error = patched(json!({"l": ["a"]}), patch.clone()).unwrap_err();
            assert!(
                matches!(error, MergeError::JsonPatch { .. }),
                "{patch}: {error}"
            );
        }
        assert!(matches!(
            patched(json!({}), json!({})),
            Err(MergeError::PatchNotAList { found: "object" })
        ));
        let many = Value::Array(vec![
            json!({"op": "add", "path": "/a", "value": 1});
            MAX_OPERATIONS + 1
        ]);
        assert!(matches!(
            patched(json!({}), many),
            Err(MergeError::TooManyOperations { .. })
        ));
    }

    #[test]
    fn copies_are_bounded() {
        let big = "x".repeat(1024 * 1024);
        let copies: Vec<Value> = (0..4)
            .map(|i| json!({"op": "copy", "from": "/a", "path": format!("/c{i}")}))
            .collect();
        let error = patched(json!({"a": big}), Value::Array(copies)).unwrap_err();
        assert!(error.to_string().contains("exceeding the limit"), "{error}");
    }
}
