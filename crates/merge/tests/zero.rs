//! The zero objects of built-in kinds are those that Go's structs give.

use everflow_json::Value;
use everflow_merge::apply::zero_object;
use everflow_schema::{builtin, split_api_version};

#[test]
fn zero_objects_are_those_of_go() {
    let facts = include_str!("data/zero-objects.txt");
    let (mut compared, mut wrong) = (0, Vec::new());
    for line in facts.lines() {
        let mut parts = line.splitn(3, ' ');
        let (Some(api_version), Some(kind), Some(text)) =
            (parts.next(), parts.next(), parts.next())
        else {
            panic!("not a fact: {line}");
        };
        let (group, version) = split_api_version(api_version);
        let Some(schema) = builtin().schema(group, version, kind) else {
            continue;
        };
        let mut wanted: Value = everflow_json::from_str(text).unwrap();
        wanted["apiVersion"] = api_version.into();
        wanted["kind"] = kind.into();
        compared += 1;
        let found = zero_object(schema, api_version, kind);
        if found != wanted {
            wrong.push(format!(
                "{api_version} {kind}\n  found  {found}\n  wanted {wanted}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 70, "only {compared} kinds compared");
}
