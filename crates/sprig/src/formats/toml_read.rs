//! TOML as Helm's `fromToml` reads it, with the complaints of the original.

mod scalar;
mod scan;

use std::collections::BTreeMap;

use everflow_gotemplate::{
    BYTES_OF_A_STEP, FuncError, GoType, ITEM_BYTES, List, Map, Meter, Value, gofmt, map_bytes,
};

use crate::support::fail;
use scan::Scanner;

/// Nesting beyond this is refused.
const MAX_DEPTH: usize = 200;

/// A complaint and the line it is about.
#[derive(Debug)]
struct Fault {
    line: usize,
    message: String,
}

type Read<T> = Result<T, Fault>;

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<String, Item>,
    /// Made on the way to something else, so it may still be defined.
    implicit: bool,
}

#[derive(Debug)]
enum Item {
    Value(Value),
    Table(Table),
    Tables(Vec<Table>),
}

/// Reads a document into a map. The error is that of the original.
pub(crate) fn parse(text: &[u8], meter: &Meter<'_>) -> Result<Value, FuncError> {
    let _held = meter.hold(cost(text))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.iter().take(6).any(|&byte| byte == 0) {
        return fail(
            "toml: line 1: files cannot contain NULL bytes; \
             probably using UTF-16; TOML files must be UTF-8",
        );
    }
    let mut reader = Reader {
        scanner: Scanner::new(text),
        root: Table::default(),
        context: Vec::new(),
        key: None,
        key_line: 1,
        depth: 0,
        meter,
        used_up: None,
    };
    let outcome = reader.document();
    if let Some(error) = reader.used_up {
        return Err(error);
    }
    match outcome {
        Ok(()) => {
            let value = table_value(reader.root);
            // The estimate of the result; the rest of the first one is given back.
            meter.charge(cost(text) / 2)?;
            Ok(value)
        }
        Err(fault) => fail(reader.tell(&fault)),
    }
}

/// What reading a text takes, and what is made of it. It goes by the marks that begin values and
/// tables.
fn cost(text: &[u8]) -> usize {
    let marks = text.iter().map(|byte| match byte {
        b'=' | b'.' | b'[' | b'{' => 2 * map_bytes(1),
        b',' => 2 * ITEM_BYTES,
        _ => 0,
    });
    marks.sum::<usize>() + 2 * text.len()
}

fn table_value(table: Table) -> Value {
    let entries = table
        .entries
        .into_iter()
        .map(|(key, item)| (key, item_value(item)));
    Value::map(entries)
}

fn item_value(item: Item) -> Value {
    match item {
        Item::Value(value) => value,
        Item::Table(table) => table_value(table),
        Item::Tables(tables) => {
            let items = tables.into_iter().map(table_value).collect();
            Value::List(List::typed(GoType::MAP_SLICE, items))
        }
    }
}

fn joined(key: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let parts: Vec<String> = key
        .iter()
        .map(|part| {
            if !part.is_empty() && part.chars().all(bare) {
                part.clone()
            } else {
                format!("\"{part}\"")
            }
        })
        .collect();
    parts.join(".")
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    root: Table,
    /// The table that keys go into.
    context: Vec<String>,
    /// The key whose value is being read.
    key: Option<String>,
    key_line: usize,
    depth: usize,
    meter: &'a Meter<'a>,
    /// Why reading ended early when the text is not at fault.
    used_up: Option<FuncError>,
}

impl Reader<'_> {
    /// Counts the work for one key or table.
    fn step(&mut self) -> Read<()> {
        let path: usize = self.context.iter().map(String::len).sum();
        let steps = 1 + self.context.len() + path / BYTES_OF_A_STEP;
        match self.meter.steps(steps as u64) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.used_up = Some(error);
                self.scanner.fail(String::new())
            }
        }
    }

    /// Refuses keys of too many parts.
    fn check_depth(&self, parts: usize) -> Read<()> {
        match self.context.len() + parts > MAX_DEPTH {
            true => self.scanner.fail("keys nest too deep".to_owned()),
            false => Ok(()),
        }
    }

    fn tell(&self, fault: &Fault) -> String {
        let mut last = joined(&self.context);
        if let Some(key) = &self.key {
            if !last.is_empty() {
                last.push('.');
            }
            last.push_str(key);
        }
        let (line, message) = (fault.line, &fault.message);
        if last.is_empty() {
            return format!("toml: line {line}: {message}");
        }
        format!(
            "toml: line {line} (last key {}): {message}",
            gofmt::quote(last.as_bytes())
        )
    }

    /// A complaint about the key that was read last.
    fn at_key<T>(&self, message: String) -> Read<T> {
        Err(Fault {
            line: self.key_line,
            message,
        })
    }

    fn document(&mut self) -> Read<()> {
        loop {
            self.step()?;
            self.scanner.skip_blank()?;
            match self.scanner.peek()? {
                None => return Ok(()),
                Some('[') => self.header()?,
                Some(_) => {
                    let outer = self.context.clone();
                    self.pair()?;
                    self.context = outer;
                    self.key = None;
                }
            }
            self.end_of_item()?;
        }
    }

    fn end_of_item(&mut self) -> Read<()> {
        self.scanner.skip_spaces()?;
        match self.scanner.next()? {
            None | Some('\n') => Ok(()),
            Some('\r') => self.scanner.next().map(drop),
            Some('#') => self.scanner.skip_comment(),
            Some(c) => self.scanner.fail(format!(
                "expected a top-level item to end with a newline, comment, or EOF, \
                 but got {} instead",
                scan::quoted(c)
            )),
        }
    }

    /// `[a.b]` or `[[a.b]]`.
    fn header(&mut self) -> Read<()> {
        self.scanner.next()?;
        let array = self.scanner.accept('[')?;
        let mut key = Vec::new();
        loop {
            self.scanner.skip_spaces()?;
            match self.scanner.peek()? {
                None | Some(']') => {
                    return self.scanner.fail(
                        "unexpected end of table name (table names cannot be empty)".to_owned(),
                    );
                }
                Some('.') => {
                    return self.scanner.fail(
                        "unexpected table separator (table names cannot be empty)".to_owned(),
                    );
                }
                Some(_) => {}
            }
            if key.is_empty() {
                self.key_line = self.scanner.line;
            }
            key.push(self.scanner.key_part()?);
            if key.len() > MAX_DEPTH {
                return self.scanner.fail("keys nest too deep".to_owned());
            }
            self.scanner.skip_spaces()?;
            match self.scanner.next()? {
                Some('.') => {}
                Some(']') => break,
                other => {
                    return self.scanner.fail(format!(
                        "expected '.' or ']' to end table name, but got {} instead",
                        scan::quoted_or_end(other)
                    ));
                }
            }
        }
        if array {
            let closing = self.scanner.next()?;
            if closing != Some(']') {
                return self.scanner.fail(format!(
                    "expected end of table array name delimiter ']', but got {} instead",
                    scan::quoted_or_end(closing)
                ));
            }
        }
        self.enter(&key, array)
    }

    /// Makes a table the one that keys go into.
    fn enter(&mut self, key: &[String], array: bool) -> Read<()> {
        let Some((last, parents)) = key.split_last() else {
            return Ok(());
        };
        let line = self.key_line;
        let mut table = &mut self.root;
        for (index, part) in parents.iter().enumerate() {
            let fresh = || {
                Item::Table(Table {
                    implicit: true,
                    ..Table::default()
                })
            };
            table = match table.entries.entry(part.clone()).or_insert_with(fresh) {
                Item::Table(table) => table,
                Item::Tables(tables) => match tables.last_mut() {
                    Some(table) => table,
                    None => return Ok(()),
                },
                Item::Value(_) => {
                    let name = joined(&parents[..=index]);
                    let message = format!("Key '{name}' was already created as a hash.");
                    self.context = Vec::new();
                    return Err(Fault { line, message });
                }
            };
        }
        let problem = define(table, last, array, key);
        self.context = parents.to_vec();
        problem.map_err(|message| Fault { line, message })?;
        self.context = key.to_vec();
        Ok(())
    }

    /// `a.b = value`.
    fn pair(&mut self) -> Read<()> {
        let key = self.key()?;
        let value = self.value()?;
        self.store(&key, value)
    }

    /// Reads a dotted key and the equals sign after it, and notes it for complaints.
    fn key(&mut self) -> Read<Vec<String>> {
        self.scanner.skip_spaces()?;
        match self.scanner.peek()? {
            None | Some('=') => {
                return self
                    .scanner
                    .fail("unexpected '=': key name appears blank".to_owned());
            }
            Some('.') => {
                return self
                    .scanner
                    .fail("unexpected '.': keys cannot start with a '.'".to_owned());
            }
            Some(_) => {}
        }
        let mut key = Vec::new();
        self.key_line = self.scanner.line;
        loop {
            self.scanner.skip_spaces()?;
            match self.scanner.peek()? {
                None | Some('=') => return self.scanner.fail("unexpected '='".to_owned()),
                Some('.') => return self.scanner.fail("unexpected '.'".to_owned()),
                Some(_) => {}
            }
            key.push(self.scanner.key_part()?);
            self.check_depth(key.len())?;
            self.scanner.skip_spaces()?;
            match self.scanner.next()? {
                None => {
                    return self
                        .scanner
                        .fail("unexpected EOF; expected key separator '='".to_owned());
                }
                Some('.') => {}
                Some('=') => break,
                Some(c) => {
                    let message =
                        format!("expected '.' or '=', but got {} instead", scan::quoted(c));
                    let line = self.scanner.line - usize::from(c == '\n');
                    return Err(Fault { line, message });
                }
            }
        }
        let last = key.pop().unwrap_or_default();
        self.context.append(&mut key);
        self.key = Some(last);
        Ok(Vec::new())
    }

    /// Puts a value under the key read last.
    fn store(&mut self, _: &[String], value: Value) -> Read<()> {
        let Some(last) = self.key.clone() else {
            return Ok(());
        };
        let mut table = &mut self.root;
        for index in 0..self.context.len() {
            let part = self.context[index].clone();
            let fresh = || {
                Item::Table(Table {
                    implicit: true,
                    ..Table::default()
                })
            };
            table = match table.entries.entry(part).or_insert_with(fresh) {
                Item::Table(table) => table,
                Item::Tables(tables) => match tables.last_mut() {
                    Some(table) => table,
                    None => return Ok(()),
                },
                Item::Value(_) => {
                    let name = joined(&self.context[..=index]);
                    return self.at_key(format!("Key '{name}' has already been defined."));
                }
            };
        }
        if table.entries.contains_key(&last) {
            let mut name = self.context.clone();
            name.push(last);
            return self.at_key(format!("Key '{}' has already been defined.", joined(&name)));
        }
        table.entries.insert(last, Item::Value(value));
        Ok(())
    }

    fn value(&mut self) -> Read<Value> {
        self.step()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.scanner.fail("values nest too deep".to_owned());
        }
        self.scanner.skip_spaces()?;
        let value = match self.scanner.peek()? {
            Some('[') => self.array()?,
            Some('{') => self.inline_table()?,
            _ => self.scanner.scalar()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Read<Value> {
        self.scanner.next()?;
        let mut items = Vec::new();
        loop {
            self.scanner.skip_blank()?;
            match self.scanner.peek()? {
                Some(',') => {
                    self.scanner.next()?;
                    return self.scanner.fail("unexpected comma".to_owned());
                }
                Some(']') => {
                    self.scanner.next()?;
                    return Ok(Value::list(items));
                }
                _ => items.push(self.value()?),
            }
            self.scanner.skip_blank()?;
            match self.scanner.next()? {
                Some(',') => {}
                Some(']') => return Ok(Value::list(items)),
                other => {
                    return self.scanner.fail(format!(
                        "expected a comma (',') or array terminator (']'), but got {}",
                        scan::plain_or_end(other)
                    ));
                }
            }
        }
    }

    fn inline_table(&mut self) -> Read<Value> {
        self.scanner.next()?;
        let outer = (self.context.clone(), self.key.clone());
        self.context.extend(self.key.take());
        let inner = self.context.clone();
        let table = Map::new();
        loop {
            self.scanner.skip_blank()?;
            match self.scanner.peek()? {
                Some(',') => {
                    self.scanner.next()?;
                    return self.scanner.fail("unexpected comma".to_owned());
                }
                Some('}') => {
                    self.scanner.next()?;
                    break;
                }
                _ => {}
            }
            self.key()?;
            let value = self.value()?;
            self.store_inline(&table, inner.len(), value)?;
            self.context.clone_from(&inner);
            self.scanner.skip_blank()?;
            match self.scanner.next()? {
                Some(',') => {}
                Some('}') => break,
                other => {
                    return self.scanner.fail(format!(
                        "expected a comma or an inline table terminator '}}', but got {} instead",
                        scan::plain_or_end(other)
                    ));
                }
            }
        }
        (self.context, self.key) = outer;
        Ok(Value::Map(table))
    }

    fn store_inline(&mut self, table: &Map, depth: usize, value: Value) -> Read<()> {
        let Some(last) = self.key.clone() else {
            return Ok(());
        };
        let mut table = table.clone();
        let insert = |table: &Map, key: &str, value: Value| {
            table.insert(key, value).map_err(|error| Fault {
                line: self.key_line,
                message: error.to_string(),
            })
        };
        for index in depth..self.context.len() {
            let part = &self.context[index];
            table = match table.get(part) {
                Some(Value::Map(next)) => next,
                Some(_) => {
                    let name = joined(&self.context[..=index]);
                    return self.at_key(format!("Key '{name}' has already been defined."));
                }
                None => {
                    let next = Map::new();
                    insert(&table, part, Value::Map(next.clone()))?;
                    next
                }
            };
        }
        if table.contains_key(&last) {
            let mut name = self.context.clone();
            name.push(last);
            return self.at_key(format!("Key '{}' has already been defined.", joined(&name)));
        }
        insert(&table, &last, value)
    }
}

/// Makes a table, or one more of an array of tables.
fn define(table: &mut Table, last: &str, array: bool, key: &[String]) -> Result<(), String> {
    match (table.entries.get_mut(last), array) {
        (None, true) => {
            table
                .entries
                .insert(last.to_owned(), Item::Tables(vec![Table::default()]));
        }
        (None, false) => {
            table
                .entries
                .insert(last.to_owned(), Item::Table(Table::default()));
        }
        (Some(Item::Tables(tables)), true) => tables.push(Table::default()),
        (Some(_), true) => {
            return Err(format!(
                "Key '{}' was already created and cannot be used as an array.",
                joined(key)
            ));
        }
        (Some(Item::Table(known)), false) if known.implicit => known.implicit = false,
        (Some(_), false) => {
            return Err(format!("Key '{}' has already been defined.", joined(key)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    #[test]
    fn keys_of_very_many_parts_are_refused() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let parts = "a.".repeat(100_000);
        for text in [
            format!("{parts}a = 1"),
            format!("[{parts}a]"),
            format!("a = {{{parts}a = 1}}"),
        ] {
            let error = parse(text.as_bytes(), &meter).unwrap_err();
            assert!(error.to_string().contains("keys nest too deep"));
        }
    }

    #[test]
    fn error_messages_match_sprig() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        for (text, complaint) in [
            (
                "a",
                "toml: line 1: unexpected EOF; expected key separator '='",
            ),
            (
                "a = ",
                "toml: line 1 (last key \"a\"): unexpected EOF; expected value",
            ),
            (
                "a = 1\na = 2",
                "toml: line 2 (last key \"a\"): Key 'a' has already been defined.",
            ),
            (
                "a b",
                "toml: line 1: expected '.' or '=', but got 'b' instead",
            ),
            (
                "a\nb",
                "toml: line 1: expected '.' or '=', but got '\\n' instead",
            ),
        ] {
            let error = parse(text.as_bytes(), &meter).unwrap_err();
            assert_eq!(error.to_string(), complaint, "{text}");
        }
    }
}
