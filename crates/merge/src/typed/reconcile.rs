//! Ownership after a schema change: what became one value is owned as one.

use super::types::{Sort, TypeView};
use crate::fieldpath::{FieldSet, FieldSetBuilder, PathElement};

/// The set as the current schema would record it, or none when that changes nothing.
///
/// Fields below a list or map that is atomic by now collapse into it. The other way round nothing
/// is done.
pub(crate) fn reconcile(set: &FieldSet, view: TypeView<'_>) -> Option<FieldSet> {
    needs_change(set, false, view).then(|| rebuild(set, view))
}

/// How a place below has to change.
enum Fate {
    Keep,
    Descend,
    Collapse,
}

fn fate(set: &FieldSet, is_member: bool, sort: &Sort<'_>) -> Fate {
    let is_whole = is_member && set.is_empty();
    match sort {
        Sort::Scalar(_) => Fate::Keep,
        Sort::List(list) if list.associative.is_none() && !is_whole => Fate::Collapse,
        Sort::List(_) => Fate::Descend,
        Sort::Map(map) if map.is_deduced => Fate::Keep,
        Sort::Map(map) if map.atomic && !is_whole => {
            if set.is_empty() {
                Fate::Keep
            } else {
                Fate::Collapse
            }
        }
        Sort::Map(_) => Fate::Descend,
    }
}

/// The type behind one step; none for steps that the schema does not know.
fn step_type<'s>(sort: &Sort<'s>, element: &PathElement) -> Option<TypeView<'s>> {
    match sort {
        Sort::List(list) => Some(list.item),
        Sort::Map(map) => match element {
            PathElement::Field(name) => map.value_type(name),
            _ => map.element,
        },
        Sort::Scalar(_) => None,
    }
}

fn needs_change(set: &FieldSet, is_member: bool, view: TypeView<'_>) -> bool {
    let sort = view.atom().sort();
    match fate(set, is_member, &sort) {
        Fate::Keep => false,
        Fate::Collapse => true,
        Fate::Descend => set.steps().any(|(element, member, below)| {
            // What is owned as a whole stays so, whatever its type.
            let is_whole = member && below.is_empty();
            !is_whole
                && step_type(&sort, element).is_some_and(|view| needs_change(below, member, view))
        }),
    }
}

fn rebuild(set: &FieldSet, view: TypeView<'_>) -> FieldSet {
    let mut rebuilt = FieldSetBuilder::default();
    let sort = view.atom().sort();
    for (element, member, below) in set.steps() {
        let Some(view) = step_type(&sort, element) else {
            rebuilt.push(element.clone(), member, below.clone());
            continue;
        };
        match fate(below, member, &view.atom().sort()) {
            Fate::Keep => rebuilt.push(element.clone(), member, below.clone()),
            Fate::Collapse => rebuilt.push(element.clone(), true, FieldSet::new()),
            Fate::Descend => rebuilt.push(element.clone(), member, rebuild(below, view)),
        }
    }
    rebuilt.finish()
}

#[cfg(test)]
mod tests {
    use everflow_schema::builtin;

    use super::*;

    #[test]
    fn field_owned_as_a_whole_stays_so_when_its_type_changes() {
        let schema = builtin().schema("apps", "v1", "Deployment").unwrap();
        for (id, _) in schema.types.iter() {
            let view = TypeView::root(schema.at(id)).unwrap();
            assert!(!needs_change(&FieldSet::new(), true, view), "{id:?}");
        }
    }
}
