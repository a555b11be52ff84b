//! `sortOptions` and `--reorder`.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result, Within};
use crate::kustomization::SortOptions;
use crate::resid::{Gvk, ORDER_FIRST, ORDER_LAST, ResId};
use crate::resmap::ResMap;

/// Sorts by the options of a kustomization.
pub fn apply(resources: &mut ResMap, options: &SortOptions) -> Result<()> {
    let invalid = |text: String| Err(Error::Configuration(text));
    match options.order.as_str() {
        "fifo" if options.legacy.is_some() => invalid(
            "the field 'sortOptions.legacySortOptions' is set but the selected sort order is 'fifo', not 'legacy'"
                .to_owned(),
        ),
        "fifo" => Ok(()),
        "legacy" => match &options.legacy {
            Some(legacy) => sort(
                resources,
                legacy.first.iter().map(String::as_str),
                legacy.last.iter().map(String::as_str),
            ),
            None => sort_by_default(resources),
        },
        _ => invalid("the field 'sortOptions.order' must be one of [fifo, legacy]".to_owned()),
    }
}

/// Sorts with the built-in lists of kinds.
pub fn sort_by_default(resources: &mut ResMap) -> Result<()> {
    sort(resources, ORDER_FIRST.into_iter(), ORDER_LAST.into_iter())
}

fn sort<'a>(
    resources: &mut ResMap,
    first: impl ExactSizeIterator<Item = &'a str>,
    last: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let count = first.len() as i64;
    let mut ranks: HashMap<&str, i64> = HashMap::new();
    for (index, kind) in first.enumerate() {
        ranks.insert(kind, index as i64 - count);
    }
    for (index, kind) in last.enumerate() {
        ranks.insert(kind, 1 + index as i64);
    }
    let rank = |gvk: &Gvk| ranks.get(gvk.kind.as_str()).copied().unwrap_or(0);
    resources.sort_by_type_and_id(
        |a, b| rank(a).cmp(&rank(b)).then_with(|| compare_types(a, b)),
        compare_ids,
    );
    resources
        .check_unique()
        .within(|| "SortOrderTransformer: Failed to append to resources".to_owned())
}

fn compare_types(a: &Gvk, b: &Gvk) -> Ordering {
    let order = a.sort_text().cmp(&b.sort_text());
    let namespaces = a.kind == "Namespace" && b.kind == "Namespace";
    if namespaces && (a.group.is_empty() || b.group.is_empty()) {
        return order.reverse();
    }
    order
}

/// Compares `namespace|name` with marks for empty parts.
fn compare_ids(a: &ResId, b: &ResId) -> Ordering {
    fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
        if text.is_empty() { empty } else { text }
    }
    fn key(id: &ResId) -> [&[u8]; 3] {
        [or(&id.namespace, "~X"), "|", or(&id.name, "~N")].map(str::as_bytes)
    }
    if a.namespace == b.namespace {
        return or(&a.name, "~N").cmp(or(&b.name, "~N"));
    }
    let (a, b) = (key(a), key(b));
    a.iter().copied().flatten().cmp(b.iter().copied().flatten())
}
