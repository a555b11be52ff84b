//! TOML as Helm's `toToml` writes it.

use everflow_gotemplate::{ENTRY_BYTES, FuncError, Held, Meter, Value, gofmt};

use super::json::is_exported;
use crate::objects::{DurationObject, TimeObject};
use crate::support::{MAX_NESTING, fail};
use crate::text::runes::to_valid;

/// The TOML text of a value; the error is that of the original.
pub(crate) fn to_toml(value: &Value, meter: &Meter<'_>) -> Result<String, FuncError> {
    if matches!(value, Value::Nil) {
        return fail("reflect: call of reflect.Value.Type on zero Value");
    }
    if matches!(value, Value::List(list) if list.is_nil()) {
        return Ok("[]".to_owned());
    }
    let mut writer = Writer {
        out: String::new(),
        meter,
        held: meter.nothing(),
    };
    writer.encode(&mut Vec::new(), value)?;
    Ok(writer.out)
}

#[derive(PartialEq, Eq)]
enum Shape {
    Nil,
    Plain,
    Table,
    ArrayOfTables,
}

const NIL_ELEMENT: &str = "toml: cannot encode array with nil element";

fn shape(value: &Value, meter: &Meter<'_>) -> Result<Shape, FuncError> {
    meter.steps(1)?;
    Ok(match value {
        _ if value.is_nil() => Shape::Nil,
        Value::Map(_) => Shape::Table,
        Value::Object(object) if is_struct(value) && object.basic().is_none() => Shape::Table,
        Value::List(list) if !list.is_empty() => {
            let mut all = true;
            for item in meter.items(list)? {
                match shape(item, meter)? {
                    Shape::Nil => return fail(NIL_ELEMENT),
                    Shape::Table => {}
                    _ => all = false,
                }
            }
            if all {
                Shape::ArrayOfTables
            } else {
                Shape::Plain
            }
        }
        _ => Shape::Plain,
    })
}

fn is_struct(value: &Value) -> bool {
    value.as_object::<TimeObject>().is_none() && value.as_object::<DurationObject>().is_none()
}

/// The entries of a map or struct.
fn entries(value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Map(map) => map
            .snapshot()
            .into_iter()
            .map(|(key, value)| (to_valid(key.as_bytes()), value))
            .collect(),
        Value::Object(object) => object
            .fields()
            .into_iter()
            .filter(|(name, _)| is_exported(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        _ => Vec::new(),
    }
}

struct Writer<'m> {
    out: String,
    meter: &'m Meter<'m>,
    held: Held<'m>,
}

impl Writer<'_> {
    fn encode(&mut self, key: &mut Vec<String>, value: &Value) -> Result<(), FuncError> {
        if key.len() > MAX_NESTING {
            return fail("toml: the value contains itself or nests too deep");
        }
        match shape(value, self.meter)? {
            Shape::Nil => Ok(()),
            Shape::Plain => self.key_value(key, value),
            Shape::Table => {
                if key.len() == 1 {
                    self.new_line();
                }
                if !key.is_empty() {
                    self.header(key, "[", "]")?;
                }
                self.table(key, value)
            }
            Shape::ArrayOfTables => {
                if key.is_empty() {
                    return fail("toml: top-level values must be Go maps or structs");
                }
                let Value::List(list) = value else {
                    return Ok(());
                };
                for item in list.items() {
                    self.new_line();
                    self.header(key, "[[", "]]")?;
                    self.table(key, item)?;
                }
                Ok(())
            }
        }
    }

    /// Charges the text so far and so many bytes more.
    fn grow(&mut self, more: usize) -> Result<(), FuncError> {
        Ok(self.held.grow_to(self.out.len() + more)?)
    }

    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, key: &[String]) {
        for _ in 1..key.len() {
            self.out.push_str("  ");
        }
    }

    fn header(&mut self, key: &[String], open: &str, close: &str) -> Result<(), FuncError> {
        let length: usize = key.iter().map(|part| 6 * part.len() + 5).sum();
        let _held = self.meter.hold(3 * length)?;
        self.grow(length)?;
        self.indent(key);
        let name = key
            .iter()
            .map(|part| quoted_key(part))
            .collect::<Vec<_>>()
            .join(".");
        self.out.push_str(&format!("{open}{name}{close}\n"));
        Ok(())
    }

    /// Plain values first, then tables.
    fn table(&mut self, key: &mut Vec<String>, value: &Value) -> Result<(), FuncError> {
        let (_held, entries) = split_entries(value, self.meter)?;
        for (name, value) in entries {
            if value.is_nil() {
                continue;
            }
            key.push(name);
            self.encode(key, &value)?;
            key.pop();
        }
        Ok(())
    }

    fn key_value(&mut self, key: &[String], value: &Value) -> Result<(), FuncError> {
        let Some(name) = key.last() else {
            return self.element(value, 0);
        };
        self.indent(key);
        self.out.push_str(&quoted_key(name));
        self.out.push_str(" = ");
        self.element(value, 0)?;
        self.out.push('\n');
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), FuncError> {
        self.meter.steps(1)?;
        self.grow(0)?;
        if depth > MAX_NESTING {
            return fail("toml: the value contains itself or nests too deep");
        }
        match value {
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::String(text) => {
                // A byte may become six, and there are two copies on the way.
                let _held = self.meter.hold(12 * text.len())?;
                self.grow(text.len())?;
                self.out.push_str(&quoted(&to_valid(text.as_bytes())));
            }
            Value::List(list) => {
                self.out.push('[');
                for (index, item) in self.meter.items(list)?.iter().enumerate() {
                    if item.is_nil() {
                        return fail(NIL_ELEMENT);
                    }
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Object(object) if object.basic().is_none() && is_struct(value) => {
                self.inline_table(value, depth)?;
            }
            Value::Map(_) => self.inline_table(value, depth)?,
            other => self.scalar(other)?,
        }
        Ok(())
    }

    fn inline_table(&mut self, value: &Value, depth: usize) -> Result<(), FuncError> {
        self.out.push('{');
        let (_held, entries) = split_entries(value, self.meter)?;
        let last = entries.len().saturating_sub(1);
        for (index, (name, value)) in entries.iter().enumerate() {
            if value.is_nil() {
                continue;
            }
            self.out.push_str(&quoted_key(name));
            self.out.push_str(" = ");
            self.element(value, depth + 1)?;
            if index != last {
                self.out.push_str(", ");
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn scalar(&mut self, value: &Value) -> Result<(), FuncError> {
        if let Some(duration) = value.as_object::<DurationObject>() {
            self.out.push_str(&quoted(&duration.0.to_string()));
        } else if let Some(time) = value.as_object::<TimeObject>() {
            let layout: &[u8] = match time.0.zone.name() {
                "datetime-local" => b"2006-01-02T15:04:05.999999999",
                "date-local" => b"2006-01-02",
                "time-local" => b"15:04:05.999999999",
                _ => b"2006-01-02T15:04:05.999999999Z07:00",
            };
            self.out
                .push_str(&String::from_utf8_lossy(&time.0.format(layout)));
        } else if let Some(float) = value.as_float() {
            self.out
                .push_str(&float_text(float, matches!(value, Value::Float32(_))));
        } else if let Some(int) = value.as_int() {
            self.out.push_str(&int.to_string());
        } else if let Some(uint) = value.as_uint() {
            self.out.push_str(&uint.to_string());
        } else if let Value::Object(object) = value
            && let Some(basic) = object.basic()
        {
            return self.element(&basic, 1);
        } else {
            return fail(format!("unsupported type for key '': {}", value.kind()));
        }
        Ok(())
    }
}

/// Entries with plain values before those with tables.
fn split_entries<'m>(
    value: &Value,
    meter: &'m Meter<'_>,
) -> Result<(Held<'m>, Vec<(String, Value)>), FuncError> {
    let keys = match value {
        Value::Map(map) => map
            .read()
            .keys()
            .map(|key| ENTRY_BYTES + 3 * key.len())
            .sum(),
        _ => 0,
    };
    let held = meter.hold(2 * keys)?;
    let (mut direct, mut tables) = (Vec::new(), Vec::new());
    for entry in entries(value) {
        match shape(&entry.1, meter)? {
            Shape::Table | Shape::ArrayOfTables => tables.push(entry),
            _ => direct.push(entry),
        }
    }
    direct.append(&mut tables);
    Ok((held, direct))
}

fn float_text(float: f64, narrow: bool) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+inf" } else { "-inf" }.to_owned();
    }
    let size = if narrow {
        gofmt::FloatSize::F32
    } else {
        gofmt::FloatSize::F64
    };
    let text = gofmt::format_float(float, b'g', None, size);
    if text.contains(['.', 'e']) {
        text
    } else {
        format!("{text}.0")
    }
}

fn quoted_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
