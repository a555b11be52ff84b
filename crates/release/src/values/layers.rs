//! Values from objects and from the spec, laid over each other as Flux lays them.
//!
//! Inline values are laid over all others at the end. A single value at a target path is set after they were
//! laid over what came before, and yet it mostly wins: the maps of Go are shared, so setting it changes
//! the inline values as well, wherever their own map or list stands in the result. Where a reference
//! before it brought a map of the same name, the result has a map of its own there, and inline values
//! win. This module keeps track of what is shared.

use std::collections::BTreeMap;

use everflow_helm::strvals;
use everflow_json::{Map, Value};
use everflow_limits::Budget;

/// What of a tree is the very node that stands at the same place of the inline values.
#[derive(Debug, Default, Clone)]
enum Shares {
    #[default]
    Nothing,
    Whole,
    Parts(BTreeMap<String, Shares>),
}

/// Values that grow by layers.
pub(super) struct Layers {
    values: Map,
    shares: BTreeMap<String, Shares>,
    inline: Map,
}

/// How the text at a target path is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As `--set` reads it; a text in quotes is always a text.
    Set,
    /// As it stands.
    Literal,
}

impl Layers {
    pub(super) fn new(inline: Map) -> Self {
        Layers {
            values: Map::new(),
            shares: BTreeMap::new(),
            inline,
        }
    }

    /// Lays values of an object over what there is.
    pub(super) fn lay(&mut self, over: Map) {
        self.merge(&over, false);
    }

    /// Puts one value at a path.
    pub(super) fn set(
        &mut self,
        path: &str,
        text: &str,
        reading: Reading,
        budget: &Budget,
    ) -> Result<(), strvals::SetError> {
        let inline = self.inline.clone();
        self.merge(&inline, true);
        set_in(&mut self.values, path, text, reading, budget)?;
        if let Some(keys) = keys_only(path) {
            forget(&mut self.shares, &keys);
        }
        share_back(&mut self.shares, &self.values, &mut self.inline);
        Ok(())
    }

    /// All of it, with the inline values over everything.
    pub(super) fn finish(mut self) -> Map {
        let inline = std::mem::take(&mut self.inline);
        self.merge(&inline, true);
        self.values
    }

    fn merge(&mut self, over: &Map, is_inline: bool) {
        let values = std::mem::take(&mut self.values);
        let shares = Shares::Parts(std::mem::take(&mut self.shares));
        (self.values, self.shares) = merged(values, &shares, over, is_inline);
    }
}

fn merged(
    mut values: Map,
    shares: &Shares,
    over: &Map,
    is_inline: bool,
) -> (Map, BTreeMap<String, Shares>) {
    // The map is a new one; what stands in it stays shared.
    let mut parts = match shares {
        Shares::Nothing => BTreeMap::new(),
        Shares::Parts(parts) => parts.clone(),
        Shares::Whole => values
            .keys()
            .map(|key| (key.to_string(), Shares::Whole))
            .collect(),
    };
    for (key, value) in over {
        let below = parts.remove(key.as_str()).unwrap_or_default();
        let (value, share) = match (values.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (map, parts) = merged(std::mem::take(old), &below, new, is_inline);
                (Value::Object(map), Shares::Parts(parts))
            }
            (_, value) if is_inline => (value.clone(), Shares::Whole),
            (_, value) => (value.clone(), Shares::Nothing),
        };
        values.insert(key.clone(), value);
        parts.insert(key.to_string(), share);
    }
    (values, parts)
}

fn set_in(
    values: &mut Map,
    path: &str,
    text: &str,
    reading: Reading,
    budget: &Budget,
) -> Result<(), strvals::SetError> {
    if reading == Reading::Literal {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            if "\\,[]{}".contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        return strvals::set_string(&format!("{path}={escaped}"), values, budget);
    }
    let in_quotes = |quote: char| text.starts_with(quote) && text.ends_with(quote);
    match in_quotes('\'') || in_quotes('"') {
        true => {
            let text = text.trim_matches(['\'', '"']);
            strvals::set_string(&format!("{path}={text}"), values, budget)
        }
        false => strvals::set(&format!("{path}={text}"), values, budget),
    }
}

/// The keys of a path that names no item of a list.
fn keys_only(path: &str) -> Option<Vec<String>> {
    let mut keys = vec![String::new()];
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        match character {
            '[' => return None,
            '.' => keys.push(String::new()),
            '\\' => keys.last_mut()?.extend(characters.next()),
            other => keys.last_mut()?.push(other),
        }
    }
    Some(keys)
}

/// Notes that the place at the end of the keys has got a value of its own. Inside a shared map that
/// changes the map, and with it the inline values.
fn forget(shares: &mut BTreeMap<String, Shares>, keys: &[String]) {
    let Some((key, rest)) = keys.split_first() else {
        return;
    };
    match (shares.get_mut(key), rest.is_empty()) {
        (Some(share), true) => *share = Shares::Nothing,
        (Some(Shares::Parts(parts)), false) => forget(parts, rest),
        _ => {}
    }
}

/// Brings what was changed in shared places into the inline values.
fn share_back(shares: &mut BTreeMap<String, Shares>, values: &Map, inline: &mut Map) {
    for (key, share) in shares.iter_mut() {
        let (Some(value), Some(own)) = (values.get(key), inline.get_mut(key)) else {
            continue;
        };
        match (&mut *share, value, own) {
            (Shares::Parts(parts), Value::Object(value), Value::Object(own)) => {
                share_back(parts, value, own);
            }
            (Shares::Whole, Value::Object(_), own @ Value::Object(_)) => *own = value.clone(),
            (Shares::Whole, Value::Array(items), Value::Array(own)) => {
                // A list that grows is copied; the maps in it stay the same ones.
                let has_grown = items.len() > own.len();
                for (item, own) in items.iter().zip(own) {
                    if !has_grown || (item.is_object() && own.is_object()) {
                        *own = item.clone();
                    }
                }
                if has_grown {
                    *share = Shares::Nothing;
                }
            }
            (Shares::Whole, value, own) if value == own => {}
            (Shares::Whole, ..) => *share = Shares::Nothing,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn map(value: Value) -> Map {
        match value {
            Value::Object(map) => map,
            _ => panic!("not a map"),
        }
    }

    fn composed(inline: Value, build: impl FnOnce(&mut Layers)) -> Value {
        let mut layers = Layers::new(map(inline));
        build(&mut layers);
        Value::Object(layers.finish())
    }

    fn set(layers: &mut Layers, path: &str, text: &str) {
        layers
            .set(path, text, Reading::Set, &Budget::unlimited())
            .unwrap();
    }

    #[test]
    fn a_target_path_inside_a_map_of_the_spec_wins_over_it() {
        let values = composed(json!({"db": {"password": "spec", "user": "u"}}), |layers| {
            set(layers, "db.password", "object");
        });
        assert_eq!(values, json!({"db": {"password": "object", "user": "u"}}));
    }

    #[test]
    fn the_spec_wins_at_the_top() {
        let values = composed(json!({"password": "spec", "list": [1]}), |layers| {
            set(layers, "password", "object");
            set(layers, "list", "{2}");
            set(layers, "other", "object");
        });
        assert_eq!(
            values,
            json!({"password": "spec", "list": [1], "other": "object"})
        );
    }

    #[test]
    fn the_spec_wins_where_an_object_brought_the_map() {
        let inline = json!({"db": {"password": "spec"}});
        let values = composed(inline, |layers| {
            layers.lay(map(json!({"db": {"host": "h"}})));
            set(layers, "db.password", "object");
        });
        assert_eq!(values, json!({"db": {"host": "h", "password": "spec"}}));
    }

    #[test]
    fn a_map_below_one_that_an_object_brought_is_still_the_one_of_the_spec() {
        let inline = json!({"a": {"b": {"c": "spec"}}});
        let values = composed(inline, |layers| {
            layers.lay(map(json!({"a": {"x": 1}})));
            set(layers, "a.b.c", "object");
        });
        assert_eq!(values, json!({"a": {"x": 1, "b": {"c": "object"}}}));
    }

    #[test]
    fn a_later_object_takes_a_share_of_its_own() {
        let inline = json!({"db": {"password": "spec"}});
        let values = composed(inline, |layers| {
            set(layers, "db.user", "first");
            layers.lay(map(json!({"db": {"host": "h"}})));
            set(layers, "db.password", "second");
        });
        // The user went into the map of the spec; the password only into the copy.
        assert_eq!(
            values,
            json!({"db": {"host": "h", "user": "first", "password": "spec"}})
        );
    }

    #[test]
    fn items_of_a_list_are_set_and_new_ones_are_lost() {
        let inline = json!({"list": [{"name": "zero"}], "numbers": [1, 2]});
        let values = composed(inline, |layers| {
            set(layers, "list[1].name", "one");
            set(layers, "numbers[0]", "7");
        });
        assert_eq!(
            values,
            json!({"list": [{"name": "zero"}], "numbers": [7, 2]})
        );
    }

    #[test]
    fn texts_are_read_as_asked() {
        let values = composed(json!({}), |layers| {
            set(layers, "n", "12");
            set(layers, "q", "'34'");
            set(layers, "dotted\\.key", "x");
            layers
                .set("l", "a,b={c}\\[", Reading::Literal, &Budget::unlimited())
                .unwrap();
        });
        assert_eq!(
            values,
            json!({"n": 12, "q": "34", "dotted.key": "x", "l": "a,b={c}\\["})
        );
    }
}
