//! Floats as text (`strconv.FormatFloat`).

/// More significant digits than any float has; what is asked beyond is zeros.
const ENOUGH_DIGITS: usize = 1100;

/// Which float type the number came from: it decides what "shortest" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatSize {
    /// `float32`.
    F32,
    /// `float64`.
    F64,
}

/// Formats a float. `format` is one of `e E f g G b x X`; no precision means the shortest text
/// that reads back as the same number.
pub fn format_float(value: f64, format: u8, precision: Option<usize>, size: FloatSize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match format {
        b'b' => binary(value, size),
        b'x' | b'X' => hexadecimal(value, format, precision, size),
        _ => decimal(value, format, precision, size),
    }
}

/// Decimal digits without trailing zeros, and the position of the point before them.
struct Digits {
    digits: Vec<u8>,
    point: i32,
}

impl Digits {
    /// Reads Rust's `d.ddde±x` form.
    fn from_scientific(text: &str) -> Digits {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let point = match digits.is_empty() {
            true => 0,
            false => exponent.parse::<i32>().unwrap_or(0) + 1,
        };
        Digits { digits, point }
    }

    fn shortest(value: f64, size: FloatSize) -> Digits {
        #[allow(clippy::cast_possible_truncation)]
        let text = match size {
            FloatSize::F32 => format!("{:e}", value as f32),
            FloatSize::F64 => format!("{value:e}"),
        };
        Digits::from_scientific(&text)
    }

    fn significant(value: f64, count: usize) -> Digits {
        let count = count.clamp(1, ENOUGH_DIGITS);
        Digits::from_scientific(&format!("{:.*e}", count - 1, value))
    }

    fn count(&self) -> i32 {
        i32::try_from(self.digits.len()).unwrap_or(i32::MAX)
    }

    fn at(&self, index: i32) -> u8 {
        let index = usize::try_from(index).ok();
        index
            .and_then(|i| self.digits.get(i))
            .copied()
            .unwrap_or(b'0')
    }
}

fn decimal(value: f64, format: u8, precision: Option<usize>, size: FloatSize) -> String {
    let negative = value.is_sign_negative();
    let magnitude = value.abs();
    let mut out = Vec::with_capacity(24);
    if negative {
        out.push(b'-');
    }
    match (format, precision) {
        (b'f', Some(precision)) => {
            let shown = precision.min(ENOUGH_DIGITS);
            out.extend_from_slice(format!("{magnitude:.shown$}").as_bytes());
            out.resize(out.len() + precision - shown, b'0');
        }
        (b'f', None) => {
            let digits = Digits::shortest(magnitude, size);
            let fraction = (digits.count() - digits.point).max(0);
            push_fixed(&mut out, &digits, fraction);
        }
        (b'e' | b'E', Some(precision)) => {
            let digits = Digits::significant(magnitude, precision + 1);
            push_exponent(&mut out, &digits, to_i32(precision), format);
        }
        (b'e' | b'E', None) => {
            let digits = Digits::shortest(magnitude, size);
            push_exponent(&mut out, &digits, digits.count() - 1, format);
        }
        _ => push_general(&mut out, magnitude, format, precision, size),
    }
    String::from_utf8(out).unwrap_or_default()
}

fn to_i32(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// `g`: exponent form for very small and large numbers, otherwise plain.
fn push_general(
    out: &mut Vec<u8>,
    magnitude: f64,
    format: u8,
    precision: Option<usize>,
    size: FloatSize,
) {
    let (digits, mut precision, shortest) = match precision {
        None => {
            let digits = Digits::shortest(magnitude, size);
            let count = digits.count();
            (digits, count, true)
        }
        Some(precision) => {
            let precision = precision.max(1);
            let digits = Digits::significant(magnitude, precision);
            (digits, to_i32(precision), false)
        }
    };
    let mut threshold = precision;
    if threshold > digits.count() && digits.count() >= digits.point {
        threshold = digits.count();
    }
    if shortest {
        threshold = 6;
    }
    let exponent = digits.point - 1;
    if exponent < -4 || exponent >= threshold {
        precision = precision.min(digits.count());
        push_exponent(out, &digits, precision - 1, format - 2);
        return;
    }
    if precision > digits.point {
        precision = digits.count();
    }
    push_fixed(out, &digits, (precision - digits.point).max(0));
}

fn push_exponent(out: &mut Vec<u8>, digits: &Digits, precision: i32, letter: u8) {
    out.push(digits.at(0));
    if precision > 0 {
        out.push(b'.');
        out.extend((1..=precision).map(|index| digits.at(index)));
    }
    out.push(letter);
    let exponent = match digits.digits.is_empty() {
        true => 0,
        false => digits.point - 1,
    };
    out.push(if exponent < 0 { b'-' } else { b'+' });
    out.extend_from_slice(format!("{:02}", exponent.abs()).as_bytes());
}

fn push_fixed(out: &mut Vec<u8>, digits: &Digits, fraction: i32) {
    if digits.point > 0 {
        out.extend((0..digits.point).map(|index| digits.at(index)));
    } else {
        out.push(b'0');
    }
    if fraction > 0 {
        out.push(b'.');
        out.extend((0..fraction).map(|index| digits.at(digits.point + index)));
    }
}

/// Sign, mantissa and binary exponent, with the width of the mantissa.
fn parts(value: f64, size: FloatSize) -> (bool, u64, i32, i32) {
    #[allow(clippy::cast_possible_truncation)]
    let (bits, mantissa_bits, exponent_bits, bias) = match size {
        FloatSize::F32 => (u64::from((value as f32).to_bits()), 23, 8, -127),
        FloatSize::F64 => (value.to_bits(), 52, 11, -1023),
    };
    let negative = bits >> (mantissa_bits + exponent_bits) != 0;
    let exponent = i32::try_from((bits >> mantissa_bits) & ((1 << exponent_bits) - 1)).unwrap_or(0);
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    match exponent {
        0 => (negative, mantissa, 1 + bias, mantissa_bits),
        _ => (
            negative,
            mantissa | (1 << mantissa_bits),
            exponent + bias,
            mantissa_bits,
        ),
    }
}

fn binary(value: f64, size: FloatSize) -> String {
    let (negative, mantissa, exponent, bits) = parts(value, size);
    let sign = if negative { "-" } else { "" };
    format!("{sign}{mantissa}p{:+}", exponent - bits)
}

fn hexadecimal(value: f64, format: u8, precision: Option<usize>, size: FloatSize) -> String {
    let (negative, mut mantissa, mut exponent, bits) = parts(value, size);
    if mantissa == 0 {
        exponent = 0;
    }
    mantissa <<= 60 - bits;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision) = precision
        && precision < 15
    {
        let shift = precision * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let upper = format == b'X';
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    out.push('0');
    out.push(char::from(format));
    out.push(if mantissa >> 60 & 1 == 1 { '1' } else { '0' });
    mantissa <<= 4;
    let digits = match precision {
        None => (16 - mantissa.trailing_zeros() as usize / 4).min(16),
        Some(precision) => precision,
    };
    if digits > 0 && (precision.is_some() || mantissa != 0) {
        out.push('.');
        for _ in 0..digits {
            let digit = u32::try_from(mantissa >> 60).unwrap_or(0);
            let c = char::from_digit(digit, 16).unwrap_or('0');
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            mantissa <<= 4;
        }
    }
    let letter = if upper { 'P' } else { 'p' };
    let sign = if exponent < 0 { '-' } else { '+' };
    out.push_str(&format!("{letter}{sign}{:02}", exponent.abs()));
    out
}
