//! Where a schema has rules in CEL.

use crate::model::{Shape, TypeId};
use crate::schema::SchemaView;
use crate::validation::CelRule;

/// A node with rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSite<'s> {
    /// The steps from the root: field names, `*` for any key of a map, `[]` for any item.
    pub path: Vec<&'s str>,
    /// The node.
    pub type_id: TypeId,
    /// Its rules.
    pub rules: &'s [CelRule],
}

/// All nodes with rules, from the root down, fields in the order of their names.
pub fn rules(schema: SchemaView<'_>) -> Vec<RuleSite<'_>> {
    let mut sites = Vec::new();
    collect(schema, &mut Vec::new(), &mut sites);
    sites
}

fn collect<'s>(schema: SchemaView<'s>, path: &mut Vec<&'s str>, sites: &mut Vec<RuleSite<'s>>) {
    let Some(node) = schema.root_type() else {
        return;
    };
    if let Some(validation) = node
        .validation
        .as_ref()
        .filter(|validation| !validation.rules.is_empty())
    {
        sites.push(RuleSite {
            path: path.clone(),
            type_id: schema.root,
            rules: &validation.rules,
        });
    }
    let mut step = |name: &'s str, next: TypeId| {
        path.push(name);
        collect(schema.at(next), path, sites);
        path.pop();
    };
    match &node.shape {
        Shape::Object(object) => {
            for field in &object.fields {
                step(&field.name, field.type_id);
            }
            if let Some(additional) = object.additional {
                step("*", additional);
            }
        }
        Shape::List(list) => step("[]", list.item),
        _ => {}
    }
}
