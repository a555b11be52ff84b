//! Label selectors of objects.

use everflow_json::{Map, Value};

/// The labels of an object; none when it has none.
pub fn labels_of(object: &Value) -> Map {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    labels.cloned().unwrap_or_default()
}

/// Whether a selector (`matchLabels` and `matchExpressions`) chooses labels. An empty one chooses
/// everything; none at all nothing.
pub fn selects(selector: Option<&Value>, labels: &Map) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else {
        return false;
    };
    let equal = selector
        .get("matchLabels")
        .is_none_or(|wanted| all_in(wanted, labels));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut expressions = expressions.into_iter().flatten();
    equal && expressions.all(|expression| meets(expression, labels))
}

/// Whether labels have all these values, as the selectors of Services and nodes have it.
pub fn all_in(wanted: &Value, labels: &Map) -> bool {
    let mut wanted = wanted.as_object().into_iter().flat_map(Map::iter);
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}

fn meets(expression: &Value, labels: &Map) -> bool {
    let key = expression["key"].as_str().unwrap_or_default();
    let value = labels.get(key);
    let values = expression["values"].as_array().into_iter().flatten();
    let listed = value.is_some_and(|value| values.into_iter().any(|listed| listed == value));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
