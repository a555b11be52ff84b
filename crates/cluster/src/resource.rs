//! Which resources the server knows: the built-in ones and those of custom resource definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use everflow_builtins::Collection;
use everflow_json::Value;
pub use everflow_schema::split_api_version as split_version;
use smol_str::SmolStr;

use crate::codec::gotypes::{GoType, types};
use crate::crd::CustomKind;
use crate::kinds::KindRules;
use crate::status::GroupResource;

const BUILTIN: &str = include_str!("../data/resources.jsonl");

/// A resource of one API version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Both as objects name them, made once because every read and every write asks for it.
    pub(crate) api_version: String,
    /// The plural name.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// The verbs it answers.
    pub verbs: Vec<String>,
    /// Its subresources in discovery order.
    pub subresources: Vec<Subresource>,
    /// The table objects are stored in.
    pub table: Arc<str>,
    /// The version objects are stored in.
    pub storage_version: String,
    /// The Go type of a built-in kind.
    pub go_type: Option<GoType>,
    /// The rules of the kind.
    pub rules: &'static KindRules,
    /// The schema of a custom kind.
    pub custom: Option<Arc<CustomKind>>,
}

/// A subresource as discovery lists it.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// The name after the slash.
    pub name: String,
    /// The group of its kind when it differs.
    pub group: String,
    /// The version of its kind when it differs.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// The verbs it answers.
    pub verbs: Vec<String>,
}

impl Resource {
    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Makes it one of another group and version.
    pub fn move_to(&mut self, group: &str, version: &str) {
        self.group = group.to_owned();
        self.version = version.to_owned();
        self.api_version = join_version(group, version);
    }

    /// The names that rules know it by.
    pub fn collection(&self) -> Collection<'_> {
        Collection {
            group: &self.group,
            version: &self.version,
            plural: &self.plural,
        }
    }

    /// The name for messages.
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource {
            group: &self.group,
            resource: &self.plural,
        }
    }

    /// Whether it answers a verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// A subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether it comes from a custom resource definition.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The key of an object in its table.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            let mut key = String::with_capacity(namespace.len() + 1 + name.len());
            key.push_str(namespace);
            key.push('/');
            key.push_str(name);
            key
        } else {
            name.to_owned()
        }
    }
}

/// `group/version`, or the version alone in the core group.
pub fn join_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// All resources known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Resources, sorted by group, version and plural name.
    resources: Vec<Arc<Resource>>,
    lists: Lists,
}

/// The texts in which the resources of a version are listed, made once for all who ask for as long as nothing changes.
#[derive(Debug, Default)]
struct Lists(Mutex<BTreeMap<(SmolStr, SmolStr), Bytes>>);

impl Clone for Lists {
    /// A copy is made to be changed.
    fn clone(&self) -> Self {
        Lists::default()
    }
}

impl Registry {
    /// The text that lists the resources of a version, which always has to be made in the same way.
    pub(crate) fn list_text(
        &self,
        group: &str,
        version: &str,
        make: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let mut lists = self.lists.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lists.entry((group.into(), version.into()));
        place.or_insert_with(make).clone()
    }

    /// The built-in resources, made once.
    pub fn shared() -> Arc<Self> {
        static SHARED: std::sync::OnceLock<Arc<Registry>> = std::sync::OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::builtin())).clone()
    }

    /// The built-in resources.
    pub fn builtin() -> Self {
        let mut registry = Registry::default();
        for line in BUILTIN.lines() {
            if let Ok(entry) = everflow_json::from_str::<Value>(line) {
                registry.add_builtin(&entry);
            }
        }
        registry
    }

    fn add_builtin(&mut self, entry: &Value) {
        let text = |key: &str| {
            entry
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let list = |key: &str| -> Vec<String> {
            let items = entry.get(key).and_then(Value::as_array);
            items
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let api_version = text("gv");
        let (group, version) = split_version(&api_version);
        let name = text("name");
        if let Some((parent, sub)) = name.split_once('/') {
            let subresource = Subresource {
                name: sub.to_owned(),
                group: text("group"),
                version: text("version"),
                kind: text("kind"),
                verbs: list("verbs"),
            };
            if let Ok(at) = self.place(group, version, parent) {
                Arc::make_mut(&mut self.resources[at])
                    .subresources
                    .push(subresource);
            }
            return;
        }
        let kind = text("kind");
        let (storage_group, storage_version) = crate::kinds::storage_version(group, version, &name);
        let table = Arc::from(format!("{}/{name}", storage_group));
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: join_version(group, version),
            singular: text("singularName"),
            list_kind: format!("{kind}List"),
            namespaced: entry
                .get("namespaced")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            short_names: list("shortNames"),
            categories: list("categories"),
            verbs: list("verbs"),
            subresources: Vec::new(),
            table,
            storage_version,
            go_type: types().kind(&api_version, &kind),
            rules: crate::kinds::rules(group, &name),
            custom: None,
            kind,
            plural: name,
        };
        self.insert(resource);
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: Resource) {
        self.lists = Lists::default();
        let place = self.place(&resource.group, &resource.version, &resource.plural);
        let resource = Arc::new(resource);
        match place {
            Ok(at) => self.resources[at] = resource,
            Err(at) => self.resources.insert(at, resource),
        }
    }

    /// Removes the resources of a custom kind.
    pub fn remove(&mut self, group: &str, plural: &str) {
        self.lists = Lists::default();
        self.resources.retain(|resource| {
            !(resource.group == group && resource.plural == plural && resource.is_custom())
        });
    }

    /// Where a resource is, or else where it belongs.
    fn place(&self, group: &str, version: &str, plural: &str) -> Result<usize, usize> {
        self.resources.binary_search_by(|known| {
            let by_group = known.group.as_str().cmp(group);
            by_group
                .then_with(|| known.version.as_str().cmp(version))
                .then_with(|| known.plural.as_str().cmp(plural))
        })
    }

    /// A resource by group, version and plural name.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let at = self.place(group, version, plural).ok()?;
        self.resources.get(at)
    }

    /// A resource by API version and kind.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split_version(api_version);
        self.in_version(group, version)
            .find(|resource| resource.kind == kind)
    }

    /// The resources of one API version, sorted by name.
    pub fn in_version(&self, group: &str, version: &str) -> std::slice::Iter<'_, Arc<Resource>> {
        let (Ok(start) | Err(start)) = self.place(group, version, "");
        let rest = self.resources.get(start..).unwrap_or_default();
        let count = rest
            .iter()
            .take_while(|known| known.group == group && known.version == version);
        rest.get(..count.count()).unwrap_or_default().iter()
    }

    /// Whether any resource has this group.
    pub fn has_group(&self, group: &str) -> bool {
        self.resources.iter().any(|known| known.group == group)
    }

    /// Whether the group has built-in kinds.
    pub fn has_builtin_group(&self, group: &str) -> bool {
        self.resources
            .iter()
            .any(|resource| resource.group == group && !resource.is_custom())
    }

    /// Whether any resource has this group and version.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.in_version(group, version).next().is_some()
    }

    /// All resources in order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }
}
