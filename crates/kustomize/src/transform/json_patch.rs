//! JSON patches.

use everflow_json::Value as Json;
use everflow_limits::Budget;
use everflow_merge::json_patch::MAX_COPIED_BYTES;
use everflow_yaml::{Node, cost, gojson};

use crate::error::{Error, Result, Within};
use crate::fieldspec::check_path;
use crate::node_ops::raw_text;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::yaml_io;

/// One entry of `patchesJson6902`.
pub struct Json6902 {
    pub target: Option<Selector>,
    pub operations: Json,
}

impl Json6902 {
    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        let Some(target) = &self.target else {
            return Err(Error::Patch(format!(
                "must specify a target for patch {}",
                gojson::to_string(&self.operations)
            )));
        };
        for position in resources.select(target, budget)? {
            apply_to(resources.get_mut(position), &self.operations, budget)?;
            resources.refresh(position);
        }
        Ok(())
    }
}

/// Reads operations from YAML or JSON text. They stay charged.
pub fn parse(text: &str, budget: &Budget) -> Result<Json> {
    let (json, held) = if text.starts_with('[') {
        let held = budget.hold(cost::of_reading(text.as_bytes()))?;
        let json = gojson::parse(text.as_bytes(), gojson::Numbers::Integers)
            .map_err(|error| Error::Patch(error.to_string()))?;
        (json, held)
    } else {
        yaml_io::sigs_json(text.as_bytes(), budget)?
    };
    held.keep(cost::of_json(&json))?;
    let wrong = |value: &Json, wanted: &str| {
        let kind = match value {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        };
        Error::Patch(format!(
            "json: cannot unmarshal {kind} into Go value of type {wanted}"
        ))
    };
    match &json {
        Json::Null => Ok(Json::Array(Vec::new())),
        Json::Array(operations) => {
            match operations.iter().find(|operation| !operation.is_object()) {
                Some(other) => Err(wrong(other, "jsonpatch.Operation")),
                None => {
                    check_pointers(operations)?;
                    Ok(json)
                }
            }
        }
        other => Err(wrong(other, "jsonpatch.Patch")),
    }
}

/// Refuses pointers that lead deeper than anything that is read.
fn check_pointers(operations: &[Json]) -> Result<()> {
    for (number, operation) in operations.iter().enumerate() {
        for name in ["path", "from"] {
            let pointer = operation.get(name).and_then(Json::as_str);
            let checked = check_path(pointer.unwrap_or_default(), '/');
            let name = || format!("operation {number}: {name}");
            checked.map_err(|error| error.above_field(&name()))?;
        }
    }
    Ok(())
}

/// What `copy` operations may add to an object: each copies all of it at most, and all of them so much
/// text.
fn copied(operations: &Json, object: usize) -> usize {
    let operations = operations.as_array().map_or(&[][..], Vec::as_slice);
    let copies = operations.iter().filter(|it| it["op"] == "copy").count();
    let doubled = u32::try_from(copies)
        .ok()
        .and_then(|copies| 2_usize.checked_pow(copies))
        .and_then(|times| object.checked_mul(times - 1));
    let most = MAX_COPIED_BYTES * size_of::<Node>() / 2;
    doubled.unwrap_or(most).min(most)
}

/// Applies operations to an object. kustomize's own notes are annotations in the real tool, so
/// operations may count on there being some.
pub fn apply_to(resource: &mut Resource, operations: &Json, budget: &Budget) -> Result<()> {
    let describe = resource.id().to_string();
    let in_object = |error: everflow_limits::Exceeded| {
        Error::from(error).in_field(|| format!("patching {describe}"))
    };
    let notes = resource.clone_notes();
    resource.write_build_annotations();
    let before = cost::of_tree(&resource.node);
    let most = before + cost::of_json(operations) + copied(operations, before);
    // The object as JSON before and after, and the tree that is made of it.
    let held = budget.hold(before + 2 * most).map_err(in_object)?;
    let json = yaml_io::to_json(&resource.node)?;
    let mut patched = everflow_merge::json_patch::apply(&json, operations)
        .map_err(|error| Error::Patch(error.to_string()))
        .within(|| format!("patching {describe}"))?;
    gojson::numbers_as_f64(&mut patched);
    resource.node = Node::from_json(&patched);
    held.keep(cost::of_tree(&resource.node))
        .map_err(in_object)?;
    budget.release(before);
    resource.unshare();
    let pairs = resource.meta_pairs("annotations");
    resource.set_meta_pairs("annotations", pairs);
    resource.forget_notes();
    resource.absorb_build_annotations();
    resource.restore_notes(notes);
    debug_assert!(raw_text(&resource.node).is_empty());
    Ok(())
}
