//! A schema document: its draft, its identifiers and how references are resolved in it.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use everflow_gotemplate::{BYTES_OF_A_STEP, FuncError, Meter};
use everflow_json::{Map, Value};
use everflow_limits::Exceeded;

use super::keywords::{Keyword, Keywords};

/// The name under which helm knows a chart's schema; it shows in messages.
pub(super) const LOCATION: &str = "file:///values.schema.json";

/// How deep schemas may nest; deeper ones are refused before anything walks them.
const MAX_DEPTH: usize = 512;

/// What remembering a schema takes.
const SEEN_BYTES: usize = 64;

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
    #[error("\"{LOCATION}#{0}\" not found")]
    Unresolved(String),
    /// A reference to another document.
    #[error(
        "failing loading {0:?}: only references inside values.schema.json are followed; copy what \
         is needed into it, or skip the schema with --skip-schema-validation"
    )]
    Foreign(String),
    /// A pattern that is no regular expression.
    #[error("{0:?} is not valid regex: {1}")]
    Pattern(String, String),
    /// Too deep to walk.
    #[error("the schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// It takes more than there is to work on it.
    #[error("\"{LOCATION}\": {0}")]
    UsedUp(#[from] FuncError),
}

impl From<Exceeded> for SchemaError {
    fn from(exceeded: Exceeded) -> Self {
        SchemaError::UsedUp(exceeded.into())
    }
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

    /// The keyword of a schema's own identifier.
    fn id_keyword(self) -> Keyword {
        match self {
            Draft::Four => Keyword::IdOfDraft4,
            _ => Keyword::Id,
        }
    }
}

/// A document with what can be referred to in it.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Value,
    pub(super) draft: Draft,
    /// Whether some schema asks which properties or items others have looked at.
    pub(super) tracks_evaluated: bool,
    /// Absolute identifier or `identifier#anchor` to JSON pointer.
    targets: BTreeMap<String, String>,
}

impl Document {
    pub(super) fn new(root: Value, meter: &Meter<'_>) -> Result<Self, SchemaError> {
        let draft = Draft::of(&root)?;
        let mut found = Found {
            targets: BTreeMap::new(),
            references: Vec::new(),
            tracks_evaluated: false,
            meter,
        };
        found.collect(&root, draft, &Rc::from(LOCATION), &mut Vec::new())?;
        let (targets, references) = (found.targets, found.references);
        let tracks_evaluated = found.tracks_evaluated;
        let lengths = references.iter().map(|(_, reference)| reference.len());
        let _held = meter.hold(lengths.sum())?;
        let references: Vec<(Rc<str>, String)> = references
            .into_iter()
            .map(|(base, reference)| (base, reference.to_owned()))
            .collect();
        let document = Document {
            root,
            draft,
            tracks_evaluated,
            targets,
        };
        document.check_references(&references, meter)?;
        Ok(document)
    }

    /// A document that is trusted to be well formed, such as a metaschema of ours.
    pub(super) fn trusted(root: Value, draft: Draft) -> Self {
        Document {
            root,
            draft,
            tracks_evaluated: false,
            targets: BTreeMap::new(),
        }
    }

    /// A reference that leads nowhere is an error if the root leads to it; nobody minds those in
    /// definitions that are not used.
    fn check_references(
        &self,
        references: &[(Rc<str>, String)],
        meter: &Meter<'_>,
    ) -> Result<(), SchemaError> {
        let mut broken = false;
        for (base, reference) in references {
            let length = base.len() + reference.len();
            meter.steps((1 + length / BYTES_OF_A_STEP) as u64)?;
            broken |= self.resolve(base, reference).is_err();
        }
        if !broken {
            return Ok(());
        }
        let mut seen = HashSet::new();
        self.check_reachable(&self.root, &Rc::from(LOCATION), 0, &mut seen, meter)
    }

    fn check_reachable<'d>(
        &'d self,
        schema: &'d Value,
        base: &Rc<str>,
        depth: usize,
        seen: &mut HashSet<*const Value>,
        meter: &Meter<'_>,
    ) -> Result<(), SchemaError> {
        let Value::Object(entries) = schema else {
            return Ok(());
        };
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        meter.steps((1 + entries.len() + base.len() / BYTES_OF_A_STEP) as u64)?;
        meter.charge(SEEN_BYTES)?;
        if !seen.insert(schema) {
            return Ok(());
        }
        let depth = depth + 1;
        let inside = self.base_inside(&Keywords::of(schema), base);
        let base = inside.as_ref().unwrap_or(base);
        for (keyword, value) in entries {
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let (target, base) = self.resolve(base, reference)?;
                    self.check_reachable(target, &base, depth, seen, meter)?;
                }
                // Definitions count when they are referred to; the others are data.
                ("definitions" | "$defs" | "enum" | "const" | "default" | "examples", _) => {}
                (
                    "properties" | "patternProperties" | "dependencies" | "dependentSchemas",
                    Value::Object(schemas),
                ) => {
                    for schema in schemas.values() {
                        self.check_reachable(schema, base, depth, seen, meter)?;
                    }
                }
                (_, Value::Array(schemas)) => {
                    for schema in schemas {
                        self.check_reachable(schema, base, depth, seen, meter)?;
                    }
                }
                (_, schema) => self.check_reachable(schema, base, depth, seen, meter)?,
            }
        }
        Ok(())
    }

    /// What `reference` names when it stands in a schema whose base is `base`; gives the schema
    /// with the base that holds inside it.
    pub(super) fn resolve(
        &self,
        base: &Rc<str>,
        reference: &str,
    ) -> Result<(&Value, Rc<str>), SchemaError> {
        if reference == "#" && &**base == LOCATION {
            return Ok((&self.root, Rc::clone(base)));
        }
        let absolute = join(base, reference);
        let (resource, fragment) = absolute.split_once('#').unwrap_or((&absolute, ""));
        let unresolved = || SchemaError::Unresolved(reference.trim_start_matches('#').to_owned());
        let start = match resource {
            LOCATION => "",
            _ => self
                .targets
                .get(resource)
                .ok_or_else(|| SchemaError::Foreign(resource.to_owned()))?
                .as_str(),
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
        let base = match resource == &**base {
            true => Rc::clone(base),
            false => Rc::from(resource),
        };
        Ok((target, base))
    }

    /// The base inside a schema with these keywords, which stands where `base` holds.
    pub(super) fn base_inside(&self, keywords: &Keywords<'_>, base: &str) -> Option<Rc<str>> {
        let id = keywords.get(self.draft.id_keyword())?.as_str()?;
        (!id.starts_with('#')).then(|| Rc::from(without_fragment(&join(base, id))))
    }
}

/// What a walk through a document finds.
struct Found<'v> {
    targets: BTreeMap<String, String>,
    /// References with the base that holds where they stand.
    references: Vec<(Rc<str>, &'v str)>,
    tracks_evaluated: bool,
    meter: &'v Meter<'v>,
}

/// One step down into a document.
enum Token<'v> {
    Key(&'v str),
    Index(usize),
}

fn pointer(path: &[Token<'_>]) -> String {
    let mut pointer = String::new();
    for token in path {
        pointer.push('/');
        match token {
            Token::Key(key) => pointer.push_str(&escaped(key)),
            Token::Index(index) => pointer.push_str(&index.to_string()),
        }
    }
    pointer
}

impl<'v> Found<'v> {
    fn collect(
        &mut self,
        schema: &'v Value,
        draft: Draft,
        base: &Rc<str>,
        path: &mut Vec<Token<'v>>,
    ) -> Result<(), SchemaError> {
        if path.len() > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        self.meter.steps(1)?;
        match schema {
            Value::Object(entries) => {
                let inside = self.identify(entries, draft, base, path)?;
                let base = inside.as_ref().unwrap_or(base);
                for (key, value) in entries {
                    match (key.as_str(), value) {
                        // What these hold is data, not schema.
                        ("enum" | "const" | "default", _) => continue,
                        ("$ref", Value::String(reference)) => {
                            self.meter.charge(2 * size_of::<(Rc<str>, &str)>())?;
                            self.references.push((Rc::clone(base), reference));
                        }
                        ("unevaluatedProperties" | "unevaluatedItems", _) => {
                            self.tracks_evaluated = true;
                        }
                        _ => {}
                    }
                    if value.is_object() || value.is_array() {
                        path.push(Token::Key(key));
                        self.collect(value, draft, base, path)?;
                        path.pop();
                    }
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    path.push(Token::Index(index));
                    self.collect(value, draft, base, path)?;
                    path.pop();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes the identifier and the anchors of a schema; gives the base inside it if that is new.
    fn identify(
        &mut self,
        entries: &'v Map,
        draft: Draft,
        base: &str,
        path: &[Token<'v>],
    ) -> Result<Option<Rc<str>>, SchemaError> {
        let text = |key: &str| entries.get(key).and_then(Value::as_str);
        let mut inside = None;
        if let Some(id) = text(draft.id_keyword().text()) {
            self.charge_target(base, id, path)?;
            let absolute = join(base, id);
            match absolute.split_once('#') {
                Some((_, fragment)) if !fragment.is_empty() => {
                    self.targets.insert(absolute, pointer(path));
                }
                _ => {
                    let own = without_fragment(&absolute);
                    inside = Some(Rc::from(own.as_str()));
                    self.targets.insert(own, pointer(path));
                }
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = text(key) {
                let base = inside.as_deref().unwrap_or(base);
                self.charge_target(base, anchor, path)?;
                self.targets
                    .insert(format!("{base}#{anchor}"), pointer(path));
            }
        }
        Ok(inside)
    }

    /// Charges the name of a target and the path to it.
    fn charge_target(&self, base: &str, name: &str, path: &[Token<'v>]) -> Result<(), SchemaError> {
        let path: usize = path
            .iter()
            .map(|token| match token {
                Token::Key(key) => 2 + 2 * key.len(),
                Token::Index(_) => 8,
            })
            .sum();
        let bytes = SEEN_BYTES + 3 * (base.len() + name.len()) + path;
        self.meter.steps((bytes / BYTES_OF_A_STEP) as u64)?;
        Ok(self.meter.charge(bytes)?)
    }
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
