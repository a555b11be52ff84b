//! Walks the keys of a line and sets what stands behind them.

use everflow_gotemplate::gofmt;
use everflow_json::{Map, Value};
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::gojson;

use crate::go_text::quoted as quote;

use super::scanner::{Scanner, Stop};
use super::{Flavour, MAX_INDEX, MAX_NESTED_LISTS, MAX_NESTED_NAME_LEVEL, SetError};

/// Why a step ended early. The end of the line is no error for the whole, yet it stops the steps
/// that are under way before they store what they have made: some of helm's odd answers come
/// from that, and are kept.
enum Halt {
    End,
    Wrong(String),
    UsedUp(Exceeded),
}

impl From<Exceeded> for Halt {
    fn from(exceeded: Exceeded) -> Self {
        Halt::UsedUp(exceeded)
    }
}

type Step<T> = Result<T, Halt>;

pub(super) struct Walker<'a> {
    scanner: Scanner<'a>,
    flavour: Flavour<'a>,
    budget: &'a Budget,
    /// How many lists are being walked inside each other.
    lists: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(line: &'a str, flavour: Flavour<'a>, budget: &'a Budget) -> Self {
        let escapes = !matches!(flavour, Flavour::Literal);
        Walker {
            scanner: Scanner::new(line, escapes),
            flavour,
            budget,
            lists: 0,
        }
    }

    pub(super) fn run(mut self, values: &mut Map) -> Result<(), SetError> {
        loop {
            match self.key(values, 0) {
                Ok(()) => {}
                Err(Halt::End) => return Ok(()),
                Err(Halt::Wrong(message)) => return Err(SetError::Wrong(message)),
                Err(Halt::UsedUp(exceeded)) => return Err(exceeded.into()),
            }
        }
    }

    fn key(&mut self, data: &mut Map, level: usize) -> Step<()> {
        self.budget.check()?;
        let stops: &[char] = match self.flavour {
            Flavour::Literal => &['=', '[', '.'],
            _ => &['=', '[', ',', '.'],
        };
        let (key, stop) = self.scanner.until(stops);
        match stop {
            Stop::End if key.is_empty() => Err(Halt::End),
            Stop::End => Err(wrong(format!("key {} has no value", quote(&key)))),
            Stop::At('[') => self.indexed_key(data, key, level),
            Stop::At('=') => self.assignment(data, key),
            Stop::At(',') => Err(wrong(format!(
                "key {} has no value (cannot end with ,)",
                quote(&key)
            ))),
            Stop::At(_) => self.nested_key(data, key, level + 1),
        }
    }

    fn indexed_key(&mut self, data: &mut Map, key: String, level: usize) -> Step<()> {
        let index = self.index()?;
        let mut list = match data.get_mut(&key) {
            None => Vec::new(),
            Some(Value::Array(items)) => std::mem::take(items),
            Some(other) => return Err(wrong(conversion(other, "[]interface {}"))),
        };
        let outcome = self.list_item(&mut list, index, level);
        set(data, key, Value::Array(list));
        outcome
    }

    fn nested_key(&mut self, data: &mut Map, key: String, level: usize) -> Step<()> {
        if level > MAX_NESTED_NAME_LEVEL {
            return Err(wrong(format!(
                "value name nested level is greater than maximum supported nested level of {MAX_NESTED_NAME_LEVEL}"
            )));
        }
        let (mut inner, existed) = match data.get_mut(&key) {
            None => (Map::new(), false),
            Some(Value::Object(map)) => (std::mem::take(map), true),
            Some(other) => return Err(wrong(conversion(other, "map[string]interface {}"))),
        };
        let outcome = self.key(&mut inner, level);
        if outcome.is_ok() && inner.is_empty() {
            return Err(wrong(format!("key map {} has no value", quote(&key))));
        }
        if existed {
            data.insert(key.into(), Value::Object(inner));
        } else if !inner.is_empty() {
            set(data, key, Value::Object(inner));
        }
        outcome
    }

    fn assignment(&mut self, data: &mut Map, key: String) -> Step<()> {
        match self.flavour {
            Flavour::Json => {
                let value = self.json_value()?;
                set(data, key, value);
                Ok(())
            }
            Flavour::Literal => {
                let value = self.literal();
                set(data, key, value);
                Ok(())
            }
            _ => match self.braced_list()? {
                Braced::List(items) => {
                    set(data, key, Value::Array(items));
                    Ok(())
                }
                Braced::Nothing => {
                    set(data, key, Value::from(""));
                    Err(Halt::End)
                }
                Braced::NotAList => {
                    let (text, _) = self.scanner.until(&[',']);
                    let value = self.read(text)?;
                    set(data, key, value);
                    Ok(())
                }
            },
        }
    }

    fn list_item(&mut self, list: &mut Vec<Value>, index: i64, level: usize) -> Step<()> {
        if index < 0 {
            return Err(wrong(format!("negative {index} index not allowed")));
        }
        let (text, stop) = self.scanner.until(&['[', '.', '=']);
        if !text.is_empty() {
            return Err(wrong(format!(
                "unexpected data at end of array index: {}",
                quoted_characters(&text)
            )));
        }
        match stop {
            Stop::End => Err(Halt::End),
            Stop::At('=') => {
                let value = self.item_value()?;
                self.set_index(list, index, value)
            }
            Stop::At('[') => self.nested_list(list, index, level),
            Stop::At(_) => self.nested_map(list, index, level),
        }
    }

    fn item_value(&mut self) -> Step<Value> {
        match self.flavour {
            Flavour::Json => self.json_value(),
            Flavour::Literal => Ok(self.literal()),
            _ => match self.braced_list()? {
                Braced::List(items) => Ok(Value::Array(items)),
                Braced::Nothing => Ok(Value::from("")),
                Braced::NotAList => {
                    let (text, _) = self.scanner.until(&[',']);
                    self.read(text)
                }
            },
        }
    }

    fn nested_list(&mut self, list: &mut Vec<Value>, index: i64, level: usize) -> Step<()> {
        self.lists += 1;
        if self.lists > MAX_NESTED_LISTS {
            let limit = MAX_NESTED_LISTS as u64;
            let what = "lists in the name of a value";
            return Err(Exceeded::Depth { what, limit }.into());
        }
        let outcome = self.inner_list(list, index, level);
        self.lists -= 1;
        outcome
    }

    fn inner_list(&mut self, list: &mut Vec<Value>, index: i64, level: usize) -> Step<()> {
        let next = self.index()?;
        let mut inner = match slot(list, index) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => std::mem::take(items),
            Some(other) => return Err(wrong(conversion(other, "[]interface {}"))),
        };
        let outcome = self.list_item(&mut inner, next, level);
        match (outcome, slot(list, index)) {
            (Ok(()), _) => self.set_index(list, index, Value::Array(inner)),
            (Err(halt), Some(place)) if place.is_array() => {
                *place = Value::Array(inner);
                Err(halt)
            }
            (Err(halt), _) => Err(halt),
        }
    }

    fn nested_map(&mut self, list: &mut Vec<Value>, index: i64, level: usize) -> Step<()> {
        let existing = slot(list, index);
        let existed = existing.is_some();
        let mut inner = match existing {
            Some(Value::Object(map)) => std::mem::take(map),
            // Indices out of order left a hole, or something that is no map: it becomes one.
            _ => Map::new(),
        };
        let outcome = self.key(&mut inner, level);
        if outcome.is_ok() {
            return self.set_index(list, index, Value::Object(inner));
        }
        if existed && let Some(place) = slot(list, index) {
            *place = Value::Object(inner);
        }
        outcome
    }

    fn index(&mut self) -> Step<i64> {
        let (text, stop) = self.scanner.until(&[']']);
        if stop == Stop::End {
            return Err(Halt::End);
        }
        parse_index(&text).map_err(|error| wrong(format!("error parsing index: {error}")))
    }

    /// `{a,b}` after `=`.
    fn braced_list(&mut self) -> Step<Braced> {
        match self.scanner.peek() {
            None => return Ok(Braced::Nothing),
            Some('{') => {}
            Some(_) => return Ok(Braced::NotAList),
        }
        self.scanner.next();
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.scanner.until(&[',', '}']);
            match stop {
                Stop::End => return Err(wrong("list must terminate with '}'".to_owned())),
                Stop::At('}') => {
                    if self.scanner.peek() == Some(',') {
                        self.scanner.next();
                    }
                    items.push(self.read(text)?);
                    return Ok(Braced::List(items));
                }
                Stop::At(_) => items.push(self.read(text)?),
            }
        }
    }

    fn read(&self, text: String) -> Step<Value> {
        match &self.flavour {
            Flavour::File(read) => read(&text).map(Value::from).map_err(wrong),
            Flavour::Typed => Ok(typed(text)),
            _ => Ok(Value::String(text.into())),
        }
    }

    fn literal(&mut self) -> Value {
        let (text, _) = self.scanner.until(&[]);
        Value::String(text.into())
    }

    fn json_value(&mut self) -> Step<Value> {
        if self.only_whitespace_before_comma() {
            return Ok(Value::Null);
        }
        let (value, length) =
            gojson::parse_first(self.scanner.rest().as_bytes(), gojson::Numbers::Floats)
                // Go's streaming decoder has its own word for text that ends too soon.
                .map_err(|error| wrong(error.to_string().replace("end of JSON input", "EOF")))?;
        self.scanner.skip(length);
        self.only_whitespace_before_comma();
        Ok(value)
    }

    /// Skips blanks and one comma; true if there was a comma or the end.
    fn only_whitespace_before_comma(&mut self) -> bool {
        loop {
            match self.scanner.peek() {
                None => return true,
                Some(',') => {
                    self.scanner.next();
                    return true;
                }
                Some(character) if character.is_whitespace() => {
                    self.scanner.next();
                }
                Some(_) => return false,
            }
        }
    }

    fn set_index(&self, list: &mut Vec<Value>, index: i64, value: Value) -> Step<()> {
        if index > MAX_INDEX {
            return Err(wrong(format!(
                "index of {index} is greater than maximum supported index of {MAX_INDEX}"
            )));
        }
        let Ok(position) = usize::try_from(index) else {
            return Err(wrong(format!("negative {index} index not allowed")));
        };
        if list.len() <= position {
            // The list may grow to twice its size.
            let missing = position + 1 - list.len();
            self.budget.charge(2 * missing * size_of::<Value>())?;
            list.resize(position + 1, Value::Null);
        }
        list[position] = value;
        Ok(())
    }
}

enum Braced {
    List(Vec<Value>),
    Nothing,
    NotAList,
}

fn wrong(message: String) -> Halt {
    Halt::Wrong(message)
}

/// An empty key is read and dropped.
fn set(data: &mut Map, key: String, value: Value) {
    if !key.is_empty() {
        data.insert(key.into(), value);
    }
}

fn slot(list: &mut [Value], index: i64) -> Option<&mut Value> {
    list.get_mut(usize::try_from(index).ok()?)
}

fn typed(text: String) -> Value {
    if text.eq_ignore_ascii_case("true") {
        Value::Bool(true)
    } else if text.eq_ignore_ascii_case("false") {
        Value::Bool(false)
    } else if text.eq_ignore_ascii_case("null") {
        Value::Null
    } else if text == "0" {
        Value::from(0)
    } else if !text.starts_with('0')
        && let Ok(number) = text.parse::<i64>()
    {
        Value::from(number)
    } else {
        Value::String(text.into())
    }
}

/// Go's `strconv.Atoi`.
fn parse_index(text: &str) -> Result<i64, String> {
    text.parse::<i64>().map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let cause = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {cause}", quote(text))
    })
}

fn conversion(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")
}

fn quoted_characters(text: &str) -> String {
    let characters: Vec<String> = text.chars().map(gofmt::quote_rune).collect();
    format!("[{}]", characters.join(" "))
}
