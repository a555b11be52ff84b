//! Where in the source something is. Only failures pay for looking.

use everflow_kustomize::Gvk;
use everflow_yaml::documents::{KioReader, resource_meta};

use crate::mount::Mount;

/// A file of the source, and a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path, relative to the source.
    pub path: String,
    /// The line, from 1, where it is known.
    pub line: Option<u32>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

/// Where the objects with this identity are, among the files that the build read.
pub fn of_objects(mount: &Mount<'_>, gvk: &Gvk, name: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for path in mount.files_read() {
        let Ok(content) = mount.content(&path) else {
            continue;
        };
        let reader = KioReader::default().de_anchor(true);
        let Ok(read) = reader.read(&content) else {
            continue;
        };
        for document in &read.documents {
            let Some(meta) = resource_meta(&document.root) else {
                continue;
            };
            if meta.name == name && Gvk::new(&meta.api_version, &meta.kind) == *gvk {
                let line = document.root.position.line;
                places.push(Place {
                    path: path.trim_start_matches('/').to_owned(),
                    line: (line > 0).then_some(line),
                });
            }
        }
    }
    places
}

/// Where an object begins, or where a text stands in the file of it.
pub fn of_text(mount: &Mount<'_>, gvk: &Gvk, name: &str, text: &str) -> Option<Place> {
    let object = of_objects(mount, gvk, name).into_iter().next()?;
    let content = mount.content(&format!("/{}", object.path)).ok()?;
    let content = String::from_utf8_lossy(&content);
    let first = object.line.unwrap_or(1).saturating_sub(1) as usize;
    let line = content
        .lines()
        .enumerate()
        .skip(first)
        .find(|(_, line)| line.contains(text))
        .and_then(|(index, _)| u32::try_from(index + 1).ok());
    Some(Place {
        line: line.or(object.line),
        ..object
    })
}

/// The line of the file at which its YAML breaks.
pub fn of_fault(content: &[u8]) -> Option<u32> {
    let error = KioReader::default().read(content).err()?;
    let line = error.position().line;
    (line > 0).then_some(line)
}

/// The places that a failure of kustomize speaks of: the objects of the identities in its text.
pub fn in_message(mount: &Mount<'_>, text: &str) -> Vec<Place> {
    let mut places: Vec<Place> = match text.contains("MalformedYAMLError") {
        true => malformed(mount),
        false => Vec::new(),
    };
    for word in text.split([' ', '"', '\'', '\n']) {
        let word = word.trim_matches([',', ';', ':', '`']);
        let Some((gvk, name)) = parse_identity(word) else {
            continue;
        };
        for place in of_objects(mount, &gvk, name) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// The files of the build that are no YAML.
fn malformed(mount: &Mount<'_>) -> Vec<Place> {
    let files = mount.files_read().into_iter();
    let broken = files.filter_map(|path| {
        let line = of_fault(&mount.content(&path).ok()?)?;
        Some(Place {
            path: path.trim_start_matches('/').to_owned(),
            line: Some(line),
        })
    });
    broken.collect()
}

/// Reads `Kind.version.group/name.namespace` as kustomize prints it.
fn parse_identity(word: &str) -> Option<(Gvk, &str)> {
    let (kind, name) = word.split_once('/')?;
    let (kind, rest) = kind.split_once('.')?;
    let (version, group) = rest.split_once('.')?;
    let name = match name.rfind(".[no") {
        Some(end) => &name[..end],
        None => name.rsplit_once('.').map_or(name, |(name, _)| name),
    };
    let or_empty = |text: &str| match text {
        "[noGrp]" | "[noVer]" => String::new(),
        text => text.to_owned(),
    };
    let gvk = Gvk {
        group: or_empty(group).into(),
        version: or_empty(version).into(),
        kind: kind.into(),
    };
    Some((gvk, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_found_in_messages() {
        let (gvk, name) = parse_identity("Deployment.v1.apps/my.app.[noNs]").unwrap();
        assert_eq!(gvk, Gvk::new("apps/v1", "Deployment"));
        assert_eq!(name, "my.app");
        let (gvk, name) = parse_identity("ConfigMap.v1.[noGrp]/one.default").unwrap();
        assert_eq!(gvk, Gvk::new("v1", "ConfigMap"));
        assert_eq!(name, "one");
        assert!(parse_identity("and/or").is_none());
    }
}
