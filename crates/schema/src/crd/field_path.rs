//! Paths of fields in schemas: `.spec.replicas`, `.labels['app']`.

use everflow_json::Value;

use super::node;

/// Follows a path; the schema it leads to, or what is wrong with it.
pub(super) fn follow<'s>(
    schema: &'s Value,
    path: &str,
    brackets: bool,
) -> Result<&'s Value, String> {
    let mut schema = schema;
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let name;
        match first {
            '.' => {
                let (token, after) = token(&rest[1..]);
                if token.is_empty() {
                    return Err("unexpected end of JSON path".to_owned());
                }
                name = token.to_owned();
                rest = after;
            }
            '[' if !brackets => return Err("array notation is not allowed".to_owned()),
            '[' => {
                let (quoted, after) = token(&rest[1..]);
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|inner| inner.strip_suffix('\''))
                    .filter(|_| quoted.len() > 1);
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                name = unescaped(inner)?;
                let Some(closed) = after.strip_prefix(']') else {
                    return Err("unexpected end of JSON path".to_owned());
                };
                rest = closed;
            }
            _ => return Err(format!("expected [ or . but got: {}", token(rest).0)),
        }
        let missing = || "does not refer to a valid field".to_owned();
        schema = if node::fields(schema, "properties").is_some() {
            node::property(schema, &name).ok_or_else(missing)?
        } else {
            schema
                .get("additionalProperties")
                .filter(|additional| additional.is_object())
                .ok_or_else(missing)?
        };
    }
    Ok(schema)
}

/// The text up to the next delimiter; quoted text is one piece.
fn token(text: &str) -> (&str, &str) {
    if text.starts_with('\'') {
        let bytes = text.as_bytes();
        let end = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
        return text.split_at(end.map_or(text.len(), |end| end + 1));
    }
    match text.find(['.', '[', ']']) {
        Some(0) => text.split_at(1),
        Some(end) => text.split_at(end),
        None => (text, ""),
    }
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let escape = characters.next().unwrap_or('\\');
        out.push(match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\'' | '\\' => escape,
            other => {
                return Err(format!(
                    "invalid string literal: invalid escape char \\{other}"
                ));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_schemas() {
        let schema = json!({"properties": {
            "a": {"properties": {"b-c": {"type": "string"}}},
            "m": {"additionalProperties": {"type": "integer"}},
        }});
        for (path, found) in [
            (".a['b-c']", Ok("string")),
            (".m.x", Ok("integer")),
            (".m['x.y']", Ok("integer")),
            (".a.zz", Err("does not refer to a valid field")),
            ("a", Err("expected [ or . but got: a")),
            (".a[0]", Err("expected single quoted string but got 0")),
            (".", Err("unexpected end of JSON path")),
        ] {
            let actual = follow(&schema, path, true);
            let actual = actual.as_ref().map(|found| node::text(found, "type"));
            assert_eq!(actual.map_err(String::as_str), found, "{path}");
        }
        let refused = follow(&schema, ".a['b-c']", false).unwrap_err();
        assert_eq!(refused, "array notation is not allowed");
    }
}
