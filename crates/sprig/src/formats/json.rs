//! JSON text of template values, as Go's `encoding/json` has it.

use everflow_gotemplate::{ENTRY_BYTES, FuncError, GoType, Held, Meter, Object, Value};
use everflow_yaml::gojson::{self, HtmlEscape};

use crate::encoding::base64_encode;
use crate::objects::{TimeObject, VersionObject};
use crate::support::fail;

pub(crate) use super::json_read::parse;

/// Nesting beyond this is taken for a value that contains itself.
const MAX_DEPTH: usize = 1000;

/// How JSON text looks.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Whether `<`, `>` and `&` are escaped.
    pub escape_html: bool,
    /// Whether to put every item on a line of its own, indented by two spaces.
    pub pretty: bool,
}

/// The JSON text of a value; the error is Go's.
pub(crate) fn to_string(
    value: &Value,
    style: Style,
    meter: &Meter<'_>,
) -> Result<String, FuncError> {
    let mut writer = Writer {
        out: String::new(),
        style,
        meter,
        held: meter.nothing(),
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'m> {
    out: String,
    style: Style,
    meter: &'m Meter<'m>,
    held: Held<'m>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), FuncError> {
        self.meter.steps(1)?;
        self.held.grow_to(self.out.len())?;
        if depth > MAX_DEPTH {
            let name = value.type_name();
            return fail(format!(
                "json: unsupported value: encountered a cycle via {name}"
            ));
        }
        match value {
            Value::Object(object) => self.object(value, object.as_ref(), depth),
            _ if value.is_nil() => {
                self.out.push_str("null");
                Ok(())
            }
            Value::Bool(value) => {
                self.out.push_str(if *value { "true" } else { "false" });
                Ok(())
            }
            Value::String(text) => self.text(text.as_bytes()),
            Value::List(list) if list.go_type().element() == Some(GoType::Uint8) => {
                self.bytes(&value.as_byte_slice().unwrap_or_default())
            }
            Value::List(list) => self.block('[', ']', depth, list.items(), |this, item| {
                this.value(item, depth + 1)
            }),
            Value::Map(map) => {
                let _held = self.meter.hold(map.len() * ENTRY_BYTES)?;
                let entries = map.snapshot();
                self.block('{', '}', depth, &entries, |this, (key, item)| {
                    this.field(key.as_bytes(), item, depth)
                })
            }
            _ => self.number(value),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), FuncError> {
        let _held = self.meter.hold(2 * bytes.len())?;
        self.text(base64_encode(bytes).as_bytes())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), FuncError> {
        self.held
            .grow_to(self.out.len().saturating_add(escaped_length(text)))?;
        let html = if self.style.escape_html {
            HtmlEscape::On
        } else {
            HtmlEscape::Off
        };
        gojson::write_escaped_bytes(&mut self.out, text, html);
        Ok(())
    }

    fn number(&mut self, value: &Value) -> Result<(), FuncError> {
        let text = if let Some(int) = value.as_int() {
            int.to_string()
        } else if let Some(uint) = value.as_uint() {
            uint.to_string()
        } else {
            let text = match value {
                Value::Float64(number) => gojson::format_f64(*number),
                Value::Float32(number) => gojson::format_f32(*number),
                _ => return fail(format!("json: unsupported type: {}", value.type_name())),
            };
            text.map_err(|error| error.to_string())?
        };
        self.out.push_str(&text);
        Ok(())
    }

    fn object(
        &mut self,
        value: &Value,
        object: &dyn Object,
        depth: usize,
    ) -> Result<(), FuncError> {
        if let Some(time) = value.as_object::<TimeObject>() {
            return self.text(&time.0.format(b"2006-01-02T15:04:05.999999999Z07:00"));
        }
        if let Some(version) = value.as_object::<VersionObject>() {
            return self.text(version.version.to_string().as_bytes());
        }
        if let Some(basic) = object.basic() {
            return self.value(&basic, depth + 1);
        }
        let fields: Vec<_> = object
            .fields()
            .into_iter()
            .filter(|(name, _)| is_exported(name))
            .collect();
        self.block('{', '}', depth, &fields, |this, (name, item)| {
            this.field(name.as_bytes(), item, depth)
        })
    }

    fn field(&mut self, key: &[u8], value: &Value, depth: usize) -> Result<(), FuncError> {
        self.text(key)?;
        self.out
            .push_str(if self.style.pretty { ": " } else { ":" });
        self.value(value, depth + 1)
    }

    fn block<T>(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), FuncError>,
    ) -> Result<(), FuncError> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.new_line(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.new_line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if self.style.pretty {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str("  ");
            }
        }
    }
}

/// The most that a text becomes: an escaped byte takes six, and what is left of a character three.
fn escaped_length(text: &[u8]) -> usize {
    let long = |byte: &&u8| matches!(byte, 0..0x20 | b'<' | b'>' | b'&' | b'"' | b'\\' | 0x7f..);
    text.len() + 5 * text.iter().filter(long).count()
}

/// Fields that start with a capital letter are those others may see.
pub(crate) fn is_exported(name: &str) -> bool {
    name.starts_with(|c: char| c.is_uppercase())
}
