//! JSON of a tree by way of its text, as kyaml makes it.

use super::{Indent, kyaml, kyaml_document};
use crate::read::tag_of;
use crate::{Dialect, Document, Error, Loader, Node, Scalar, ScalarKind, Style, Value};
use everflow_json::Value as Json;

impl Document {
    /// `RNode.MarshalJSON`, and so what `kustomize build` sees of a resource.
    ///
    /// kyaml prints the tree and reads the text again, and a few texts change on the way: a `>`
    /// scalar with indented lines gains empty ones, nothing in `{a: }` becomes an empty string, and
    /// a `|` scalar that begins with a tab cannot be read at all. Trees without such texts are
    /// converted directly; an error is found again in the text, because that is what its line
    /// number counts in.
    pub fn marshal_json(&self) -> Result<Json, Error> {
        self.root
            .marshal_directly()
            .map_or_else(|| reread(&kyaml_document(self, Indent::Compact)), Ok)
    }
}

impl Node {
    /// [`Document::marshal_json`] for a node that is no document.
    pub fn marshal_json(&self) -> Result<Json, Error> {
        self.marshal_directly()
            .map_or_else(|| reread(&kyaml(self, Indent::Compact)), Ok)
    }

    fn marshal_directly(&self) -> Option<Json> {
        if matches!(self.value, Value::Scalar(_)) || self.changes_in_text() {
            return None;
        }
        self.to_json().ok()
    }

    fn changes_in_text(&self) -> bool {
        let mut pending = vec![(self, false)];
        while let Some((node, in_flow)) = pending.pop() {
            let in_flow = in_flow || node.style == Style::Flow;
            match &node.value {
                Value::Scalar(scalar) => {
                    let vanishes = in_flow && scalar.text.is_empty();
                    if vanishes || changes_in_folds(node, scalar) || is_delicate(&scalar.text) {
                        return true;
                    }
                }
                Value::Sequence(items) => pending.extend(items.iter().map(|item| (item, in_flow))),
                Value::Mapping(mapping) => {
                    for entry in &mapping.entries {
                        // A comment after a key can end up where it hides a part of the text.
                        if has_line_comment(&entry.key) {
                            return true;
                        }
                        // An empty key is quoted as if it stood in a flow.
                        pending.push((&entry.key, true));
                        pending.push((&entry.value, in_flow));
                    }
                }
                Value::Alias(_) => {}
            }
        }
        false
    }
}

pub(super) fn reread(text: &str) -> Result<Json, Error> {
    let document = Loader::new(Dialect::Kyaml).load_document(text.as_bytes())?;
    let Some(Document { root, .. }) = document else {
        return Ok(Json::Object(everflow_json::Map::new()));
    };
    refuse_scalar(&root)?;
    root.to_json()
}

/// kyaml decodes into a map, which only null leaves empty.
fn refuse_scalar(node: &Node) -> Result<(), Error> {
    /// Longer texts are cut.
    const SHOWN: usize = 10;
    const CUT: usize = 7;
    let Value::Scalar(scalar) = &node.value else {
        return Ok(());
    };
    if scalar.kind == ScalarKind::Null {
        return Ok(());
    }
    let shown = if scalar.text.len() > SHOWN {
        let start = String::from_utf8_lossy(&scalar.text.as_bytes()[..CUT]);
        format!("{start}...")
    } else {
        scalar.text.to_string()
    };
    let line = node.position.line;
    let tag = match node.tag() {
        Some(tag) if tag != "!" => tag,
        _ => tag_of(scalar.kind),
    };
    Err(Error::Type {
        problems: vec![format!(
            "line {line}: cannot unmarshal {tag} `{shown}` into map[string]interface {{}}"
        )],
        position: node.position,
    })
}

/// True for a `>` scalar that may come back changed: one with empty or indented lines at the wrong
/// places, or with none at all.
pub(super) fn changes_in_folds(node: &Node, scalar: &Scalar) -> bool {
    if node.style != Style::Folded {
        return false;
    }
    let lines = scalar.text.strip_suffix('\n').unwrap_or(&scalar.text);
    lines.ends_with('\n')
        || lines
            .split('\n')
            .any(|line| line.is_empty() || line.starts_with([' ', '\t']))
}

fn has_line_comment(node: &Node) -> bool {
    let extras = node.extras.as_ref();
    extras.is_some_and(|extras| !extras.comments.line.is_empty())
}

/// Texts that some style cannot carry: tabs beside line breaks, and the breaks of YAML 1.1.
pub(super) fn is_delicate(text: &str) -> bool {
    text.contains('\t') && text.contains('\n')
        || !text.is_ascii() && text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{FEFF}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let document = Loader::new(Dialect::Kyaml)
            .keep_comments(true)
            .load_document(text.as_bytes())
            .expect("YAML")
            .expect("a document");
        document
            .marshal_json()
            .map_or_else(|error| error.to_string(), |json| json.to_string())
    }

    #[test]
    fn texts_that_change_on_the_way_change_here_too() {
        assert_eq!(json("a: >\n  b\n    c\n  d\n"), r#"{"a":"b\n\n  c\nd\n"}"#);
        assert_eq!(json("a: {b: }\n"), r#"{"a":{"b":""}}"#);
        assert_eq!(json("a:\n"), r#"{"a":null}"#);
    }

    #[test]
    fn keys_of_the_top_map_become_strings() {
        assert_eq!(json("1: a\n"), r#"{"1":"a"}"#);
        assert_eq!(json("a: &x 1\n*x : b\n"), r#"{"1":"b","a":1}"#);
        assert_eq!(json("null: a\nb: c\n"), r#"{"b":"c"}"#);
        assert!(json("a: {1: b}\n").contains("unsupported type"));
    }

    #[test]
    fn comments_can_break_the_text() {
        let error = json("c: # key\n  v # value\nb: !!map\n  k: ''\n");
        assert_eq!(error, "yaml: line 3: could not find expected ':'");
    }
}
