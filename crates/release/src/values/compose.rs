//! Values from ConfigMaps, Secrets and the spec.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::common::ConfigKind;
use everflow_api::helm::ValuesReference;
use everflow_helm::strvals::SetError;
use everflow_json::{Map, Value};
use everflow_limits::Budget;
use everflow_yaml::{cost, gojson, sigs};

use super::layers::{Layers, Reading};
use crate::error::{Error, ValuesProblem};

/// The key of the values where a reference names none.
const DEFAULT_KEY: &str = "values.yaml";

/// The objects that values come from, each once.
pub fn referenced(references: &[ValuesReference]) -> BTreeSet<(ConfigKind, &str)> {
    references
        .iter()
        .map(|reference| (reference.kind, reference.name.as_str()))
        .collect()
}

/// The values of a release: those of the references in their order, then those of the spec. `object`
/// gives a ConfigMap or a Secret of the namespace as it is in the cluster, or none.
///
/// # Errors
/// Names the object, the key and the target path, and never a value.
pub fn compose<'o>(
    namespace: &str,
    references: &[ValuesReference],
    inline: Option<&Value>,
    object: impl Fn(ConfigKind, &str) -> Option<&'o Value>,
    budget: &Budget,
) -> Result<Map, Error> {
    let mut layers = Layers::new(inline_values(inline));
    for reference in references {
        let failed = |problem| Error::Values {
            reference: Box::new(reference.clone()),
            namespace: namespace.to_owned(),
            problem,
        };
        let found = object(reference.kind, &reference.name);
        budget.check().map_err(|error| failed(error.into()))?;
        let data = match found {
            None => Err(ValuesProblem::NoObject),
            Some(found) => read(reference, found),
        };
        let data = match data {
            Ok(data) => data,
            // The documentation speaks of a missing object only; Flux forgives a missing key as well.
            Err(ValuesProblem::NoObject | ValuesProblem::NoKey) if reference.optional => continue,
            Err(problem) => return Err(failed(problem)),
        };
        match &reference.target_path {
            Some(path) => {
                set(&mut layers, path, &data, reference.literal, budget).map_err(failed)?
            }
            None => layers.lay(parse(&data, budget).map_err(failed)?),
        }
    }
    Ok(layers.finish())
}

/// What Secrets bring to the values: it is not to be repeated in messages. What cannot be read is left out; it is told
/// when the values are composed.
pub fn brought_by_secrets<'o>(
    references: &[ValuesReference],
    object: impl Fn(ConfigKind, &str) -> Option<&'o Value>,
    budget: &Budget,
) -> Vec<Value> {
    let secrets = references
        .iter()
        .filter(|reference| reference.kind == ConfigKind::Secret);
    let brought = secrets.filter_map(|reference| {
        let data = read(reference, object(reference.kind, &reference.name)?).ok()?;
        match reference.target_path {
            Some(_) => Some(Value::from(String::from_utf8_lossy(&data).into_owned())),
            None => parse(&data, budget).ok().map(Value::Object),
        }
    });
    brought.collect()
}

fn inline_values(inline: Option<&Value>) -> Map {
    let mut values = inline.cloned().unwrap_or_default();
    gojson::numbers_as_f64(&mut values);
    match values {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The key that a reference means.
pub(crate) fn key(reference: &ValuesReference) -> &str {
    reference.values_key.as_deref().unwrap_or(DEFAULT_KEY)
}

fn read(reference: &ValuesReference, object: &Value) -> Result<Vec<u8>, ValuesProblem> {
    let data = object["data"].get(key(reference)).and_then(Value::as_str);
    let data = data.ok_or(ValuesProblem::NoKey)?;
    match reference.kind {
        ConfigKind::ConfigMap => Ok(data.as_bytes().to_vec()),
        ConfigKind::Secret => STANDARD.decode(data).map_err(|_| ValuesProblem::NotBase64),
    }
}

fn parse(data: &[u8], budget: &Budget) -> Result<Map, ValuesProblem> {
    let (held, limits) = cost::reading(budget, data)?;
    let mut values = sigs::to_json(data, false, limits)
        .map_err(|error| ValuesProblem::NotYaml(error.without_values()))?;
    drop(held);
    budget.charge(cost::of_json(&values))?;
    gojson::numbers_as_f64(&mut values);
    match values {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        Value::Array(_) => Err(ValuesProblem::NotAMap("a list")),
        _ => Err(ValuesProblem::NotAMap("a single value")),
    }
}

fn set(
    layers: &mut Layers,
    path: &str,
    data: &[u8],
    literal: bool,
    budget: &Budget,
) -> Result<(), ValuesProblem> {
    let reading = match literal {
        true => Reading::Literal,
        false => Reading::Set,
    };
    // The words of the parser would quote the value.
    layers
        .set(path, &String::from_utf8_lossy(data), reading, budget)
        .map_err(|error| match error {
            SetError::Exceeded(exceeded) => ValuesProblem::Exceeded(exceeded),
            SetError::Wrong(_) => ValuesProblem::NotSettable,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn reference(kind: ConfigKind, more: impl FnOnce(&mut ValuesReference)) -> ValuesReference {
        let mut reference = ValuesReference {
            kind,
            name: "source".into(),
            ..ValuesReference::default()
        };
        more(&mut reference);
        reference
    }

    fn error(reference: ValuesReference, object: Option<Value>) -> String {
        let references = [reference];
        let found = compose(
            "apps",
            &references,
            None,
            |_, _| object.as_ref(),
            &Budget::unlimited(),
        );
        found.unwrap_err().to_string()
    }

    #[test]
    fn references_are_laid_over_each_other_and_the_spec_over_all() {
        let map = json!({"data": {"values.yaml": "a: 1\nm: {x: 1, z: 2}\n", "single": "9"}});
        let secret = json!({"data": {"more": STANDARD.encode("m: {z: 3}\nb: true\n")}});
        let references = [
            reference(ConfigKind::ConfigMap, |_| ()),
            reference(ConfigKind::Secret, |r| r.values_key = Some("more".into())),
            reference(ConfigKind::ConfigMap, |r| {
                r.values_key = Some("single".into());
                r.target_path = Some("deep.number".into());
            }),
        ];
        let inline = json!({"a": 2, "n": null});
        let values = compose(
            "apps",
            &references,
            Some(&inline),
            |kind, _| match kind {
                ConfigKind::ConfigMap => Some(&map),
                ConfigKind::Secret => Some(&secret),
            },
            &Budget::unlimited(),
        );
        let expected = json!({
            "a": 2.0, "b": true, "m": {"x": 1.0, "z": 3.0}, "deep": {"number": 9}, "n": null,
        });
        assert_eq!(Value::Object(values.unwrap()), expected);
    }

    #[test]
    fn errors_name_object_key_and_path_and_no_value() {
        let secret = |text: &str| Some(json!({"data": {"values.yaml": STANDARD.encode(text)}}));
        let plain = || reference(ConfigKind::Secret, |_| ());
        let at_path = || {
            reference(ConfigKind::Secret, |r| {
                r.target_path = Some("db.pass".into())
            })
        };
        let start =
            "could not resolve Secret chart values reference 'apps/source' with key 'values.yaml'";
        for (reference, text) in [
            (plain(), "hunter2"),
            (plain(), "a: !!int hunter2"),
            (plain(), "a: [hunter2\n"),
            (plain(), "? {hunter2: 1}\n: 1\n"),
            (plain(), "- hunter2\n"),
            (plain(), "a: *hunter2\n"),
            (at_path(), "x,hunter2"),
            (at_path(), "{hunter2"),
        ] {
            let error = error(reference, secret(text));
            assert!(error.starts_with(start), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = error(at_path(), secret("x,hunter2"));
        assert!(
            error.contains("'db.pass'") && error.contains("literal: true"),
            "{error}"
        );
    }

    #[test]
    fn values_of_secrets_are_collected_and_those_of_config_maps_are_not() {
        let map = json!({"data": {"values.yaml": "a: plain\n"}});
        let secret = json!({"data": {
            "values.yaml": STANDARD.encode("db: {password: hunter2}\n"), "bad": STANDARD.encode("["),
            "single": STANDARD.encode("{not: parsed"),
        }});
        let references = [
            reference(ConfigKind::ConfigMap, |_| ()),
            reference(ConfigKind::Secret, |_| ()),
            reference(ConfigKind::Secret, |r| r.values_key = Some("bad".into())),
            reference(ConfigKind::Secret, |r| {
                r.values_key = Some("single".into());
                r.target_path = Some("x".into());
            }),
        ];
        let brought = brought_by_secrets(
            &references,
            |kind, _| match kind {
                ConfigKind::ConfigMap => Some(&map),
                ConfigKind::Secret => Some(&secret),
            },
            &Budget::unlimited(),
        );
        let expected = [
            json!({"db": {"password": "hunter2"}}),
            json!("{not: parsed"),
        ];
        assert_eq!(brought, expected);
    }

    #[test]
    fn missing_values_reference_fails_unless_optional() {
        let map = || reference(ConfigKind::ConfigMap, |_| ());
        assert_eq!(
            error(map(), None),
            "could not resolve ConfigMap chart values reference 'apps/source' with key \
             'values.yaml': configmaps \"source\" not found"
        );
        assert_eq!(
            error(map(), Some(json!({"binaryData": {"values.yaml": "YQ=="}}))),
            "could not resolve ConfigMap chart values reference 'apps/source' with key \
             'values.yaml': key not found"
        );
        let optional = [reference(ConfigKind::ConfigMap, |r| r.optional = true)];
        let empty = json!({});
        for object in [None, Some(&empty)] {
            assert!(
                compose("apps", &optional, None, |_, _| object, &Budget::unlimited())
                    .unwrap()
                    .is_empty()
            );
        }
    }
}
