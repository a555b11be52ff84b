//! `crds`: field specs that OpenAPI definitions of custom kinds bring along.

use everflow_json::Value as Json;

use crate::config::{NameReference, TransformerConfig};
use crate::error::{Result, Within};
use crate::fieldspec::{FieldSpec, merge_spec};
use crate::loader::Loader;
use crate::resid::Gvk;
use crate::yaml_io;

/// How deep definitions may refer to one another.
const MAX_DEPTH: usize = 64;

/// Reads the field specs of all files.
pub fn load(loader: &Loader<'_>, paths: &[String]) -> Result<TransformerConfig> {
    let mut config = TransformerConfig::default();
    for path in paths {
        let content = loader.load(path)?;
        let definitions = yaml_io::sigs_json(&content)
            .within(|| format!("unable to parse open API definition from '{path}'"))?;
        let Some(map) = definitions.as_object() else {
            continue;
        };
        for (name, definition) in map {
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
            let mut found = TransformerConfig::default();
            collect(&mut found, &gvk, map, name, &mut Vec::new())?;
            config.merge(&found)?;
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

fn collect(
    config: &mut TransformerConfig,
    gvk: &Gvk,
    definitions: &Definitions,
    name: &str,
    path: &mut Vec<String>,
) -> Result<()> {
    if path.len() > MAX_DEPTH {
        return Ok(());
    }
    let Some(properties) = definitions.get(name).and_then(properties) else {
        return Ok(());
    };
    for (field, property) in properties {
        path.push(field.to_string());
        let spec = |extra: Option<&str>| {
            let mut text = path.join("/");
            if let Some(extra) = extra {
                text.push('/');
                text.push_str(extra);
            }
            FieldSpec {
                gvk: gvk.clone(),
                path: text.into(),
                create: false,
            }
        };
        let text = |name: &str| property.get(name).and_then(Json::as_str);
        if text("x-kubernetes-annotation").is_some() {
            merge_spec(&mut config.common_annotations, &spec(None))?;
        }
        if text("x-kubernetes-label-selector").is_some() {
            merge_spec(&mut config.common_labels, &spec(None))?;
        }
        if text("x-kubernetes-identity").is_some() {
            merge_spec(&mut config.name_prefix, &spec(None))?;
        }
        if let (Some(version), Some(kind)) = (
            text("x-kubernetes-object-ref-api-version"),
            text("x-kubernetes-object-ref-kind"),
        ) {
            let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
            config.add_name_reference(&NameReference {
                target: Gvk {
                    kind: kind.into(),
                    version: version.into(),
                    ..Gvk::default()
                },
                referrers: vec![spec(Some(key))],
            })?;
        }
        if let Some(reference) = text("$ref") {
            collect(config, gvk, definitions, reference, path)?;
        }
        path.pop();
    }
    Ok(())
}
