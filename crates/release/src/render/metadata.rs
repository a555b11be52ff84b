//! Labels and annotations that every manifest gets.

use std::collections::BTreeMap;

use everflow_api::common::CommonMetadata;
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::documents::{KioReader, kustomize_documents_within};
use everflow_yaml::{Document, Limits, Node, cost, emit};

/// What is added to the metadata of every manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Additions {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Additions {
    /// Both, the second over the first.
    pub(super) fn new(common: Option<&CommonMetadata>, over: &CommonMetadata) -> Self {
        let common = common.cloned().unwrap_or_default();
        let mut additions = Additions {
            labels: common.labels,
            annotations: common.annotations,
        };
        additions.labels.extend(over.labels.clone());
        additions.annotations.extend(over.annotations.clone());
        additions
    }

    /// Adds them to a stream, and prints it as kustomize would.
    pub(super) fn add(&self, manifests: &str, budget: &Budget) -> Result<String, String> {
        let mut out = String::with_capacity(manifests.len() + manifests.len() / 4);
        let exceeded = |error: Exceeded| error.to_string();
        // Aliases are replaced by what they stand for, in each document anew.
        let (held, limits) = cost::reading(budget, manifests.as_bytes()).map_err(exceeded)?;
        let documents = documents(manifests, limits, budget)?;
        drop(held);
        for mut document in documents {
            let print = cost::of_printing(&document.root);
            budget.charge(print).map_err(exceeded)?;
            self.add_to(&mut document.root)?;
            if !out.is_empty() {
                out.push_str("---\n");
            }
            emit::append_object(&document.root, &mut out).map_err(|error| error.to_string())?;
        }
        Ok(out)
    }

    fn add_to(&self, root: &mut Node) -> Result<(), String> {
        for (field, added) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if added.is_empty() {
                continue;
            }
            let place = child(root, "metadata").and_then(|metadata| child(metadata, field));
            let Some(map) = place.and_then(Node::as_mapping_mut) else {
                return Err(format!(
                    "{} has a metadata.{field} that is no map",
                    described(root)
                ));
            };
            for (key, value) in added {
                map.insert(key.as_str(), Node::string(value.as_str()));
            }
        }
        Ok(())
    }
}

/// The manifests of a stream as kustomize reads them. What it would refuse for want of a name, as with
/// `generateName`, is read all the same.
fn documents(manifests: &str, limits: Limits, budget: &Budget) -> Result<Vec<Document>, String> {
    if let Ok(documents) = kustomize_documents_within(manifests.as_bytes(), limits, budget) {
        return Ok(documents);
    }
    let reader = KioReader::default().de_anchor(true).limits(limits);
    let read = reader
        .read(manifests.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut documents = read.documents;
    documents.retain(|document| {
        document
            .root
            .as_mapping()
            .is_some_and(|map| !map.is_empty())
    });
    Ok(documents)
}

fn child<'n>(parent: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    let map = parent.as_mapping_mut()?;
    if map.get(key).is_none_or(Node::is_null) {
        map.insert(key, Node::mapping());
    }
    map.get_mut(key)
}

fn described(root: &Node) -> String {
    let text = |node: Option<&Node>| {
        let text = node.and_then(Node::as_text);
        text.unwrap_or_default().to_owned()
    };
    let name = root
        .get("metadata")
        .and_then(|metadata| metadata.get("name"));
    format!("{} \"{}\"", text(root.get("kind")), text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(label: &str) -> CommonMetadata {
        CommonMetadata {
            labels: [("team".to_owned(), label.to_owned())].into(),
            annotations: [("note".to_owned(), "1".to_owned())].into(),
            ..CommonMetadata::default()
        }
    }

    #[test]
    fn additions_win_and_the_rest_is_printed_as_kustomize_prints_it() {
        let additions = Additions::new(Some(&metadata("a")), &metadata("b"));
        let added = additions.add(
            "# gone\nkind: \"A\"\nmetadata:\n  name: x\n  labels: {team: z, own: y}\n---\nkind: B\n\
             metadata: {generateName: b-}\n",
            &Budget::unlimited(),
        );
        assert_eq!(
            added.unwrap(),
            "kind: A\nmetadata:\n  annotations:\n    note: \"1\"\n  labels:\n    own: \"y\"\n    team: b\n  \
             name: x\n---\nkind: B\nmetadata:\n  annotations:\n    note: \"1\"\n  generateName: b-\n  \
             labels:\n    team: b\n"
        );
    }

    #[test]
    fn labels_that_are_no_map_are_an_error_that_names_the_object() {
        let additions = Additions::new(None, &metadata("b"));
        let error = additions
            .add(
                "kind: A\nmetadata:\n  name: x\n  labels: [1]\n",
                &Budget::unlimited(),
            )
            .unwrap_err();
        assert_eq!(error, "A \"x\" has a metadata.labels that is no map");
    }
}
