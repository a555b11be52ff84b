//! Resources by path, and the schemas behind them.

use std::collections::BTreeMap;

use everflow_json::{Value, json};
use everflow_merge::MergeError;
use everflow_merge::apply::{
    FieldManager, ResetFields, SameContent, SingleVersion, Versions, zero_object,
};
use everflow_schema::{Schema, SchemaView, builtin};

/// What a request path names.
#[derive(Debug, Clone)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub kind: String,
}

impl Resource {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Objects are told apart by group, resource, namespace and name.
    pub fn key(&self, object: &Value) -> String {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = if self.name.is_empty() {
            name.unwrap_or_default()
        } else {
            &self.name
        };
        format!(
            "{}/{}/{}/{}/{name}",
            self.group, self.version, self.plural, self.namespace
        )
    }
}

/// The custom resources of a scenario, on top of the built-in kinds.
#[derive(Default)]
pub struct Kinds {
    custom: BTreeMap<(String, String), Custom>,
}

struct Custom {
    kind: String,
    versions: Vec<(String, Schema, bool)>,
}

impl Kinds {
    /// Takes in a definition of custom resources; anything else is passed over.
    pub fn learn(&mut self, object: &Value) {
        if object["kind"] != "CustomResourceDefinition" {
            return;
        }
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = text(&spec["group"]);
        let versions = spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|v| v["served"] == true);
        let versions = versions.filter_map(|version| {
            let schema = version.pointer("/schema/openAPIV3Schema")?;
            let schema = Schema::for_custom_resource(schema).ok()?;
            let api_version = format!("{group}/{}", text(&version["name"]));
            let has_status = version
                .pointer("/subresources/status")
                .is_some_and(|s| !s.is_null());
            Some((api_version, schema, has_status))
        });
        let custom = Custom {
            kind: text(&spec["names"]["kind"]),
            versions: versions.collect(),
        };
        self.custom
            .insert((group.clone(), text(&spec["names"]["plural"])), custom);
    }

    /// The resource that a path names, and its query.
    pub fn resource(&self, path: &str) -> Option<(Resource, BTreeMap<String, String>)> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parameters = BTreeMap::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            // The first of several counts.
            parameters
                .entry(key.to_owned())
                .or_insert_with(|| decode(value));
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest, ["status"] | ["finalize"]) =>
            {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let plural = part(0);
        let kind = match builtin().resource(group, version, &plural) {
            Some(resource) => resource.kind.to_string(),
            None => self
                .custom
                .get(&(group.to_owned(), plural.clone()))?
                .kind
                .clone(),
        };
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural,
            namespace: namespace.to_owned(),
            name: part(1),
            subresource: part(2),
            kind,
        };
        Some((resource, parameters))
    }

    pub fn knows(&self, resource: &Resource) -> bool {
        builtin()
            .schema(&resource.group, &resource.version, &resource.kind)
            .is_some()
            || self.custom_of(resource).is_some_and(|custom| {
                custom
                    .versions
                    .iter()
                    .any(|(version, _, _)| *version == resource.api_version())
            })
    }

    fn custom_of(&self, resource: &Resource) -> Option<&Custom> {
        self.custom
            .get(&(resource.group.clone(), resource.plural.clone()))
    }

    pub fn kind(&self, resource: &Resource) -> KindOf<'_> {
        KindOf {
            resource: resource.clone(),
            custom: self.custom_of(resource),
        }
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One kind in one version.
pub struct KindOf<'k> {
    resource: Resource,
    custom: Option<&'k Custom>,
}

/// What a field manager borrows from.
pub struct ManagerParts<'k> {
    versions: Box<dyn Versions + 'k>,
    api_version: String,
    kind: String,
    subresource: String,
    reset: ResetFields,
    zero: Value,
}

impl ManagerParts<'_> {
    pub fn run(
        &self,
        work: impl FnOnce(&FieldManager<'_>) -> Result<Value, MergeError>,
    ) -> Result<Value, MergeError> {
        work(&FieldManager {
            versions: self.versions.as_ref(),
            api_version: &self.api_version,
            kind: &self.kind,
            subresource: &self.subresource,
            reset: &self.reset,
            zero: &self.zero,
        })
    }
}

impl<'k> KindOf<'k> {
    pub fn schema(&self) -> SchemaView<'k> {
        let api_version = self.resource.api_version();
        match self.custom {
            Some(custom) => {
                let found = custom
                    .versions
                    .iter()
                    .find(|(version, _, _)| *version == api_version);
                found.unwrap().1.view()
            }
            None => {
                let Resource {
                    group,
                    version,
                    kind,
                    ..
                } = &self.resource;
                builtin().schema(group, version, kind).unwrap()
            }
        }
    }

    pub fn is_builtin(&self) -> bool {
        self.custom.is_none()
    }

    pub fn zero(&self) -> Value {
        let api_version = self.resource.api_version();
        match self.custom {
            Some(_) => json!({"apiVersion": api_version, "kind": self.resource.kind}),
            None => zero_object(self.schema(), &api_version, &self.resource.kind),
        }
    }

    pub fn field_manager(&self, resource: &Resource) -> ManagerParts<'k> {
        let api_version = resource.api_version();
        let (versions, reset): (Box<dyn Versions + 'k>, ResetFields) = match self.custom {
            Some(custom) => {
                let schemas = custom.versions.iter();
                let has_status = schemas
                    .clone()
                    .any(|(version, _, status)| *version == api_version && *status);
                let schemas = schemas.map(|(version, schema, _)| (version.as_str(), schema.view()));
                (
                    Box::new(SameContent::new(schemas.collect())),
                    ResetFields::of_custom_resource(has_status, &resource.subresource),
                )
            }
            None => (
                Box::new(SingleVersion::new(
                    api_version.clone().leak(),
                    self.schema(),
                )),
                ResetFields::of_builtin(&resource.group, &resource.plural, &resource.subresource),
            ),
        };
        ManagerParts {
            versions,
            api_version,
            kind: resource.kind.clone(),
            subresource: resource.subresource.clone(),
            reset,
            zero: self.zero(),
        }
    }
}
