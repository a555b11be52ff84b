//! Which lists merge by key: the built-in kinds, and what the `openapi` field brings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

use everflow_json::Value;
use everflow_limits::Budget;
use everflow_yaml::cost;

use crate::Release;
use crate::error::{Error, Result};
use crate::resid::{Scope, builtin_scope};

/// The only OpenAPI document that is built in.
const BUILTIN_VERSION: &str = "v1.21.2";

/// What is known about kinds during one build.
#[derive(Debug, Default)]
pub struct Schemas {
    release: Release,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    custom: Option<Rc<CustomSchema>>,
    is_set: bool,
    /// Whether the schemas have been looked at since they were last set.
    in_use: bool,
    builtin: Builtins,
}

/// Whether the built-in schemas count beside those of a file. They do when they were needed before
/// the file was read, or when a kind was met that they might have known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Builtins {
    #[default]
    Unused,
    Wanted,
    /// In use before the file, whose definitions go over them.
    Below,
    /// Brought in after the file, over its definitions.
    Above,
}

/// An OpenAPI document from a file.
#[derive(Debug, Default)]
struct CustomSchema {
    definitions: HashMap<String, Value>,
    kinds: HashMap<(String, String), String>,
    namespaced: HashMap<(String, String), bool>,
}

impl Schemas {
    /// Starts with the built-in kinds.
    pub fn new(release: Release) -> Self {
        Schemas {
            release,
            state: RefCell::default(),
        }
    }

    /// Takes over the `openapi` field of a kustomization. The outermost one wins.
    pub fn configure(
        &self,
        version: Option<&str>,
        document: Option<&[u8]>,
        outermost: bool,
        budget: &Budget,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if state.is_set && !outermost {
            return Ok(());
        }
        if let Some(document) = document {
            if version.is_some() {
                return Err(Error::Configuration(
                    "builtin version and custom schema provided, cannot use both".to_owned(),
                ));
            }
            state.custom = Some(Rc::new(CustomSchema::parse(document, budget)?));
            state.is_set = true;
            state.in_use = false;
            return Ok(());
        }
        match version {
            None | Some("") => Ok(()),
            Some(BUILTIN_VERSION) => {
                state.is_set = true;
                state.custom = None;
                Ok(())
            }
            Some(_) => Err(Error::Configuration(
                "the specified OpenAPI version is not built in".to_owned(),
            )),
        }
    }

    /// The schema of a kind, if it has lists that merge.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<Schema> {
        let mut state = self.state.borrow_mut();
        state.start_using();
        let builtins = state.builtin;
        let builtin = || {
            let index = builtin().kinds.get(&(api_version, kind))?;
            Some(Schema(Place::Type(*index)))
        };
        let Some(custom) = &state.custom else {
            return builtin();
        };
        let from_file = || {
            let key = (api_version.to_owned(), kind.to_owned());
            let schema = custom.definitions.get(custom.kinds.get(&key)?)?;
            let document = Rc::new(Document {
                custom: Rc::clone(custom),
                builtins,
            });
            Some(document.place(schema))
        };
        match builtins {
            Builtins::Above => builtin().or_else(from_file),
            Builtins::Below => from_file().or_else(builtin),
            Builtins::Unused | Builtins::Wanted => from_file(),
        }
    }

    /// True when the kind is known to have no namespace.
    pub fn is_cluster_scoped(&self, api_version: &str, kind: &str) -> bool {
        if let Some(scope) = builtin_scope(api_version, kind) {
            return scope == Scope::Cluster;
        }
        if self.release == Release::Next
            && api_version == "admissionregistration.k8s.io/v1"
            && matches!(
                kind,
                "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding"
            )
        {
            return true;
        }
        let mut state = self.state.borrow_mut();
        if !state.in_use && state.custom.is_none() {
            if state.builtin == Builtins::Unused {
                state.builtin = Builtins::Wanted;
            }
            return false;
        }
        state.start_using();
        let Some(custom) = state.custom.as_ref().filter(|c| !c.namespaced.is_empty()) else {
            return false;
        };
        let key = (api_version.to_owned(), kind.to_owned());
        custom.namespaced.get(&key) == Some(&false)
    }
}

impl State {
    fn start_using(&mut self) {
        if self.in_use {
            return;
        }
        self.in_use = true;
        self.builtin = match (self.custom.is_some(), self.builtin) {
            (false, _) => Builtins::Below,
            (true, Builtins::Wanted) => Builtins::Above,
            (true, other) => other,
        };
    }
}

/// A place in a schema.
#[derive(Clone, Debug)]
pub struct Schema(Place);

#[derive(Clone, Debug)]
enum Place {
    /// An object of a built-in type.
    Type(usize),
    /// A field of a built-in type.
    Field(usize, usize),
    /// A place in a document from a file.
    Custom(Rc<Document>, Rc<Value>),
}

impl Schema {
    /// The schema of a field.
    pub fn field(&self, name: &str) -> Option<Schema> {
        match &self.0 {
            Place::Type(index) => builtin().field(*index, name),
            Place::Field(owner, field) => {
                let field = &builtin().types[*owner].fields[*field];
                if field.is_list {
                    return None;
                }
                builtin().field(field.of?, name)
            }
            Place::Custom(document, schema) => {
                let found = schema
                    .get("properties")
                    .and_then(|properties| properties.get(name))
                    .or_else(|| {
                        schema
                            .get("additionalProperties")
                            .filter(|more| more.is_object())
                    })?;
                document.resolve(found)
            }
        }
    }

    /// The schema of a list's elements.
    pub fn elements(&self) -> Option<Schema> {
        match &self.0 {
            Place::Type(_) => None,
            Place::Field(owner, field) => {
                let field = &builtin().types[*owner].fields[*field];
                field
                    .is_list
                    .then_some(field.of)?
                    .map(|index| Schema(Place::Type(index)))
            }
            Place::Custom(document, schema) => {
                if !is_array(schema) {
                    return None;
                }
                let items = schema.get("items")?;
                document.resolve(items)
            }
        }
    }

    /// The keys that a list merges by; `None` when it does not merge.
    pub fn merge_keys(&self) -> Option<Vec<String>> {
        match &self.0 {
            Place::Type(_) => None,
            Place::Field(owner, field) => builtin().types[*owner].fields[*field]
                .merge
                .as_ref()
                .map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
            Place::Custom(_, schema) => {
                let strategy = schema.get("x-kubernetes-patch-strategy")?.as_str()?;
                if !strategy.split(',').any(|one| one == "merge") {
                    return None;
                }
                if let Some(Value::Array(keys)) = schema.get("x-kubernetes-list-map-keys") {
                    let keys = keys.iter().filter_map(Value::as_str);
                    return Some(keys.map(str::to_owned).collect());
                }
                let key = schema.get("x-kubernetes-patch-merge-key");
                Some(
                    key.and_then(Value::as_str)
                        .map(str::to_owned)
                        .into_iter()
                        .collect(),
                )
            }
        }
    }
}

fn is_array(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.len() == 1 && names[0] == "array",
        _ => false,
    }
}

impl CustomSchema {
    fn parse(document: &[u8], budget: &Budget) -> Result<Self> {
        let invalid = |why: String| Error::Configuration(format!("invalid schema file: {why}"));
        let read = crate::yaml_io::sigs_json(document, budget);
        let (json, held) = read.map_err(|error| match error.exceeded() {
            Some(_) => error,
            None => invalid(error.to_string()),
        })?;
        held.keep(2 * cost::of_json(&json))?;
        let mut schema = CustomSchema::default();
        if let Some(Value::Object(definitions)) = json.get("definitions") {
            for (name, definition) in definitions {
                let kinds = definition.get("x-kubernetes-group-version-kind");
                for gvk in kinds.and_then(Value::as_array).into_iter().flatten() {
                    if let Some(key) = type_of(gvk) {
                        schema.kinds.insert(key, name.to_string());
                    }
                }
                schema
                    .definitions
                    .insert(name.to_string(), definition.clone());
            }
        }
        if let Some(Value::Object(paths)) = json.get("paths") {
            for (path, item) in paths {
                let gvk = item
                    .get("get")
                    .and_then(|get| get.get("x-kubernetes-group-version-kind"));
                let Some(key) = gvk.and_then(type_of) else {
                    continue;
                };
                let namespaced = path.contains("namespaces/{namespace}");
                let known = schema.namespaced.entry(key).or_insert(namespaced);
                *known |= namespaced;
            }
        }
        Ok(schema)
    }
}

/// A document from a file, and how the built-in schemas stand to it.
#[derive(Debug)]
struct Document {
    custom: Rc<CustomSchema>,
    builtins: Builtins,
}

impl Document {
    /// Follows references.
    fn resolve(self: &Rc<Self>, schema: &Value) -> Option<Schema> {
        let mut schema = schema;
        // A reference may lead to another one; a ring of them leads nowhere.
        for _ in 0..64 {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
                return Some(self.place(schema));
            };
            let name = reference.strip_prefix("#/definitions/")?;
            let known = builtin_type(name);
            let own = self.custom.definitions.get(name);
            match (self.builtins, known, own) {
                (Builtins::Above, Some(index), _) | (Builtins::Below, Some(index), None) => {
                    return Some(Schema(Place::Type(index)));
                }
                (_, _, own) => schema = own?,
            }
        }
        None
    }

    fn place(self: &Rc<Self>, schema: &Value) -> Schema {
        Schema(Place::Custom(Rc::clone(self), Rc::new(schema.clone())))
    }
}

/// The built-in type of a definition's full name.
fn builtin_type(name: &str) -> Option<usize> {
    const PREFIXES: [&str; 4] = [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.kube-aggregator.pkg.apis.",
    ];
    let short = PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    builtin().names.get(short).copied()
}

fn type_of(gvk: &Value) -> Option<(String, String)> {
    let text = |name: &str| gvk.get(name).and_then(Value::as_str);
    let version = text("version")?;
    let api_version = match text("group") {
        Some(group) if !group.is_empty() => format!("{group}/{version}"),
        _ => version.to_owned(),
    };
    Some((api_version, text("kind")?.to_owned()))
}

/// The table of built-in types.
struct Builtin {
    names: HashMap<&'static str, usize>,
    types: Vec<TypeInfo>,
    kinds: HashMap<(&'static str, &'static str), usize>,
}

#[derive(Default)]
struct TypeInfo {
    fields: Vec<FieldInfo>,
}

struct FieldInfo {
    name: &'static str,
    is_list: bool,
    /// The keys it merges by, if it does.
    merge: Option<Vec<&'static str>>,
    of: Option<usize>,
}

impl Builtin {
    fn field(&self, owner: usize, name: &str) -> Option<Schema> {
        let fields = &self.types[owner].fields;
        let index = fields.iter().position(|field| field.name == name)?;
        Some(Schema(Place::Field(owner, index)))
    }
}

fn builtin() -> &'static Builtin {
    static BUILTIN: OnceLock<Builtin> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        let text = include_str!("../data/merge_keys.txt");
        let names: HashMap<&'static str, usize> = text
            .lines()
            .filter_map(|line| line.strip_prefix("type "))
            .enumerate()
            .map(|(index, name)| (name, index))
            .collect();
        let mut table = Builtin {
            types: Vec::with_capacity(names.len()),
            names,
            kinds: HashMap::new(),
        };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("type") => table.types.push(TypeInfo::default()),
                Some("kind") => {
                    if let (Some(version), Some(kind), Some(name)) =
                        (words.next(), words.next(), words.next())
                        && let Some(index) = table.names.get(name)
                    {
                        table.kinds.insert((version, kind), *index);
                    }
                }
                Some(name) if line.starts_with(' ') => {
                    let field = read_field(name, words, &table.names);
                    if let Some(last) = table.types.last_mut() {
                        last.fields.push(field);
                    }
                }
                _ => {}
            }
        }
        table
    })
}

fn read_field(
    name: &'static str,
    words: impl Iterator<Item = &'static str>,
    names: &HashMap<&str, usize>,
) -> FieldInfo {
    let mut field = FieldInfo {
        name,
        is_list: false,
        merge: None,
        of: None,
    };
    for word in words {
        match word {
            "list" => field.is_list = true,
            "map" | "of" => {}
            "merge" => field.merge = Some(Vec::new()),
            word => match word.strip_prefix("merge:") {
                Some(keys) => field.merge = Some(keys.split(',').collect()),
                None => field.of = names.get(word).copied(),
            },
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_lists_know_their_keys() {
        let schemas = Schemas::new(Release::V5_8);
        let pod = schemas
            .kind("apps/v1", "Deployment")
            .and_then(|s| s.field("spec"))
            .and_then(|s| s.field("template"))
            .and_then(|s| s.field("spec"))
            .unwrap();
        let containers = pod.field("containers").unwrap();
        assert_eq!(containers.merge_keys().unwrap(), ["name"]);
        let ports = containers.elements().unwrap().field("ports").unwrap();
        assert_eq!(ports.merge_keys().unwrap(), ["containerPort", "protocol"]);
        assert!(pod.field("tolerations").is_none());
        assert!(schemas.kind("example.com/v1", "Thing").is_none());
    }
}
