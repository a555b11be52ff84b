//! What reading and printing YAML and JSON takes in memory. All are estimates, on the high side of
//! what is usual.

use everflow_json::Value as Json;
use everflow_yaml::cost;

pub use everflow_yaml::cost::of_json as of_tree;

/// A list item, with the room that a growing list leaves free.
const ITEM: usize = 100;
/// An entry of a map, with what finds entries that are given twice.
const ENTRY: usize = 400;
/// A tag or an anchor.
const EXTRAS: usize = 250;
/// What every text takes.
const LEAST: usize = 4 << 10;
/// The most values that aliases add to a text before it is refused, and the most for each of its own.
const ALIASED: usize = 1_000_000;
const ALIASED_FOR_EACH: usize = 100;

/// What reading a YAML text takes, and what is made of it. It goes by the marks that begin values;
/// those in comments and quotes count, too.
pub fn of_yaml(text: &[u8]) -> usize {
    let (mut values, mut bytes) = (1_usize, LEAST + 2 * text.len());
    let (mut anchor, mut alias) = (false, false);
    for byte in text {
        bytes += match byte {
            b'-' | b',' | b'[' | b'{' => ITEM,
            b':' | b'?' => ENTRY,
            b'!' => EXTRAS,
            b'&' => {
                anchor = true;
                EXTRAS
            }
            b'*' => {
                alias = true;
                continue;
            }
            _ => continue,
        };
        values += 1;
    }
    if anchor && alias {
        bytes += ITEM * values.saturating_mul(ALIASED_FOR_EACH).min(ALIASED);
    }
    bytes
}

/// What reading a JSON text takes, and what is made of it.
pub fn of_json(text: &[u8]) -> usize {
    let marks = text.iter().filter(|byte| b",:[{".contains(byte)).count();
    LEAST + marks * ITEM + 2 * text.len()
}

/// What printing a tree as YAML takes, with the printed text.
pub fn of_printing(value: &Json) -> usize {
    LEAST + cost::of_printing_json(value).saturating_mul(3) + values(value) * ITEM
}

/// How many values a tree has, its own included.
fn values(value: &Json) -> usize {
    1 + match value {
        Json::Array(items) => items.iter().map(values).sum(),
        Json::Object(map) => map.values().map(values).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;
    use everflow_yaml::{emit, sigs};

    use super::*;

    #[test]
    fn estimates_of_reading_are_above_what_is_made() {
        for text in [
            String::new(),
            "a: {b: [c, d, {e: f}], g: }\nh:\n- - i\n  - j\nm: l\n".to_owned(),
            "? a\n? b\n: c\n".to_owned(),
            "a: &x [1, 2, 3]\nb: [*x, *x, *x, *x]\n".to_owned(),
            format!("a: {}", "word ".repeat(200)),
            "{\"a\":1,\"b\":[true,null,\"x:y\"]}".to_owned(),
            "[".repeat(300) + &"]".repeat(300),
        ] {
            let made = of_tree(&sigs::yaml_to_json(text.as_bytes()).unwrap());
            assert!(made <= of_yaml(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn estimates_of_printing_are_above_the_printed_text() {
        let mut deep = json!(["text", 1.5e300, null]);
        for _ in 0..200 {
            deep = json!({"a": deep, "b": "words in a line that is too long to stand in one, so \
                that it is folded\nand a second line"});
        }
        for tree in [
            json!({}),
            json!([[], {}, [[["a"]]]]),
            json!({"long": "word ".repeat(500), "marks": "\u{1}\"\\'\u{7f}é".repeat(50)}),
            deep,
        ] {
            let printed = emit::sigs(&tree)
                .len()
                .max(emit::to_yaml_pretty(&tree).len());
            assert!(printed <= of_printing(&tree), "{printed}");
        }
    }
}
