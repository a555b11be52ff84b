//! Decoding into Go's typed targets, with Go's words about what does not fit.
//!
//! An API server that decodes an object into a Go struct fills in zero values, matches field names
//! without regard to case and reports the first misfit only after everything else was decoded.
//! Clients see those messages, so they are worth having exactly.

use super::error::JsonError;
use super::escape::{HtmlEscape, write_escaped};
use super::parse::{check_form, unquote};
use super::scan::{Scanner, Token};

/// A Go type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoType {
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `string`
    String,
    /// `[]T`
    Slice(Box<GoType>),
    /// `*T`
    Pointer(Box<GoType>),
    /// A struct.
    Struct(GoStruct),
}

/// A Go struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoStruct {
    /// Its name in errors about one of its fields; empty for an anonymous struct.
    pub name: String,
    /// Its type in errors about the whole, such as `v1.ObjectMeta`.
    pub type_text: String,
    /// Its fields in the order they are printed.
    pub fields: Vec<GoField>,
}

/// A field of a Go struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoField {
    /// The name in JSON.
    pub name: String,
    /// The type.
    pub go_type: GoType,
    /// Left out when zero.
    pub omit_empty: bool,
}

/// A decoded Go value.
#[derive(Clone, Debug)]
enum GoValue {
    /// A nil slice or pointer.
    Nil,
    Bool(bool),
    Int(i64),
    String(String),
    Slice(Vec<GoValue>),
    Struct(Vec<GoValue>),
}

/// Decodes a text into a type and prints what came out as `json.Marshal` would.
pub fn reprint(text: &[u8], go_type: &GoType) -> Result<String, JsonError> {
    check_form(text)?;
    let mut decoder = Decoder {
        scanner: Scanner::new(text),
        path: Vec::new(),
        owner: String::new(),
        misfit: None,
    };
    let token = decoder.next()?;
    let mut value = zero(go_type);
    decoder.value(token, go_type, &mut value)?;
    if let Some(misfit) = decoder.misfit {
        return Err(misfit);
    }
    let mut out = String::new();
    print(&mut out, &value, go_type);
    Ok(out)
}

impl GoType {
    /// The type as Go's errors name it.
    fn text(&self) -> String {
        match self {
            GoType::Bool => "bool".to_owned(),
            GoType::Int32 => "int32".to_owned(),
            GoType::Int64 => "int64".to_owned(),
            GoType::String => "string".to_owned(),
            GoType::Slice(item) => format!("[]{}", item.text()),
            GoType::Pointer(target) => format!("*{}", target.text()),
            GoType::Struct(fields) => fields.type_text.clone(),
        }
    }
}

fn zero(go_type: &GoType) -> GoValue {
    match go_type {
        GoType::Bool => GoValue::Bool(false),
        GoType::Int32 | GoType::Int64 => GoValue::Int(0),
        GoType::String => GoValue::String(String::new()),
        GoType::Slice(_) | GoType::Pointer(_) => GoValue::Nil,
        GoType::Struct(go_struct) => GoValue::Struct(
            go_struct
                .fields
                .iter()
                .map(|field| zero(&field.go_type))
                .collect(),
        ),
    }
}

/// The recursion follows the type, which is finite, not the text.
struct Decoder<'a> {
    scanner: Scanner<'a>,
    /// Names of the fields that are being decoded, outermost first.
    path: Vec<String>,
    /// The name of the innermost struct.
    owner: String,
    /// The first value that did not fit.
    misfit: Option<JsonError>,
}

impl<'a> Decoder<'a> {
    fn next(&mut self) -> Result<Token<'a>, JsonError> {
        loop {
            match self.scanner.next()? {
                Some(Token::Colon | Token::Comma) => {}
                Some(token) => return Ok(token),
                None => return Err(JsonError::UnexpectedEnd),
            }
        }
    }

    fn value(
        &mut self,
        token: Token<'a>,
        go_type: &GoType,
        target: &mut GoValue,
    ) -> Result<(), JsonError> {
        match (token, go_type) {
            (Token::Null, GoType::Slice(_) | GoType::Pointer(_)) => *target = GoValue::Nil,
            (Token::Null, _) => {}
            (_, GoType::Pointer(pointee)) => {
                let mut value = zero(pointee);
                self.value(token, pointee, &mut value)?;
                *target = value;
            }
            (Token::True, GoType::Bool) => *target = GoValue::Bool(true),
            (Token::False, GoType::Bool) => *target = GoValue::Bool(false),
            (Token::String(quoted), GoType::String) => *target = GoValue::String(unquote(quoted)),
            (Token::Number(digits), GoType::Int32 | GoType::Int64) => {
                let digits = String::from_utf8_lossy(digits);
                let fits =
                    |number: &i64| *go_type == GoType::Int64 || i32::try_from(*number).is_ok();
                match digits.parse::<i64>().ok().filter(fits) {
                    Some(number) => *target = GoValue::Int(number),
                    None => self.refuse(&format!("number {digits}"), go_type),
                }
            }
            (Token::ArrayStart, GoType::Slice(item)) => *target = self.slice(item)?,
            (Token::ObjectStart, GoType::Struct(go_struct)) => self.fields(go_struct, target)?,
            _ => {
                self.refuse(kind_of(token), go_type);
                self.skip(token)?;
            }
        }
        Ok(())
    }

    fn slice(&mut self, item: &GoType) -> Result<GoValue, JsonError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Token::ArrayEnd => return Ok(GoValue::Slice(items)),
                token => {
                    let mut value = zero(item);
                    self.value(token, item, &mut value)?;
                    items.push(value);
                }
            }
        }
    }

    fn fields(&mut self, go_struct: &GoStruct, target: &mut GoValue) -> Result<(), JsonError> {
        let owner = std::mem::replace(&mut self.owner, go_struct.name.clone());
        while let Token::String(quoted) = self.next()? {
            let token = self.next()?;
            let (Some(index), GoValue::Struct(values)) =
                (go_struct.field_index(&unquote(quoted)), &mut *target)
            else {
                self.skip(token)?;
                continue;
            };
            let field = &go_struct.fields[index];
            self.path.push(field.name.clone());
            self.value(token, &field.go_type, &mut values[index])?;
            self.path.pop();
        }
        self.owner = owner;
        Ok(())
    }

    fn refuse(&mut self, found: &str, go_type: &GoType) {
        let place = if self.path.is_empty() {
            "Go value".to_owned()
        } else {
            format!("Go struct field {}.{}", self.owner, self.path.join("."))
        };
        self.misfit.get_or_insert_with(|| JsonError::WrongType {
            found: found.to_owned(),
            place,
            wanted: go_type.text(),
        });
    }

    /// Passes over the value that begins with a token.
    fn skip(&mut self, first: Token<'a>) -> Result<(), JsonError> {
        let mut token = first;
        let mut depth = 0_usize;
        loop {
            match token {
                Token::ArrayStart | Token::ObjectStart => depth += 1,
                Token::ArrayEnd | Token::ObjectEnd => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
            token = self.next()?;
        }
    }
}

fn kind_of(token: Token<'_>) -> &'static str {
    match token {
        Token::ArrayStart | Token::ArrayEnd => "array",
        Token::String(_) => "string",
        Token::Number(_) => "number",
        Token::True | Token::False => "bool",
        Token::Null => "null",
        Token::ObjectStart | Token::ObjectEnd | Token::Colon | Token::Comma => "object",
    }
}

impl GoStruct {
    /// The field with this name, or else one that differs only in case.
    fn field_index(&self, name: &str) -> Option<usize> {
        let exact = self.fields.iter().position(|field| field.name == name);
        exact.or_else(|| {
            self.fields
                .iter()
                .position(|field| folded(&field.name) == folded(name))
        })
    }
}

/// Upper case as Go folds it: two letters outside of ASCII count as `K` and `S`.
fn folded(name: &str) -> String {
    name.chars()
        .map(|char| match char {
            '\u{212A}' => 'K',
            '\u{17F}' => 'S',
            _ => char.to_ascii_uppercase(),
        })
        .collect()
}

fn print(out: &mut String, value: &GoValue, go_type: &GoType) {
    match (value, go_type) {
        (GoValue::Bool(flag), _) => out.push_str(if *flag { "true" } else { "false" }),
        (GoValue::Int(number), _) => out.push_str(&number.to_string()),
        (GoValue::String(text), _) => write_escaped(out, text, HtmlEscape::On),
        (value, GoType::Pointer(pointee)) if !matches!(value, GoValue::Nil) => {
            print(out, value, pointee);
        }
        (GoValue::Slice(items), GoType::Slice(item_type)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print(out, item, item_type);
            }
            out.push(']');
        }
        (GoValue::Struct(values), GoType::Struct(go_struct)) => {
            out.push('{');
            for (value, field) in values.iter().zip(&go_struct.fields) {
                if field.omit_empty && is_empty(value, &field.go_type) {
                    continue;
                }
                if !out.ends_with('{') {
                    out.push(',');
                }
                write_escaped(out, &field.name, HtmlEscape::On);
                out.push(':');
                print(out, value, &field.go_type);
            }
            out.push('}');
        }
        _ => out.push_str("null"),
    }
}

/// What `omitempty` leaves out: a pointer only when it is nil, a struct never.
fn is_empty(value: &GoValue, go_type: &GoType) -> bool {
    match value {
        GoValue::Nil => true,
        _ if matches!(go_type, GoType::Pointer(_)) => false,
        GoValue::Bool(flag) => !flag,
        GoValue::Int(number) => *number == 0,
        GoValue::String(text) => text.is_empty(),
        GoValue::Slice(items) => items.is_empty(),
        GoValue::Struct(_) => false,
    }
}
