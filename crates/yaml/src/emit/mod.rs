//! YAML text as the Go tools print it.
//!
//! | who prints | function |
//! |---|---|
//! | kubectl, Flux (`sigs.k8s.io/yaml`) | [`sigs`], [`sigs_checked`], [`json_to_yaml`] |
//! | Flux, for the digest of a release's values | [`sorted_pairs`] |
//! | `kustomize build` | [`append_object`] |
//! | helm templates | [`to_yaml`], [`to_yaml_pretty`] |
//! | kyaml, from a plain value (go-yaml v3 `Marshal`) | [`yaml3`] |
//! | sops (go-yaml v3 with four spaces) | [`go_yaml3`] |
//! | kyaml, keeping styles, tags, anchors and comments | [`kyaml`], [`kyaml_document`], [`kyaml_documents`] |

mod analysis;
mod collections;
mod emitter;
mod event;
mod go_value;
mod implicit;
mod key_order;
mod kio;
mod list_style;
mod node;
mod object;
mod output;
mod reread;
mod scalars;
mod tag;
mod value;

use crate::decode::Decoder;
use crate::{Dialect, Document, Error, Limits, Loader, Node, gojson, sigs as reader};
use event::Profile;
use everflow_json::Value;
pub use kio::kio_rewrite;
pub use list_style::list_indent_of;
use value::{Source, dump};

/// Where the `- ` of a list under a key stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indent {
    /// In the key's own column.
    #[default]
    Compact,
    /// Two columns further in.
    Wide,
}

/// What `sigs.k8s.io/yaml`'s `Marshal` prints.
///
/// Scalars fold at the first space past column 80 and keys are in go-yaml v2's natural order.
/// Where Go would fail (see [`sigs_checked`]) this prints the text with escapes, which reads back
/// as the same value.
pub fn sigs(value: &Value) -> String {
    dump(value, Dialect::Sigs, Source::JsonText, Profile::V2)
}

/// What go-yaml v2 prints for an object that `JSONObjectToYAMLObject` turned into pairs, when these
/// are sorted by the bytes of their keys: [`sigs`] with that order.
///
/// ```
/// use everflow_yaml::emit::sorted_pairs;
/// let values = everflow_json::json!({"a10": 1.0, "a2": [{"b": null}], "B": "1"});
/// assert_eq!(sorted_pairs(&values), "B: \"1\"\na10: 1\na2:\n- b: null\n");
/// ```
pub fn sorted_pairs(value: &Value) -> String {
    dump(value, Dialect::Sigs, Source::SortedPairs, Profile::V2)
}

/// [`sigs`] with Go's failures: the value goes through a YAML reader there, which refuses control
/// characters such as DEL, line breaks in keys and keys of more than 1024 characters.
pub fn sigs_checked(value: &Value) -> Result<String, Error> {
    if passes_reader(value) {
        Ok(sigs(value))
    } else {
        json_to_yaml(gojson::to_string(value).as_bytes())
    }
}

/// What `kustomize build` prints for an object, put at the end of a text: [`Node::marshal_json`] and
/// then [`sigs_checked`].
pub fn append_object(node: &Node, out: &mut String) -> Result<(), Error> {
    if !object::append(node, out) {
        out.push_str(&sigs_checked(&node.marshal_json()?)?);
    }
    Ok(())
}

/// Helm's `toYaml`: [`sigs`] less its last newline.
pub fn to_yaml(value: &Value) -> String {
    without_last_newline(sigs(value))
}

/// Helm's `toYamlPretty`: go-yaml v3 with wide lists and without folding, less its last newline.
///
/// Floats print in shortest form (`1e+06`); helm holds every number of its values as a float, see
/// [`numbers_as_f64`](crate::gojson::numbers_as_f64).
pub fn to_yaml_pretty(value: &Value) -> String {
    without_last_newline(yaml3(value, Indent::Wide))
}

/// What go-yaml v3 prints for a Go value, set up as kyaml does.
pub fn yaml3(value: &Value, indent: Indent) -> String {
    let profile = Profile::v3(indent == Indent::Compact);
    dump(value, Dialect::Kyaml, Source::GoValue, profile)
}

/// `sigs.k8s.io/yaml`'s `JSONToYAML`, which reads its input as YAML first.
///
/// Integers keep all their digits and floats print in shortest form: `1e6` becomes `1e+06`, where
/// [`sigs`] says `1000000`. What is JSON but not YAML (`\/`, escaped surrogates) is refused, and
/// what is YAML but not JSON is taken.
pub fn json_to_yaml(input: &[u8]) -> Result<String, Error> {
    let limits = Limits::DEFAULT;
    match reader::plain_json(input, limits)? {
        Some(json) => Ok(dump(&json, Dialect::Sigs, Source::GoValue, Profile::V2)),
        None => sigs_node(&Loader::new(Dialect::Sigs).limits(limits).load(input)?),
    }
}

/// What go-yaml v2 prints for a tree that was loaded under the `Sigs` dialect: aliases and merge
/// keys resolved, keys in natural order, styles and comments gone.
pub fn sigs_node(node: &Node) -> Result<String, Error> {
    let value = Decoder::new(Dialect::Sigs, false, Limits::DEFAULT).decode(node)?;
    Ok(go_value::dump(&value))
}

/// What kyaml's `RNode.String` prints for a node that is no document.
pub fn kyaml(node: &Node, indent: Indent) -> String {
    node::dump(node, indent)
}

/// What kyaml's `RNode.String` prints for a whole document.
pub fn kyaml_document(document: &Document, indent: Indent) -> String {
    kyaml_documents(std::iter::once((document, indent)))
}

/// What kyaml's `ByteWriter` prints for a stream of documents, each with its own list style.
pub fn kyaml_documents<'a>(documents: impl IntoIterator<Item = (&'a Document, Indent)>) -> String {
    node::dump_all(documents)
}

/// What go-yaml v3's `Encoder` prints for a stream of documents when nothing is set: four spaces,
/// wide lists, no folding.
pub fn go_yaml3<'a>(documents: impl IntoIterator<Item = &'a Document>) -> String {
    node::dump_plain(documents)
}

fn without_last_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// The reader takes keys of 1024 bytes. Characters may take six when they are escaped, and the reader
/// counts those.
const LONGEST_KEY: usize = 1024 / 6;

/// True if the value's JSON text surely is YAML that means the same.
fn passes_reader(value: &Value) -> bool {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) if has_control_character(text) => return false,
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => {
                for (key, field) in fields {
                    if has_control_character(key)
                        || key.len() > LONGEST_KEY
                        || key.contains('\u{85}')
                    {
                        return false;
                    }
                    pending.push(field);
                }
            }
            _ => {}
        }
    }
    true
}

/// Go's JSON escapes what is below a space and leaves these to the YAML reader.
fn has_control_character(text: &str) -> bool {
    let refused =
        |char| matches!(char, '\u{7F}'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}');
    text.as_bytes().contains(&0x7F) || !text.is_ascii() && text.contains(refused)
}
