//! Decoding a tree into plain values as Go's libraries do: aliases, merge keys, duplicate keys,
//! keys that are not strings, and the limit on what aliases may add.

mod alias;
mod plain;
mod text;
mod value;

pub(crate) use alias::AliasTargets;
pub(crate) use plain::{plain_document, plain_scalar, plain_tree};
pub(crate) use text::{format_float_g32, go_quote};
pub(crate) use value::{GoKey, GoMap, GoValue};

use crate::error::{Error, Limit};
use crate::load::Limits;
use crate::node::{Dialect, Entry, Mapping, Node, Position, Scalar, ScalarKind, Style, Value};
use crate::read::{Timestamp, resolve_tagged};
use base64::Engine;
use std::collections::{HashMap, HashSet};

/// More problems than this are not listed.
const MAX_PROBLEMS: usize = 10_000;
/// How much text of problems is listed: each can quote a long key.
const MAX_PROBLEM_TEXT: usize = 1 << 20;

/// What Go decodes a document into, given a variable of type `any`.
pub(crate) struct Decoder<'n> {
    dialect: Dialect,
    /// go-yaml v2 only: duplicate keys are errors. In v3 they always are.
    strict: bool,
    nesting: usize,
    targets: AliasTargets<'n>,
    active: HashSet<*const Node>,
    problems: Vec<String>,
    problem_text: usize,
    problem_at: Position,
    decoded: usize,
    decoded_in_alias: usize,
    alias_depth: usize,
    depth: usize,
    /// Keys that are set already while merge keys are followed; go-yaml v3 only.
    merged: Option<HashSet<GoKey>>,
}

impl<'n> Decoder<'n> {
    pub(crate) fn new(dialect: Dialect, strict: bool, limits: Limits) -> Self {
        Decoder {
            dialect,
            strict,
            nesting: limits.nesting,
            targets: AliasTargets::default(),
            active: HashSet::new(),
            problems: Vec::new(),
            problem_text: 0,
            problem_at: Position::default(),
            decoded: 0,
            decoded_in_alias: 0,
            alias_depth: 0,
            depth: 0,
            merged: None,
        }
    }

    /// Decodes a document.
    pub(crate) fn decode(mut self, root: &'n Node) -> Result<GoValue, Error> {
        self.targets = AliasTargets::find(root);
        self.decoded = 1;
        let value = self.value(root)?;
        self.finish(value)
    }

    /// Decodes a document into a variable of type `map[string]any`: keys of its top map become
    /// strings where they can.
    pub(crate) fn decode_object(mut self, root: &'n Node) -> Result<GoValue, Error> {
        let Value::Mapping(mapping) = &root.value else {
            return self.decode(root);
        };
        self.targets = AliasTargets::find(root);
        self.decoded = 1;
        self.count()?;
        let mut out = GoMap::new(false);
        let good = self.mapping(root, mapping, &mut out)?;
        self.finish(good.then_some(GoValue::Map(out)))
    }

    fn finish(self, value: Option<GoValue>) -> Result<GoValue, Error> {
        if !self.problems.is_empty() {
            return Err(Error::Type {
                problems: self.problems,
                position: self.problem_at,
            });
        }
        Ok(value.unwrap_or(GoValue::Null))
    }

    /// Counts a node against Go's limit on aliases.
    fn count(&mut self) -> Result<(), Error> {
        self.decoded += 1;
        if self.alias_depth > 0 {
            self.decoded_in_alias += 1;
        }
        if self.decoded_in_alias > 100 && self.decoded > 1000 {
            let share = self.decoded_in_alias as f64 / self.decoded as f64;
            if share > allowed_alias_share(self.decoded) {
                return Err(Error::decode("document contains excessive aliasing"));
            }
        }
        Ok(())
    }

    /// A value; none if go-yaml would leave its place unset.
    fn value(&mut self, node: &'n Node) -> Result<Option<GoValue>, Error> {
        self.count()?;
        match &node.value {
            Value::Alias(_) => self.through_alias(node, |decoder, target| decoder.value(target)),
            Value::Scalar(scalar) => self.scalar(node, scalar).map(Some),
            Value::Sequence(items) => {
                self.enter(node)?;
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    if let Some(value) = self.value(item)? {
                        list.push(value);
                    }
                }
                self.depth -= 1;
                Ok(Some(GoValue::Seq(list)))
            }
            Value::Mapping(mapping) => {
                let general = match self.dialect {
                    Dialect::Sigs => true,
                    Dialect::Kyaml => !self.has_string_keys(mapping),
                };
                let mut out = GoMap::new(general);
                let good = self.mapping(node, mapping, &mut out)?;
                Ok(good.then_some(GoValue::Map(out)))
            }
        }
    }

    fn enter(&mut self, node: &Node) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > self.nesting {
            return Err(Error::Limit {
                limit: Limit::Nesting(self.nesting),
                position: node.position,
            });
        }
        Ok(())
    }

    fn through_alias<T>(
        &mut self,
        alias: &'n Node,
        decode: impl FnOnce(&mut Self, &'n Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let name = match &alias.value {
            Value::Alias(name) => name.as_str(),
            _ => "",
        };
        let Some(target) = self.targets.get(alias) else {
            return Err(Error::decode_at(
                format!("unknown anchor '{name}' referenced"),
                alias.position,
            ));
        };
        let id: *const Node = alias;
        if !self.active.insert(id) {
            return Err(Error::decode_at(
                format!("anchor '{name}' value contains itself"),
                alias.position,
            ));
        }
        self.enter(alias)?;
        self.alias_depth += 1;
        let value = decode(self, target)?;
        self.alias_depth -= 1;
        self.depth -= 1;
        self.active.remove(&id);
        Ok(value)
    }

    fn scalar(&mut self, node: &Node, scalar: &Scalar) -> Result<GoValue, Error> {
        let kind = match node.tag() {
            None | Some("!") => scalar.kind,
            Some(tag) => resolve_tagged(self.dialect, tag, &scalar.text, node.position)?,
        };
        Ok(match kind {
            ScalarKind::Null => GoValue::Null,
            ScalarKind::Bool(value) => GoValue::Bool(value),
            ScalarKind::Int(value) => GoValue::Int(value),
            ScalarKind::Uint(value) => GoValue::Uint(value),
            ScalarKind::Float(value) => GoValue::Float(value),
            ScalarKind::String | ScalarKind::Merge => GoValue::Str(scalar.text.clone()),
            ScalarKind::Timestamp => match Timestamp::parse(&scalar.text) {
                Some(time) => GoValue::Time(time),
                None => GoValue::Str(scalar.text.clone()),
            },
            ScalarKind::Binary => GoValue::Str(decode_base64(&scalar.text, node.position)?.into()),
        })
    }

    /// go-yaml v3 makes a map with string keys if all of them are strings.
    fn has_string_keys(&self, mapping: &Mapping) -> bool {
        mapping.entries.iter().all(|entry| {
            let key = match &entry.key.value {
                Value::Alias(_) => self.targets.get(&entry.key).unwrap_or(&entry.key),
                _ => &entry.key,
            };
            match (&key.value, key.tag()) {
                (_, Some(tag)) if tag != "!" => matches!(tag, "!!str" | "!!merge"),
                (Value::Scalar(scalar), _) => {
                    matches!(scalar.kind, ScalarKind::String | ScalarKind::Merge)
                }
                _ => false,
            }
        })
    }

    /// Decodes a map into one that may have entries already; false if Go gives it up.
    fn mapping(
        &mut self,
        node: &'n Node,
        mapping: &'n Mapping,
        out: &mut GoMap,
    ) -> Result<bool, Error> {
        self.enter(node)?;
        let good = match self.dialect {
            Dialect::Sigs => self.mapping_v2(mapping, out).map(|()| true),
            Dialect::Kyaml => self.mapping_v3(mapping, out),
        };
        self.depth -= 1;
        good
    }

    fn mapping_v2(&mut self, mapping: &'n Mapping, out: &mut GoMap) -> Result<(), Error> {
        for Entry { key, value } in &mapping.entries {
            if self.is_merge(key) {
                self.merge_v2(value, out)?;
                continue;
            }
            let key = self.key(key)?;
            let decoded = self.value(value)?.unwrap_or(GoValue::Null);
            if self.strict && out.entries.contains_key(&key) {
                let line = value.position.line;
                let problem = format!("line {line}: key {} already set in map", key.go_syntax());
                self.problem(problem, value.position);
                continue;
            }
            out.entries.insert(key, decoded);
        }
        Ok(())
    }

    fn key(&mut self, node: &'n Node) -> Result<GoKey, Error> {
        let value = self.value(node)?.unwrap_or(GoValue::Null);
        GoKey::new(value).map_err(|value| {
            let text = value.go_syntax(self.dialect);
            Error::decode_at(format!("invalid map key: {text}"), node.position)
        })
    }

    fn is_merge(&self, key: &Node) -> bool {
        let Value::Scalar(scalar) = &key.value else {
            return false;
        };
        if scalar.text != "<<" {
            return false;
        }
        match (self.dialect, key.tag()) {
            (_, Some("!!merge")) => true,
            (Dialect::Sigs, Some("!")) => true,
            (_, None) => key.style == Style::Plain,
            (Dialect::Kyaml, Some("!")) => key.style == Style::Plain,
            _ => false,
        }
    }

    fn merge_v2(&mut self, value: &'n Node, out: &mut GoMap) -> Result<(), Error> {
        match &value.value {
            Value::Sequence(items) => {
                // Earlier ones win, so they come last.
                for item in items.iter().rev() {
                    self.merge_one(item, out)?;
                }
                Ok(())
            }
            _ => self.merge_one(value, out),
        }
    }

    fn merge_one(&mut self, value: &'n Node, out: &mut GoMap) -> Result<(), Error> {
        let target = match &value.value {
            Value::Alias(_) => self.targets.get(value).unwrap_or(value),
            _ => value,
        };
        if !matches!(target.value, Value::Mapping(_)) {
            return Err(Error::decode_at(
                "map merge requires map or sequence of maps as the value",
                value.position,
            ));
        }
        self.fill_map(value, out)
    }

    /// Decodes a map, or an alias of one, into a map.
    fn fill_map(&mut self, node: &'n Node, out: &mut GoMap) -> Result<(), Error> {
        self.count()?;
        match &node.value {
            Value::Alias(_) => {
                self.through_alias(node, |decoder, target| decoder.fill_map(target, out))
            }
            Value::Mapping(mapping) => self.mapping(node, mapping, out).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn mapping_v3(&mut self, mapping: &'n Mapping, out: &mut GoMap) -> Result<bool, Error> {
        let problems = self.problems.len();
        self.check_unique(mapping);
        if self.problems.len() > problems {
            return Ok(false);
        }
        let mut merged = self.merged.take();
        let mut merge = None;
        for Entry { key, value } in &mapping.entries {
            if self.is_merge(key) {
                merge = Some(value);
                continue;
            }
            let Some(name) = self.key_v3(key, out.general)? else {
                continue;
            };
            if let Some(merged) = &mut merged
                && !merged.insert(name.clone())
            {
                continue;
            }
            if let Some(decoded) = self.value(value)? {
                out.entries.insert(name, decoded);
            }
        }
        self.merged = merged;
        if let Some(merge) = merge {
            self.merge_v3(mapping, merge, out)?;
        }
        Ok(true)
    }

    /// A key for a map whose keys are all strings, or may be anything.
    fn key_v3(&mut self, node: &'n Node, general: bool) -> Result<Option<GoKey>, Error> {
        if general {
            return self.key(node).map(Some);
        }
        match self.value(node)? {
            None | Some(GoValue::Null) => Ok(None),
            Some(GoValue::Str(text)) => Ok(Some(GoKey::Str(text))),
            Some(value @ (GoValue::Seq(_) | GoValue::Map(_))) => {
                let tag = match value {
                    GoValue::Seq(_) => "!!seq",
                    _ => "!!map",
                };
                let line = node.position.line;
                let problem = format!("line {line}: cannot unmarshal {tag} into string");
                self.problem(problem, node.position);
                Ok(None)
            }
            Some(_) => {
                let key = self.targets.get(node).unwrap_or(node);
                Ok(key.as_text().map(|text| GoKey::Str(text.into())))
            }
        }
    }

    fn merge_v3(
        &mut self,
        parent: &'n Mapping,
        merge: &'n Node,
        out: &mut GoMap,
    ) -> Result<(), Error> {
        let outer = self.merged.is_some();
        if !outer {
            let mut keys = HashSet::new();
            for entry in &parent.entries {
                let Some(value) = self.value(&entry.key)? else {
                    continue;
                };
                let key = GoKey::new(value).map_err(|value| {
                    let kind = value.go_type(self.dialect);
                    Error::decode(format!("runtime error: hash of unhashable type {kind}"))
                })?;
                keys.insert(key);
            }
            self.merged = Some(keys);
        }
        match &merge.value {
            Value::Sequence(items) => {
                for item in items {
                    self.merge_one(item, out)?;
                }
            }
            _ => self.merge_one(merge, out)?,
        }
        if !outer {
            self.merged = None;
        }
        Ok(())
    }

    fn check_unique(&mut self, mapping: &Mapping) {
        let mut seen: HashMap<(u8, &str), Vec<&Node>> = HashMap::new();
        let mut pairs = Vec::new();
        for (index, entry) in mapping.entries.iter().enumerate() {
            let (kind, text) = match &entry.key.value {
                Value::Scalar(scalar) => (0, scalar.text.as_str()),
                Value::Alias(name) => (1, name.as_str()),
                Value::Sequence(_) => (2, ""),
                Value::Mapping(_) => (3, ""),
            };
            let earlier = seen.entry((kind, text)).or_default();
            for first in earlier.iter().take(MAX_PROBLEMS) {
                if pairs.len() < MAX_PROBLEMS {
                    pairs.push((first.position, index, &entry.key, text));
                }
            }
            earlier.push(&entry.key);
        }
        // Go names all repetitions of the first key, then those of the second.
        pairs.sort_by_key(|(first, index, ..)| (first.line, first.column, *index));
        for (first, _, key, text) in pairs {
            if self.problem_text > MAX_PROBLEM_TEXT {
                return;
            }
            let problem = format!(
                "line {}: mapping key {} already defined at line {}",
                key.position.line,
                go_quote(text),
                first.line
            );
            self.problem(problem, key.position);
        }
    }

    fn problem(&mut self, problem: String, position: Position) {
        if self.problems.is_empty() {
            self.problem_at = position;
        }
        if self.problems.len() < MAX_PROBLEMS && self.problem_text <= MAX_PROBLEM_TEXT {
            self.problem_text += problem.len();
            self.problems.push(problem);
        }
    }
}

/// Go lets aliases make up 99 % of a small document and 10 % of a huge one.
fn allowed_alias_share(decoded: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match decoded {
        0..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

/// Binary data as the text that Go's JSON makes of it: a replacement character for each bad byte.
fn decode_base64(text: &str, position: Position) -> Result<String, Error> {
    // Go skips line breaks.
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = base64::engine::general_purpose::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    )
    .decode(compact)
    .map_err(|_| Error::decode_at("!!binary value contains invalid base64 data", position))?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| '\u{FFFD}'));
    }
    Ok(out)
}
