//! Rules compiled and evaluated as the code of a real API server (1.36.1) did it.
//!
//! Cases are named by their line. `recorded/answers.jsonl` has for each rule at the root of `recorded/schema.json` what compiling it gave (an error, or
//! the estimated cost) and what checking each of `recorded/objects.json` by it gave.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_cel::Program;
use everflow_cel::check::Type;
use everflow_cel::rules::{Rules, declarations};
use everflow_corpus::Outcome;
use everflow_json::{Value, json};
use everflow_schema::Schema;

fn compiled(rule: &str, schema: &Schema) -> (Value, Value, Value) {
    match Program::compile_checked(rule, &declarations(schema).unwrap()) {
        Err(error) => (
            json!(format!("compilation failed: {error}")),
            Value::Null,
            Value::Null,
        ),
        Ok((_, checked)) if checked.output != Type::Bool => (
            json!("cel expression must evaluate to a bool"),
            Value::Null,
            Value::Null,
        ),
        Ok((program, _)) if program.fold_constants().is_err() => {
            let error = program.fold_constants().unwrap_err();
            (
                json!(format!("program instantiation failed: {error}")),
                Value::Null,
                Value::Null,
            )
        }
        Ok((_, checked)) => {
            let old = checked.variables.iter().any(|name| name == "oldSelf");
            (Value::Null, json!(checked.max_cost.to_string()), json!(old))
        }
    }
}

#[test]
fn rules_compile_and_answer_as_recorded() {
    let plain: Value = everflow_json::from_str(include_str!("recorded/schema.json")).unwrap();
    let objects: Vec<Value> =
        everflow_json::from_str(include_str!("recorded/objects.json")).unwrap();
    let mut outcome = Outcome::default();
    for (at, line) in include_str!("recorded/answers.jsonl").lines().enumerate() {
        let expected: Value = everflow_json::from_str(line).unwrap();
        let rule = expected["rule"].as_str().unwrap();
        let mut with_rule = plain.clone();
        with_rule["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let schema = Schema::from_structural(&with_rule).unwrap();
        let (error, cost, old_self) = compiled(rule, &schema);
        let rules = Rules::compile(&schema);
        let results: Vec<Vec<String>> = objects
            .iter()
            .map(|object| {
                let old = object.get("old");
                let findings = rules.validate(&schema, &object["new"], old);
                findings.errors.iter().map(ToString::to_string).collect()
            })
            .collect();
        let found = json!({"rule": rule, "error": error, "cost": cost, "oldSelf": old_self, "results": results});
        let result = match found == expected {
            true => Ok(()),
            false => Err(format!("expected {expected}, found {found}")),
        };
        outcome.record(format!("{}", at + 1), result);
    }
    outcome.assert(include_str!("recorded/known-differences.txt"));
}
