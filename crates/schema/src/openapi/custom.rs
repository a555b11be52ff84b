//! OpenAPI documents of custom resources.

use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Map, Value, json};

use super::{Documents, documents};

/// The document of version 3 for the custom resources of one group and version.
///
/// Of the definitions, those of other groups and those that do not serve the version are left out.
pub fn custom_resources_v3<'d>(
    definitions: impl IntoIterator<Item = &'d Value>,
    group: &str,
    version: &str,
) -> Value {
    let model = Model::of(documents());
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for definition in definitions {
        if let Some(resource) = Resource::of(definition, group, version) {
            paths.extend(resource.paths(&model));
            schemas.extend(resource.schemas(&model));
        }
    }
    let own: Value = json!({"paths": paths, "schemas": schemas});
    model.add_referenced(&own, &mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

const REFERENCE: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// What the documents of custom resources take over from a built-in one.
struct Model {
    schemas: Map,
    /// Parameters in the query, by name.
    query: BTreeMap<String, Value>,
    /// The parameters of patches, whose words differ.
    patch: Value,
    namespace: Value,
    list_fields: Value,
    object_fields: Value,
    metadata: Value,
    list_metadata: Value,
}

impl Model {
    fn of(documents: &Documents) -> Self {
        let built_in = documents.v3("apis/apps/v1").unwrap_or_default();
        let collection = &built_in["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"];
        let object = &built_in["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        let lists = [
            &collection["get"]["parameters"],
            &collection["post"]["parameters"],
            &collection["parameters"],
            &object["delete"]["parameters"],
        ];
        let query = lists
            .into_iter()
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(|parameter| {
                Some((parameter["name"].as_str()?.to_owned(), parameter.clone()))
            })
            .collect::<BTreeMap<_, _>>();
        let schemas = built_in["components"]["schemas"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let deployments = schemas
            .get("io.k8s.api.apps.v1.DeploymentList")
            .unwrap_or(&Value::Null);
        let fields = &deployments["properties"];
        Self {
            patch: object["patch"]["parameters"].clone(),
            namespace: query.get("namespace").cloned().unwrap_or_default(),
            list_fields: fields.clone(),
            object_fields: schemas
                .get("io.k8s.api.apps.v1.Deployment")
                .map(|deployment| deployment["properties"].clone())
                .unwrap_or_default(),
            metadata: reference_with(METADATA_TEXT, &format!("{META}.ObjectMeta")),
            list_metadata: reference_with(LIST_METADATA_TEXT, &format!("{META}.ListMeta")),
            query,
            schemas,
        }
    }

    fn parameters(&self, names: &[&str]) -> Value {
        names
            .iter()
            .filter_map(|name| self.query.get(*name))
            .cloned()
            .collect()
    }

    /// Adds the built-in types that paths and schemas refer to, and those that these refer to.
    fn add_referenced(&self, own: &Value, schemas: &mut Map) {
        let mut wanted = BTreeSet::new();
        collect_references(own, &mut wanted);
        while let Some(name) = wanted.pop_first() {
            let Some(schema) = self
                .schemas
                .get(&name)
                .filter(|_| !schemas.contains_key(&name))
            else {
                continue;
            };
            collect_references(schema, &mut wanted);
            schemas.insert(name.into(), schema.clone());
        }
    }
}

const METADATA_TEXT: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA_TEXT: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST_ITEMS_TEXT: &str = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const EMBEDDED_VERSION_TEXT: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND_TEXT: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

fn reference_with(description: &str, name: &str) -> Value {
    json!({"description": description, "allOf": [reference(name)]})
}

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                match inner
                    .as_str()
                    .filter(|_| key == "$ref")
                    .and_then(|text| text.strip_prefix(REFERENCE))
                {
                    Some(name) => {
                        into.insert(name.to_owned());
                    }
                    None => collect_references(inner, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

/// One kind of custom resource in one version.
struct Resource<'d> {
    group: &'d str,
    version: &'d str,
    plural: &'d str,
    kind: &'d str,
    list_kind: &'d str,
    namespaced: bool,
    details: &'d Value,
}

impl<'d> Resource<'d> {
    fn of(definition: &'d Value, group: &str, version: &str) -> Option<Self> {
        let spec = &definition["spec"];
        let details = spec["versions"]
            .as_array()?
            .iter()
            .find(|entry| entry["name"] == version)?;
        if spec["group"] != group || details["served"] != true {
            return None;
        }
        Some(Self {
            group: spec["group"].as_str()?,
            version: details["name"].as_str()?,
            plural: spec["names"]["plural"].as_str()?,
            kind: spec["names"]["kind"].as_str()?,
            list_kind: spec["names"]["listKind"].as_str()?,
            namespaced: spec["scope"] == "Namespaced",
            details,
        })
    }

    fn has(&self, subresource: &str) -> bool {
        self.details["subresources"]
            .get(subresource)
            .is_some_and(|value| !value.is_null())
    }

    /// The name of a type: the group backwards, version, kind.
    fn type_name(&self, kind: &str) -> String {
        let backwards: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", backwards.join("."), self.version)
    }

    fn group_version_kind(&self, kind: &str) -> Value {
        json!({"group": self.group, "version": self.version, "kind": kind})
    }

    fn schemas(&self, model: &Model) -> [(String, Value); 2] {
        let mut object = self.details["schema"]["openAPIV3Schema"].clone();
        if !object.is_object() {
            object = json!({"type": "object"});
        }
        complete_embedded(&mut object, model);
        object["type"] = json!("object");
        for name in ["apiVersion", "kind"] {
            object["properties"][name] = model.object_fields[name].clone();
        }
        object["properties"]["metadata"] = model.metadata.clone();
        object["x-kubernetes-group-version-kind"] = json!([self.group_version_kind(self.kind)]);
        let mut list = json!({
            "description": format!("{} is a list of {}", self.list_kind, self.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": model.list_fields["apiVersion"],
                "kind": model.list_fields["kind"],
                "metadata": model.list_metadata,
                "items": {
                    "description": format!("List of {}. {LIST_ITEMS_TEXT}", self.plural),
                    "type": "array",
                    "items": reference(&self.type_name(self.kind)),
                },
            },
            "x-kubernetes-group-version-kind": [self.group_version_kind(self.list_kind)],
        });
        let selectable: Vec<Value> = self.details["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| {
                Some(json!({"fieldPath": field["jsonPath"].as_str()?.trim_start_matches('.')}))
            })
            .collect();
        if !selectable.is_empty() {
            object["x-kubernetes-selectable-fields"] = json!(selectable);
            list["x-kubernetes-selectable-fields"] = json!(selectable);
        }
        [
            (self.type_name(self.kind), object),
            (self.type_name(self.list_kind), list),
        ]
    }

    fn paths(&self, model: &Model) -> Vec<(String, Value)> {
        let root = format!("/apis/{}/{}", self.group, self.version);
        let collection = if self.namespaced {
            format!("{root}/namespaces/{{namespace}}/{}", self.plural)
        } else {
            format!("{root}/{}", self.plural)
        };
        let object = format!("{collection}/{{name}}");
        let mut paths = vec![
            (collection, self.collection(model)),
            (object.clone(), self.object(model, "")),
        ];
        for subresource in ["status", "scale"] {
            if self.has(subresource) {
                paths.push((
                    format!("{object}/{subresource}"),
                    self.object(model, subresource),
                ));
            }
        }
        if self.namespaced {
            paths.push((
                format!("{root}/{}", self.plural),
                self.all_namespaces(model),
            ));
        }
        paths
    }

    fn collection(&self, model: &Model) -> Value {
        let kind = self.kind;
        let (own, list) = (self.type_name(kind), self.type_name(self.list_kind));
        let status = format!("{META}.Status");
        let scope = self.scope();
        let listing = model.parameters(&LIST);
        let mut get = self.operation(
            "list",
            "list",
            &format!("list objects of kind {kind}"),
            &scope,
            kind,
        );
        get["parameters"] = listing.clone();
        get["responses"] = responses(&[(200, &list)]);
        let mut post = self.operation(
            "create",
            "post",
            &format!("create {}", with_article(kind)),
            &scope,
            kind,
        );
        post["parameters"] = model.parameters(&WRITE);
        post["requestBody"] = body(&own, true);
        post["responses"] = responses(&[(200, &own), (201, &own), (202, &own)]);
        let middle = format!("Collection{scope}");
        let what = format!("delete collection of {kind}");
        let mut delete = self.operation("delete", "deletecollection", &what, &middle, kind);
        delete["parameters"] = listing;
        delete["responses"] = responses(&[(200, &status)]);
        json!({"get": get, "post": post, "delete": delete, "parameters": self.path_parameters(model, false)})
    }

    fn all_namespaces(&self, model: &Model) -> Value {
        let list = self.type_name(self.list_kind);
        let what = format!("list objects of kind {}", self.kind);
        let end = format!("{}ForAllNamespaces", self.kind);
        let mut get = self.operation("list", "list", &what, "", &end);
        get["responses"] = responses(&[(200, &list)]);
        let mut names = LIST.to_vec();
        names.push("pretty");
        names.sort_unstable();
        json!({"get": get, "parameters": model.parameters(&names)})
    }

    /// The operations on one object or one of its subresources.
    fn object(&self, model: &Model, subresource: &str) -> Value {
        let kind = self.kind;
        let own = if subresource == "scale" {
            SCALE.to_owned()
        } else {
            self.type_name(kind)
        };
        let (status, patch, options) = (
            format!("{META}.Status"),
            format!("{META}.Patch"),
            format!("{META}.DeleteOptions"),
        );
        let of = if subresource.is_empty() {
            String::new()
        } else {
            format!("{subresource} of ")
        };
        let end = format!("{kind}{}", camel(subresource));
        let scope = self.scope();
        let operation = |verb: &str, action: &str, what: String| {
            self.operation(verb, action, &what, &scope, &end)
        };
        let mut get = operation("read", "get", format!("read {of}the specified {kind}"));
        get["parameters"] = json!([read_version()]);
        get["responses"] = responses(&[(200, &own)]);
        let mut put = operation(
            "replace",
            "put",
            format!("replace {of}the specified {kind}"),
        );
        put["parameters"] = model.parameters(&WRITE);
        put["requestBody"] = body(&own, true);
        put["responses"] = responses(&[(200, &own), (201, &own)]);
        let mut patching = operation(
            "patch",
            "patch",
            format!("partially update {of}the specified {kind}"),
        );
        patching["parameters"] = model.patch.clone();
        patching["requestBody"] = patch_body(&patch);
        patching["responses"] = responses(&[(200, &own)]);
        let mut all = json!({
            "get": get, "put": put, "patch": patching, "parameters": self.path_parameters(model, true),
        });
        if subresource.is_empty() {
            let mut delete =
                operation("delete", "delete", format!("delete {}", with_article(kind)));
            delete["parameters"] = model.parameters(&DELETE);
            delete["requestBody"] = body(&options, false);
            delete["responses"] = responses(&[(200, &status), (202, &status)]);
            all["delete"] = delete;
        }
        all
    }

    fn scope(&self) -> String {
        if self.namespaced {
            "Namespaced".to_owned()
        } else {
            String::new()
        }
    }

    fn operation(&self, verb: &str, action: &str, what: &str, middle: &str, end: &str) -> Value {
        let group = camel(self.group);
        let mut tag = group.clone();
        if let Some(first) = tag.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        json!({
            "tags": [format!("{tag}_{}", self.version)],
            "description": what,
            "operationId": format!("{verb}{group}{}{middle}{end}", camel(self.version)),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.group_version_kind(self.kind),
        })
    }

    fn path_parameters(&self, model: &Model, with_name: bool) -> Value {
        let mut list = Vec::new();
        if with_name {
            list.push(json!({
                "name": "name", "in": "path", "description": format!("name of the {}", self.kind), "required": true,
                "schema": {"type": "string", "uniqueItems": true},
            }));
        }
        if self.namespaced {
            list.push(model.namespace.clone());
        }
        list.extend(model.query.get("pretty").cloned());
        list.into()
    }
}

const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

fn read_version() -> Value {
    json!({
        "name": "resourceVersion", "in": "query",
        "description": "resourceVersion sets a constraint on what resource versions a request may be served from. See https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions for details.\n\nDefaults to unset",
        "schema": {"type": "string", "uniqueItems": true},
    })
}

fn content(name: &str) -> Value {
    let schema = json!({"schema": reference(name)});
    json!({"application/json": schema, "application/yaml": schema})
}

fn body(name: &str, required: bool) -> Value {
    let mut body = json!({"content": content(name)});
    if required {
        body["required"] = json!(true);
    }
    body
}

fn patch_body(name: &str) -> Value {
    let schema = json!({"schema": reference(name)});
    json!({
        "content": {
            "application/apply-patch+yaml": schema,
            "application/json-patch+json": schema,
            "application/merge-patch+json": schema,
        },
        "required": true,
    })
}

fn responses(of: &[(u16, &str)]) -> Value {
    let mut all = Map::new();
    for (status, name) in of {
        let description = match status {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        all.insert(
            status.to_string().into(),
            json!({"description": description, "content": content(name)}),
        );
    }
    all.insert("401".into(), json!({"description": "Unauthorized"}));
    all.into()
}

/// A kind with the article that the documents give it; plurals have none.
fn with_article(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower.ends_with('s') && !lower.ends_with("ss") {
        kind.to_owned()
    } else if lower.starts_with(['a', 'e', 'i', 'o', 'u']) {
        format!("an {kind}")
    } else {
        format!("a {kind}")
    }
}

/// Every part between dots and dashes with a capital.
fn camel(text: &str) -> String {
    let capital = |part: &str| {
        let mut part = part.to_owned();
        if let Some(first) = part.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        part
    };
    text.split(|character: char| !character.is_ascii_alphanumeric())
        .map(capital)
        .collect()
}

/// Gives embedded objects the fields that every object has.
fn complete_embedded(schema: &mut Value, model: &Model) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .values_mut()
            .for_each(|property| complete_embedded(property, model));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = node.get_mut(key) {
            complete_embedded(inner, model);
        }
    }
    if node.get("x-kubernetes-embedded-resource") != Some(&Value::Bool(true)) {
        return;
    }
    let required = node.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(json!(name));
            }
        }
    }
    let properties = node.entry("properties").or_insert_with(|| json!({}));
    properties["apiVersion"] = json!({"description": EMBEDDED_VERSION_TEXT, "type": "string"});
    properties["kind"] = json!({"description": EMBEDDED_KIND_TEXT, "type": "string"});
    properties["metadata"] = model.metadata.clone();
}
