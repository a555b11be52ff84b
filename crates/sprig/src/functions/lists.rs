use everflow_gotemplate::GoType::{Any, Bool, Int};
use everflow_gotemplate::{
    CONTAINER_BYTES, FuncError, FuncResult, GoType, ITEM_BYTES, List, Meter, Value,
};

use super::Registry;
use crate::number::to_int64;
use crate::support::{MAX_ITEMS, deep_equal, fail, nil_dereference};

const LIST: GoType = GoType::ANY_SLICE;
const CHUNKS: GoType = GoType::Slice(&GoType::ANY_SLICE);

/// The list, or Go's complaint that it is none; `wording` ends with what was tried.
fn list<'a>(value: &'a Value, wording: &str) -> Result<&'a List, FuncError> {
    match value {
        Value::List(list) => Ok(list),
        Value::Nil => Err(nil_dereference()),
        other => fail(format!("{wording} type {}", other.kind())),
    }
}

fn nil_list() -> FuncResult {
    Ok(Value::List(List::nil(LIST)))
}

fn contains(items: &[Value], wanted: &Value, meter: &Meter<'_>) -> Result<bool, FuncError> {
    for item in items {
        if deep_equal(wanted, item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Registers a function and its `must` twin; templates cannot tell them apart, since panics are
/// errors there.
macro_rules! both {
    ($r:ident, $plain:literal, $must:literal, $params:expr, $result:expr, $code:expr) => {
        for name in [$plain, $must] {
            $r.add(name, $params, $result, $code);
        }
    };
}

pub(super) fn register(r: &mut Registry<'_>) {
    for name in ["list", "tuple"] {
        r.variadic(name, &[Any], LIST, |a| Ok(Value::list(a.all().to_vec())));
    }
    register_growing(r);
    register_parts(r);
    register_choosing(r);
}

fn register_growing(r: &mut Registry<'_>) {
    for name in ["append", "push", "mustAppend", "mustPush"] {
        r.add(name, &[Any, Any], LIST, |a| {
            let mut items = list(a.get(0), "Cannot push on")?.items().to_vec();
            items.push(a.get(1).clone());
            Ok(Value::list(items))
        });
    }
    both!(r, "prepend", "mustPrepend", &[Any, Any], LIST, |a| {
        let tail = list(a.get(0), "Cannot prepend on")?;
        let mut items = vec![a.get(1).clone()];
        items.extend_from_slice(tail.items());
        Ok(Value::list(items))
    });
    r.variadic("concat", &[Any], Any, |a| {
        let mut items = Vec::new();
        for value in a.all() {
            match value {
                Value::List(list) => items.extend_from_slice(list.items()),
                Value::Nil => return Err(nil_dereference()),
                other => return fail(format!("Cannot concat type {} as list", other.kind())),
            }
        }
        if items.is_empty() {
            nil_list()
        } else {
            Ok(Value::list(items))
        }
    });
}

fn register_parts(r: &mut Registry<'_>) {
    both!(r, "first", "mustFirst", &[Any], Any, |a| {
        let list = list(a.get(0), "Cannot find first on")?;
        Ok(list.items().first().cloned().unwrap_or_default())
    });
    both!(r, "last", "mustLast", &[Any], Any, |a| {
        let list = list(a.get(0), "Cannot find last on")?;
        Ok(list.items().last().cloned().unwrap_or_default())
    });
    both!(r, "rest", "mustRest", &[Any], LIST, |a| {
        match list(a.get(0), "Cannot find rest on")?.items() {
            [] => nil_list(),
            [_, rest @ ..] => Ok(Value::list(rest.to_vec())),
        }
    });
    both!(r, "initial", "mustInitial", &[Any], LIST, |a| {
        match list(a.get(0), "Cannot find initial on")?.items() {
            [] => nil_list(),
            [initial @ .., _] => Ok(Value::list(initial.to_vec())),
        }
    });
    for name in ["chunk", "mustChunk"] {
        r.metered(name, &[Int, Any], CHUNKS, |m, a| {
            chunk(list(a.get(1), "Cannot chunk")?, a.int(0)?, m)
        });
    }
    for name in ["slice", "mustSlice"] {
        r.variadic(name, &[Any, Any], Any, |a| {
            let items = list(a.get(0), "list should be type of slice or array but");
            let items = items.map_err(without_word_type)?;
            if items.is_empty() {
                return Ok(Value::Nil);
            }
            let start = if a.len() > 1 { to_int64(a.get(1)) } else { 0 };
            let end = if a.len() > 2 {
                to_int64(a.get(2))
            } else {
                items.len() as i64
            };
            let bounds = (usize::try_from(start), usize::try_from(end));
            let part = match bounds {
                (Ok(start), Ok(end)) => items.slice(start, end),
                _ => None,
            };
            match part {
                Some(part) => Ok(Value::List(part)),
                None => fail("reflect.Value.Slice: slice index out of bounds"),
            }
        });
    }
}

/// This one complaint names the kind without saying that it is one.
fn without_word_type(error: FuncError) -> FuncError {
    FuncError::new(error.to_string().replace("array but type ", "array but "))
}

/// Pieces of a size; the arithmetic for odd sizes is that of floating point numbers.
fn chunk(list: &List, size: i64, meter: &Meter<'_>) -> FuncResult {
    let len = list.len() as f64;
    let count = crate::number::float_to_int(((len - 1.0) / size as f64).floor() + 1.0);
    if !(0..=MAX_ITEMS).contains(&count) {
        return fail("runtime error: makeslice: len out of range");
    }
    let chunks_bytes = count as usize * (ITEM_BYTES + CONTAINER_BYTES);
    meter.charge(chunks_bytes + list.len() * ITEM_BYTES)?;
    let mut chunks = Vec::with_capacity(count as usize);
    for index in 0..count {
        let mut len_here = size;
        if index == count - 1 {
            len_here = (list.len() as f64 % size as f64).floor() as i64;
            if len_here == 0 {
                len_here = size;
            }
        }
        let Ok(len_here) = usize::try_from(len_here) else {
            return fail("runtime error: makeslice: len out of range");
        };
        let start = usize::try_from(index * size).unwrap_or(usize::MAX);
        let items = list.items().get(start..start.saturating_add(len_here));
        match items {
            Some(items) => chunks.push(Value::list(items.to_vec())),
            None => return fail("reflect: slice index out of range"),
        }
    }
    Ok(Value::List(List::typed(CHUNKS, chunks)))
}

fn register_choosing(r: &mut Registry<'_>) {
    both!(r, "reverse", "mustReverse", &[Any], LIST, |a| {
        let list = list(a.get(0), "Cannot find reverse on")?;
        Ok(Value::list(list.items().iter().rev().cloned().collect()))
    });
    both!(r, "compact", "mustCompact", &[Any], LIST, |a| {
        let list = list(a.get(0), "Cannot compact on")?;
        Ok(Value::list(
            list.items()
                .iter()
                .filter(|item| item.is_true())
                .cloned()
                .collect(),
        ))
    });
    for name in ["uniq", "mustUniq"] {
        r.metered(name, &[Any], LIST, |m, a| {
            let mut kept: Vec<Value> = Vec::new();
            for item in list(a.get(0), "Cannot find uniq on")?.items() {
                if !contains(&kept, item, m)? {
                    kept.push(item.clone());
                }
            }
            Ok(Value::list(kept))
        });
    }
    for name in ["without", "mustWithout"] {
        r.metered_variadic(name, &[Any, Any], LIST, |m, a| {
            let mut kept: Vec<Value> = Vec::new();
            for item in list(a.get(0), "Cannot find without on")?.items() {
                if !contains(a.rest(1), item, m)? {
                    kept.push(item.clone());
                }
            }
            Ok(Value::list(kept))
        });
    }
    for name in ["has", "mustHas"] {
        r.metered(name, &[Any, Any], Bool, |m, a| {
            if matches!(a.get(1), Value::Nil) {
                return Ok(Value::Bool(false));
            }
            let list = list(a.get(1), "Cannot find has on")?;
            Ok(Value::Bool(contains(list.items(), a.get(0), m)?))
        });
    }
}
