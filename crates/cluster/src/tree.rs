//! Looks into JSON trees that may not be what they should.

use everflow_json::Value;

/// The texts of a list; nothing for what is no list, and what is no text is left out.
pub(crate) fn strings(list: Option<&Value>) -> Vec<String> {
    texts(list).map(str::to_owned).collect()
}

/// The texts of a list, borrowed.
pub(crate) fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str)
}

/// A requirement of a label selector as selectors are written: `key in (a,b)`, `!key`.
pub(crate) fn requirement(expression: &Value) -> String {
    let text = |key: &str| {
        expression
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let key = text("key");
    let mut values: Vec<&str> = texts(expression.get("values")).collect();
    values.sort_unstable();
    match text("operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "Exists" => key.to_owned(),
        _ => format!("!{key}"),
    }
}
