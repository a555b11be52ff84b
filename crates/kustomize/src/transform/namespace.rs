//! `namespace`: the namespace of all objects, and of what refers to one.

use std::collections::HashMap;

use everflow_limits::Budget;
use everflow_yaml::Node;
use smol_str::SmolStr;

use super::SpecSet;
use crate::error::{Error, Result, Within};
use crate::fieldspec::{Create, FieldSpec, Steps};
use crate::node_ops::{self, raw_text, wrong_kind};
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schemas;
use crate::yaml_io;

/// Which subjects of role bindings get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subjects {
    /// Those named `default`.
    #[default]
    NamedDefault,
    /// All service accounts.
    AllServiceAccounts,
    /// None.
    None,
}

impl Subjects {
    /// Reads the `setRoleBindingSubjects` field.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "defaultOnly" => Ok(Subjects::NamedDefault),
            "allServiceAccounts" => Ok(Subjects::AllServiceAccounts),
            "none" => Ok(Subjects::None),
            other => Err(Error::Configuration(format!(
                "invalid value {other:?} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \"allServiceAccounts\""
            ))),
        }
    }
}

/// Sets namespaces.
pub struct Namespace {
    namespace: SmolStr,
    own: Steps,
    specs: SpecSet,
    unset_only: bool,
    subjects: Subjects,
}

const META_NAMESPACE: &str = "metadata/namespace";

impl Namespace {
    /// For all objects.
    pub fn new(namespace: &str, specs: &[FieldSpec], unset_only: bool, subjects: Subjects) -> Self {
        Namespace {
            namespace: namespace.into(),
            own: FieldSpec::everywhere(META_NAMESPACE, true).steps(),
            specs: SpecSet::new(specs),
            unset_only,
            subjects,
        }
    }

    pub(super) fn apply(&self, resources: &mut ResMap, budget: &Budget) -> Result<()> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let schemas = std::rc::Rc::clone(resources.schemas());
        for resource in resources.all_mut() {
            if resource.is_empty() || resource.helm_generated {
                continue;
            }
            resource.store_previous_id(budget)?;
            self.apply_to(resource, &schemas, budget)?;
        }
        check_conflicts(resources)
    }

    /// Sets the namespace of one object.
    pub fn apply_to(
        &self,
        resource: &mut Resource,
        schemas: &Schemas,
        budget: &Budget,
    ) -> Result<()> {
        let id = resource.id().clone();
        let is_core = resource.node.get("apiVersion").map_or("", raw_text) == "v1";
        let is_binding = matches!(id.gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
        if !id.cluster_scoped {
            self.own
                .walk(&mut resource.node, Create::Text, budget, &mut |node| {
                    self.set(node)
                })
                .within(|| format!("considering field '{META_NAMESPACE}' of object {id}"))?;
        }
        if is_binding {
            self.set_subjects(&mut resource.node)?;
        }
        let wanted = |spec: &FieldSpec| {
            spec.path() != META_NAMESPACE
                && (is_core || spec.path() != "metadata/name")
                && !(is_binding
                    && spec.path() == "subjects/namespace"
                    && matches!(spec.gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding"))
        };
        self.specs
            .walk(
                &mut resource.node,
                &id,
                Create::Text,
                budget,
                wanted,
                |node| self.set(node),
            )
            .map_err(|error| {
                let misplaced = error
                    .to_string()
                    .contains("wrong node kind: expected ScalarNode");
                error.within(if misplaced {
                    "namespace field specs must target scalar nodes"
                } else {
                    "namespace transformation failed"
                })
            })?;
        resource.refresh_id(schemas);
        Ok(())
    }

    fn set(&self, node: &mut Node) -> Result<()> {
        if self.unset_only && !node_ops::text(node).is_empty() {
            return Ok(());
        }
        node_ops::overwrite_string(node, self.namespace.clone())
    }

    fn set_subjects(&self, object: &mut Node) -> Result<()> {
        let (field, wanted) = match self.subjects {
            Subjects::None => return Ok(()),
            Subjects::NamedDefault => ("name", "default"),
            Subjects::AllServiceAccounts => ("kind", "ServiceAccount"),
        };
        let Some(subjects) = object.get_mut("subjects").filter(|node| !node.is_null()) else {
            return Ok(());
        };
        let context = || "setting namespace on (cluster)role binding subjects".to_owned();
        if subjects.as_sequence().is_none() {
            return Err(wrong_kind("SequenceNode", subjects).within(context()));
        }
        for subject in subjects.as_sequence_mut().into_iter().flatten() {
            if subject.as_mapping().is_none() {
                if subject.is_null() {
                    continue;
                }
                return Err(wrong_kind("MappingNode", subject).within(context()));
            }
            let Some(mapping) = subject.as_mapping_mut() else {
                continue;
            };
            if mapping.get(field).map(node_ops::text) != Some(wanted) {
                continue;
            }
            if mapping.get("namespace").is_none() {
                node_ops::append_field(mapping, "namespace", Node::string(""));
            }
            if let Some(namespace) = mapping.get_mut("namespace") {
                self.set(namespace).within(context)?;
            }
        }
        Ok(())
    }
}

fn check_conflicts(resources: &ResMap) -> Result<()> {
    let mut seen: HashMap<_, usize> = HashMap::with_capacity(resources.len());
    for (position, resource) in resources.iter().enumerate() {
        let id = resource.id();
        let key = (&id.gvk, id.name.as_str(), id.effective_namespace());
        if let Some(first) = seen.insert(key, position) {
            let describe = |position: usize| {
                yaml_io::to_json(&resources.get(position).with_build_annotations())
                    .map(|json| everflow_yaml::gojson::to_string(&json))
                    .unwrap_or_default()
            };
            return Err(Error::Conflict(format!(
                "namespace transformation produces ID conflict: [{} {}]",
                describe(first),
                describe(position)
            )));
        }
    }
    Ok(())
}
