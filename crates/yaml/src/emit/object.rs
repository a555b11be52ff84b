//! Objects as `kustomize build` prints them, without the detour through JSON where nothing odd is
//! in the way.
//!
//! kustomize prints a tree as YAML, reads it as JSON and prints that. For most trees this means:
//! keys sorted, styles forgotten. [`append`] writes such trees straight into the output; anything
//! that could come out differently makes it give up, and the long way is taken.

use super::analysis::{analyze, is_ordinary};
use super::emitter::{Context, Emitter};
use super::event::Profile;
use super::key_order::{key_less, sort};
use super::reread::{changes_in_folds, is_delicate};
use super::value::{push_float, string_style};
use super::{LONGEST_KEY, has_control_character};
use crate::{Dialect, Entry, Mapping, Node, Scalar, ScalarKind, Style, Value};
use std::fmt::Write;

/// Deeper trees take the long way, which counts levels.
const MAX_DEPTH: usize = 200;

/// Appends the text of an object; false, with the output as it was, if it is not an ordinary one.
pub(super) fn append(node: &Node, out: &mut String) -> bool {
    let Value::Mapping(mapping) = &node.value else {
        return false;
    };
    if mapping.is_empty() {
        return false;
    }
    let start = out.len();
    let mut emitter = Emitter::new(Profile::V2);
    emitter.out = std::mem::take(out);
    let mut writer = Writer {
        emitter,
        line_start: start,
        entries: Vec::with_capacity(64),
        depth: 0,
    };
    let place = Place {
        indent: 0,
        in_flow: node.style == Style::Flow,
        on_line: false,
    };
    let done = !is_tagged(node) && writer.mapping(mapping, place).is_some();
    *out = writer.emitter.out;
    if !done {
        out.truncate(start);
    }
    done
}

/// Where a collection stands.
#[derive(Clone, Copy)]
struct Place {
    indent: usize,
    /// It was written in flow style, where nothing reads as an empty text.
    in_flow: bool,
    /// Its first entry follows a `- ` on the same line.
    on_line: bool,
}

impl Place {
    fn of(self, node: &Node, indent: usize, on_line: bool) -> Place {
        Place {
            indent,
            in_flow: self.in_flow || node.style == Style::Flow,
            on_line,
        }
    }
}

/// Gives up with `None`.
struct Writer<'n> {
    emitter: Emitter<'n>,
    line_start: usize,
    /// The entries of all open maps, each map's own ones sorted.
    entries: Vec<&'n Entry>,
    depth: usize,
}

impl<'n> Writer<'n> {
    fn mapping(&mut self, mapping: &'n Mapping, place: Place) -> Option<()> {
        self.enter()?;
        let start = self.entries.len();
        self.entries.extend(&mapping.entries);
        self.sort_from(start)?;
        for at in start..self.entries.len() {
            let entry = self.entries[at];
            if at > start || !place.on_line {
                self.indent(place.indent);
            }
            self.key(&entry.key, place.indent)?;
            self.emitter.out.push(':');
            self.value(&entry.value, place)?;
        }
        self.entries.truncate(start);
        self.depth -= 1;
        Some(())
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    /// Sorts by key; keys must be texts and must not repeat.
    fn sort_from(&mut self, start: usize) -> Option<()> {
        let entries = &mut self.entries[start..];
        if !entries.iter().all(|entry| is_plain_key(&entry.key)) {
            return None;
        }
        entries.sort_unstable_by_key(|entry| key_text(entry));
        if entries
            .windows(2)
            .any(|pair| key_text(pair[0]) == key_text(pair[1]))
        {
            return None;
        }
        let less = |a: &&Entry, b: &&Entry| key_less(key_text(a), key_text(b), Dialect::Sigs);
        if entries.windows(2).any(|pair| less(&pair[1], &pair[0])) {
            let mut own: Vec<&Entry> = entries.to_vec();
            sort(&mut own, less);
            entries.copy_from_slice(&own);
        }
        Some(())
    }

    fn key(&mut self, key: &'n Node, indent: usize) -> Option<()> {
        // Longer ones begin with `? `.
        const LONGEST_SIMPLE: usize = if LONGEST_KEY < 128 { LONGEST_KEY } else { 128 };
        let text = key.as_text()?;
        if text.is_empty() || text.len() > LONGEST_SIMPLE {
            return None;
        }
        if is_simple(text) {
            self.emitter.out.push_str(text);
            return Some(());
        }
        if text.contains(['\n', '\u{85}']) {
            return None;
        }
        self.text(text, indent, true)
    }

    fn value(&mut self, node: &'n Node, place: Place) -> Option<()> {
        if is_tagged(node) {
            return None;
        }
        match &node.value {
            Value::Mapping(mapping) if !mapping.is_empty() => {
                self.end_line();
                self.mapping(mapping, place.of(node, place.indent + 2, false))
            }
            Value::Sequence(items) if !items.is_empty() => {
                self.end_line();
                self.sequence(items, place.of(node, place.indent, false))
            }
            _ => self.leaf(node, place),
        }
    }

    fn sequence(&mut self, items: &'n [Node], place: Place) -> Option<()> {
        self.enter()?;
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !place.on_line {
                self.indent(place.indent);
            }
            self.emitter.out.push('-');
            if is_tagged(item) {
                return None;
            }
            let inner = place.of(item, place.indent + 2, true);
            match &item.value {
                Value::Mapping(mapping) if !mapping.is_empty() => {
                    self.emitter.out.push(' ');
                    self.mapping(mapping, inner)?;
                }
                Value::Sequence(items) if !items.is_empty() => {
                    self.emitter.out.push(' ');
                    self.sequence(items, inner)?;
                }
                _ => self.leaf(item, place)?,
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// A scalar or an empty collection, and the end of its line.
    fn leaf(&mut self, node: &'n Node, place: Place) -> Option<()> {
        match &node.value {
            Value::Mapping(_) => self.emitter.out.push_str(" {}"),
            Value::Sequence(_) => self.emitter.out.push_str(" []"),
            Value::Alias(_) => return None,
            Value::Scalar(scalar) => {
                let vanishes = place.in_flow && scalar.text.is_empty();
                if vanishes || changes_in_folds(node, scalar) {
                    return None;
                }
                self.scalar(scalar, place.indent)?;
            }
        }
        self.end_line();
        Some(())
    }

    fn scalar(&mut self, scalar: &Scalar, indent: usize) -> Option<()> {
        if scalar.kind == ScalarKind::String && !is_simple(&scalar.text) {
            return self.text(&scalar.text, indent, false);
        }
        let out = &mut self.emitter.out;
        out.push(' ');
        match scalar.kind {
            ScalarKind::String => out.push_str(&scalar.text),
            ScalarKind::Null => out.push_str("null"),
            ScalarKind::Bool(true) => out.push_str("true"),
            ScalarKind::Bool(false) => out.push_str("false"),
            // Writing to a String cannot fail.
            ScalarKind::Int(number) => write!(out, "{number}").unwrap_or_default(),
            ScalarKind::Uint(number) => write!(out, "{number}").unwrap_or_default(),
            ScalarKind::Float(number) if number.is_finite() => {
                let mut text = String::new();
                push_float(&mut text, number);
                out.push_str(&text);
            }
            _ => return None,
        }
        Some(())
    }

    /// A text that needs a closer look, written by the machine.
    fn text(&mut self, text: &str, indent: usize, is_key: bool) -> Option<()> {
        if is_delicate(text) || has_control_character(text) {
            return None;
        }
        let line = &self.emitter.out[self.line_start..];
        let column = if line.is_ascii() {
            line.len()
        } else {
            line.chars().count()
        };
        let emitter = &mut self.emitter;
        emitter.column = column;
        emitter.indent = indent as isize + 2;
        emitter.whitespace = is_key;
        emitter.indention = false;
        emitter.context = Context {
            mapping: true,
            simple_key: is_key,
        };
        let analysis = analyze(text, emitter.profile.tabs_in_blocks);
        let style = emitter.settle_style(string_style(text, Dialect::Sigs), text, analysis);
        emitter.write_scalar(text, style);
        Some(())
    }

    fn indent(&mut self, indent: usize) {
        const SPACES: &str = "                                                                ";
        let mut left = indent;
        while left > 0 {
            let count = left.min(SPACES.len());
            self.emitter.out.push_str(&SPACES[..count]);
            left -= count;
        }
    }

    fn end_line(&mut self) {
        // A block of text ends its last line itself.
        if !self.emitter.out.ends_with('\n') {
            self.emitter.out.push('\n');
        }
        self.line_start = self.emitter.out.len();
    }
}

fn key_text(entry: &Entry) -> &str {
    entry.key.as_text().unwrap_or_default()
}

fn is_tagged(node: &Node) -> bool {
    node.extras
        .as_ref()
        .is_some_and(|extras| extras.tag.is_some())
}

fn is_plain_key(key: &Node) -> bool {
    let is_text = matches!(&key.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::String);
    // A comment after a key can end up where it hides a part of the text.
    let has_extras = key
        .extras
        .as_ref()
        .is_some_and(|extras| extras.tag.is_some() || !extras.comments.line.is_empty());
    is_text && !has_extras && key.style != Style::Folded
}

/// True for a text that is surely written as it is: it begins with a letter, has nothing special in
/// it and is no word that means something.
fn is_simple(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else {
        return false;
    };
    let may_be_a_word =
        matches!(first | 0x20, b'y' | b'n' | b't' | b'f' | b'o') && bytes.len() <= 5;
    first.is_ascii_alphabetic() && !may_be_a_word && bytes.iter().all(|byte| is_ordinary(*byte))
}

#[cfg(test)]
mod tests {
    use crate::emit::{append_object, sigs_checked};
    use crate::{Dialect, Loader, Node, Style};

    fn long_way(node: &Node) -> Result<String, String> {
        let json = node.marshal_json().map_err(|error| error.to_string())?;
        sigs_checked(&json).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn same(text: &str) {
        let node = Loader::new(Dialect::Kyaml)
            .keep_comments(true)
            .load(text.as_bytes())
            .expect("YAML");
        let mut out = "before\n".to_owned();
        let direct = append_object(&node, &mut out).map_err(|error| error.to_string());
        let wanted = long_way(&node);
        assert_eq!(direct.map(|()| out["before\n".len()..].to_owned()), wanted);
    }

    #[test]
    fn both_ways_print_the_same() {
        for text in [
            "b: 1\na: [x, {y: 1, x: [[1, 2], []]}, {}]\n",
            "a10: 1\na9: 2\nB: 3\n_: 4\n",
            "a: |\n  two\n  lines\nb: |-\n  none\nc: |+\n  keep\n\nd: \"\"\n",
            "- a\n",
            "{}\n",
            "a: {b: }\n",
            "a: >\n  b\n    c\n  d\n",
            "a: !!str 1\nb: !x y\n",
            "a: 1\na: 2\n",
            "1: a\n",
            "a: {1: b}\n",
            "a: 0x10\nb: 1.50\nc: 1e3\nd: .inf\n",
            "a: 1.0\nb: -0.0\nc: 1e21\nd: 18446744073709551615\n",
            "a: 2024-01-01\nb: \"2024-01-01\"\n",
            "a: yes\nb: \"yes\"\nc: no\nd: \"on\"\ne: null\nf: ~\ng: offer\n",
            "<<: {a: 1}\nb: 2\n",
            "a: &x 1\nb: *x\n",
            "a: 'it''s'\nb: \"tab\\there\"\nc: \"\\x7f\"\nd: \"a: b\"\ne: \"# no\"\nf: \" lead\"\n",
            "\"key with space\": 1\n\"a:b\": 2\n\"- x\": 3\n'': 4\n",
            "c: # key\n  v # value\n",
            "a: \"\\u0085\"\nb: \"\\u2028x\"\n",
            "a:\n- - - b\n    - c\n  - d\n- e\n- |\n  lit\n- - |-\n    lit\n",
        ] {
            same(text);
        }
    }

    #[test]
    fn long_texts_fold_at_the_same_places() {
        let words = "the quick brown fox jumps over the lazy dog and then: some more ".repeat(5);
        for text in [
            format!("a: {}\n", words.trim_end().replace(": ", " ")),
            format!("deep:\n  deeper:\n  - key: \"{words}\"\n  - \"{words}\"\n"),
            format!("a: 'ünï {words}'\n"),
            format!("{}: 1\n", "k".repeat(127)),
            format!("{}: 1\n", "k".repeat(129)),
            format!("{}: 1\n", "k".repeat(600)),
            format!("\"{} \": 1\n", "k".repeat(126)),
        ] {
            same(&text);
        }
    }

    #[test]
    fn deep_trees_are_no_trouble() {
        same(&format!("a: {}{}\n", "[".repeat(300), "]".repeat(300)));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 500, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..proptest::prelude::ProptestConfig::default() })]

        #[test]
        fn any_texts_print_the_same(
            key in "[a-zA-Z0-9 :#.~'\"ü-]{1,8}",
            value in proptest::prelude::any::<String>(),
            lines in "([a-c :#\t-]{0,5}\n?){0,5}",
            words in "[a-zA-Z0-9 \t\n:#,.~'\"\\\\{}\\[\\]|>&*!%@`-]{0,120}",
        ) {
            let mut inner = Node::mapping();
            if let Some(mapping) = inner.as_mapping_mut() {
                mapping.insert(key.as_str(), Node::string(value.as_str()));
                mapping.insert("list", Node::sequence(vec![
                    Node::string(words.as_str()),
                    Node::sequence(vec![Node::string(words.as_str()), Node::string(value.as_str())]),
                ]));
            }
            let mut root = Node::mapping();
            if let Some(mapping) = root.as_mapping_mut() {
                let mut folded = Node::string(lines.as_str());
                folded.style = Style::Folded;
                mapping.insert("folded", folded);
                let mut literal = Node::string(lines.as_str());
                literal.style = Style::Literal;
                mapping.insert("literal", literal);
                mapping.insert(words.as_str(), Node::string("x"));
                mapping.insert("inner", inner);
                mapping.insert(key.as_str(), Node::string(words.as_str()));
            }
            let mut out = String::new();
            let direct = append_object(&root, &mut out).map_err(|error| error.to_string());
            // What reads the text again has the last word.
            let reread = super::super::reread::reread(&crate::emit::kyaml(&root, crate::emit::Indent::Compact))
                .and_then(|json| sigs_checked(&json))
                .map_err(|error| error.to_string());
            proptest::prop_assert_eq!(direct.as_ref().map(|()| &out), reread.as_ref());
            proptest::prop_assert_eq!(direct.map(|()| out), long_way(&root));
        }
    }
}
