//! Values by verb.

use everflow_limits::Exceeded;

use super::flags::{Case, Flags};
use super::float::FloatSize;
use super::quote::push_rune;
use crate::meter::{Held, Meter};
use crate::object::Object;
use crate::types::{GoType, Kind};
use crate::value::{MAX_NESTING, Value};

/// The longest text one call may produce. Structures can share parts, so that a small one prints
/// as an endless text.
const MAX_TEXT: usize = 16 << 20;

/// What a byte can become: `\x00`.
const MOST_FOR_A_BYTE: usize = 4;

/// Why printing stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    TooDeep,
    TooLong,
    UsedUp(Exceeded),
}

pub(super) struct Printer<'o, 'm> {
    pub out: &'o mut Vec<u8>,
    pub flags: Flags,
    pub stop: Option<Stop>,
    /// Whether the outermost pointer is followed without a sign of it.
    pub follow_pointer: bool,
    start: usize,
    held: Held<'m>,
    /// Set while a bad verb is reported: methods are not called then.
    erroring: bool,
}

/// The verb `v`.
pub(super) const V: u32 = b'v' as u32;

const LOWER_LETTERS: std::ops::RangeInclusive<u32> = 0x20..=0x7e;

fn ascii(verb: u32) -> u8 {
    match LOWER_LETTERS.contains(&verb) {
        true => u8::try_from(verb).unwrap_or(0),
        false => 0,
    }
}

impl<'o, 'm> Printer<'o, 'm> {
    /// What is printed is charged until the printer is dropped.
    pub fn new(out: &'o mut Vec<u8>, meter: &'m Meter<'m>) -> Self {
        let start = out.len();
        Printer {
            out,
            flags: Flags::default(),
            stop: None,
            follow_pointer: false,
            start,
            held: meter.nothing(),
            erroring: false,
        }
    }

    fn write(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn too_long(&mut self) -> bool {
        let length = self.out.len() - self.start;
        if length > MAX_TEXT {
            self.stop = Some(Stop::TooLong);
        }
        self.stop.is_some() || self.has_no_room(0)
    }

    /// Charges the text so far and so many bytes more; true when there is not enough memory.
    fn has_no_room(&mut self, more: usize) -> bool {
        let length = self.out.len() - self.start + more;
        if let Err(exceeded) = self.held.grow_to(length) {
            self.stop = Some(Stop::UsedUp(exceeded));
        }
        self.stop.is_some()
    }

    /// An argument of a print call.
    pub fn argument(&mut self, value: &Value, verb: u32) {
        if self.too_long() {
            return;
        }
        match (ascii(verb), value) {
            (b'T' | b'v', Value::Nil) => self.flags.pad(self.out, b"<nil>"),
            (_, Value::Nil) => self.bad_verb(value, verb),
            (b'T', _) => self.flags.string(self.out, value.type_name().as_bytes()),
            (b'p', _) => self.pointer(value, verb),
            (_, Value::List(list)) if list.go_type() == GoType::BYTES => {
                let bytes = value.as_byte_slice().unwrap_or_default();
                self.byte_slice(value, &bytes, verb, "[]byte");
            }
            _ => {
                if !self.by_method(value, verb) {
                    self.value(value, verb, 0);
                }
            }
        }
    }

    /// A value as it is, whatever methods it has.
    pub fn without_methods(&mut self, value: &Value) {
        self.value(value, V, 0);
    }

    /// Text of values that know how to print themselves.
    fn by_method(&mut self, value: &Value, verb: u32) -> bool {
        if self.erroring {
            return false;
        }
        let basic = !value.is_container() && !matches!(value, Value::Object(_));
        if verb == u32::from(b'w') && !basic {
            self.bad_verb(value, verb);
            return true;
        }
        let Value::Object(object) = value else {
            return false;
        };
        if self.flags.sharp_v {
            let syntax = object.go_syntax();
            if let Some(text) = &syntax {
                self.flags.string(self.out, text.as_bytes());
            }
            return syntax.is_some();
        }
        if !matches!(ascii(verb), b'v' | b's' | b'x' | b'X' | b'q') {
            return false;
        }
        match object.text() {
            Some(text) => {
                self.string(value, text.as_bytes(), verb);
                true
            }
            None => false,
        }
    }

    /// What stands inside an interface: elements of `[]interface {}` and the like.
    fn interface_value(&mut self, value: &Value, verb: u32, depth: usize) {
        match value {
            Value::Nil if self.flags.sharp_v => self.write("interface {}(nil)"),
            Value::Nil => self.write("<nil>"),
            _ => self.nested(value, verb, depth + 1),
        }
    }

    fn nested(&mut self, value: &Value, verb: u32, depth: usize) {
        if depth > MAX_NESTING * 2 {
            self.stop = Some(Stop::TooDeep);
        }
        if self.too_long() || self.by_method(value, verb) {
            return;
        }
        self.value(value, verb, depth);
    }

    fn value(&mut self, value: &Value, verb: u32, depth: usize) {
        match value {
            Value::Nil => self.interface_value(value, verb, depth),
            Value::Bool(on) => match ascii(verb) {
                b't' | b'v' => self.flags.boolean(self.out, *on),
                _ => self.bad_verb(value, verb),
            },
            Value::Float32(n) => self.float(value, f64::from(*n), FloatSize::F32, verb),
            Value::Float64(n) => self.float(value, *n, FloatSize::F64, verb),
            Value::Complex128(re, im) => self.complex(value, *re, *im, verb),
            Value::String(text) => self.string(value, text.as_bytes(), verb),
            Value::List(_) => self.list(value, verb, depth),
            Value::Map(_) => self.map(value, verb, depth),
            Value::Func(_) | Value::NilPointer(_) => self.pointer(value, verb),
            Value::Object(object) => self.object(value, object.as_ref(), verb, depth),
            _ => match (value.as_int(), value.as_uint()) {
                (Some(n), _) => self.integer(value, n.cast_unsigned(), true, verb),
                (_, n) => self.integer(value, n.unwrap_or(0), false, verb),
            },
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: u32) {
        self.erroring = true;
        self.write("%!");
        push_rune(self.out, verb);
        self.out.push(b'(');
        match value {
            Value::Nil => self.write("<nil>"),
            _ => {
                self.write(&value.type_name());
                self.out.push(b'=');
                self.value(value, V, 0);
            }
        }
        self.out.push(b')');
        self.erroring = false;
    }

    fn integer(&mut self, value: &Value, bits: u64, signed: bool, verb: u32) {
        let (base, case) = match ascii(verb) {
            b'v' if self.flags.sharp_v && !signed => return self.hex_with_prefix(bits, true),
            b'v' | b'd' => (10, Case::Lower),
            b'b' => (2, Case::Lower),
            b'o' | b'O' => (8, Case::Lower),
            b'x' => (16, Case::Lower),
            b'X' => (16, Case::Upper),
            b'c' => return self.flags.character(self.out, bits),
            b'q' => return self.flags.quoted_character(self.out, bits),
            b'U' => return self.flags.unicode(self.out, bits),
            _ => return self.bad_verb(value, verb),
        };
        self.flags.integer(self.out, bits, base, signed, verb, case);
    }

    fn hex_with_prefix(&mut self, bits: u64, prefix: bool) {
        let flags = Flags {
            sharp: prefix,
            ..self.flags
        };
        flags.integer(self.out, bits, 16, false, V, Case::Lower);
    }

    fn float(&mut self, value: &Value, number: f64, size: FloatSize, verb: u32) {
        let (format, precision) = match ascii(verb) {
            b'v' => (b'g', None),
            letter @ (b'b' | b'g' | b'G' | b'x' | b'X') => (letter, None),
            letter @ (b'f' | b'e' | b'E') => (letter, Some(6)),
            b'F' => (b'f', Some(6)),
            _ => return self.bad_verb(value, verb),
        };
        self.flags.float(self.out, number, size, format, precision);
    }

    fn complex(&mut self, value: &Value, re: f64, im: f64, verb: u32) {
        if !b"vbgGxXfFeE".contains(&ascii(verb)) {
            return self.bad_verb(value, verb);
        }
        let plus = self.flags.plus;
        self.out.push(b'(');
        self.float(value, re, FloatSize::F64, verb);
        self.flags.plus = true;
        self.float(value, im, FloatSize::F64, verb);
        self.write("i)");
        self.flags.plus = plus;
    }

    /// The longest that a text can become.
    fn most_of(&self, verb: u32, text: &[u8]) -> usize {
        match ascii(verb) {
            b's' => text.len(),
            b'v' if !self.flags.sharp_v => text.len(),
            _ => MOST_FOR_A_BYTE * text.len(),
        }
    }

    fn string(&mut self, value: &Value, text: &[u8], verb: u32) {
        if self.has_no_room(self.most_of(verb, text)) {
            return;
        }
        match ascii(verb) {
            b'v' if self.flags.sharp_v => self.flags.quoted(self.out, text),
            b'v' | b's' => self.flags.string(self.out, text),
            b'x' => self.flags.hex_bytes(self.out, text, Case::Lower),
            b'X' => self.flags.hex_bytes(self.out, text, Case::Upper),
            b'q' => self.flags.quoted(self.out, text),
            _ => self.bad_verb(value, verb),
        }
    }

    fn byte_slice(&mut self, value: &Value, bytes: &[u8], verb: u32, type_name: &str) {
        if self.has_no_room(self.most_of(verb, bytes)) {
            return;
        }
        match ascii(verb) {
            b'v' | b'd' if self.flags.sharp_v => {
                self.write(type_name);
                if value.is_nil() {
                    return self.write("(nil)");
                }
                self.sequence(bytes.iter(), "{", ", ", "}", |printer, byte| {
                    printer.hex_with_prefix(u64::from(*byte), true);
                });
            }
            b'v' | b'd' => self.sequence(bytes.iter(), "[", " ", "]", |printer, byte| {
                let bits = u64::from(*byte);
                let flags = printer.flags;
                flags.integer(printer.out, bits, 10, false, verb, Case::Lower);
            }),
            b's' => self.flags.string(self.out, bytes),
            b'x' => self.flags.hex_bytes(self.out, bytes, Case::Lower),
            b'X' => self.flags.hex_bytes(self.out, bytes, Case::Upper),
            b'q' => self.flags.quoted(self.out, bytes),
            _ => self.value(value, verb, 0),
        }
    }

    fn sequence<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        open: &str,
        between: &str,
        close: &str,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.write(open);
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.write(between);
            }
            if self.too_long() {
                return;
            }
            each(self, item);
        }
        self.write(close);
    }

    /// An element whose static type is `element`.
    fn element(&mut self, item: &Value, element: GoType, verb: u32, depth: usize) {
        match element {
            GoType::Any | GoType::Error => self.interface_value(item, verb, depth),
            _ => self.nested(item, verb, depth),
        }
    }

    fn list(&mut self, value: &Value, verb: u32, depth: usize) {
        let Value::List(list) = value else { return };
        let element = list.go_type().element().unwrap_or(GoType::Any);
        if element == GoType::Uint8 && matches!(ascii(verb), b's' | b'q' | b'x' | b'X') {
            let bytes = value.as_byte_slice().unwrap_or_default();
            return self.byte_slice(value, &bytes, verb, &value.type_name());
        }
        let (open, between, close) = match self.flags.sharp_v {
            true => {
                self.write(&value.type_name());
                if list.is_nil() {
                    return self.write("(nil)");
                }
                ("{", ", ", "}")
            }
            false => ("[", " ", "]"),
        };
        self.sequence(
            list.items().iter(),
            open,
            between,
            close,
            |printer, item| {
                printer.element(item, element, verb, depth + 1);
            },
        );
    }

    fn map(&mut self, value: &Value, verb: u32, depth: usize) {
        let Value::Map(map) = value else { return };
        let element = map.go_type().element().unwrap_or(GoType::Any);
        let (open, between, close) = match self.flags.sharp_v {
            true => {
                self.write(&value.type_name());
                if map.is_nil() {
                    return self.write("(nil)");
                }
                ("{", ", ", "}")
            }
            false => ("map[", " ", "]"),
        };
        let entries = map.read();
        self.sequence(entries.iter(), open, between, close, |printer, entry| {
            let key = Value::String(entry.0.clone());
            printer.nested(&key, verb, depth + 1);
            printer.out.push(b':');
            printer.element(entry.1, element, verb, depth + 1);
        });
    }

    fn object(&mut self, value: &Value, object: &dyn Object, verb: u32, depth: usize) {
        match object.basic() {
            Some(Value::Object(_)) | None => {}
            Some(basic) => return self.named_basic(value, &basic, verb, depth),
        }
        if matches!(object.go_type(), GoType::Pointer(_)) {
            if depth > 0 {
                return self.pointer(value, verb);
            }
            if !self.follow_pointer {
                self.out.push(b'&');
            }
        }
        if self.flags.sharp_v {
            let name = value.type_name();
            self.write(name.trim_start_matches('*'));
        }
        let named = self.flags.plus_v || self.flags.sharp_v;
        let between = if self.flags.sharp_v { ", " } else { " " };
        let fields = object.fields();
        self.sequence(fields.iter(), "{", between, "}", |printer, field| {
            if named {
                printer.write(field.0);
                printer.out.push(b':');
            }
            match &field.1 {
                Value::Nil => printer.interface_value(&Value::Nil, verb, depth + 1),
                inner => printer.nested(inner, verb, depth + 1),
            }
        });
    }

    /// A named number or string: printed as the plain value, but a bad verb names the type.
    fn named_basic(&mut self, value: &Value, basic: &Value, verb: u32, depth: usize) {
        let fits = match basic.kind() {
            kind if kind.is_signed() || kind.is_unsigned() => b"vdboOxXcqU".as_slice(),
            Kind::String => b"vsxXq",
            Kind::Bool => b"vt",
            Kind::Float32 | Kind::Float64 => b"vbgGxXfFeE",
            _ => return self.value(basic, verb, depth),
        };
        match fits.contains(&ascii(verb)) {
            true => self.value(basic, verb, depth),
            false => self.bad_verb(value, verb),
        }
    }

    fn pointer(&mut self, value: &Value, verb: u32) {
        let address = match value {
            Value::List(list) if list.is_nil() => 0,
            Value::List(list) => list.address(),
            Value::Map(map) if map.is_nil() => 0,
            Value::Map(map) => map.address(),
            Value::Func(function) => std::rc::Rc::as_ptr(function).addr(),
            Value::Object(object) if matches!(object.go_type(), GoType::Pointer(_)) => {
                std::rc::Rc::as_ptr(object).cast::<u8>().addr()
            }
            Value::NilPointer(_) => 0,
            _ => return self.bad_verb(value, verb),
        } as u64;
        match ascii(verb) {
            b'v' if self.flags.sharp_v => {
                let name = value.type_name();
                self.write(&format!("({name})("));
                match address {
                    0 => self.write("nil"),
                    _ => self.hex_with_prefix(address, true),
                }
                self.out.push(b')');
            }
            b'v' if address == 0 => self.flags.pad(self.out, b"<nil>"),
            b'v' | b'p' => self.hex_with_prefix(address, !self.flags.sharp),
            b'b' | b'o' | b'd' | b'x' | b'X' => self.integer(value, address, false, verb),
            _ => self.bad_verb(value, verb),
        }
    }
}
