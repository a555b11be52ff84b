//! JSON patches.

use everflow_json::Value as Json;
use everflow_yaml::{Node, gojson};

use crate::error::{Error, Result, Within};
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
    pub(super) fn apply(&self, resources: &mut ResMap) -> Result<()> {
        let Some(target) = &self.target else {
            return Err(Error::Patch(format!(
                "must specify a target for patch {}",
                gojson::to_string(&self.operations)
            )));
        };
        for position in resources.select(target)? {
            apply_to(resources.get_mut(position), &self.operations)?;
            resources.refresh(position);
        }
        Ok(())
    }
}

/// Reads operations from YAML or JSON text.
pub fn parse(text: &str) -> Result<Json> {
    let json = if text.starts_with('[') {
        gojson::parse(text.as_bytes(), gojson::Numbers::Integers)
            .map_err(|error| Error::Patch(error.to_string()))?
    } else {
        yaml_io::sigs_json(text.as_bytes())?
    };
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
                None => Ok(json),
            }
        }
        other => Err(wrong(other, "jsonpatch.Patch")),
    }
}

/// Applies operations to an object. kustomize's own notes are annotations in the real tool, so
/// operations may count on there being some.
pub fn apply_to(resource: &mut Resource, operations: &Json) -> Result<()> {
    let describe = resource.id().to_string();
    let notes = resource.clone_notes();
    resource.write_build_annotations();
    let json = yaml_io::to_json(&resource.node)?;
    let mut patched = everflow_merge::json_patch::apply(&json, operations)
        .map_err(|error| Error::Patch(error.to_string()))
        .within(|| format!("patching {describe}"))?;
    gojson::numbers_as_f64(&mut patched);
    resource.node = Node::from_json(&patched);
    resource.unshare();
    let pairs = resource.meta_pairs("annotations");
    resource.set_meta_pairs("annotations", pairs);
    resource.forget_notes();
    resource.absorb_build_annotations();
    resource.restore_notes(notes);
    debug_assert!(raw_text(&resource.node).is_empty());
    Ok(())
}
