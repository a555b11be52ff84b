//! Where in the source something is. Only failures pay for looking, and when the budget is used up nothing
//! more is looked for.

use everflow_kustomize::{Gvk, paths};
use everflow_limits::Budget;
use everflow_yaml::documents::{KioReader, kio_texts, resource_meta};
use everflow_yaml::{Node, Value, cost};

use crate::mount::Mount;

/// A file of the source, and a line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path, relative to the source.
    pub path: String,
    /// The line, from 1, where it is known.
    pub line: Option<u32>,
}

impl Place {
    fn new(path: &str, line: Option<u32>) -> Self {
        Place {
            path: path.trim_start_matches('/').to_owned(),
            line: line.filter(|line| *line > 0),
        }
    }
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
pub fn of_objects(mount: &Mount<'_>, gvk: &Gvk, name: &str, budget: &Budget) -> Vec<Place> {
    let mut places = Vec::new();
    for path in mount.files_read() {
        let Ok(content) = mount.content(&path) else {
            continue;
        };
        let lines = lines_of_objects(&content, gvk, name, budget).into_iter();
        places.extend(lines.map(|line| Place::new(&path, Some(line))));
    }
    places
}

/// The lines at which objects with this identity begin in a file.
fn lines_of_objects(content: &[u8], gvk: &Gvk, name: &str, budget: &Budget) -> Vec<u32> {
    let mut lines = Vec::new();
    let Ok((_held, limits)) = cost::reading(budget, content) else {
        return lines;
    };
    let reader = KioReader::default().de_anchor(true).limits(limits);
    for (before, text) in kio_texts(content) {
        if budget.check().is_err() {
            break;
        }
        let Ok(read) = reader.read(text) else {
            continue;
        };
        let roots = read.documents.iter().map(|document| &document.root);
        let found = roots.filter(|root| is_object(root, gvk, name));
        lines.extend(found.map(|root| before + root.position.line));
    }
    lines
}

fn is_object(root: &Node, gvk: &Gvk, name: &str) -> bool {
    let meta = resource_meta(root);
    meta.is_some_and(|meta| meta.name == name && Gvk::new(&meta.api_version, &meta.kind) == *gvk)
}

/// Where patches for an object stand in kustomization files themselves.
fn of_inline_patches(mount: &Mount<'_>, gvk: &Gvk, name: &str, budget: &Budget) -> Vec<Place> {
    let mut places = Vec::new();
    for (path, content) in mount.kustomizations_read() {
        let Ok((_held, limits)) = cost::reading(budget, &content) else {
            break;
        };
        let reader = KioReader::default().de_anchor(true).limits(limits);
        let Ok(read) = reader.read(&content) else {
            continue;
        };
        let Some(root) = read.documents.first().map(|document| &document.root) else {
            continue;
        };
        let texts = items(root, "patches")
            .filter_map(|patch| patch.get("patch"))
            .chain(items(root, "patchesStrategicMerge"));
        for text in texts {
            let Some(patch) = text.as_str() else { continue };
            let lines = lines_of_objects(patch.as_bytes(), gvk, name, budget);
            // A block begins on the line after its sign.
            let inner = text.position.line + u32::from(patch.contains('\n'));
            let place = |line: u32| Place::new(&path, Some((inner + line).saturating_sub(1)));
            places.extend(lines.into_iter().map(place));
        }
    }
    places
}

fn items<'n>(root: &'n Node, field: &str) -> impl Iterator<Item = &'n Node> {
    let list = root.get(field).map(|list| &list.value);
    let items = match list {
        Some(Value::Sequence(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter()
}

/// Where kustomization files name a path that is not there.
fn of_missing_path(mount: &Mount<'_>, text: &str, budget: &Budget) -> Vec<Place> {
    let Some(missing) = missing_path(text) else {
        return Vec::new();
    };
    let missing = paths::clean(&format!("/{missing}"));
    let mut places = Vec::new();
    for (path, content) in mount.kustomizations_read() {
        if budget.check().is_err() {
            break;
        }
        let directory = paths::parent(&path);
        let names = |line: &str| {
            let words = line.split([' ', '\'', '"', '[', ']', '{', '}', ',', '=']);
            let mut words = words.filter(|word| !word.is_empty());
            words.any(|word| paths::join(directory, word) == missing)
        };
        let content = String::from_utf8_lossy(&content);
        let line = content.lines().position(names);
        let line = line.and_then(|index| u32::try_from(index + 1).ok());
        places.extend(line.map(|line| Place::new(&path, Some(line))));
    }
    places
}

/// The path that a message says is not there.
fn missing_path(text: &str) -> Option<&str> {
    for (before, after) in [
        ("lstat ", ": no such file or directory"),
        ("open ", ": no such file or directory"),
        ("evalsymlink failure on '", "'"),
        ("'", "' doesn't exist"),
    ] {
        let found = text
            .find(after)
            .filter(|_| before != "evalsymlink failure on '");
        let path = match found {
            Some(end) => text[..end]
                .rfind(before)
                .map(|at| &text[at + before.len()..end]),
            None => text
                .split_once(before)
                .and_then(|(_, rest)| rest.split_once(after))
                .map(|it| it.0),
        };
        if let Some(path) = path.filter(|path| !path.contains(['\'', ' '])) {
            return Some(path);
        }
    }
    None
}

/// Where an object begins, or where a text stands in the file of it.
pub fn of_text(
    mount: &Mount<'_>,
    gvk: &Gvk,
    name: &str,
    text: &str,
    budget: &Budget,
) -> Option<Place> {
    let object = of_objects(mount, gvk, name, budget).into_iter().next()?;
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
pub fn of_fault(content: &[u8], budget: &Budget) -> Option<u32> {
    let (_held, limits) = cost::reading(budget, content).ok()?;
    for (before, text) in kio_texts(content) {
        budget.check().ok()?;
        if let Err(error) = KioReader::default().limits(limits).read(text) {
            let line = error.position().line;
            return (line > 0).then_some(before + line);
        }
    }
    None
}

/// So many places are enough for a message.
const MOST: usize = 16;

/// The places that a failure of kustomize speaks of: the objects of the identities in its text.
pub fn in_message(mount: &Mount<'_>, text: &str, budget: &Budget) -> Vec<Place> {
    let mut places: Vec<Place> = match text.contains("MalformedYAMLError") {
        true => malformed(mount, budget),
        false => Vec::new(),
    };
    // Messages may quote whole files: most of their lines have no identity in them.
    let lines = text.split('\n').filter(|line| line.contains('/'));
    for word in lines.flat_map(|line| line.split([' ', '"', '\''])) {
        if budget.check().is_err() || places.len() >= MOST {
            break;
        }
        let word = word.trim_matches([',', ';', ':', '`']);
        let Some((gvk, name)) = parse_identity(word) else {
            continue;
        };
        let mut found = of_objects(mount, &gvk, name, budget);
        if text.contains("patch") {
            found.extend(of_inline_patches(mount, &gvk, name, budget));
        }
        for place in found {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    if places.is_empty() {
        places = of_missing_path(mount, text, budget);
    }
    places
}

/// The files of the build that are no YAML.
fn malformed(mount: &Mount<'_>, budget: &Budget) -> Vec<Place> {
    let files = mount.files_read().into_iter();
    let broken = files.filter_map(|path| {
        let line = of_fault(&mount.content(&path).ok()?, budget)?;
        Some(Place::new(&path, Some(line)))
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
    fn lines_count_from_the_beginning_of_the_file() {
        let text =
            "---\na: 1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\nc: [\n";
        let gvk = Gvk::new("v1", "ConfigMap");
        let budget = Budget::unlimited();
        let lines = lines_of_objects(text.as_bytes(), &gvk, "b", &budget);
        assert_eq!(lines, [4]);
        assert_eq!(of_fault(text.as_bytes(), &budget), Some(9));
        let anchor = "a: 1\n---\nb:\n- *none\n";
        assert_eq!(of_fault(anchor.as_bytes(), &budget), Some(4));
    }

    #[test]
    fn missing_paths_are_found_in_messages() {
        for (text, path) in [
            (
                "accumulating resources from 'gone.yaml': open a/gone.yaml: no such file or directory",
                "a/gone.yaml",
            ),
            (
                "evalsymlink failure on 'a/b' : lstat a/b: no such file or directory",
                "a/b",
            ),
            ("'a/p.yaml' doesn't exist", "a/p.yaml"),
        ] {
            assert_eq!(missing_path(text), Some(path), "{text}");
        }
        assert_eq!(missing_path("something else"), None);
    }

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
