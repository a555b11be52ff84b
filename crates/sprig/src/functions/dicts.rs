use everflow_gotemplate::GoType::{Any, Bool, String as Str};
use everflow_gotemplate::{
    Args, FuncError, FuncResult, GoStr, GoType, ITEM_BYTES, Map, Meter, Value, entry_bytes,
    map_bytes,
};

use super::Registry;
use super::merge::{Conflict, merge_into};
use crate::support::{MAX_NESTING, fail, to_text};

const MAP: GoType = GoType::ANY_MAP;

pub(super) fn register(r: &mut Registry<'_>) {
    register_making(r);
    register_reading(r);
    register_merging(r);
}

fn register_making(r: &mut Registry<'_>) {
    r.metered_variadic("dict", &[Any], MAP, |m, a| {
        let map = Map::new();
        for pair in a.all().chunks(2) {
            let value = pair.get(1).cloned().unwrap_or_else(|| Value::string(""));
            map.insert(to_text(&pair[0], m)?, value)?;
        }
        Ok(Value::Map(map))
    });
    r.metered("set", &[MAP, Str, Any], MAP, |m, a| {
        m.charge(entry_bytes(a.map(0)?))?;
        a.map(0)?.insert(a.text(1)?.clone(), a.get(2).clone())?;
        m.keep();
        Ok(a.get(0).clone())
    });
    r.add("unset", &[MAP, Str], MAP, |a| {
        a.map(0)?.remove(a.text(1)?);
        Ok(a.get(0).clone())
    });
    r.variadic("pick", &[MAP, Str], MAP, |a| {
        let map = a.map(0)?;
        let picked: Map = keys(&a, 1)?
            .into_iter()
            .filter_map(|key| map.get(key).map(|value| (key.clone(), value)))
            .collect();
        Ok(Value::Map(picked))
    });
    r.metered_variadic("omit", &[MAP, Str], MAP, |m, a| {
        let omitted = keys(&a, 1)?;
        let _held = m.hold(2 * map_bytes(a.map(0)?.len()))?;
        let kept = a
            .map(0)?
            .snapshot()
            .into_iter()
            .filter(|(key, _)| !omitted.contains(&key));
        Ok(Value::map(kept))
    });
    for name in ["deepCopy", "mustDeepCopy"] {
        r.metered(name, &[Any], Any, |m, a| match a.get(0) {
            Value::Nil => fail("reflect: call of reflect.Value.Type on zero Value"),
            value => value.deep_copy(m),
        });
    }
}

fn keys<'a>(args: &Args<'a>, from: usize) -> Result<Vec<&'a GoStr>, FuncError> {
    (from..args.len()).map(|index| args.text(index)).collect()
}

fn register_reading(r: &mut Registry<'_>) {
    r.add("get", &[MAP, Str], Any, |a| {
        Ok(a.map(0)?
            .get(a.text(1)?)
            .unwrap_or_else(|| Value::string("")))
    });
    r.add("hasKey", &[MAP, Str], Bool, |a| {
        Ok(Value::Bool(a.map(0)?.contains_key(a.text(1)?)))
    });
    r.variadic("pluck", &[Str, MAP], GoType::ANY_SLICE, |a| {
        let key = a.text(0)?;
        let mut found = Vec::new();
        for index in 1..a.len() {
            found.extend(a.map(index)?.get(key));
        }
        Ok(Value::list(found))
    });
    r.metered_variadic("keys", &[MAP], GoType::STRING_SLICE, |m, a| {
        let mut all = Vec::new();
        for index in 0..a.len() {
            // The keys, and the values that are made of them.
            m.charge(2 * a.map(index)?.len() * ITEM_BYTES)?;
            all.extend(a.map(index)?.keys());
        }
        Ok(Value::strings(all))
    });
    r.metered("values", &[MAP], GoType::ANY_SLICE, |m, a| {
        m.charge(a.map(0)?.len() * ITEM_BYTES)?;
        Ok(Value::list(a.map(0)?.read().values().cloned().collect()))
    });
    r.variadic("dig", &[Any], Any, dig);
}

/// The value at a path of keys, or the default; the map comes last, the default before it.
fn dig(args: Args<'_>) -> FuncResult {
    let [path @ .., default, map] = args.all() else {
        return fail("dig needs at least three arguments");
    };
    if path.is_empty() {
        return fail("dig needs at least three arguments");
    }
    let mut map = exactly_map(map)?;
    let mut keys = Vec::with_capacity(path.len());
    for key in path {
        match key {
            Value::String(key) => keys.push(key),
            other => return fail(not_a(other, "string")),
        }
    }
    let mut current = Value::Nil;
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            map = exactly_map(&current)?;
        }
        match map.get(key) {
            Some(value) => current = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(current)
}

fn exactly_map(value: &Value) -> Result<Map, FuncError> {
    match value {
        Value::Map(map) if map.go_type() == MAP => Ok(map.clone()),
        other => fail(not_a(other, "map[string]interface {}")),
    }
}

/// Go's complaint about a type assertion that does not hold.
fn not_a(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Nil => "nil".to_owned(),
        other => other.type_name(),
    };
    format!("interface conversion: interface {{}} is {found}, not {wanted}")
}

fn register_merging(r: &mut Registry<'_>) {
    for name in ["merge", "mustMerge"] {
        r.metered_variadic(name, &[MAP, MAP], Any, |m, a| {
            merge_all(m, &a, Conflict::Keep)
        });
    }
    for name in ["mergeOverwrite", "mustMergeOverwrite"] {
        r.metered_variadic(name, &[MAP, MAP], Any, |m, a| {
            merge_all(m, &a, Conflict::Overwrite)
        });
    }
}

fn merge_all(meter: &Meter<'_>, args: &Args<'_>, conflict: Conflict) -> FuncResult {
    let mut target = args.map(0)?.clone();
    for index in 1..args.len() {
        let source = args.map(index)?;
        if target.is_nil() && !source.is_nil() {
            target = Map::new();
        }
        merge_into(&target, source, conflict, MAX_NESTING, meter)?;
    }
    meter.keep();
    Ok(Value::Map(target))
}
