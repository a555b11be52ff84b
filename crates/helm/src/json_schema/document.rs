//! A schema document: its draft, its identifiers and how references are resolved in it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The name under which helm knows a chart's schema; it shows in messages.
pub(super) const LOCATION: &str = "file:///values.schema.json";

/// How deep schemas may nest; deeper ones are refused before anything walks them.
const MAX_DEPTH: usize = 512;

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema breaks the rules of its draft.
    #[error("\"{LOCATION}#\" is not valid against metaschema: {0}")]
    Invalid(String),
    /// `$schema` names a draft that is not known.
    #[error("invalid $schema in \"{LOCATION}#\": unsupported draft {0:?}; use draft-04 to 2020-12")]
    UnknownDraft(String),
    /// A reference that leads nowhere in this document.
    #[error("\"{LOCATION}#{0}\" not found; only references inside values.schema.json are followed")]
    Unresolved(String),
    /// A pattern that is no regular expression.
    #[error("{0:?} is not valid regex: {1}")]
    Pattern(String, String),
    /// Too deep to walk.
    #[error("the schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// The editions of JSON Schema, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
}

impl Draft {
    fn of(schema: &Value) -> Result<Self, SchemaError> {
        let Some(name) = schema.get("$schema").and_then(Value::as_str) else {
            return Ok(Draft::Of2020);
        };
        let path = name
            .trim_start_matches("http://")
            .trim_start_matches("https://")
            .trim_end_matches('#');
        Ok(match path {
            "json-schema.org/draft-04/schema" => Draft::Four,
            "json-schema.org/draft-06/schema" => Draft::Six,
            "json-schema.org/draft-07/schema" => Draft::Seven,
            "json-schema.org/draft/2019-09/schema" => Draft::Of2019,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Draft::Of2020,
            _ => return Err(SchemaError::UnknownDraft(name.to_owned())),
        })
    }

    /// Drafts before 2019-09 let `$ref` hide its neighbours.
    pub(super) fn reference_stands_alone(self) -> bool {
        self < Draft::Of2019
    }

    /// The key of a schema's own identifier.
    fn id_key(self) -> &'static str {
        match self {
            Draft::Four => "id",
            _ => "$id",
        }
    }
}

/// A document with what can be referred to in it.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Value,
    pub(super) draft: Draft,
    /// Absolute identifier or `identifier#anchor` to JSON pointer.
    targets: BTreeMap<String, String>,
}

impl Document {
    pub(super) fn new(root: Value) -> Result<Self, SchemaError> {
        let draft = Draft::of(&root)?;
        let mut targets = BTreeMap::new();
        collect(&root, draft, LOCATION, "", 0, &mut targets)?;
        Ok(Document {
            root,
            draft,
            targets,
        })
    }

    /// A document that is trusted to be well formed, such as a metaschema of ours.
    pub(super) fn trusted(root: Value, draft: Draft) -> Self {
        let mut targets = BTreeMap::new();
        // Ours are shallow; a failure here would only lose anchors that they do not have.
        let _ = collect(&root, draft, LOCATION, "", 0, &mut targets);
        Document {
            root,
            draft,
            targets,
        }
    }

    /// What `reference` names when it stands in a schema whose base is `base`; gives the schema
    /// with the base that holds inside it.
    pub(super) fn resolve(
        &self,
        base: &str,
        reference: &str,
    ) -> Result<(&Value, String), SchemaError> {
        let absolute = join(base, reference);
        let (resource, fragment) = absolute.split_once('#').unwrap_or((&absolute, ""));
        let unresolved = || SchemaError::Unresolved(reference.trim_start_matches('#').to_owned());
        let start = match resource {
            LOCATION => "",
            _ => self.targets.get(resource).ok_or_else(unresolved)?.as_str(),
        };
        let pointer = match fragment {
            "" => start.to_owned(),
            path if path.starts_with('/') => format!("{start}{}", percent_decoded(path)),
            anchor => self
                .targets
                .get(&format!("{resource}#{anchor}"))
                .ok_or_else(unresolved)?
                .clone(),
        };
        let target = self.root.pointer(&pointer).ok_or_else(unresolved)?;
        Ok((target, resource.to_owned()))
    }

    /// The base inside `schema`, which stands where `base` holds.
    pub(super) fn base_inside(&self, schema: &Value, base: &str) -> Option<String> {
        let id = schema.get(self.draft.id_key())?.as_str()?;
        (!id.starts_with('#')).then(|| without_fragment(&join(base, id)))
    }
}

fn collect(
    schema: &Value,
    draft: Draft,
    base: &str,
    pointer: &str,
    depth: usize,
    targets: &mut BTreeMap<String, String>,
) -> Result<(), SchemaError> {
    if depth > MAX_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    let mut base = base.to_owned();
    if let Some(id) = schema.get(draft.id_key()).and_then(Value::as_str) {
        let absolute = join(&base, id);
        match absolute.split_once('#') {
            Some((_, fragment)) if !fragment.is_empty() => {
                targets.insert(absolute, pointer.to_owned());
            }
            _ => {
                base = without_fragment(&absolute);
                targets.insert(base.clone(), pointer.to_owned());
            }
        }
    }
    for key in ["$anchor", "$dynamicAnchor"] {
        if let Some(anchor) = schema.get(key).and_then(Value::as_str) {
            targets.insert(format!("{base}#{anchor}"), pointer.to_owned());
        }
    }
    let children: Box<dyn Iterator<Item = (String, &Value)>> = match schema {
        Value::Object(map) => Box::new(
            map.iter()
                // What these hold is data, not schema.
                .filter(|(key, _)| !matches!(key.as_str(), "enum" | "const" | "default"))
                .map(|(key, value)| (escaped(key), value)),
        ),
        Value::Array(items) => Box::new(
            items
                .iter()
                .enumerate()
                .map(|(index, value)| (index.to_string(), value)),
        ),
        _ => return Ok(()),
    };
    for (token, child) in children {
        collect(
            child,
            draft,
            &base,
            &format!("{pointer}/{token}"),
            depth + 1,
            targets,
        )?;
    }
    Ok(())
}

/// A JSON pointer token.
pub(super) fn escaped(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

fn without_fragment(url: &str) -> String {
    url.split('#').next().unwrap_or(url).to_owned()
}

/// Resolves a reference against a base: enough of RFC 3986 for identifiers of schemas.
fn join(base: &str, reference: &str) -> String {
    let base = without_fragment(base);
    if reference.is_empty() || reference.starts_with('#') {
        return format!("{base}{reference}");
    }
    let has_scheme = reference
        .split_once(':')
        .is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains('/'));
    if has_scheme {
        return reference.to_owned();
    }
    let authority_end = base
        .find("://")
        .and_then(|start| base[start + 3..].find('/').map(|slash| start + 3 + slash))
        .unwrap_or(base.len());
    if reference.starts_with('/') {
        return format!("{}{reference}", &base[..authority_end]);
    }
    let directory = base.rfind('/').map_or(base.len(), |slash| slash + 1);
    format!("{}{reference}", &base[..directory.max(authority_end)])
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = bytes
            .get(index + 1..index + 3)
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (bytes[index], hex) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                index += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
