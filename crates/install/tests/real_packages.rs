//! The chart with the real helm, versions 3 and 4, and the base with the real kustomize.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use everflow_corpus::real;
use everflow_install::{Options, manifests};
use everflow_json::Value;
use everflow_yaml::documents::yaml_or_json_decoder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn must(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = program.display();
    assert!(output.status.success(), "{shown} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Objects by kind and name, as text.
fn by_name(objects: impl Iterator<Item = Value>) -> BTreeMap<String, String> {
    let named = objects.map(|mut object| {
        if let Some(metadata) = object["metadata"].as_object_mut()
            && let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
        {
            annotations.remove("helm.sh/resource-policy");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        let (kind, name) = (object["kind"].clone(), object["metadata"]["name"].clone());
        let namespace = object["metadata"]["namespace"].clone();
        let text = everflow_yaml::emit::sigs(&object);
        (format!("{kind} {namespace} {name}"), text)
    });
    named.collect()
}

fn printed(text: &str) -> BTreeMap<String, String> {
    let documents = yaml_or_json_decoder(text.as_bytes());
    by_name(documents.filter_map(|document| document.unwrap().into_object().unwrap()))
}

fn ours(options: &Options) -> BTreeMap<String, String> {
    by_name(manifests(options).unwrap().into_iter())
}

fn same(what: &str, theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) {
    let names = |objects: &BTreeMap<String, String>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(theirs), names(ours), "{what}");
    for (name, text) in ours {
        assert!(
            *text == theirs[name],
            "{what}: {name}\n{}\n--- ours\n{text}",
            theirs[name]
        );
    }
}

#[test]
fn both_helms_lint_the_chart_and_render_what_install_prints() {
    for name in ["helm", "helm3"] {
        let Some(helm) = real::program(name) else {
            return;
        };
        must(&helm, &["lint", "--strict", "charts/everflow"]);
        let common = [
            "template",
            "everflow",
            "charts/everflow",
            "-n",
            "flux-system",
        ];
        let locked = Options {
            multitenant: true,
            flux_instance: true,
            ..Options::default()
        };
        let cases = [
            (Options::default(), "namespace.create=true"),
            (
                locked,
                "namespace.create=true,fluxInstance=true,multitenant.enabled=true",
            ),
        ];
        for (options, values) in cases {
            let arguments = [&common[..], &["--set", values]].concat();
            same(name, &printed(&must(&helm, &arguments)), &ours(&options));
        }
    }
}

#[test]
fn the_real_kustomize_builds_the_base_to_what_install_prints() {
    let Some(kustomize) = real::program("kustomize") else {
        return;
    };
    let built = must(&kustomize, &["build", "deploy"]);
    same("kustomize", &printed(&built), &ours(&Options::default()));
}
