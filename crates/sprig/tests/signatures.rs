//! Every function of the real map is there with its Go signature.

use everflow_gotemplate::{Functions, GoType};
use everflow_json::Value;
use everflow_sprig::{FixedSource, Source, register};

/// Functions that need the chart, which register themselves with it.
const LEFT_TO_HELM: [&str; 4] = ["include", "tpl", "required", "lookup"];

fn go_type(go_type: GoType) -> String {
    go_type.to_string()
}

#[test]
fn recorded_signatures() {
    let Some(path) = everflow_corpus::find("helm/functions/funcmap.json") else {
        return;
    };
    let mut functions = Functions::new();
    register(&mut functions, |context| {
        context
            .state::<FixedSource>()
            .map(|source| source as &mut dyn Source)
    });
    let recorded: Value = everflow_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wanted = 0;
    for entry in recorded.as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        if LEFT_TO_HELM.contains(&name) {
            continue;
        }
        wanted += 1;
        let signature = functions
            .get(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .signature;
        let mut params: Vec<String> = signature.params.iter().map(|p| go_type(*p)).collect();
        if signature.variadic {
            let last = params.pop().unwrap();
            params.push(format!("[]{last}"));
        }
        let recorded: Vec<&str> = entry["in"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(params, recorded, "parameters of {name}");
        assert_eq!(
            signature.variadic,
            entry["variadic"].as_bool().unwrap(),
            "{name}"
        );
        assert_eq!(
            go_type(signature.result),
            entry["out"][0].as_str().unwrap(),
            "{name}"
        );
    }
    assert_eq!(functions.names().count(), wanted);
}
