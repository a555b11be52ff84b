//! Changing rendered manifests before they are sorted: what `--post-renderer` does, and Flux's
//! `postRenderers`.
//!
//! The manifests travel as one stream; an annotation remembers the file of each, so that hooks and
//! sources are found again behind the post-renderer.

use std::collections::BTreeMap;

use everflow_gotemplate::{Held, Meter};
use everflow_limits::Exceeded;
use everflow_sprig::cost;
use everflow_yaml::documents::{helm_manifests, kio_reader};
use everflow_yaml::emit::{self, Indent};
use everflow_yaml::{Document, Node};

/// Where a manifest comes from.
const FILE_ANNOTATION: &str = "postrenderer.helm.sh/postrender-filename";

/// How many times the length of a document its printed forms take.
const ANNOTATED: usize = 6;

/// Something that changes a stream of manifests.
pub trait PostRenderer {
    /// Takes all manifests and gives what is to be installed instead.
    ///
    /// # Errors
    /// Says why it cannot.
    fn run(&mut self, manifests: &str) -> Result<String, String>;
}

/// Why post-rendering failed, in helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostRenderError {
    /// A rendered file is not YAML.
    #[error("error merging manifests: parsing {file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A manifest is not a map, so that it cannot be annotated.
    #[error("error merging manifests: annotating {0}: wrong node kind: expected MappingNode")]
    NotAMap(String),
    /// The post-renderer failed.
    #[error("error while running post render on files: {0}")]
    Failed(String),
    /// The manifests are too large.
    #[error("error merging manifests: {file}: {source}")]
    Exceeded {
        /// The file.
        file: String,
        /// What was used up.
        source: Exceeded,
    },
    /// What the post-renderer gave is not YAML.
    #[error("error while parsing post rendered output: error parsing YAML: {0}")]
    BadOutput(String),
}

/// Sends all files (by path) through a post-renderer and gives the files that come back.
///
/// # Errors
/// When a file is no YAML, or the post-renderer fails.
pub fn post_render(
    files: &[(String, Vec<u8>)],
    renderer: &mut dyn PostRenderer,
    meter: &Meter<'_>,
) -> Result<Vec<(String, Vec<u8>)>, PostRenderError> {
    let merged = annotated_stream(files, meter)?;
    let output = renderer.run(&merged).map_err(PostRenderError::Failed)?;
    drop(merged);
    let _held = hold(meter, "the output", output.as_bytes())?;
    let files = split_by_file(&output)?;
    let length: usize = files.iter().map(|(_, text)| text.len()).sum();
    meter
        .add_buffer(length)
        .map_err(|source| PostRenderError::Exceeded {
            file: "the output".to_owned(),
            source,
        })?;
    Ok(files)
}

/// Charges what reading a text and printing its documents again takes.
fn hold<'m>(meter: &'m Meter<'_>, file: &str, text: &[u8]) -> Result<Held<'m>, PostRenderError> {
    let bytes = cost::of_yaml(text) + ANNOTATED * text.len();
    meter
        .hold(bytes)
        .map_err(|source| PostRenderError::Exceeded {
            file: file.to_owned(),
            source,
        })
}

fn annotated_stream(
    files: &[(String, Vec<u8>)],
    meter: &Meter<'_>,
) -> Result<String, PostRenderError> {
    let mut sorted: Vec<&(String, Vec<u8>)> = files.iter().collect();
    sorted.sort_by_key(|(path, _)| path);
    let mut all: Vec<Document> = Vec::new();
    let mut held = Vec::new();
    for (path, content) in sorted {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') {
            continue;
        }
        held.push(hold(meter, path, content)?);
        for text in helm_manifests(content) {
            let read = kio_reader(text).map_err(|error| PostRenderError::Unreadable {
                file: path.clone(),
                reason: error.to_string(),
            })?;
            for mut document in read.documents {
                annotate(&mut document.root, path)
                    .ok_or_else(|| PostRenderError::NotAMap(path.clone()))?;
                all.push(document);
            }
        }
    }
    Ok(printed(&all))
}

fn split_by_file(output: &str) -> Result<Vec<(String, Vec<u8>)>, PostRenderError> {
    let read = kio_reader(output.as_bytes())
        .map_err(|error| PostRenderError::BadOutput(error.to_string()))?;
    let mut by_file: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for (index, mut document) in read.documents.into_iter().enumerate() {
        let file = take_annotation(&mut document.root)
            .unwrap_or_else(|| format!("generated-by-postrender-{index}.yaml"));
        by_file.entry(file).or_default().push(document);
    }
    Ok(by_file
        .into_iter()
        .map(|(file, documents)| (file, printed(&documents).into_bytes()))
        .collect())
}

fn printed(documents: &[Document]) -> String {
    emit::kyaml_documents(documents.iter().map(|document| (document, Indent::Compact)))
}

/// `None` if the manifest, its metadata or its annotations are no maps.
fn annotate(root: &mut Node, file: &str) -> Option<()> {
    let annotations = child_map(child_map(root, "metadata")?, "annotations")?;
    let mut value = Node::string(file);
    value.style = everflow_yaml::Style::SingleQuoted;
    annotations.as_mapping_mut()?.insert(FILE_ANNOTATION, value);
    Some(())
}

fn child_map<'n>(parent: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    let map = parent.as_mapping_mut()?;
    if map.get(key).is_none_or(Node::is_null) {
        map.insert(key, Node::mapping());
    }
    map.get_mut(key)
        .filter(|child| child.as_mapping().is_some())
}

/// Takes the annotation off again, and with it an annotations map that held nothing else.
fn take_annotation(root: &mut Node) -> Option<String> {
    let metadata = root.get_mut("metadata")?;
    let annotations = metadata.get_mut("annotations")?.as_mapping_mut()?;
    let file = annotations.remove(FILE_ANNOTATION)?;
    if annotations.is_empty() {
        metadata.as_mapping_mut()?.remove("annotations");
        if metadata.as_mapping().is_some_and(|map| map.is_empty()) {
            root.as_mapping_mut()?.remove("metadata");
        }
    }
    file.as_text()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    fn post_rendered(
        files: &[(String, Vec<u8>)],
        renderer: &mut dyn PostRenderer,
    ) -> Result<Vec<(String, Vec<u8>)>, PostRenderError> {
        let budget = Budget::unlimited();
        post_render(files, renderer, &Meter::new(&Limits::default(), &budget))
    }

    struct Replace(&'static str, &'static str);

    impl PostRenderer for Replace {
        fn run(&mut self, manifests: &str) -> Result<String, String> {
            Ok(manifests.replace(self.0, self.1))
        }
    }

    fn files(entries: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        entries
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn manifests_keep_their_files_and_lose_the_mark() {
        let before = files(&[
            (
                "app/templates/b.yaml",
                "kind: Service\nmetadata:\n  name: old\n",
            ),
            (
                "app/templates/a.yaml",
                "kind: A\n---\nkind: B\nmetadata:\n  name: old # note\n",
            ),
            ("app/templates/_helpers.tpl", "not yaml: ["),
            ("app/templates/empty.yaml", "\n"),
        ]);
        let after = post_rendered(&before, &mut Replace("old", "new")).unwrap();
        assert_eq!(
            after,
            files(&[
                (
                    "app/templates/a.yaml",
                    "kind: A\n---\nkind: B\nmetadata:\n  name: new # note\n"
                ),
                (
                    "app/templates/b.yaml",
                    "kind: Service\nmetadata:\n  name: new\n"
                ),
            ])
        );
    }

    #[test]
    fn object_added_by_a_post_renderer_gets_a_file_name() {
        struct Add;
        impl PostRenderer for Add {
            fn run(&mut self, manifests: &str) -> Result<String, String> {
                Ok(format!("{manifests}---\nkind: Extra\n"))
            }
        }
        let after =
            post_rendered(&files(&[("app/templates/a.yaml", "kind: A\n")]), &mut Add).unwrap();
        assert_eq!(after[1].0, "generated-by-postrender-1.yaml");
        assert_eq!(after[1].1, b"kind: Extra\n");
    }

    #[test]
    fn failures_say_where() {
        let error = post_rendered(&files(&[("x.yaml", "a: [")]), &mut Replace("", "")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("error merging manifests: parsing x.yaml: ")
        );
        let error = post_rendered(&files(&[("x.yaml", "text")]), &mut Replace("", "")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error merging manifests: annotating x.yaml: wrong node kind: expected MappingNode"
        );
    }
}
