//! What trees and texts take in memory, for those who charge it to a budget. All are estimates, on the
//! high side of what is usual.

use crate::load::Limits;
use crate::node::{Extras, Node, Value};
use everflow_json::{Text, Value as Json};
use everflow_limits::{Budget, Exceeded, Held};

/// Text of up to so many bytes stands in its node.
const INLINE: usize = 23;
/// What longer text takes beside its bytes.
const SHARED: usize = 16;
/// What a document takes beside its nodes, in times of a node.
const DOCUMENT: usize = 8;
/// Printers fold long text at this column.
const COLUMN: usize = 80;
/// What the shortest value takes in print, with what stands around it.
const LEAST: usize = 6;

fn of_text(text: &str) -> usize {
    match text.len() {
        0..=INLINE => 0,
        length => length + SHARED,
    }
}

/// A scalar with a text.
pub fn of_scalar(text: &str) -> usize {
    size_of::<Node>() + of_text(text)
}

/// A tree, its texts included even where copies share them.
pub fn of_tree(node: &Node) -> usize {
    let own = size_of::<Node>() + node.extras.as_ref().map_or(0, |_| size_of::<Extras>());
    own + match &node.value {
        Value::Scalar(scalar) => of_text(&scalar.text),
        Value::Alias(name) => of_text(name),
        Value::Sequence(items) => items.iter().map(of_tree).sum(),
        Value::Mapping(mapping) => mapping
            .entries
            .iter()
            .map(|entry| of_tree(&entry.key) + of_tree(&entry.value))
            .sum(),
    }
}

/// JSON as a tree.
pub fn of_json(value: &Json) -> usize {
    size_of::<Json>()
        + match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
            Json::String(text) => of_text(text),
            Json::Array(items) => items.iter().map(of_json).sum(),
            Json::Object(map) => map
                .iter()
                .map(|(key, value)| size_of::<Text>() + of_text(key) + of_json(value))
                .sum(),
        }
}

/// What reading a YAML or JSON text may take, without what aliases add. It goes by the marks that begin
/// nodes; those in comments and quotes count too.
pub fn of_reading(text: &[u8]) -> usize {
    let mut nodes = 1;
    let mut before = b'\n';
    for (at, byte) in text.iter().enumerate() {
        nodes += match byte {
            b':' | b'?' if ends_key(before, text.get(at + 1)) => 2,
            b'-' if before == b'\n' && text[at..].starts_with(b"---") => DOCUMENT,
            b'-' if before.is_ascii_whitespace() && is_blank(text.get(at + 1)) => 1,
            b',' | b'[' => 1,
            b'{' => 2,
            // Where comments are kept.
            b'#' if before.is_ascii_whitespace() => 2,
            _ => 0,
        };
        before = *byte;
    }
    nodes * size_of::<Node>() + text.len() + text.len() / INLINE * SHARED
}

/// Charges what reading a text may take, and says within which limits it is to be read: where there are
/// aliases, they may fill half of what is left of the budget.
pub fn reading<'b>(budget: &'b Budget, text: &[u8]) -> Result<(Held<'b>, Limits), Exceeded> {
    let mut held = budget.hold(of_reading(text))?;
    let mut limits = Limits::DEFAULT;
    if has_aliases(text) {
        let left = budget.share().saturating_sub(budget.used()) / 2;
        let left = usize::try_from(left).unwrap_or(usize::MAX) / size_of::<Node>();
        limits.expansion = limits.expansion.min(left);
        held.grow(limits.expansion * size_of::<Node>())?;
    }
    Ok((held, limits))
}

fn is_blank(byte: Option<&u8>) -> bool {
    byte.is_none_or(u8::is_ascii_whitespace)
}

fn ends_key(before: u8, after: Option<&u8>) -> bool {
    is_blank(after)
        || matches!(before, b'"' | b'\'')
        || after.is_some_and(|after| b",[]{}\"'".contains(after))
}

/// Whether a text has what may be an anchor and an alias of it, which can add many nodes.
pub fn has_aliases(text: &[u8]) -> bool {
    let mut anchor = false;
    let mut alias = false;
    for part in text.windows(3) {
        let begins = part[0].is_ascii_whitespace() || b",[{:-".contains(&part[0]);
        if begins && (part[2].is_ascii_alphanumeric() || matches!(part[2], b'_' | b'-')) {
            anchor |= part[1] == b'&';
            alias |= part[1] == b'*';
        }
    }
    anchor && alias
}

/// The text that a printer makes of a tree: deep trees are mostly indentation.
pub fn of_printing(node: &Node) -> usize {
    printed_node(node, 0)
}

fn printed_node(node: &Node, indent: usize) -> usize {
    match &node.value {
        Value::Scalar(scalar) => printed_text(&scalar.text, indent),
        Value::Alias(name) => name.len(),
        Value::Sequence(items) => items
            .iter()
            .map(|item| indent + 2 + printed_node(item, indent + 2))
            .sum::<usize>()
            .max(LEAST),
        Value::Mapping(mapping) => mapping
            .entries
            .iter()
            .map(|entry| {
                let key = printed_node(&entry.key, indent + 2);
                indent + 2 + key + printed_node(&entry.value, indent + 2)
            })
            .sum::<usize>()
            .max(LEAST),
    }
}

/// The text that a printer makes of JSON.
pub fn of_printing_json(value: &Json) -> usize {
    printed_json(value, 0)
}

fn printed_json(value: &Json, indent: usize) -> usize {
    let inner = indent + 2;
    let items: usize = match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => return 4 * LEAST,
        Json::String(text) => return printed_text(text, indent),
        Json::Array(items) => items
            .iter()
            .map(|item| inner + 3 + printed_json(item, inner))
            .sum(),
        Json::Object(map) => map
            .iter()
            .map(|(key, value)| inner + 3 + printed_text(key, inner) + printed_json(value, inner))
            .sum(),
    };
    // The end of a collection has a line of its own in JSON.
    items + indent + LEAST
}

fn printed_text(text: &str, indent: usize) -> usize {
    let (mut own, mut spaces, mut lines) = (LEAST, 0, 0);
    for byte in text.bytes() {
        own += match byte {
            b'"' | b'\\' | b'\'' | 0x80.. => 2,
            b'\n' => {
                lines += 1;
                2
            }
            b' ' => {
                spaces += 1;
                1
            }
            0..0x20 | 0x7f => 6,
            _ => 1,
        };
    }
    let room = COLUMN.saturating_sub(indent).max(1);
    let folds = spaces.min(text.len() / room);
    own + (lines + folds) * (indent + 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Loader, emit, sigs};

    fn deep(levels: usize) -> String {
        format!("{}[1, 2, 3]{}", "{a: ".repeat(levels), "}".repeat(levels))
    }

    fn texts() -> Vec<String> {
        let prose = "words and, in between: more - \"quoted\" ones\\ ".repeat(30);
        vec![
            String::new(),
            "a".to_owned(),
            "a: {b: [c, d, {e: f}], g: }\nh:\n- - i\n  - j\nm: l\n".to_owned(),
            "? a\n? b\n? - c\n  - d\n".to_owned(),
            "{\"a\":1,\"b\":[true,null,\"x:y\"]}".to_owned(),
            "[a,b,c]".to_owned(),
            format!("a: |\n  {}\n", prose.replace(' ', "\n  ")),
            format!("a: {}\n", "word ".repeat(200)),
            format!("a: \"{}\"\n", "\\u0001\\x85é".repeat(50)),
            format!("{{a: {{b: \"{}\"}}}}", "x ".repeat(100)),
            deep(300),
            format!("a: {}\n", deep(60).replace("1", &"w ".repeat(90))),
        ]
    }

    #[test]
    fn reading_costs_no_more_than_was_estimated() {
        for text in texts() {
            let estimate = of_reading(text.as_bytes());
            let node = Loader::new(Dialect::Kyaml).load(text.as_bytes()).unwrap();
            assert!(of_tree(&node) <= estimate, "{text}");
            let json = sigs::yaml_to_json(text.as_bytes());
            assert!(
                json.is_err() || of_json(&json.unwrap()) <= estimate,
                "{text}"
            );
        }
    }

    #[test]
    fn printing_costs_no_more_than_was_estimated() {
        for text in texts() {
            let node = Loader::new(Dialect::Kyaml).load(text.as_bytes()).unwrap();
            let printed = emit::kyaml(&node, emit::Indent::Compact);
            assert!(printed.len() <= of_printing(&node) + 8, "{text}");
            let Ok(json) = node.to_json() else { continue };
            let estimate = of_printing_json(&json) + 8;
            let printed = emit::sigs(&json);
            assert!(printed.len() <= estimate, "{text}");
            assert!(
                crate::gojson::pretty(&json, "  ").len() <= estimate,
                "{text}"
            );
        }
    }

    #[test]
    fn aliases_may_add_what_the_budget_has_room_for() {
        let budget = Budget::new(everflow_limits::Stop::new(), 100_000);
        let (held, limits) = reading(&budget, b"a: &x 1\nb: *x\n").unwrap();
        assert!(limits.expansion < 1_000 && budget.used() > 40_000);
        drop(held);
        assert_eq!(budget.used(), 0);
        let (_held, limits) = reading(&budget, b"a: 1\n").unwrap();
        assert_eq!(limits, Limits::DEFAULT);
        assert!(reading(&budget, &[b','; 10_000]).is_err());
    }

    #[test]
    fn aliases_are_seen_and_globs_are_none() {
        assert!(has_aliases(b"a: &x 1\nb: *x\n"));
        assert!(has_aliases(b"a: &x [1]\nb: [*x,*x]\n"));
        assert!(!has_aliases(b"schedule: '* * * * *'\nrun: a && b *.yaml\n"));
        assert!(!has_aliases(b"a: &x 1\n"));
    }
}
