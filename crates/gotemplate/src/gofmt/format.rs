//! `Sprint`, `Sprintln` and `Sprintf`.

use super::flags::Flags;
use super::printer::{Printer, Stop, V};
use super::quote::{decode_rune, push_rune};
use crate::error::FuncError;
use crate::meter::Meter;
use crate::text::GoStr;
use crate::types::Kind;
use crate::value::Value;

/// Widths and precisions beyond this are refused, as in Go.
const MAX_NUMBER: i64 = 1_000_000;

fn finish(printer: Printer<'_, '_>) -> Result<(), FuncError> {
    match printer.stop {
        None => Ok(()),
        Some(Stop::TooDeep) => Err(FuncError::new(
            "cannot print a value that contains itself or nests deeper than 500 levels",
        )),
        Some(Stop::TooLong) => Err(FuncError::new("cannot print more than 16 MiB of text")),
        Some(Stop::UsedUp(exceeded)) => Err(exceeded.into()),
    }
}

/// Prints the values as Go's `fmt.Sprint`: a space between two that are not strings.
///
/// Fails only for values that contain themselves or print as more than 16 MiB or than there is memory.
pub fn sprint(values: &[Value], meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    if let [Value::String(text)] = values {
        return Ok(text.clone());
    }
    let mut out = Vec::new();
    append_print(&mut out, values, meter)?;
    Ok(GoStr::from_vec(out))
}

/// As [`sprint`], into a buffer.
pub fn append_print(
    out: &mut Vec<u8>,
    values: &[Value],
    meter: &Meter<'_>,
) -> Result<(), FuncError> {
    let mut after_string = true;
    let mut printer = Printer::new(out, meter);
    for (index, value) in values.iter().enumerate() {
        let is_string = value.kind() == Kind::String;
        if index > 0 && !is_string && !after_string {
            printer.out.push(b' ');
        }
        printer.argument(value, V);
        after_string = is_string;
    }
    finish(printer)
}

/// Which methods count when a value prints itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Methods {
    /// Those of the value, or of the pointer that it is.
    Own,
    /// Those of the pointer too: the value has an address.
    ByAddress,
    /// Those of what the pointer points to.
    BehindPointer,
}

/// Prints one value as a template action or an escaping function does: a pointer is followed.
pub(crate) fn append_printable(
    out: &mut Vec<u8>,
    value: &Value,
    methods: Methods,
    meter: &Meter<'_>,
) -> Result<(), FuncError> {
    let mut printer = Printer::new(out, meter);
    printer.follow_pointer = true;
    if let Value::Object(object) = value {
        let text = match methods {
            Methods::Own => object.text(),
            Methods::ByAddress => object.text_by_address(),
            Methods::BehindPointer => object.text_behind_pointer(),
        };
        match text {
            Some(text) => printer.out.extend_from_slice(text.as_bytes()),
            None => printer.without_methods(value),
        }
    } else {
        printer.argument(value, V);
    }
    finish(printer)
}

/// Prints the values as Go's `fmt.Sprintln`: spaces between all, a newline at the end.
pub fn sprintln(values: &[Value], meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    let mut out = Vec::new();
    let mut printer = Printer::new(&mut out, meter);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(b' ');
        }
        printer.argument(value, V);
    }
    finish(printer)?;
    out.push(b'\n');
    Ok(GoStr::from_vec(out))
}

/// Formats the values as Go's `fmt.Sprintf`, errors of the format included in the text as Go does
/// (`%!d(string=x)`).
pub fn sprintf(format: &[u8], values: &[Value], meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    let mut out = Vec::with_capacity(format.len() + 16);
    let mut printer = Printer::new(&mut out, meter);
    let formatter = Formatter {
        format,
        position: 0,
        values,
        next: 0,
        reordered: false,
        good_index: true,
        after_index: false,
    };
    formatter.run(&mut printer);
    finish(printer)?;
    Ok(GoStr::from_vec(out))
}

struct Formatter<'f> {
    format: &'f [u8],
    position: usize,
    values: &'f [Value],
    next: usize,
    reordered: bool,
    good_index: bool,
    after_index: bool,
}

impl Formatter<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.position).copied()
    }

    fn run(mut self, printer: &mut Printer<'_, '_>) {
        while self.position < self.format.len() && printer.stop.is_none() {
            self.good_index = true;
            let rest = &self.format[self.position..];
            let plain = rest.iter().position(|c| *c == b'%').unwrap_or(rest.len());
            printer.out.extend_from_slice(&rest[..plain]);
            self.position += plain + 1;
            if plain == rest.len() {
                break;
            }
            if !self.verb(printer) {
                break;
            }
        }
        if !self.reordered && self.next < self.values.len() {
            self.extra(printer);
        }
    }

    /// One directive after its `%`. False when the format ends within it.
    fn verb(&mut self, printer: &mut Printer<'_, '_>) -> bool {
        printer.flags = Flags::default();
        while let Some(c) = self.peek() {
            match c {
                b'#' => printer.flags.sharp = true,
                b'0' => printer.flags.zero = true,
                b'+' => printer.flags.plus = true,
                b'-' => printer.flags.minus = true,
                b' ' => printer.flags.space = true,
                _ => break,
            }
            self.position += 1;
        }
        self.after_index = self.argument_index();
        self.width(printer);
        self.precision(printer);
        if !self.after_index {
            self.after_index = self.argument_index();
        }
        if self.position >= self.format.len() {
            printer.out.extend_from_slice(b"%!(NOVERB)");
            return false;
        }
        let (verb, size) = decode_rune(&self.format[self.position..]);
        self.position += size;
        self.print(printer, verb);
        true
    }

    fn print(&mut self, printer: &mut Printer<'_, '_>, verb: u32) {
        let complaint = if verb == u32::from(b'%') {
            printer.out.push(b'%');
            return;
        } else if !self.good_index {
            "(BADINDEX)"
        } else if self.next >= self.values.len() {
            "(MISSING)"
        } else {
            ""
        };
        if !complaint.is_empty() {
            printer.out.extend_from_slice(b"%!");
            push_rune(printer.out, verb);
            printer.out.extend_from_slice(complaint.as_bytes());
            return;
        }
        if verb == V || verb == u32::from(b'w') {
            printer.flags.sharp_v = std::mem::take(&mut printer.flags.sharp);
            printer.flags.plus_v = std::mem::take(&mut printer.flags.plus);
        }
        printer.argument(&self.values[self.next], verb);
        self.next += 1;
    }

    fn width(&mut self, printer: &mut Printer<'_, '_>) {
        if self.peek() == Some(b'*') {
            self.position += 1;
            match self.star() {
                Some(width) => {
                    if width < 0 {
                        printer.flags.minus = true;
                        printer.flags.zero = false;
                    }
                    printer.flags.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => printer.out.extend_from_slice(b"%!(BADWIDTH)"),
            }
            self.after_index = false;
        } else {
            printer.flags.width = self.number();
            if self.after_index && printer.flags.width.is_some() {
                self.good_index = false;
            }
        }
    }

    fn precision(&mut self, printer: &mut Printer<'_, '_>) {
        // A point as the very last byte is the verb itself.
        if self.position + 1 >= self.format.len() || self.peek() != Some(b'.') {
            return;
        }
        self.position += 1;
        if self.after_index {
            self.good_index = false;
        }
        self.after_index = self.argument_index();
        if self.peek() == Some(b'*') {
            self.position += 1;
            printer.flags.precision = self.star().and_then(|n| usize::try_from(n).ok());
            if printer.flags.precision.is_none() {
                printer.out.extend_from_slice(b"%!(BADPREC)");
            }
            self.after_index = false;
        } else {
            printer.flags.precision = Some(self.number().unwrap_or(0));
        }
    }

    /// The argument for a `*`.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = match value.as_int() {
            Some(n) => n,
            None => i64::try_from(value.as_uint()?).ok()?,
        };
        (-MAX_NUMBER..=MAX_NUMBER)
            .contains(&number)
            .then_some(number)
    }

    /// Digits at the position. A number that is far too large eats the rest of the format.
    fn number(&mut self) -> Option<usize> {
        let (number, end) = parse_number(self.format, self.position, self.format.len());
        self.position = end;
        number
    }

    /// `[n]`: picks the next argument. True when one was there.
    fn argument_index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.position..];
        let (index, width) = parse_index(rest);
        self.position += width;
        match index {
            Some(index) if index >= 1 && index <= self.values.len() => {
                self.next = index - 1;
                true
            }
            _ => {
                self.good_index = false;
                index.is_some()
            }
        }
    }

    fn extra(&self, printer: &mut Printer<'_, '_>) {
        printer.flags = Flags::default();
        printer.out.extend_from_slice(b"%!(EXTRA ");
        for (index, value) in self.values[self.next..].iter().enumerate() {
            if index > 0 {
                printer.out.extend_from_slice(b", ");
            }
            match value {
                Value::Nil => printer.out.extend_from_slice(b"<nil>"),
                _ => {
                    printer.out.extend_from_slice(value.type_name().as_bytes());
                    printer.out.push(b'=');
                    printer.argument(value, V);
                }
            }
        }
        printer.out.push(b')');
    }
}

fn parse_number(text: &[u8], start: usize, end: usize) -> (Option<usize>, usize) {
    if start >= end {
        return (None, end);
    }
    let mut number: Option<i64> = None;
    let mut position = start;
    while position < end && text[position].is_ascii_digit() {
        let so_far = number.unwrap_or(0);
        if so_far > MAX_NUMBER {
            return (None, end);
        }
        number = Some(so_far * 10 + i64::from(text[position] - b'0'));
        position += 1;
    }
    (number.and_then(|n| usize::try_from(n).ok()), position)
}

/// Reads `[n]`: the number, and how many bytes to skip.
fn parse_index(text: &[u8]) -> (Option<usize>, usize) {
    if text.len() < 3 {
        return (None, 1);
    }
    match text.iter().position(|c| *c == b']') {
        None | Some(0) => (None, 1),
        Some(close) => match parse_number(text, 1, close) {
            (Some(number), end) if end == close => (Some(number), close + 1),
            _ => (None, close + 1),
        },
    }
}
