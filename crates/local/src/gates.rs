//! Feature gates that a repository says its clusters have.

use crate::Error;
use crate::tree::{Contents, Tree};

/// Beyond this size a file is no configuration of a cluster.
const LARGEST: u64 = 256 * 1024;

/// A feature gate that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The file that says so.
    pub file: String,
}

/// The gates that matter to what the repository holds, and that its own configuration of machines or clusters turns on.
///
/// # Errors
/// The files cannot be listed.
pub fn on(tree: &Tree, contents: &Contents) -> Result<Vec<Gate>, Error> {
    let scales_to_zero = contents.objects.iter().any(|found| {
        found.object["kind"] == "HorizontalPodAutoscaler"
            && found.object["spec"]["minReplicas"] == 0
    });
    if !scales_to_zero {
        return Ok(Vec::new());
    }
    let name = "HPAScaleToZero";
    let files = tree.files()?.into_iter();
    let mut configuration = files.filter(|file| file.size <= LARGEST && !is_prose(&file.path));
    let says_so = configuration.find(|file| {
        let text = tree.text(&file.path).unwrap_or_default();
        text.lines().any(|line| turns_on(line, name))
    });
    Ok(says_so
        .map(|file| Gate {
            name,
            file: file.path,
        })
        .into_iter()
        .collect())
}

fn is_prose(path: &str) -> bool {
    [".md", ".txt", ".rst", ".adoc"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// Whether a line of a configuration turns a gate on: `feature-gates: A=true,B=true`, or `B: true`.
fn turns_on(line: &str, gate: &str) -> bool {
    let line = line.trim();
    if line.starts_with('#') {
        return false;
    }
    let mut after = line.split(gate).skip(1);
    after.any(|rest| {
        let value = rest.trim_start_matches(['=', ':', ' ', '"', '\'']);
        value.len() < rest.len() && value.starts_with("true")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everflow_env::MemoryDisk;
    use everflow_env::disk::write_whole;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let disk = MemoryDisk::new();
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        Tree::new(Arc::new(disk))
    }

    #[test]
    fn lines_that_turn_a_gate_on() {
        let gate = "HPAScaleToZero";
        for line in [
            "feature-gates: HPAScaleToZero=true",
            "  feature-gates: A=true,HPAScaleToZero=true",
            "HPAScaleToZero: true",
            "- --feature-gates=HPAScaleToZero=true",
            "\"HPAScaleToZero\": \"true\",",
        ] {
            assert!(turns_on(line, gate), "{line}");
        }
        for line in [
            "feature-gates: HPAScaleToZero=false",
            "# HPAScaleToZero=true",
            "HPAScaleToZero is true",
            "HPAScaleToZeroes=true",
            "",
        ] {
            assert!(!turns_on(line, gate), "{line}");
        }
    }

    #[test]
    fn a_gate_counts_when_something_needs_it_and_the_configuration_has_it() {
        let hpa = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {minReplicas: 0}\n";
        let machine = "extraArgs:\n  feature-gates: HPAScaleToZero=true\n";
        let found = |files: &[(&str, &str)]| {
            let tree = tree(files);
            let contents = tree.contents().unwrap();
            on(&tree, &contents).unwrap()
        };
        let gates = found(&[("apps/hpa.yaml", hpa), ("talos/machine.yaml.j2", machine)]);
        let expected = Gate {
            name: "HPAScaleToZero",
            file: "talos/machine.yaml.j2".into(),
        };
        assert_eq!(gates, [expected]);
        assert_eq!(found(&[("apps/hpa.yaml", hpa), ("notes.md", machine)]), []);
        assert_eq!(found(&[("talos/machine.yaml.j2", machine)]), []);
    }
}
