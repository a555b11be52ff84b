//! Groups and resources from discovery, columns from empty tables.

use std::path::Path;

use everflow_json::Value;
use everflow_schema::{Column, Group, Resource, Subresource};
use smol_str::SmolStr;

use crate::{Failure, read_json};

/// Reads all groups and resources, in the order of discovery.
pub fn read(documents: &Path) -> Result<(Vec<Group>, Vec<Resource>), Failure> {
    let mut groups = Vec::new();
    let mut resources = Vec::new();
    for file in ["discovery-api.json", "discovery-apis.json"] {
        let document = read_json(&documents.join(file))?;
        for item in list(&document["items"]) {
            let group = text(&item["metadata"]["name"]);
            groups.push(Group {
                name: group.clone(),
                versions: list(&item["versions"])
                    .map(|version| text(&version["version"]))
                    .collect(),
            });
            for version in list(&item["versions"]) {
                let hashes = Hashes::read(documents, &group, &text(&version["version"]))?;
                for entry in list(&version["resources"]) {
                    resources.push(resource(
                        documents,
                        &group,
                        &text(&version["version"]),
                        entry,
                        &hashes,
                    )?);
                }
            }
        }
    }
    add_storage_versions(&groups, &mut resources);
    Ok((groups, resources))
}

fn resource(
    documents: &Path,
    group: &SmolStr,
    version: &SmolStr,
    entry: &Value,
    hashes: &Hashes,
) -> Result<Resource, Failure> {
    let plural = text(&entry["resource"]);
    let mut subresources: Vec<Subresource> = list(&entry["subresources"])
        .map(|nested| subresource(group, version, nested))
        .collect();
    subresources.sort_by(|left, right| left.name.cmp(&right.name));
    let verbs = texts(&entry["verbs"]);
    let columns = if verbs.iter().any(|verb| verb == "list") {
        columns(documents, group, version, &plural)?
    } else {
        Vec::new()
    };
    Ok(Resource {
        group: group.clone(),
        version: version.clone(),
        singular: text(&entry["singularResource"]),
        kind: text(&entry["responseKind"]["kind"]),
        namespaced: entry["scope"] == "Namespaced",
        verbs,
        short_names: texts(&entry["shortNames"]),
        categories: texts(&entry["categories"]),
        subresources,
        storage_api_version: None,
        storage_version_hash: hashes.of(&plural),
        columns,
        plural,
    })
}

fn subresource(group: &str, version: &str, entry: &Value) -> Subresource {
    let kind = &entry["responseKind"];
    let (kind_group, kind_version) = (text(&kind["group"]), text(&kind["version"]));
    let own = kind_group == group && kind_version == version;
    Subresource {
        name: text(&entry["subresource"]),
        group: if own { SmolStr::default() } else { kind_group },
        version: if own {
            SmolStr::default()
        } else {
            kind_version
        },
        kind: text(&kind["kind"]),
        verbs: texts(&entry["verbs"]),
    }
}

/// The name that `real/schema.sh` gives to what it fetches for a group and version.
fn file_stem(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api__{version}")
    } else {
        format!("apis__{group}__{version}")
    }
}

fn columns(
    documents: &Path,
    group: &str,
    version: &str,
    plural: &str,
) -> Result<Vec<Column>, Failure> {
    let path = documents
        .join("tables")
        .join(format!("{}__{plural}.json", file_stem(group, version)));
    let table = read_json(&path)?;
    if table["kind"] != "Table" {
        return Err(format!("{} holds no table", path.display()).into());
    }
    Ok(list(&table["columnDefinitions"])
        .map(|column| Column {
            name: text(&column["name"]),
            cell_type: text(&column["type"]),
            format: text(&column["format"]),
            description: text(&column["description"]),
            priority: column["priority"].as_i64().unwrap_or_default() as i32,
        })
        .collect())
}

/// `storageVersionHash` is only in the discovery document of a group's version.
struct Hashes(Value);

impl Hashes {
    fn read(documents: &Path, group: &str, version: &str) -> Result<Self, Failure> {
        let path = documents
            .join("resources")
            .join(format!("{}.json", file_stem(group, version)));
        Ok(Self(read_json(&path)?))
    }

    fn of(&self, plural: &str) -> Option<SmolStr> {
        list(&self.0["resources"])
            .find(|entry| entry["name"] == plural)
            .and_then(|entry| entry["storageVersionHash"].as_str())
            .map(SmolStr::new)
    }
}

/// Versions in which a release may store what it no longer or not yet serves.
const UNSERVED: [&str; 6] = [
    "v1", "v1beta1", "v1beta2", "v1beta3", "v1alpha1", "v1alpha2",
];

/// The hash says which version is stored: it is made of group, version and kind. Events of all
/// groups are stored in the core group.
fn add_storage_versions(groups: &[Group], resources: &mut [Resource]) {
    for resource in resources {
        let Some(wanted) = &resource.storage_version_hash else {
            continue;
        };
        let served = groups
            .iter()
            .filter(|group| group.name == resource.group || group.name.is_empty())
            .flat_map(|group| {
                group
                    .versions
                    .iter()
                    .map(|version| (group.name.as_str(), version.as_str()))
            });
        let unserved = UNSERVED
            .iter()
            .map(|version| (resource.group.as_str(), *version));
        let stored = served.chain(unserved).find(|(group, version)| {
            let digest = sha256(&format!("{group}/{version}/{}", resource.kind));
            base64(&digest[..8]) == wanted.as_str()
        });
        resource.storage_api_version = stored.map(|stored| match stored {
            ("", version) => SmolStr::new(version),
            (group, version) => SmolStr::from(format!("{group}/{version}")),
        });
    }
}

fn sha256(text: &str) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(text.as_bytes()).into()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> SmolStr {
    SmolStr::new(value.as_str().unwrap_or_default())
}

fn texts(value: &Value) -> Vec<SmolStr> {
    list(value).map(text).collect()
}
