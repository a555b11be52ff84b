//! `crds`: field specs that OpenAPI definitions of custom kinds bring along.

use everflow_json::Value as Json;
use everflow_limits::Budget;

use crate::config::{NameReference, TransformerConfig};
use crate::error::{Result, Within};
use crate::fieldspec::{FieldSpec, merge_spec};
use crate::loader::Loader;
use crate::paths;
use crate::resid::Gvk;
use crate::yaml_io;

/// How deep definitions may refer to one another.
const MAX_DEPTH: usize = 64;

/// Reads the field specs of all files.
pub fn load(loader: &Loader<'_>, files: &[String]) -> Result<TransformerConfig> {
    let mut config = TransformerConfig::default();
    for path in files {
        let content = loader.load(path)?;
        let budget = loader.meter().budget;
        let file = || paths::join(loader.root(), path);
        let (definitions, _held) = yaml_io::sigs_json(&content, budget)
            .in_file(file)
            .within(|| format!("unable to parse open API definition from '{path}'"))?;
        let Some(map) = definitions.as_object() else {
            continue;
        };
        for (name, definition) in map {
            budget.check()?;
            let is_kind = properties(definition).is_some_and(|properties| {
                ["kind", "apiVersion", "metadata"]
                    .iter()
                    .all(|field| properties.contains_key(field))
            });
            if !is_kind {
                continue;
            }
            let gvk = Gvk {
                kind: name.rsplit('.').next().unwrap_or(name).into(),
                ..Gvk::default()
            };
            let mut collector = Collector {
                config: TransformerConfig::default(),
                gvk: &gvk,
                definitions: map,
                budget,
            };
            collector.collect(name, &mut Vec::new()).in_file(file)?;
            config.merge(&collector.config, budget)?;
        }
    }
    Ok(config)
}

type Definitions = everflow_json::Map;

fn properties(definition: &Json) -> Option<&Definitions> {
    definition
        .as_object()?
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("schema"))?
        .1
        .get("properties")?
        .as_object()
}

/// The field specs of one kind in the making.
struct Collector<'a> {
    config: TransformerConfig,
    gvk: &'a Gvk,
    definitions: &'a Definitions,
    budget: &'a Budget,
}

impl Collector<'_> {
    /// Goes through a definition and those it refers to. Definitions that refer to each other can be
    /// gone through in very many ways.
    fn collect(&mut self, name: &str, path: &mut Vec<String>) -> Result<()> {
        if path.len() > MAX_DEPTH {
            return Ok(());
        }
        let Some(properties) = self.definitions.get(name).and_then(properties) else {
            return Ok(());
        };
        for (field, property) in properties {
            self.budget.check()?;
            path.push(field.to_string());
            self.add(property, path)?;
            if let Some(reference) = property.get("$ref").and_then(Json::as_str) {
                self.collect(reference, path)?;
            }
            path.pop();
        }
        Ok(())
    }

    fn add(&mut self, property: &Json, path: &[String]) -> Result<()> {
        let text = |name: &str| property.get(name).and_then(Json::as_str);
        let config = &mut self.config;
        let lists = [
            ("x-kubernetes-annotation", &mut config.common_annotations),
            ("x-kubernetes-label-selector", &mut config.common_labels),
            ("x-kubernetes-identity", &mut config.name_prefix),
        ];
        for (mark, specs) in lists {
            if text(mark).is_some() {
                let path = path.join("/");
                self.budget.charge(size_of::<FieldSpec>() + path.len())?;
                merge_spec(specs, &FieldSpec::new(self.gvk.clone(), &path, false)?)?;
            }
        }
        let (Some(version), Some(kind)) = (
            text("x-kubernetes-object-ref-api-version"),
            text("x-kubernetes-object-ref-kind"),
        ) else {
            return Ok(());
        };
        let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
        let path = format!("{}/{key}", path.join("/"));
        self.budget
            .charge(size_of::<NameReference>() + path.len())?;
        let reference = NameReference {
            target: Gvk {
                kind: kind.into(),
                version: version.into(),
                ..Gvk::default()
            },
            referrers: vec![FieldSpec::new(self.gvk.clone(), &path, false)?],
        };
        self.config.add_name_reference(&reference, self.budget)
    }
}
