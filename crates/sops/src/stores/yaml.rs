//! YAML with its comments.

use std::collections::BTreeMap;

use everflow_yaml::{
    Comments, Dialect, Document, Entry as YamlEntry, Extras, Limits, Loader, Mapping, Node, Scalar,
    ScalarKind, Style, Value, cost, emit, kyaml,
};

use everflow_limits::{Exceeded, Held};

use crate::error::Fault;
use crate::time_text;
use crate::tree::{Comment, Entry, Item, Tree};

/// Reads all documents of a file. What aliases add is held.
pub fn read(content: &[u8], held: &mut Held<'_>) -> Result<Vec<Tree>, Fault> {
    let wrong = |problem: String| format!("Error unmarshaling input YAML: {problem}");
    let documents = Loader::new(Dialect::Kyaml)
        .keep_comments(true)
        .load_all(content)
        .map_err(|error| wrong(error.to_string()))?;
    let mut trees = Vec::new();
    for document in &documents {
        let mut reader = Reader {
            anchors: BTreeMap::new(),
            aliases_left: MAX_ALIASES,
            depth: 0,
            held,
        };
        reader.find_anchors(&document.root);
        let mut entries = Vec::new();
        map_comments(&document.comments.head, false, &mut entries);
        match &document.root.value {
            Value::Mapping(_) => reader
                .map(&document.root, false, &mut entries)
                .map_err(|fault| fault.map(wrong))?,
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Null => {}
            Value::Sequence(_) => {
                let problem = "YAML documents that are sequences are not supported";
                return Err(wrong(problem.to_owned()).into());
            }
            _ => {
                let problem = "YAML documents that are values are not supported";
                return Err(wrong(problem.to_owned()).into());
            }
        }
        map_comments(&document.comments.foot, false, &mut entries);
        trees.push(Tree::Map(entries));
    }
    Ok(trees)
}

/// How many aliases a document may use.
const MAX_ALIASES: usize = 10_000;

struct Reader<'a, 'h, 'b> {
    anchors: BTreeMap<&'a str, &'a Node>,
    aliases_left: usize,
    /// Aliases can make it deeper than it was read.
    depth: usize,
    held: &'h mut Held<'b>,
}

fn comments_of(node: &Node) -> Comments {
    node.extras
        .as_ref()
        .map(|extras| extras.comments.clone())
        .unwrap_or_default()
}

fn lines(text: &str, inline: bool) -> impl Iterator<Item = Comment> {
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(move |line| Comment {
            text: line.strip_prefix('#').unwrap_or(line).to_owned(),
            inline,
        })
}

fn map_comments(text: &str, inline: bool, entries: &mut Vec<Entry>) {
    entries.extend(lines(text, inline).map(Entry::Comment));
}

fn list_comments(text: &str, inline: bool, items: &mut Vec<Item>) {
    items.extend(lines(text, inline).map(Item::Comment));
}

impl<'a> Reader<'a, '_, '_> {
    fn find_anchors(&mut self, node: &'a Node) {
        if let Some(name) = node.anchor() {
            self.anchors.insert(name, node);
        }
        match &node.value {
            Value::Sequence(items) => items.iter().for_each(|item| self.find_anchors(item)),
            Value::Mapping(mapping) => mapping.entries.iter().for_each(|entry| {
                self.find_anchors(&entry.key);
                self.find_anchors(&entry.value);
            }),
            _ => {}
        }
    }

    fn map(
        &mut self,
        node: &'a Node,
        comments_done: bool,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Fault> {
        let Value::Mapping(mapping) = &node.value else {
            return Ok(());
        };
        let own = comments_of(node);
        if !comments_done {
            map_comments(&own.head, false, entries);
            map_comments(&own.line, false, entries);
        }
        for entry in &mapping.entries {
            let on_key = comments_of(&entry.key);
            map_comments(&on_key.head, false, entries);
            map_comments(&on_key.line, false, entries);
            let on_value = comments_of(&entry.value);
            let is_leaf = matches!(entry.value.value, Value::Scalar(_) | Value::Alias(_));
            if is_leaf {
                map_comments(&on_value.head, false, entries);
                map_comments(&on_value.line, true, entries);
            }
            let key = key_text(&entry.key)?;
            let value = self.value(&entry.value, is_leaf)?;
            entries.push(Entry::Pair(key, value));
            if is_leaf {
                map_comments(&on_value.foot, false, entries);
            }
            map_comments(&on_key.foot, false, entries);
        }
        if !comments_done {
            map_comments(&own.foot, false, entries);
        }
        Ok(())
    }

    fn value(&mut self, node: &'a Node, comments_done: bool) -> Result<Tree, Fault> {
        const MAX_DEPTH: usize = Limits::DEFAULT.nesting;
        if self.depth > MAX_DEPTH {
            return Err(Fault::Exceeded(Exceeded::Depth {
                what: "an encrypted file",
                limit: MAX_DEPTH as u64,
            }));
        }
        self.depth += 1;
        let tree = self.tree(node, comments_done);
        self.depth -= 1;
        tree
    }

    fn tree(&mut self, node: &'a Node, comments_done: bool) -> Result<Tree, Fault> {
        match &node.value {
            Value::Scalar(scalar) => Ok(leaf(scalar)?),
            Value::Mapping(_) => {
                let mut entries = Vec::new();
                self.map(node, comments_done, &mut entries)?;
                Ok(Tree::Map(entries))
            }
            Value::Sequence(nodes) => {
                let own = comments_of(node);
                let mut items = Vec::new();
                if !comments_done {
                    list_comments(&own.head, false, &mut items);
                    list_comments(&own.line, false, &mut items);
                }
                for node in nodes {
                    let comments = comments_of(node);
                    list_comments(&comments.head, false, &mut items);
                    list_comments(&comments.line, true, &mut items);
                    items.push(Item::Value(self.value(node, true)?));
                    list_comments(&comments.foot, false, &mut items);
                }
                if !comments_done {
                    list_comments(&own.foot, false, &mut items);
                }
                Ok(Tree::List(items))
            }
            Value::Alias(name) => {
                self.aliases_left = self
                    .aliases_left
                    .checked_sub(1)
                    .ok_or("document contains excessive aliasing")?;
                let target = self.anchors.get(name.as_str()).copied();
                let target = target.ok_or_else(|| format!("unknown anchor '{name}' referenced"))?;
                // As it is read, and as it is written.
                self.held.grow(2 * cost::of_tree(target))?;
                // An alias inside of what it stands for would never end.
                let anchor = self.anchors.remove(name.as_str());
                let value = self.value(target, false);
                if let Some(anchor) = anchor {
                    self.anchors.insert(name.as_str(), anchor);
                }
                value
            }
        }
    }
}

fn key_text(key: &Node) -> Result<String, String> {
    match &key.value {
        Value::Scalar(scalar) if scalar.kind == ScalarKind::String => Ok(scalar.text.to_string()),
        Value::Scalar(scalar) => Err(format!(
            "Tree contains a non-string key: {}. Only string keys are supported",
            scalar.text
        )),
        _ => Err("Only string keys are supported".to_owned()),
    }
}

fn leaf(scalar: &Scalar) -> Result<Tree, String> {
    Ok(match scalar.kind {
        ScalarKind::Null => Tree::Null,
        ScalarKind::Bool(flag) => Tree::Bool(flag),
        ScalarKind::Int(number) => Tree::Int(number),
        ScalarKind::Uint(_) => return Err("Cannot walk value, unknown type: uint64".to_owned()),
        ScalarKind::Float(number) => Tree::Float(number),
        ScalarKind::Timestamp => match time_text::normal_form(&scalar.text) {
            Some(moment) => Tree::Time(moment),
            None => Tree::Text(scalar.text.to_string()),
        },
        ScalarKind::String | ScalarKind::Merge => Tree::Text(scalar.text.to_string()),
        ScalarKind::Binary => {
            use base64::Engine;
            let joined: String = scalar.text.split_whitespace().collect();
            let bytes = base64::engine::general_purpose::STANDARD.decode(joined);
            Tree::of_bytes(bytes.map_err(|error| format!("!!binary: {error}"))?)
        }
    })
}

/// Writes documents as SOPS does.
pub fn write(documents: &[Tree]) -> Result<Vec<u8>, String> {
    let documents: Vec<Document> = documents
        .iter()
        .map(|tree| Document {
            root: node(tree),
            comments: Comments::default(),
        })
        .collect();
    Ok(emit::go_yaml3(&documents).into_bytes())
}

fn node(tree: &Tree) -> Node {
    match tree {
        Tree::Map(entries) => mapping(entries),
        Tree::List(items) => sequence(items),
        Tree::Null => scalar("null", ScalarKind::Null),
        Tree::Bool(flag) => scalar(&flag.to_string(), ScalarKind::Bool(*flag)),
        Tree::Int(number) => scalar(&number.to_string(), ScalarKind::Int(*number)),
        Tree::Float(number) => {
            let text = everflow_yaml::gojson::format_shortest(*number);
            // A whole number is written without its type.
            match text.parse() {
                Ok(whole) => scalar(&text, ScalarKind::Int(whole)),
                Err(_) => scalar(&text, ScalarKind::Float(*number)),
            }
        }
        Tree::Time(text) => scalar(text, ScalarKind::Timestamp),
        Tree::Text(text) => text_node(text),
        Tree::Bytes(bytes) => {
            use base64::Engine;
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            scalar(&text, ScalarKind::Binary)
        }
    }
}

fn scalar(text: &str, kind: ScalarKind) -> Node {
    Node::new(Value::Scalar(Scalar {
        text: text.into(),
        kind,
    }))
}

/// A text in the style that go-yaml v3 chooses for it.
fn text_node(text: &str) -> Node {
    let mut node = Node::string(text);
    if text.contains('\n') {
        node.style = Style::Literal;
    } else if kyaml::resolve(text) != ScalarKind::String || is_old_special(text) {
        node.style = Style::DoubleQuoted;
    }
    node
}

/// Texts that older YAML takes for booleans or numbers of base 60: go-yaml quotes them.
fn is_old_special(text: &str) -> bool {
    const WORDS: [&str; 19] = [
        "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off",
        "OFF", "<<", "~", "",
    ];
    let is_base_60 = text.contains(':')
        && text
            .split(':')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'_'));
    WORDS.contains(&text) || is_base_60
}

/// Comments wait for what comes after them.
#[derive(Default)]
struct Waiting {
    head: Vec<String>,
    inline: Vec<String>,
    /// Whether something came already.
    begun: bool,
}

impl Waiting {
    fn add(&mut self, comment: &Comment) {
        match comment.inline {
            true => self.inline.push(comment.text.clone()),
            false => self.head.push(comment.text.clone()),
        }
    }

    /// All comments that are left.
    fn rest(&mut self) -> Vec<String> {
        let mut rest = std::mem::take(&mut self.head);
        rest.append(&mut self.inline);
        rest
    }
}

fn joined(comments: Vec<String>) -> String {
    format!("#{}", comments.join("\n#"))
}

fn extras(node: &mut Node) -> &mut Extras {
    node.extras.get_or_insert_with(Default::default)
}

fn set_head(node: &mut Node, comments: Vec<String>) {
    if comments.is_empty() {
        return;
    }
    let text = joined(comments);
    let head = &mut extras(node).comments.head;
    *head = match head.is_empty() {
        true => text.into(),
        false => format!("{text}\n{head}").into(),
    };
}

fn set_line(node: &mut Node, comments: Vec<String>) {
    if !comments.is_empty() {
        extras(node).comments.line = joined(comments).into();
    }
}

fn set_foot(node: &mut Node, comments: Vec<String>) {
    if !comments.is_empty() {
        extras(node).comments.foot = joined(comments).into();
    }
}

fn mapping(entries: &[Entry]) -> Node {
    let mut waiting = Waiting::default();
    let mut own = Node::default();
    let mut pairs: Vec<YamlEntry> = Vec::new();
    for entry in entries {
        match entry {
            Entry::Comment(comment) => waiting.add(comment),
            Entry::Pair(key, value) => {
                // What stands before the first key is before the map.
                if !waiting.begun {
                    set_head(&mut own, std::mem::take(&mut waiting.head));
                    waiting.begun = true;
                }
                let mut key = text_node(key);
                set_head(&mut key, std::mem::take(&mut waiting.head));
                let mut value = node(value);
                set_line(&mut value, std::mem::take(&mut waiting.inline));
                pairs.push(YamlEntry { key, value });
            }
        }
    }
    let rest = waiting.rest();
    match pairs.last_mut() {
        Some(last) => set_foot(&mut last.key, rest),
        None => set_head(&mut own, rest),
    }
    own.value = Value::Mapping(Mapping { entries: pairs });
    own
}

fn sequence(list: &[Item]) -> Node {
    let mut waiting = Waiting::default();
    let mut own = Node::default();
    let mut nodes: Vec<Node> = Vec::new();
    for item in list {
        match item {
            Item::Comment(comment) => waiting.add(comment),
            Item::Value(value) => {
                if !waiting.begun {
                    set_head(&mut own, std::mem::take(&mut waiting.head));
                    waiting.begun = true;
                }
                let mut value = node(value);
                set_head(&mut value, std::mem::take(&mut waiting.head));
                set_line(&mut value, std::mem::take(&mut waiting.inline));
                nodes.push(value);
            }
        }
    }
    let rest = waiting.rest();
    match nodes.last_mut() {
        Some(last) => set_foot(last, rest),
        None => set_head(&mut own, rest),
    }
    own.value = Value::Sequence(nodes);
    own
}
