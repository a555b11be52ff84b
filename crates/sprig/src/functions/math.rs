use everflow_gotemplate::GoType::{Any, Float64, Int, Int64, String as Str};
use everflow_gotemplate::{
    Args, FuncError, FuncResult, GoType, ITEM_BYTES, List, Meter, Value, gofmt,
};

use super::Registry;
use crate::decimal::Decimal;
use crate::number::{parse_int, to_float64, to_int64};
use crate::source::Random;
use crate::support::{MAX_ITEMS, Output, display, fail};

pub(super) fn register(r: &mut Registry<'_>) {
    register_conversions(r);
    register_whole(r);
    register_floats(r);
    register_sequences(r);
}

fn register_conversions(r: &mut Registry<'_>) {
    r.add("atoi", &[Str], Int, |a| {
        Ok(Value::Int(lenient_int(a.text(0)?.as_bytes())))
    });
    r.add("int", &[Any], Int, |a| Ok(Value::Int(to_int64(a.get(0)))));
    r.add("int64", &[Any], Int64, |a| {
        Ok(Value::Int64(to_int64(a.get(0))))
    });
    r.add("float64", &[Any], Float64, |a| {
        Ok(Value::Float64(to_float64(a.get(0))))
    });
    r.metered("toDecimal", &[Any], Int64, |m, a| {
        let text = display(a.get(0), m)?;
        Ok(Value::Int64(
            parse_int(text.as_bytes(), 8).unwrap_or_default(),
        ))
    });
}

/// A decimal number; zero for what is none, the nearest one for what does not fit.
pub(super) fn lenient_int(text: &[u8]) -> i64 {
    if let Some(number) = parse_int(text, 10) {
        return number;
    }
    let digits = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    if text.starts_with(b"-") {
        i64::MIN
    } else {
        i64::MAX
    }
}

fn register_whole(r: &mut Registry<'_>) {
    r.add("add1", &[Any], Int64, |a| {
        Ok(Value::Int64(to_int64(a.get(0)).wrapping_add(1)))
    });
    r.variadic("add", &[Any], Int64, |a| {
        Ok(Value::Int64(
            a.all()
                .iter()
                .fold(0, |sum: i64, one| sum.wrapping_add(to_int64(one))),
        ))
    });
    r.add("sub", &[Any, Any], Int64, |a| {
        Ok(Value::Int64(
            to_int64(a.get(0)).wrapping_sub(to_int64(a.get(1))),
        ))
    });
    r.add("div", &[Any, Any], Int64, |a| divide(&a, i64::wrapping_div));
    r.add("mod", &[Any, Any], Int64, |a| divide(&a, i64::wrapping_rem));
    r.variadic("mul", &[Any, Any], Int64, |a| {
        Ok(Value::Int64(
            a.all()
                .iter()
                .fold(1, |out: i64, one| out.wrapping_mul(to_int64(one))),
        ))
    });
    for name in ["max", "biggest"] {
        r.variadic(name, &[Any, Any], Int64, |a| {
            Ok(Value::Int64(
                a.all().iter().map(to_int64).max().unwrap_or_default(),
            ))
        });
    }
    r.variadic("min", &[Any, Any], Int64, |a| {
        Ok(Value::Int64(
            a.all().iter().map(to_int64).min().unwrap_or_default(),
        ))
    });
    r.with_source("randInt", &[Int, Int], Int, |s, a| {
        let (min, max) = (a.int(0)?, a.int(1)?);
        match u64::try_from(max.wrapping_sub(min)) {
            Ok(span) if span > 0 => {
                Ok(Value::Int((Random(s).below(span) as i64).wrapping_add(min)))
            }
            _ => fail("invalid argument to Intn"),
        }
    });
}

fn divide(args: &Args<'_>, operation: fn(i64, i64) -> i64) -> FuncResult {
    match to_int64(args.get(1)) {
        0 => fail("runtime error: integer divide by zero"),
        divisor => Ok(Value::Int64(operation(to_int64(args.get(0)), divisor))),
    }
}

fn register_floats(r: &mut Registry<'_>) {
    r.add("add1f", &[Any], Float64, |a| {
        decimals(&[a.get(0).clone(), Value::Int(1)], |l, r| Ok(l.add(r)))
    });
    r.variadic("addf", &[Any], Float64, |a| {
        let mut all = vec![Value::Float64(0.0)];
        all.extend_from_slice(a.all());
        decimals(&all, |l, r| Ok(l.add(r)))
    });
    r.variadic("subf", &[Any, Any], Float64, |a| {
        decimals(a.all(), |l, r| Ok(l.sub(r)))
    });
    r.variadic("mulf", &[Any, Any], Float64, |a| {
        decimals(a.all(), |l, r| Ok(l.mul(r)))
    });
    r.variadic("divf", &[Any, Any], Float64, |a| {
        decimals(a.all(), |l, r| {
            l.div(r)
                .ok_or_else(|| FuncError::new("decimal division by 0"))
        })
    });
    r.variadic("maxf", &[Any, Any], Float64, |a| {
        Ok(Value::Float64(extreme(a.all(), |l, r| {
            l > r || l == r && r.is_sign_negative()
        })))
    });
    r.variadic("minf", &[Any, Any], Float64, |a| {
        Ok(Value::Float64(extreme(a.all(), |l, r| {
            l < r || l == r && l.is_sign_negative()
        })))
    });
    r.add("floor", &[Any], Float64, |a| {
        Ok(Value::Float64(to_float64(a.get(0)).floor()))
    });
    r.add("ceil", &[Any], Float64, |a| {
        Ok(Value::Float64(to_float64(a.get(0)).ceil()))
    });
    r.variadic("round", &[Any, Int, Float64], Float64, |a| {
        let round_on = if a.len() > 2 { a.float(2)? } else { 0.5 };
        let places = i32::try_from(a.int(1)?.clamp(-400, 400)).unwrap_or_default();
        Ok(Value::Float64(round(
            to_float64(a.get(0)),
            places,
            round_on,
        )))
    });
}

/// Rounds up from `round_on` on, else down: also for negative numbers, whose fraction is negative.
fn round(number: f64, places: i32, round_on: f64) -> f64 {
    let power = 10f64.powi(places);
    let shifted = power * number;
    let fraction = shifted - shifted.trunc();
    let rounded = if fraction >= round_on {
        shifted.ceil()
    } else {
        shifted.floor()
    };
    rounded / power
}

/// The number that wins all comparisons. What is not a number wins.
fn extreme(values: &[Value], wins: fn(f64, f64) -> bool) -> f64 {
    let mut numbers = values.iter().map(to_float64);
    let first = numbers.next().unwrap_or_default();
    numbers.fold(first, |best, next| {
        if best.is_nan() || next.is_nan() {
            return f64::NAN;
        }
        if wins(best, next) { best } else { next }
    })
}

fn decimals(
    values: &[Value],
    operation: impl Fn(&Decimal, &Decimal) -> Result<Decimal, FuncError>,
) -> FuncResult {
    let decimal = |value: &Value| {
        let number = to_float64(value);
        Decimal::from_f64(number).ok_or_else(|| {
            let shown = gofmt::format_float(number, b'g', None, gofmt::FloatSize::F64);
            FuncError::new(format!("Cannot create a Decimal from {shown}"))
        })
    };
    let mut values = values.iter();
    let mut result = decimal(values.next().unwrap_or(&Value::Nil))?;
    for value in values {
        result = operation(&result, &decimal(value)?)?;
    }
    Ok(Value::Float64(result.to_f64()))
}

fn register_sequences(r: &mut Registry<'_>) {
    r.metered("until", &[Int], GoType::INT_SLICE, |m, a| {
        let count = a.int(0)?;
        ints(until_step(0, count, if count < 0 { -1 } else { 1 })?, m)
    });
    r.metered("untilStep", &[Int, Int, Int], GoType::INT_SLICE, |m, a| {
        ints(until_step(a.int(0)?, a.int(1)?, a.int(2)?)?, m)
    });
    r.metered_variadic("seq", &[Int], Str, |m, a| {
        let numbers: Vec<i64> = (0..a.len()).map(|i| a.int(i)).collect::<Result<_, _>>()?;
        let mut out = Output::new(0, m)?;
        for (index, number) in sequence(&numbers)?.enumerate() {
            if index > 0 {
                out.push(b" ")?;
            }
            out.push(number.to_string().as_bytes())?;
        }
        Ok(Value::string(out.into_bytes()))
    });
}

fn ints(numbers: Counting, meter: &Meter<'_>) -> FuncResult {
    meter.charge(numbers.len() * ITEM_BYTES)?;
    let items = numbers.map(Value::Int).collect();
    Ok(Value::List(List::typed(GoType::INT_SLICE, items)))
}

/// Whole numbers with the same distance between them.
struct Counting {
    start: i64,
    step: i64,
    indices: std::ops::Range<i64>,
}

impl Counting {
    const NOTHING: Counting = Counting {
        start: 0,
        step: 0,
        indices: 0..0,
    };

    fn len(&self) -> usize {
        usize::try_from(self.indices.end).unwrap_or_default()
    }
}

impl Iterator for Counting {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let index = self.indices.next()?;
        Some(self.start + index * self.step)
    }
}

fn until_step(start: i64, stop: i64, step: i64) -> Result<Counting, FuncError> {
    let rising = stop >= start;
    if step == 0 || (step > 0) != rising {
        return Ok(Counting::NOTHING);
    }
    let span = i128::from(stop) - i128::from(start);
    let count = (span.unsigned_abs()).div_ceil(i128::from(step).unsigned_abs());
    if count > MAX_ITEMS as u128 {
        return fail(format!("a sequence of {count} numbers is too long"));
    }
    Ok(Counting {
        start,
        step,
        indices: 0..count as i64,
    })
}

/// What the `seq` command counts: to the last, from first to last, or in steps.
fn sequence(numbers: &[i64]) -> Result<Counting, FuncError> {
    match *numbers {
        [end] => {
            let step = if end < 1 { -1 } else { 1 };
            until_step(1, end.wrapping_add(step), step)
        }
        [start, end] => {
            let step = if end < start { -1 } else { 1 };
            until_step(start, end.wrapping_add(step), step)
        }
        [start, step, end] => {
            let increment = if end < start { -1 } else { 1 };
            if end < start && step > 0 {
                return Ok(Counting::NOTHING);
            }
            until_step(start, end.wrapping_add(increment), step)
        }
        _ => Ok(Counting::NOTHING),
    }
}
