//! `buildMetadata`: annotations that say where an object came from and what changed it.

use everflow_json::{Value as Json, json};
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::emit;

use crate::node_ops;
use crate::paths;
use crate::remote;
use crate::resource::{ORIGIN, Resource, TRANSFORMATIONS};

/// Where something came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub path: String,
    pub repo: String,
    pub reference: String,
    pub configured_in: String,
    pub configured_by: Option<ConfiguredBy>,
}

/// The plugin that made or changed an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredBy {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
}

impl Origin {
    /// The origin of something that a kustomization here names by a path.
    pub fn append(&self, path: &str) -> Origin {
        let mut origin = self.clone();
        if let Some(url) = remote::parse_repo_url(path) {
            origin.repo = url.clone_url;
            origin.reference = url.reference;
            origin.path = paths::join("", &url.directory);
            return origin;
        }
        origin.path = paths::join(&self.path, path);
        origin
    }

    /// The origin of what a built-in plugin of the kustomization here makes or changes.
    pub fn of_builtin(&self, file_name: &str, plugin: &str) -> Origin {
        Origin {
            path: String::new(),
            configured_in: paths::join(&self.path, file_name),
            configured_by: Some(ConfiguredBy {
                api_version: "builtin".to_owned(),
                kind: plugin.to_owned(),
                ..ConfiguredBy::default()
            }),
            ..self.clone()
        }
    }

    /// The origin of what a plugin makes that has a configuration of its own.
    pub fn of_plugin(plugin: &Resource) -> Option<Origin> {
        let origin = Origin::read(plugin)?;
        let id = plugin.id();
        Some(Origin {
            path: String::new(),
            configured_in: origin.path,
            configured_by: Some(ConfiguredBy {
                api_version: id.gvk.api_version().into(),
                kind: id.gvk.kind.to_string(),
                name: id.name.to_string(),
                namespace: id.namespace.to_string(),
            }),
            repo: origin.repo,
            reference: origin.reference,
        })
    }

    /// The origin that an object's annotation tells.
    pub fn read(resource: &Resource) -> Option<Origin> {
        let text = resource.annotation(ORIGIN)?;
        let json = everflow_yaml::sigs::yaml_to_json(text.as_bytes()).ok()?;
        Some(Origin::from_json(&json))
    }

    fn from_json(json: &Json) -> Origin {
        let text = |json: &Json, name: &str| {
            json.get(name)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Origin {
            path: text(json, "path"),
            repo: text(json, "repo"),
            reference: text(json, "ref"),
            configured_in: text(json, "configuredIn"),
            configured_by: json.get("configuredBy").map(|by| ConfiguredBy {
                api_version: text(by, "apiVersion"),
                kind: text(by, "kind"),
                name: text(by, "name"),
                namespace: text(by, "namespace"),
            }),
        }
    }

    /// The lines of the origin; each is a field in the order that kustomize has them.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |indent: &str, name: &str, value: &str| {
            if !value.is_empty() {
                lines.push(format!("{indent}{}", scalar_line(name, value)));
            }
        };
        add("", "path", &self.path);
        add("", "repo", &self.repo);
        add("", "ref", &self.reference);
        add("", "configuredIn", &self.configured_in);
        if let Some(by) = &self.configured_by {
            lines.push("configuredBy:".to_owned());
            let mut add = |name: &str, value: &str| {
                if !value.is_empty() {
                    lines.push(format!("  {}", scalar_line(name, value)));
                }
            };
            add("apiVersion", &by.api_version);
            add("kind", &by.kind);
            add("name", &by.name);
            add("namespace", &by.namespace);
        }
        lines
    }

    fn to_text(&self) -> String {
        let lines = self.lines();
        if lines.is_empty() {
            return "{}\n".to_owned();
        }
        lines.join("\n") + "\n"
    }
}

fn scalar_line(name: &str, value: &str) -> String {
    emit::yaml3(&json!({ name: value }), emit::Indent::Compact)
        .trim_end()
        .to_owned()
}

/// Writes the origin of an object down.
pub fn set(resource: &mut Resource, origin: &Origin, budget: &Budget) -> Result<(), Exceeded> {
    let text = origin.to_text();
    budget.charge(node_ops::ENTRY + text.len())?;
    resource.set_annotation(ORIGIN, &text);
    Ok(())
}

/// Writes down that a transformer changed an object; one without an origin was made by it.
pub fn add_transformation(
    resource: &mut Resource,
    origin: &Origin,
    budget: &Budget,
) -> Result<(), Exceeded> {
    if resource.annotation(ORIGIN).is_none() {
        return set(resource, origin, budget);
    }
    let mut text = resource
        .annotation(TRANSFORMATIONS)
        .unwrap_or_default()
        .to_owned();
    for (number, line) in origin.lines().iter().enumerate() {
        let lead = if number == 0 { "- " } else { "  " };
        budget.charge(lead.len() + line.len() + 1)?;
        text.push_str(lead);
        text.push_str(line);
        text.push('\n');
    }
    resource.set_annotation(TRANSFORMATIONS, &text);
    Ok(())
}
