//! The Flux that a repository installs.

use everflow_json::Value;

use crate::entry::instance;
use crate::tree::{Contents, Tree};

/// A version of Flux, and the file that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The version as it is written there.
    pub version: String,
    /// The file.
    pub file: String,
}

impl Installed {
    /// Whether variables without a value are empty for it; from 2.9 on, they are mistakes.
    pub fn leaves_variables_unset(&self) -> bool {
        number(&self.version) < Some((2, 9))
    }
}

/// The version of Flux that is installed where a repository begins: of all that it names, the one in
/// the file nearest to that directory.
pub fn installed(tree: &Tree, contents: &Contents, directory: &str) -> Option<Installed> {
    let of_objects = contents.objects.iter().filter_map(|found| {
        let version = version_of(&found.object)?;
        Some((version.to_owned(), found.path.clone()))
    });
    let of_instances = instance::instances(tree, contents)
        .into_iter()
        .filter_map(|one| {
            let version = one.spec["distribution"]["version"].as_str()?;
            Some((version.to_owned(), one.path))
        });
    let known = of_objects
        .chain(of_instances)
        .filter(|(version, _)| number(version).is_some());
    let nearest = known.max_by_key(|(version, file)| (in_common(directory, file), number(version)));
    nearest.map(|(version, file)| Installed { version, file })
}

/// The version that an object of Flux's own manifests, or the source of these, speaks of.
fn version_of(object: &Value) -> Option<&str> {
    let labels = &object["metadata"]["labels"];
    match object["kind"].as_str()? {
        "Namespace" | "Deployment" if labels["app.kubernetes.io/part-of"] == "flux" => {
            labels["app.kubernetes.io/version"].as_str()
        }
        "OCIRepository" => {
            let address = object["spec"]["url"].as_str()?;
            let reference = &object["spec"]["ref"];
            let tag = reference["tag"].as_str();
            tag.or(reference["semver"].as_str())
                .filter(|_| address.ends_with("/flux-manifests"))
        }
        _ => None,
    }
}

/// Major and minor number of a version or of a range of versions; a range that leaves the minor
/// number open means the newest.
fn number(version: &str) -> Option<(u32, u32)> {
    let version = version.trim_start_matches(['v', '=', '~', '^', ' ']);
    let mut parts = version.split(['.', '@', ' ', '-']);
    let major = parts.next()?.parse().ok()?;
    let minor = match parts.next() {
        None | Some("x" | "X" | "*") => u32::MAX,
        Some(minor) => minor.parse().ok()?,
    };
    Some((major, minor))
}

/// How many directories two paths share.
fn in_common(directory: &str, file: &str) -> usize {
    let parts = directory.split('/').zip(file.split('/'));
    parts.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everflow_env::MemoryDisk;
    use everflow_env::disk::write_whole;

    use super::*;

    fn found(files: &[(&str, &str)], directory: &str) -> Option<(String, bool)> {
        let disk = MemoryDisk::new();
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        let tree = Tree::new(Arc::new(disk));
        let contents = tree.contents().unwrap();
        let installed = installed(&tree, &contents, directory)?;
        let unset = installed.leaves_variables_unset();
        Some((installed.version, unset))
    }

    fn components(version: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: flux-system\n  labels:\n    app.kubernetes.io/part-of: flux\n    app.kubernetes.io/version: {version}\n"
        )
    }

    fn instance(version: &str) -> String {
        format!(
            "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata: {{name: flux}}\nspec:\n  distribution: {{version: \"{version}\"}}\n"
        )
    }

    #[test]
    fn the_version_nearest_to_the_beginning() {
        let files = [
            ("clusters/a/flux-system/gotk.yaml", components("v2.8.8")),
            ("clusters/b/flux-system/gotk.yaml", components("v2.9.1")),
        ];
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        assert_eq!(found(&files, "clusters/a"), Some(("v2.8.8".into(), true)));
        assert_eq!(found(&files, "clusters/b"), Some(("v2.9.1".into(), false)));
        // Where both are equally near, the newer one counts.
        assert_eq!(found(&files, "clusters"), Some(("v2.9.1".into(), false)));
        assert_eq!(found(&[], ""), None);
    }

    #[test]
    fn versions_and_ranges() {
        for (version, unset) in [
            ("2.x", false),
            ("2", false),
            ("2.8.x", true),
            ("~2.7", true),
            ("2.9.x", false),
            ("v0.41.2", true),
            ("3.0.0", false),
        ] {
            let text = instance(version);
            let found = found(&[("flux.yaml", &text)], "");
            assert_eq!(found, Some((version.to_owned(), unset)));
        }
        assert_eq!(found(&[("flux.yaml", &instance("${VERSION}"))], ""), None);
    }

    #[test]
    fn the_source_of_manifests() {
        let source = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: flux}\nspec:\n  url: oci://ghcr.io/fluxcd/flux-manifests\n  ref: {tag: v2.2.3}\n";
        let found = found(&[("flux/flux.yaml", source)], "flux");
        assert_eq!(found, Some(("v2.2.3".into(), true)));
    }
}
