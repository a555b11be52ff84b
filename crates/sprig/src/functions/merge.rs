//! Merging of maps, in place.

use everflow_gotemplate::{ENTRY_BYTES, FuncError, List, Map, Meter, Value, entry_bytes};

use crate::support::fail;

/// What happens where both maps have a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The target's value stays unless it is empty: zero, false, "" and the like.
    Keep,
    /// The source's value wins, also if it is empty or nil.
    Overwrite,
}

/// Puts what `source` has into `target`. Nested maps are merged, everything else is taken whole;
/// what is taken is shared with the source, not copied.
pub(super) fn merge_into(
    target: &Map,
    source: &Map,
    conflict: Conflict,
    depth: usize,
    meter: &Meter<'_>,
) -> Result<(), FuncError> {
    if depth == 0 {
        return fail("the maps to merge contain themselves or nest too deep");
    }
    meter.steps(source.len() as u64)?;
    let _held = meter.hold(source.len() * ENTRY_BYTES)?;
    let overwrite = conflict == Conflict::Overwrite;
    for (key, new) in source.snapshot() {
        if matches!(new, Value::Nil) {
            if overwrite {
                target.insert(key, new)?;
            }
            continue;
        }
        let old = target.get(&key);
        if old.is_none() {
            meter.charge(entry_bytes(target))?;
        }
        match (&old, &new) {
            (Some(Value::Map(old)), Value::Map(new)) if !old.is_nil() => {
                merge_into(old, new, conflict, depth - 1, meter)?;
            }
            (_, Value::List(new)) => {
                let kept = match &old {
                    _ if overwrite || target.is_empty() => Value::List(new.clone()),
                    None | Some(Value::Nil) => Value::List(List::typed(new.go_type(), Vec::new())),
                    Some(old) => old.clone(),
                };
                target.insert(key.clone(), kept)?;
            }
            _ => {}
        }
        let old_is_empty = old.as_ref().is_none_or(is_empty);
        if !old_is_empty {
            let both_maps = matches!((&old, &new), (Some(Value::Map(_)), Value::Map(_)));
            if both_maps || matches!(new, Value::List(_)) {
                continue;
            }
        }
        if overwrite || old_is_empty {
            target.insert(key, new)?;
        }
    }
    Ok(())
}

/// Whether a value counts as not given.
fn is_empty(value: &Value) -> bool {
    !value.is_true()
}
