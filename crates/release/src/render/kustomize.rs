//! `postRenderers[].kustomize`.

use everflow_api::go_json;
use everflow_api::helm::KustomizePostRenderer;
use everflow_kustomize::{LoadRestriction, MemoryView, Options, Plugins, Reorder, build};
use everflow_limits::Budget;

/// The file that the manifests are in for kustomize.
const INPUT: &str = "helm-output.yaml";

/// Patches manifests and changes their images.
pub(super) fn run(
    step: &KustomizePostRenderer,
    manifests: &str,
    budget: &Budget,
) -> Result<String, String> {
    let kustomization = format!(
        "{{\"apiVersion\":\"kustomize.config.k8s.io/v1beta1\",\"kind\":\"Kustomization\",\
         \"resources\":[\"{INPUT}\"],\"patches\":{},\"images\":{}}}",
        go_json_list(&step.patches),
        go_json_list(&step.images),
    );
    let view: MemoryView = [
        ("/kustomization.yaml".to_owned(), kustomization.into_bytes()),
        (format!("/{INPUT}"), manifests.as_bytes().to_vec()),
    ]
    .into_iter()
    .collect();
    let options = Options {
        load_restriction: LoadRestriction::None,
        reorder: Reorder::None,
        ..Options::default()
    };
    let built = build(&view, "/", &options, Plugins::default(), budget)
        .and_then(|output| output.to_yaml())
        .map_err(|error| error.to_string());
    // The path of the file that only we know of.
    built.map_err(|error| {
        error.replace(
            &format!(
                "accumulating resources: accumulation err='accumulating resources from '{INPUT}': "
            ),
            "",
        )
    })
}

fn go_json_list<T: everflow_api::wire::Wire>(items: &Vec<T>) -> String {
    match items.is_empty() {
        true => "[]".to_owned(),
        false => go_json::print(items),
    }
}
