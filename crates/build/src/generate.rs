//! The kustomization file: the one in the source or one made for the manifests there, with what
//! the Kustomization asks for on top.

use everflow_api::common::{Image, Patch, Selector};
use everflow_api::kustomization::KustomizationSpec;
use everflow_json::{Map, Value, json};
use everflow_kustomize::{
    FILE_NAMES, FILES_FLAG, Limits, Located, check_objects, paths, read_kustomization,
};
use everflow_limits::{Budget, Exceeded, at_most};

use crate::error::{Error, step};
use crate::mount::{Mount, relative};
use crate::place::{self, Place};

/// How deep directories are walked for manifests.
const MAX_DEPTH: usize = 100;

/// What a directory without anything to build is given as its namespace, so that kustomize does not
/// take the file for an empty one.
const PLACEHOLDER: &str = "_placeholder";

/// The fields of a kustomization file; others pass in silence.
const FIELDS: [&str; 33] = [
    "apiVersion",
    "kind",
    "metadata",
    "openapi",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "patchesStrategicMerge",
    "patchesJson6902",
    "patches",
    "images",
    "imageTags",
    "replacements",
    "replicas",
    "vars",
    "sortOptions",
    "resources",
    "components",
    "crds",
    "bases",
    "configMapGenerator",
    "secretGenerator",
    "helmGlobals",
    "helmCharts",
    "helmChartInflationGenerator",
    "generatorOptions",
    "configurations",
    "generators",
    "transformers",
    "validators",
];

/// Beside [`FIELDS`].
const BUILD_METADATA: &str = "buildMetadata";

/// What a name in a directory takes beside its letters.
const NAME: usize = 128;

/// The content of a kustomization file.
type File = Map;

/// What was found in the directory.
pub struct Generated {
    /// There is no kustomization file and no manifest.
    pub no_manifests: bool,
}

/// Puts the kustomization file for a directory of the source in place.
pub fn kustomization_file(
    mount: &mut Mount<'_>,
    directory: &str,
    spec: &KustomizationSpec,
    limits: Limits,
    budget: &Budget,
) -> Result<Generated, Error> {
    let found = existing_file(mount, directory, budget)?;
    let exists = found.is_some();
    let (path, mut file) = match found {
        Some(found) => found,
        None => (
            paths::join(directory, FILE_NAMES[0]),
            made_for_manifests(mount, directory, limits, budget)?,
        ),
    };
    let no_manifests = !exists && !file.contains_key("resources");
    if exists && !file.contains_key("resources") {
        // Without resources the file could count as empty.
        file.insert(BUILD_METADATA.into(), json!(["originAnnotations"]));
    }
    overlay(&mut file, mount, directory, spec)?;
    mount.replace(&path, Value::Object(file).to_string().into_bytes());
    Ok(Generated { no_manifests })
}

fn existing_file(
    mount: &Mount<'_>,
    directory: &str,
    budget: &Budget,
) -> Result<Option<(String, File)>, Error> {
    for name in FILE_NAMES {
        let path = paths::join(directory, name);
        if !matches!(mount.tree().locate(&path), Ok(Located::File(_))) {
            continue;
        }
        let content = mount
            .content(&path)
            .map_err(|error| Error::Read(error.to_string()))?;
        let in_file = |cause: everflow_kustomize::Error| {
            let path = path.trim_start_matches('/').to_owned();
            if let Some(error) = Error::of_kustomize(step::GENERATE, &path, &cause) {
                return error;
            }
            Error::KustomizationFile {
                place: Place {
                    path,
                    line: place::of_fault(&content, budget),
                },
                text: match cause.cause() {
                    everflow_kustomize::Error::Malformed(_) => "error converting YAML to JSON",
                    _ => "error unmarshaling JSON: while decoding JSON",
                },
                cause,
            }
        };
        let json = read_kustomization(&content, budget).map_err(in_file)?;
        let mut file = Map::new();
        for (key, value) in json.as_object().into_iter().flatten() {
            let known = FIELDS.iter().chain([&BUILD_METADATA]);
            let field = known.copied().find(|field| field.eq_ignore_ascii_case(key));
            if let Some(field) = field.filter(|_| !is_zero(value)) {
                file.insert(field.into(), value.clone());
            }
        }
        set_type(&mut file);
        return Ok(Some((path, file)));
    }
    Ok(None)
}

/// Go leaves these out when it writes the file again.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn set_type(file: &mut File) {
    file.entry("apiVersion")
        .or_insert_with(|| json!("kustomize.config.k8s.io/v1beta1"));
    file.entry("kind").or_insert_with(|| json!("Kustomization"));
}

// ---- a file for a directory that has none ----

fn made_for_manifests(
    mount: &Mount<'_>,
    directory: &str,
    limits: Limits,
    budget: &Budget,
) -> Result<File, Error> {
    let mut walk = Walk {
        mount,
        budget,
        limits,
        entries: 0,
        found: Vec::new(),
    };
    walk.directory(directory, 0)?;
    let found = walk.found;
    let mut file = Map::new();
    set_type(&mut file);
    if found.is_empty() {
        file.insert("namespace".into(), json!(PLACEHOLDER));
        return Ok(file);
    }
    let resources = found.iter().map(|path| {
        let below = path.strip_prefix(directory).unwrap_or(path);
        Value::String(format!("./{}", below.trim_start_matches('/')).into())
    });
    file.insert("resources".into(), resources.collect());
    Ok(file)
}

/// A walk over a directory for what can be built there.
struct Walk<'a> {
    mount: &'a Mount<'a>,
    budget: &'a Budget,
    limits: Limits,
    entries: u64,
    found: Vec<String>,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &str, depth: usize) -> Result<(), Error> {
        let unreadable = |error: everflow_kustomize::ViewError| Error::Read(error.to_string());
        if depth > MAX_DEPTH {
            return Err(Error::Read(format!(
                "{directory}: directories are nested more than {MAX_DEPTH} levels deep"
            )));
        }
        for name in self.mount.tree().entries(directory).map_err(unreadable)? {
            let path = paths::join(directory, &name);
            self.count(&path)?;
            // Links to directories are not followed.
            match self.mount.tree().locate(&path) {
                Ok(Located::Directory(real)) if real == path => {
                    if has_kustomization(self.mount, &path) {
                        self.found.push(path);
                    } else {
                        self.directory(&path, depth + 1)?;
                    }
                    continue;
                }
                Ok(_) | Err(_) => {}
            }
            if name.ends_with(".yaml") || name.ends_with(".yml") {
                check_manifest(self.mount, &path, self.budget)?;
                self.found.push(path);
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &str) -> Result<(), Error> {
        self.entries += 1;
        let limit = self.limits.files;
        let what = "files and directories in one build";
        let counted = at_most(self.entries, limit, what, FILES_FLAG);
        // A path is kept in a list, and in the file that is made of it.
        let counted = counted.and_then(|()| self.budget.charge(4 * path.len() + NAME));
        counted.map_err(|exceeded: Exceeded| {
            Error::of_limit(step::GENERATE, path.trim_start_matches('/'), exceeded)
        })
    }
}

fn has_kustomization(mount: &Mount<'_>, directory: &str) -> bool {
    FILE_NAMES.iter().any(|name| {
        let path = paths::join(directory, name);
        matches!(mount.tree().locate(&path), Ok(Located::File(_)))
    })
}

fn check_manifest(mount: &Mount<'_>, path: &str, budget: &Budget) -> Result<(), Error> {
    let content = mount
        .content(path)
        .map_err(|error| Error::Read(relative(&error.to_string())))?;
    check_objects(&content, budget).map_err(|cause| {
        let path = path.trim_start_matches('/').to_owned();
        match Error::of_kustomize(step::GENERATE, &path, &cause) {
            Some(error) => error,
            None => Error::Decode {
                place: Place {
                    path,
                    line: place::of_fault(&content, budget),
                },
                cause,
            },
        }
    })
}

// ---- what the Kustomization asks for ----

fn overlay(
    file: &mut File,
    mount: &Mount<'_>,
    directory: &str,
    spec: &KustomizationSpec,
) -> Result<(), Error> {
    let texts = [
        ("namespace", &spec.target_namespace),
        ("namePrefix", &spec.name_prefix),
        ("nameSuffix", &spec.name_suffix),
    ];
    for (field, value) in texts {
        if let Some(value) = value {
            file.insert(field.into(), json!(value));
        }
    }
    append(file, "patches", spec.patches.iter().map(patch));
    let components = local_components(mount, directory, spec)?;
    append(file, "components", components.into_iter().map(Value::from));
    legacy_patches(file, spec);
    merge_images(file, &spec.images);
    if !spec.build_metadata.is_empty() {
        let names = spec
            .build_metadata
            .iter()
            .map(|option| json!(option.as_str()));
        file.insert(BUILD_METADATA.into(), names.collect());
    }
    Ok(())
}

fn append(file: &mut File, field: &str, items: impl Iterator<Item = Value>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let list = file.entry(field).or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.extend(items);
    }
}

fn patch(patch: &Patch) -> Value {
    let mut value = json!({"patch": patch.patch});
    if let Some(target) = &patch.target {
        value["target"] = selector(target);
    }
    value
}

fn selector(target: &Selector) -> Value {
    let fields = [
        ("group", &target.group),
        ("version", &target.version),
        ("kind", &target.kind),
        ("namespace", &target.namespace),
        ("name", &target.name),
        ("annotationSelector", &target.annotation_selector),
        ("labelSelector", &target.label_selector),
    ];
    let given = fields
        .into_iter()
        .filter_map(|(field, text)| Some((field.to_owned(), json!(text.as_ref()?))));
    Value::Object(given.collect())
}

fn local_components(
    mount: &Mount<'_>,
    directory: &str,
    spec: &KustomizationSpec,
) -> Result<Vec<String>, Error> {
    let mut components = Vec::new();
    for component in &spec.components {
        if !is_local_and_relative(component) {
            return Err(Error::Component(component.clone()));
        }
        let path = paths::join(directory, component);
        let missing = || mount.tree().locate(&path).is_err();
        if !(spec.ignore_missing_components && missing()) {
            components.push(component.clone());
        }
    }
    Ok(components)
}

fn is_local_and_relative(path: &str) -> bool {
    const REMOTE: [&str; 8] = [
        "git::",
        "gh:",
        "ssh://",
        "https://",
        "http://",
        "git@",
        "github.com:",
        "github.com/",
    ];
    let lower = path.to_ascii_lowercase();
    let is_remote = |prefix: &str| lower.len() > prefix.len() && lower.starts_with(prefix);
    let rest = lower.strip_prefix("file://").unwrap_or(&lower);
    !(REMOTE.iter().any(|prefix| is_remote(prefix))
        || path.starts_with('/')
        || rest.starts_with('/'))
}

/// Fields that older versions of the API had: they are still heeded in files that have them.
fn legacy_patches(file: &mut File, spec: &KustomizationSpec) {
    let list = |field: &str| spec.extra.get(field).and_then(Value::as_array);
    if let Some(patches) = list("patchesStrategicMerge") {
        let texts = patches
            .iter()
            .map(|patch| Value::String(patch.to_string().into()));
        append(file, "patchesStrategicMerge", texts);
    }
    if let Some(patches) = list("patchesJson6902") {
        let entries = patches
            .iter()
            .map(|patch| json!({"patch": patch["patch"].to_string(), "target": patch["target"]}));
        append(file, "patchesJson6902", entries);
    }
}

fn merge_images(file: &mut File, images: &[Image]) {
    for image in images {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (new_name, new_tag, digest) = (
            given(&image.new_name),
            given(&image.new_tag),
            given(&image.digest),
        );
        let list = file.entry("images").or_insert_with(|| json!([]));
        let Value::Array(list) = list else { continue };
        let is_same = |entry: &&mut Value| entry["name"] == image.name.as_str();
        let index = match list.iter_mut().find(is_same) {
            Some(entry) => entry,
            None => {
                list.push(json!({"name": image.name}));
                match list.last_mut() {
                    Some(entry) => entry,
                    None => continue,
                }
            }
        };
        let Value::Object(entry) = index else {
            continue;
        };
        let replaces_version = new_tag.is_some() || digest.is_some();
        if let Some(new_name) = new_name {
            entry.insert("newName".into(), Value::String(new_name.into()));
        }
        // Tag and digest both choose the version: a new one of either replaces both.
        if replaces_version {
            for (field, value) in [("newTag", new_tag), ("digest", digest)] {
                match value {
                    Some(value) => entry.insert(field.into(), Value::String(value.into())),
                    None => entry.remove(field),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_must_be_local_and_relative() {
        for path in ["../c", "c", "./a/b", "git", "file.d/x"] {
            assert!(is_local_and_relative(path), "{path}");
        }
        for path in [
            "/abs",
            "https://example.org/x",
            "HTTPS://example.org/x",
            "git@host:x",
            "github.com/a/b",
            "file:///abs",
            "gh:a",
        ] {
            assert!(!is_local_and_relative(path), "{path}");
        }
    }

    #[test]
    fn a_new_tag_drops_an_old_digest() {
        let mut file = json!({"images": [{"name": "a", "newName": "b", "digest": "sha256:1"}]});
        let file = file.as_object_mut().unwrap();
        let image = |name: &str, tag: &str| Image {
            name: name.to_owned(),
            new_tag: Some(tag.to_owned()),
            ..Image::default()
        };
        merge_images(file, &[image("a", "2"), image("c", "3")]);
        assert_eq!(
            file["images"],
            json!([{"name": "a", "newName": "b", "newTag": "2"}, {"name": "c", "newTag": "3"}])
        );
    }
}
