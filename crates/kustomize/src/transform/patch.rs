//! `patches` and `patchesStrategicMerge`.

use everflow_json::Value as Json;
use everflow_limits::Budget;
use everflow_yaml::Node;

use super::json_patch;
use crate::error::{Error, Result, Within};
use crate::kustomization::PatchOptions;
use crate::merge;
use crate::node_ops;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schemas;
use crate::selector::Selector;
use crate::yaml_io;

/// Patches that find their targets by their own names.
pub struct StrategicMerge {
    pub patches: Vec<Node>,
}

impl StrategicMerge {
    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        for patch in &self.patches {
            budget.check()?;
            let patch = Resource::new(patch.clone(), resources.schemas());
            let position = resources.find_patch_target(&patch.original_id())?;
            let Some(position) = position else { continue };
            apply_selected(
                resources,
                &[position],
                &patch,
                PatchOptions::default(),
                budget,
            )?;
            resources.drop_empty();
        }
        Ok(())
    }
}

/// One entry of `patches`.
pub struct PatchEntry {
    pub content: Content,
    pub target: Option<Selector>,
    pub options: PatchOptions,
    /// How messages name it.
    pub source: String,
}

/// What a patch is.
pub enum Content {
    /// Strategic merge patches.
    Strategic(Vec<Node>),
    /// JSON patch operations.
    Operations(Json),
}

impl Content {
    /// Finds out which of the two a text is.
    pub fn parse(text: &str, source: &str, budget: &Budget) -> Result<Self> {
        let strategic = yaml_io::read_objects(text.as_bytes(), budget);
        let operations = if text.is_empty() {
            Err(Error::Patch("empty json patch operations".to_owned()))
        } else {
            json_patch::parse(text, budget)
        };

        let count = |json: &Json| json.as_array().map_or(0, Vec::len);
        match (strategic, operations) {
            (Err(error), _) | (_, Err(error)) if error.exceeded().is_some() => Err(error),
            (Ok(objects), Ok(operations)) if !objects.is_empty() && count(&operations) > 0 => {
                Err(Error::Patch(format!(
                    "illegally qualifies as both an SM and JSON patch: {source}"
                )))
            }
            (Err(_), Err(_)) => Err(Error::Patch(format!(
                "unable to parse SM or JSON patch from {source}"
            ))),
            (Ok(objects), _) => Ok(Content::Strategic(objects)),
            (Err(_), Ok(operations)) => Ok(Content::Operations(operations)),
        }
    }
}

impl PatchEntry {
    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        match &self.content {
            Content::Strategic(patches) if patches.is_empty() => Ok(()),
            Content::Strategic(patches) => self.apply_strategic(resources, patches, budget),
            Content::Operations(operations) => self.apply_operations(resources, operations, budget),
        }
    }

    fn apply_strategic(
        &self,
        resources: &mut ResMap,
        patches: &[Node],
        budget: &Budget,
    ) -> Result<()> {
        let schemas = std::rc::Rc::clone(resources.schemas());
        let load = |patch: &Node| {
            let mut patch = Resource::new(patch.clone(), &schemas);
            if self.options.allow_name_change || self.options.allow_kind_change {
                let pairs = patch.meta_pairs("annotations");
                patch.set_meta_pairs("annotations", pairs);
            }
            patch
        };
        let Some(target) = &self.target else {
            for patch in patches {
                budget.check()?;
                let patch = load(patch);
                let id = patch.original_id();
                let position = resources
                    .find_patch_target(&id)
                    .within(|| format!("no resource matches strategic merge patch \"{id}\""))?;
                let Some(position) = position else { continue };
                let resource = resources.get_mut(position);
                patch_resource(resource, patch.node, self.options, &schemas, budget)?;
                resources.refresh(position);
            }
            return Ok(());
        };
        if patches.len() > 1 {
            return Err(Error::Patch(format!(
                "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {}",
                self.source
            )));
        }
        let selected = resources
            .select(target, budget)
            .within(|| format!("unable to find patch target \"{target}\" in `resources`"))?;
        let patch = load(&patches[0]);
        apply_selected(resources, &selected, &patch, self.options, budget)
    }

    fn apply_operations(
        &self,
        resources: &mut ResMap,
        operations: &Json,
        budget: &Budget,
    ) -> Result<()> {
        let Some(target) = &self.target else {
            return Err(Error::Patch(format!(
                "must specify a target for JSON patch {}",
                self.source
            )));
        };
        for position in resources.select(target, budget)? {
            let resource = resources.get_mut(position);
            resource.store_previous_id(budget)?;
            json_patch::apply_to(resource, operations, budget)?;
            resources.refresh(position);
        }
        Ok(())
    }
}

/// Lays one patch over several objects, each time with the object's own API version.
fn apply_selected(
    resources: &mut ResMap,
    selected: &[usize],
    patch: &Resource,
    options: PatchOptions,
    budget: &Budget,
) -> Result<()> {
    let schemas = std::rc::Rc::clone(resources.schemas());
    let mut patch = patch.clone();
    // The copy of a patch has its labels and annotations as strings, even those that are null.
    for field in ["labels", "annotations"] {
        let pairs = patch.meta_pairs(field);
        patch.set_meta_pairs(field, pairs);
    }
    for position in selected {
        let resource = resources.get_mut(*position);
        let mut copy = patch.clone();
        copy.set_api_version(&resource.gvk().api_version());
        patch_resource(resource, copy.node, options, &schemas, budget)?;
        resources.refresh(*position);
    }
    for position in selected {
        if !resources.get(*position).is_empty() {
            resources.check_unique_at(*position)?;
        }
    }
    Ok(())
}

/// Lays a patch over an object, which keeps its identity unless it may change.
fn patch_resource(
    resource: &mut Resource,
    patch: Node,
    options: PatchOptions,
    schemas: &Schemas,
    budget: &Budget,
) -> Result<()> {
    let id = resource.id().clone();
    if options.allow_name_change || options.allow_kind_change {
        resource.store_previous_id(budget)?;
    }
    let touches_notes = touches_annotations(&patch);
    if touches_notes {
        resource.write_build_annotations();
    }
    let merged = merge::apply(schemas, &mut resource.node, patch, budget)
        .in_field(|| format!("patching {id}"))?;
    if !merged {
        resource.delete();
        return Ok(());
    }
    if touches_notes {
        resource.forget_notes();
        resource.absorb_build_annotations();
    }
    if resource.is_empty() {
        return Ok(());
    }
    resource.name_change_allowed |= options.allow_name_change;
    resource.kind_change_allowed |= options.allow_kind_change;
    if !options.allow_kind_change {
        resource.set_kind(&id.gvk.kind);
    }
    if !options.allow_name_change {
        resource.set_name(&id.name);
    }
    resource.set_namespace(&id.namespace);
    resource.after_change();
    Ok(())
}

/// True for a patch that removes or replaces annotations as a whole: those that kustomize notes
/// down for itself would go as well.
fn touches_annotations(patch: &Node) -> bool {
    let directive = |node: &Node| node.get("$patch").is_some();
    let Some(meta) = patch.get("metadata") else {
        return directive(patch);
    };
    let annotations = meta.get("annotations");
    directive(patch)
        || directive(meta)
        || meta.is_null()
        || annotations.is_some_and(|annotations| {
            annotations.is_null()
                || directive(annotations)
                || annotations.as_mapping().is_some_and(|map| {
                    map.entries
                        .iter()
                        .any(|e| node_ops::raw_text(&e.key).starts_with("internal.config"))
                })
        })
}
