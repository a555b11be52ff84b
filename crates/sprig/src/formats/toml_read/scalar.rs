//! Values that are neither arrays nor tables.

use everflow_gotemplate::{Value, gofmt};

use super::scan::{Scanner, quoted};
use super::{Fault, Read};
use crate::number::{parse_float, parse_int};
use crate::objects::time_value;
use crate::text::runes::is_letter;
use crate::time::{Time, Zone};

impl Scanner<'_> {
    pub(super) fn scalar(&mut self) -> Read<Value> {
        match self.peek()? {
            Some(quote @ ('"' | '\'')) => self.string(quote),
            Some('0'..='9') => self.number_or_date(),
            Some('+' | '-') => self.signed_number(),
            Some('.') => {
                self.next()?;
                self.fail("floats must start with a digit, not '.'".to_owned())
            }
            Some(c) if is_letter(c) => self.word(),
            None => self.fail("unexpected EOF; expected value".to_owned()),
            Some(c) => {
                self.next()?;
                let message = format!("expected value but found {} instead", quoted(c));
                Err(Fault {
                    line: self.line - usize::from(c == '\n'),
                    message,
                })
            }
        }
    }

    fn string(&mut self, quote: char) -> Read<Value> {
        let triple = [quote as u8; 3];
        if self.text[self.at..].starts_with(&triple) {
            self.at += 3;
            return self.long_string(quote).map(Value::string);
        }
        self.next()?;
        let text = if quote == '"' {
            self.basic_string()
        } else {
            self.literal_string()
        };
        text.map(Value::string)
    }

    fn word(&mut self) -> Read<Value> {
        for (word, float) in [("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += 3;
                return Ok(Value::Float64(float));
            }
        }
        // The original looks for `inf` and `nan` first and goes back by one character only.
        let rest = &self.text[self.at..];
        if let [b'i' | b'n', b'n', ..] | [b'i' | b'n', b'a', ..] = rest {
            self.at += 1;
        }
        let mut word = String::new();
        while let Some(c) = self.peek()?.filter(|&c| is_letter(c)) {
            word.push(c);
            self.next()?;
        }
        match word.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => {
                let shown = gofmt::quote(word.as_bytes());
                self.fail(format!("expected value but found {shown} instead"))
            }
        }
    }

    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|&&byte| belongs(byte)).count();
        self.at += len;
        String::from_utf8_lossy(&rest[..len]).into_owned()
    }

    fn signed_number(&mut self) -> Read<Value> {
        let sign = self.take(|b| matches!(b, b'+' | b'-'));
        if sign.len() > 1 {
            return self.fail(format!("expected a digit but got '{}'", &sign[1..2]));
        }
        for (word, float) in [("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += 3;
                return Ok(Value::Float64(if sign == "-" { -float } else { float }));
            }
        }
        match self.peek()? {
            Some('0'..='9') => {}
            Some('.') => return self.fail("floats must start with a digit, not '.'".to_owned()),
            other => {
                let shown = super::scan::quoted_or_end(other);
                return self.fail(format!("expected a digit but got {shown}"));
            }
        }
        if let [b'0', base @ (b'b' | b'o' | b'x'), ..] = &self.text[self.at..] {
            let base = char::from(*base);
            return self.fail(format!(
                "cannot use sign with non-decimal numbers: '{sign}0{base}'"
            ));
        }
        let digits = self.take(|b| b.is_ascii_digit() || b == b'_');
        self.decimal(format!("{sign}{digits}"))
    }

    fn number_or_date(&mut self) -> Read<Value> {
        if let [b'0', base @ (b'b' | b'o' | b'x'), ..] = &self.text[self.at..] {
            let base = *base;
            self.at += 2;
            let (kind, radix) = match base {
                b'b' => ("a binary", 2),
                b'o' => ("an octal", 8),
                _ => ("a hexadecimal", 16),
            };
            let first = self.peek()?;
            if !first.is_some_and(|c| c.is_digit(radix)) {
                let (base, shown) = (char::from(base), first.unwrap_or('\0'));
                return self.fail(format!("not {kind} number: '0{base}{shown}'"));
            }
            let digits = self.take(|b| char::from(b).is_digit(radix) || b == b'_');
            return self.integer(format!("0{}{digits}", char::from(base)));
        }
        let digits = self.take(|b| b.is_ascii_digit());
        if matches!(self.peek()?, Some('-' | ':')) {
            let rest = self.take(|b| b.is_ascii_digit() || b"-:Tt .Zz+".contains(&b));
            return self.date(format!("{digits}{rest}").trim());
        }
        let more = self.take(|b| b.is_ascii_digit() || b == b'_');
        self.decimal(format!("{digits}{more}"))
    }

    fn decimal(&mut self, whole: String) -> Read<Value> {
        if matches!(self.peek()?, Some('.' | 'e' | 'E')) {
            let rest = self.take(|b| b.is_ascii_digit() || b"_.-+eE".contains(&b));
            return self.float(&format!("{whole}{rest}"));
        }
        self.integer(whole)
    }

    fn integer(&mut self, text: String) -> Read<Value> {
        let shown = gofmt::quote(text.as_bytes());
        if !underscores_fit(&text) {
            return self.fail(format!(
                "Invalid integer {shown}: underscores must be surrounded by digits"
            ));
        }
        if leading_zero(&text) {
            return self.fail(format!(
                "Invalid integer {shown}: cannot have leading zeroes"
            ));
        }
        match parse_int(text.as_bytes(), 0) {
            Some(number) => Ok(Value::Int64(number)),
            None => self.fail(format!("{text} is out of range for int64")),
        }
    }

    fn float(&mut self, text: &str) -> Read<Value> {
        let shown = gofmt::quote(text.as_bytes());
        let mut parts = text.split(['.', 'e', 'E']).filter(|part| !part.is_empty());
        if !parts.clone().all(underscores_fit) {
            return self.fail(format!(
                "Invalid float {shown}: underscores must be surrounded by digits"
            ));
        }
        if parts.next().is_some_and(leading_zero) {
            return self.fail(format!("Invalid float {shown}: cannot have leading zeroes"));
        }
        let mut after_period = text.split('.').skip(1);
        if !after_period.all(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
            return self.fail(format!(
                "Invalid float {shown}: '.' must be followed by one or more digits"
            ));
        }
        match parse_float(text.replace('_', "").as_bytes()) {
            Some(number) => Ok(Value::Float64(number)),
            None => self.fail(format!("Invalid float value: {shown}")),
        }
    }

    fn date(&mut self, text: &str) -> Read<Value> {
        let text = text.replace('z', "Z").replace(['t', ' '], "T");
        const LAYOUTS: [(&[u8], &str); 7] = [
            (b"2006-01-02T15:04:05.999999999Z07:00", ""),
            (b"2006-01-02T15:04:05.999999999", "datetime-local"),
            (b"2006-01-02", "date-local"),
            (b"15:04:05.999999999", "time-local"),
            (b"2006-01-02T15:04Z07:00", ""),
            (b"2006-01-02T15:04", "datetime-local"),
            (b"15:04", "time-local"),
        ];
        for (layout, zone) in LAYOUTS {
            if let Ok(mut time) = Time::parse(layout, text.as_bytes()) {
                if lacks_zero(text.as_bytes(), layout) {
                    break;
                }
                if !zone.is_empty() {
                    time.zone = Zone::fixed(zone, 0);
                }
                return Ok(time_value(time));
            }
        }
        self.fail(format!(
            "invalid datetime: {}",
            gofmt::quote(text.as_bytes())
        ))
    }
}

/// Whether a part is shorter than the layout has it, which reading times allows.
fn lacks_zero(text: &[u8], layout: &[u8]) -> bool {
    layout
        .iter()
        .take_while(|&&b| b != b'.' && b != b'Z')
        .enumerate()
        .any(|(index, b)| !b.is_ascii_digit() && text.get(index) != Some(b))
}

fn underscores_fit(text: &str) -> bool {
    let mut digit_before = false;
    for c in text.chars() {
        if c == '_' && !digit_before {
            return false;
        }
        digit_before = c.is_ascii_hexdigit();
    }
    digit_before
}

fn leading_zero(text: &str) -> bool {
    match text.as_bytes() {
        [b'0', base, ..] => !matches!(base, b'b' | b'o' | b'x'),
        [b'+' | b'-', b'0', _, ..] => true,
        _ => false,
    }
}
