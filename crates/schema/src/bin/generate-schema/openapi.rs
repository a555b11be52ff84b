//! Types, kinds and descriptions from the published OpenAPI documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use everflow_json::{Map, Text, Value, json};
use everflow_schema::openapi::Documents;
use everflow_schema::{
    Field, JsonType, Kind, ListKind, ListType, MapType, ObjectType, PatchRule, ScalarKind, Shape,
    Type, TypeId, TypeTable, Validation,
};
use smol_str::SmolStr;

use crate::{Failure, read_json};

/// Definition name to schema.
pub type Definitions = BTreeMap<Text, Value>;

/// The definitions of all documents. Version 3 has the defaults, version 2 every definition and
/// every kind of a definition.
pub fn read_definitions(documents: &Path) -> Result<Definitions, Failure> {
    let second = read_json(&documents.join("openapi-v2.json"))?;
    let mut definitions: Definitions = second["definitions"]
        .as_object()
        .ok_or("openapi-v2.json has no definitions")?
        .clone()
        .into_iter()
        .collect();
    for entry in fs::read_dir(documents.join("openapi-v3"))? {
        let third = read_json(&entry?.path())?;
        let Some(schemas) = third["components"]["schemas"].as_object() else {
            continue;
        };
        for (name, schema) in schemas {
            let known = definitions
                .get(name)
                .ok_or_else(|| format!("{name} is not in openapi-v2.json"))?;
            let mut schema = schema.clone();
            if let Some(kinds) = known.get(KINDS) {
                schema[KINDS] = kinds.clone();
            }
            definitions.insert(name.to_string().into(), schema);
        }
    }
    definitions.extend(metadata_only());
    Ok(definitions)
}

/// The two kinds that clients send and ask for but that no document publishes.
fn metadata_only() -> [(Text, Value); 2] {
    let name = |kind: &str| Text::from(format!("{META}.{kind}"));
    let reference = |kind: &str| json!({"$ref": format!("#/definitions/{META}.{kind}")});
    let text = json!({"type": "string"});
    let kind = |kind: &str| json!([{"group": "meta.k8s.io", "version": "v1", "kind": kind}]);
    let one = json!({
        "type": "object",
        "properties": {"apiVersion": text, "kind": text, "metadata": reference("ObjectMeta")},
        KINDS: kind(PARTIAL),
    });
    let many = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": reference("ListMeta"),
            "items": {"type": "array", "items": reference(PARTIAL)},
        },
        KINDS: kind("PartialObjectMetadataList"),
    });
    [
        (name(PARTIAL), one),
        (name("PartialObjectMetadataList"), many),
    ]
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const PARTIAL: &str = "PartialObjectMetadata";
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Turns definitions into types; equal nameless types are stored once.
pub struct Builder<'d> {
    definitions: &'d Definitions,
    table: TypeTable,
    named: BTreeMap<&'d str, TypeId>,
    nameless: BTreeMap<String, TypeId>,
}

impl<'d> Builder<'d> {
    /// A builder that has given every definition its id.
    pub fn new(definitions: &'d Definitions) -> Self {
        let mut table = TypeTable::new();
        let named = definitions
            .keys()
            .map(|name| (name.as_str(), table.add(Type::plain(None, Shape::Any))))
            .collect();
        Self {
            definitions,
            table,
            named,
            nameless: BTreeMap::new(),
        }
    }

    /// Builds all definitions.
    pub fn build(mut self) -> Result<TypeTable, Failure> {
        for (name, schema) in self.definitions {
            let mut built = self
                .named_type(name, schema)
                .map_err(|error| format!("{name}: {error}"))?;
            built.name = Some(SmolStr::new(name));
            self.table.set(self.named[name.as_str()], built);
        }
        Ok(self.table)
    }

    fn named_type(&mut self, name: &str, schema: &Value) -> Result<Type, Failure> {
        let shape = match name.rsplit_once('.').map_or(name, |(_, last)| last) {
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrString,
            "Time" => Shape::Time,
            "MicroTime" => Shape::MicroTime,
            _ => return self.inline_type(schema),
        };
        let mut built = Type::plain(json_type(schema)?, shape);
        built.validation = format_only(schema);
        Ok(built)
    }

    fn inline_type(&mut self, schema: &Value) -> Result<Type, Failure> {
        let json_type = json_type(schema)?;
        let format = schema["format"].as_str().map(SmolStr::new);
        let scalar = |scalar| Shape::Scalar { scalar, format };
        let shape = match json_type {
            None => Shape::Any,
            Some(JsonType::String) => scalar(ScalarKind::String),
            Some(JsonType::Integer) => scalar(ScalarKind::Integer),
            Some(JsonType::Number) => scalar(ScalarKind::Number),
            Some(JsonType::Boolean) => scalar(ScalarKind::Boolean),
            Some(JsonType::Array) => Shape::List(self.list(schema)?),
            Some(JsonType::Object) => Shape::Object(self.object(schema)?),
        };
        let mut built = Type::plain(json_type, shape);
        if let Some(values) = schema["enum"].as_array() {
            built.validation = Some(Box::new(Validation {
                enum_values: values.clone(),
                ..Validation::default()
            }));
        }
        Ok(built)
    }

    fn list(&mut self, schema: &Value) -> Result<ListType, Failure> {
        let declared = schema["x-kubernetes-list-type"].as_str();
        let kind = match declared {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map {
                keys: texts(&schema["x-kubernetes-list-map-keys"]),
            },
            Some(other) => return Err(format!("unknown list type {other}").into()),
        };
        Ok(ListType {
            item: self.reference(&schema["items"])?,
            kind,
            kind_declared: declared.is_some(),
        })
    }

    fn object(&mut self, schema: &Value) -> Result<ObjectType, Failure> {
        let required = texts(&schema["required"]);
        let empty = Map::new();
        let mut fields = Vec::new();
        for (name, property) in schema["properties"].as_object().unwrap_or(&empty) {
            fields.push(
                self.field(name, property, &required)
                    .map_err(|error| format!("{name}: {error}"))?,
            );
        }
        let additional = match schema.get("additionalProperties") {
            None => None,
            Some(values) => Some(self.reference(values)?),
        };
        let declared = map_type(schema)?;
        Ok(ObjectType {
            fields: fields.into(),
            additional,
            additional_allowed: None,
            required,
            map_type: declared.unwrap_or_default(),
            map_type_declared: declared.is_some(),
        })
    }

    fn field(
        &mut self,
        name: &str,
        property: &Value,
        required: &[SmolStr],
    ) -> Result<Field, Failure> {
        let strategy = property["x-kubernetes-patch-strategy"].as_str();
        let merge_key = property["x-kubernetes-patch-merge-key"].as_str();
        let patch = (strategy.is_some() || merge_key.is_some())
            .then(|| Box::new(PatchRule::parse(strategy.unwrap_or_default(), merge_key)));
        Ok(Field {
            name: name.into(),
            type_id: self.reference(property)?,
            required: required.iter().any(|entry| entry == name),
            default: property.get("default").cloned(),
            patch,
            map_type: map_type(property)?,
            wire: None,
        })
    }

    /// The type behind a reference, or the id of a nameless one.
    fn reference(&mut self, schema: &Value) -> Result<TypeId, Failure> {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["allOf"][0]["$ref"].as_str());
        if let Some(reference) = reference {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return self
                .named
                .get(name)
                .copied()
                .ok_or_else(|| format!("{reference} leads nowhere").into());
        }
        let built = self.inline_type(schema)?;
        let key = format!("{built:?}");
        if let Some(known) = self.nameless.get(&key) {
            return Ok(*known);
        }
        let id = self.table.add(built);
        self.nameless.insert(key, id);
        Ok(id)
    }
}

fn json_type(schema: &Value) -> Result<Option<JsonType>, Failure> {
    match schema["type"].as_str() {
        None => Ok(None),
        Some(text) => match JsonType::parse(text) {
            Some(known) => Ok(Some(known)),
            None => Err(format!("unknown type {text}").into()),
        },
    }
}

/// Keeps the published format of a type whose shape does not hold one.
fn format_only(schema: &Value) -> Option<Box<Validation>> {
    let format = schema["format"].as_str()?;
    Some(Box::new(Validation {
        format: Some(format.into()),
        ..Validation::default()
    }))
}

fn map_type(schema: &Value) -> Result<Option<MapType>, Failure> {
    match schema["x-kubernetes-map-type"].as_str() {
        None => Ok(None),
        Some("granular") => Ok(Some(MapType::Granular)),
        Some("atomic") => Ok(Some(MapType::Atomic)),
        Some(other) => Err(format!("unknown map type {other}").into()),
    }
}

fn texts(list: &Value) -> Vec<SmolStr> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(SmolStr::new)
        .collect()
}

/// The kinds that definitions name.
pub fn kinds(definitions: &Definitions, table: &TypeTable) -> Result<Vec<Kind>, Failure> {
    let ids: BTreeMap<&str, TypeId> = table
        .iter()
        .filter_map(|(id, built)| Some((built.name.as_deref()?, id)))
        .collect();
    let mut kinds = Vec::new();
    for (name, schema) in definitions {
        for entry in schema[KINDS].as_array().into_iter().flatten() {
            let text = |key: &str| SmolStr::new(entry[key].as_str().unwrap_or_default());
            kinds.push(Kind {
                group: text("group"),
                version: text("version"),
                kind: text("kind"),
                type_id: ids[name.as_str()],
            });
        }
    }
    let order = |kind: &Kind| (kind.group.clone(), kind.version.clone(), kind.kind.clone());
    kinds.sort_by_key(order);
    if let Some(pair) = kinds
        .windows(2)
        .find(|pair| order(&pair[0]) == order(&pair[1]))
    {
        return Err(format!("two definitions for {:?}", pair[0]).into());
    }
    Ok(kinds)
}

/// All published documents in their packed form.
pub fn documents(directory: &Path) -> Result<Documents, Failure> {
    let mut builder = everflow_schema::openapi::Builder::default();
    builder.add_v2(&read_json(&directory.join("openapi-v2.json"))?);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory.join("openapi-v3"))? {
        files.push(entry?.path());
    }
    files.sort();
    for file in files {
        let stem = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        builder.add_v3(&stem.replace("__", "/"), &read_json(&file)?);
    }
    Ok(builder.finish())
}
