//! One formatted item: flags, width, precision, padding.

use super::float::{FloatSize, format_float};
use super::quote::{
    MAX_RUNE, RUNE_ERROR, append_quoted, append_quoted_rune, can_backquote, decode_rune, is_print,
    push_rune,
};

const LOWER: &[u8; 17] = b"0123456789abcdefx";
const UPPER: &[u8; 17] = b"0123456789ABCDEFX";

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub width: Option<usize>,
    pub precision: Option<usize>,
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    /// `%+v`.
    pub plus_v: bool,
    /// `%#v`.
    pub sharp_v: bool,
}

/// Number of characters as Go counts them.
fn rune_count(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        Ok(text) => text.chars().count(),
        Err(_) => {
            let (mut rest, mut count) = (text, 0);
            while !rest.is_empty() {
                rest = &rest[decode_rune(rest).1..];
                count += 1;
            }
            count
        }
    }
}

/// Digits to use for hexadecimal.
#[derive(Clone, Copy)]
pub(super) enum Case {
    Lower,
    Upper,
}

impl Case {
    fn digits(self) -> &'static [u8; 17] {
        match self {
            Case::Lower => LOWER,
            Case::Upper => UPPER,
        }
    }
}

impl Flags {
    fn write_padding(&self, out: &mut Vec<u8>, count: usize, zero: bool) {
        let byte = if zero && !self.minus { b'0' } else { b' ' };
        out.resize(out.len() + count, byte);
    }

    fn pad_with(&self, out: &mut Vec<u8>, text: &[u8], zero: bool) {
        let padding = match self.width {
            None | Some(0) => 0,
            Some(width) => width.saturating_sub(rune_count(text)),
        };
        if self.minus {
            out.extend_from_slice(text);
            self.write_padding(out, padding, zero);
        } else {
            self.write_padding(out, padding, zero);
            out.extend_from_slice(text);
        }
    }

    /// Writes text padded to the width.
    pub fn pad(&self, out: &mut Vec<u8>, text: &[u8]) {
        self.pad_with(out, text, self.zero);
    }

    fn truncate<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.precision else {
            return text;
        };
        let mut end = 0;
        for _ in 0..precision {
            if end >= text.len() {
                return text;
            }
            end += decode_rune(&text[end..]).1;
        }
        &text[..end.min(text.len())]
    }

    pub fn string(&self, out: &mut Vec<u8>, text: &[u8]) {
        self.pad(out, self.truncate(text));
    }

    pub fn quoted(&self, out: &mut Vec<u8>, text: &[u8]) {
        let text = self.truncate(text);
        let mut buffer = Vec::with_capacity(text.len() + 2);
        if self.sharp && can_backquote(text) {
            buffer.push(b'`');
            buffer.extend_from_slice(text);
            buffer.push(b'`');
        } else {
            append_quoted(&mut buffer, text, b'"', self.plus);
        }
        self.pad(out, &buffer);
    }

    pub fn hex_bytes(&self, out: &mut Vec<u8>, bytes: &[u8], case: Case) {
        let digits = case.digits();
        let length = self.precision.map_or(bytes.len(), |p| p.min(bytes.len()));
        if length == 0 {
            self.write_padding(out, self.width.unwrap_or(0), self.zero);
            return;
        }
        let mut width = 2 * length;
        if self.space {
            if self.sharp {
                width *= 2;
            }
            width += length - 1;
        } else if self.sharp {
            width += 2;
        }
        let padding = self.width.unwrap_or(0).saturating_sub(width);
        if !self.minus {
            self.write_padding(out, padding, self.zero);
        }
        for (index, byte) in bytes[..length].iter().enumerate() {
            if self.space && index > 0 {
                out.push(b' ');
            }
            if self.sharp && (self.space || index == 0) {
                out.extend_from_slice(&[b'0', digits[16]]);
            }
            out.push(digits[usize::from(byte >> 4)]);
            out.push(digits[usize::from(byte & 15)]);
        }
        if self.minus {
            self.write_padding(out, padding, self.zero);
        }
    }

    pub fn boolean(&self, out: &mut Vec<u8>, value: bool) {
        self.pad(out, if value { b"true" } else { b"false" });
    }

    /// Integers in base 2, 8, 10 or 16; `value` holds the bits, `signed` says how to read them.
    pub fn integer(
        &self,
        out: &mut Vec<u8>,
        value: u64,
        base: u64,
        signed: bool,
        verb: u32,
        case: Case,
    ) {
        let digits = case.digits();
        let negative = signed && value.cast_signed() < 0;
        let mut rest = if negative {
            value.wrapping_neg()
        } else {
            value
        };
        let mut least = 0;
        if let Some(precision) = self.precision {
            least = precision;
            if precision == 0 && rest == 0 {
                self.write_padding(out, self.width.unwrap_or(0), false);
                return;
            }
        } else if let (true, false, Some(width)) = (self.zero, self.minus, self.width) {
            let sign = negative || self.plus || self.space;
            least = width.saturating_sub(usize::from(sign));
        }
        // Written backwards, turned around at the end.
        let mut text = Vec::with_capacity(24.max(least + 3));
        loop {
            text.push(digits[usize::try_from(rest % base).unwrap_or(0)]);
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        if text.len() < least {
            text.resize(least, b'0');
        }
        if self.sharp {
            match base {
                2 => text.extend_from_slice(b"b0"),
                8 if text.last() != Some(&b'0') => text.push(b'0'),
                16 => text.extend_from_slice(&[digits[16], b'0']),
                _ => {}
            }
        }
        if verb == u32::from(b'O') {
            text.extend_from_slice(b"o0");
        }
        if negative {
            text.push(b'-');
        } else if self.plus {
            text.push(b'+');
        } else if self.space {
            text.push(b' ');
        }
        text.reverse();
        self.pad_with(out, &text, false);
    }

    fn rune_of(value: u64) -> u32 {
        match u32::try_from(value) {
            Ok(rune) if rune <= MAX_RUNE => rune,
            _ => RUNE_ERROR,
        }
    }

    pub fn character(&self, out: &mut Vec<u8>, value: u64) {
        let mut text = Vec::with_capacity(4);
        push_rune(&mut text, Self::rune_of(value));
        self.pad(out, &text);
    }

    pub fn quoted_character(&self, out: &mut Vec<u8>, value: u64) {
        let mut text = Vec::with_capacity(12);
        append_quoted_rune(&mut text, Self::rune_of(value), self.plus);
        self.pad(out, &text);
    }

    pub fn unicode(&self, out: &mut Vec<u8>, value: u64) {
        let least = self.precision.map_or(4, |p| p.max(4));
        let mut text = format!("U+{value:0least$X}").into_bytes();
        if self.sharp
            && let Ok(rune) = u32::try_from(value)
            && rune <= MAX_RUNE
            && is_print(rune)
        {
            text.extend_from_slice(b" '");
            push_rune(&mut text, rune);
            text.push(b'\'');
        }
        self.pad_with(out, &text, false);
    }

    pub fn float(
        &self,
        out: &mut Vec<u8>,
        value: f64,
        size: FloatSize,
        verb: u8,
        default_precision: Option<usize>,
    ) {
        let precision = self.precision.or(default_precision);
        let mut text = format_float(value, verb, precision, size).into_bytes();
        if !matches!(text.first(), Some(b'-' | b'+')) {
            text.insert(0, b'+');
        }
        if self.space && text[0] == b'+' && !self.plus {
            text[0] = b' ';
        }
        if matches!(text.get(1), Some(b'I' | b'N')) {
            if text[1] == b'N' && !self.space && !self.plus {
                text.remove(0);
            }
            self.pad_with(out, &text, false);
            return;
        }
        if self.sharp && verb != b'b' {
            restore_zeros(&mut text, verb, precision);
        }
        if !self.plus && text[0] == b'+' {
            self.pad(out, &text[1..]);
            return;
        }
        match self.width {
            Some(width) if self.zero && !self.minus && width > text.len() => {
                out.push(text[0]);
                self.write_padding(out, width - text.len(), true);
                out.extend_from_slice(&text[1..]);
            }
            _ => self.pad(out, &text),
        }
    }
}

/// `%#g` and friends: a decimal point always, and the zeros that `g` drops.
fn restore_zeros(text: &mut Vec<u8>, verb: u8, precision: Option<usize>) {
    let mut wanted: i64 = match verb {
        b'g' | b'G' | b'x' => precision.map_or(6, |p| i64::try_from(p).unwrap_or(i64::MAX)),
        _ => 0,
    };
    let hexadecimal = matches!(verb, b'x' | b'X');
    let split = text
        .iter()
        .position(|c| matches!(c, b'p' | b'P') || (!hexadecimal && matches!(c, b'e' | b'E')));
    let tail = split.map(|at| text.split_off(at)).unwrap_or_default();
    let (mut point, mut significant) = (false, false);
    for c in &text[1..] {
        if *c == b'.' {
            point = true;
            continue;
        }
        significant |= *c != b'0';
        if significant {
            wanted -= 1;
        }
    }
    if !point {
        if text.len() == 2 && text[1] == b'0' {
            wanted -= 1;
        }
        text.push(b'.');
    }
    text.resize(text.len() + usize::try_from(wanted).unwrap_or(0), b'0');
    text.extend_from_slice(&tail);
}
