//! The rules of Flux' own definitions compile and stay within the limits.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_cel::rules::{Rules, check_definition};
use everflow_json::Value;
use everflow_schema::Schema;

#[test]
fn rules_of_flux_compile() {
    let Some(folder) = everflow_corpus::find("apiserver/fixtures/crds") else {
        return;
    };
    let mut with_rules = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let definition: Value = everflow_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let schema = Schema::from_structural(&version["schema"]["openAPIV3Schema"]).unwrap();
            let errors = check_definition(&schema, "schema", false);
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
            with_rules += usize::from(!Rules::compile(&schema).is_empty());
        }
    }
    assert!(with_rules >= 5, "{with_rules}");
}
