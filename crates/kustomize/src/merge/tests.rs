use super::*;
use crate::Release;

fn merged(object: &str, patch: &str) -> String {
    let budget = Budget::unlimited();
    let parse = |text: &str| yaml_io::parse_inner(text, &budget).unwrap().0;
    let mut object = parse(object);
    let schemas = Schemas::new(Release::V5_8);
    if !apply(&schemas, &mut object, parse(patch), &budget).unwrap() {
        return "deleted".to_owned();
    }
    yaml_io::print_object(&object).unwrap()
}

const POD: &str = "apiVersion: v1\nkind: Pod\n";

#[test]
fn fields_are_laid_over_and_null_removes() {
    assert_eq!(
        merged("a: 1\nb: {c: 2, d: 3}\n", "b: {c: 4, d: null}\n"),
        "a: 1\nb:\n  c: 4\n"
    );
}

#[test]
fn lists_without_a_key_are_replaced() {
    assert_eq!(merged("a: [1, 2]\n", "a: [3]\n"), "a:\n- 3\n");
}

#[test]
fn containers_merge_by_name_and_new_ones_come_first() {
    let object =
        format!("{POD}spec: {{containers: [{{name: a, image: x}}, {{name: b, image: y}}]}}\n");
    let patch = "spec: {containers: [{name: b, image: z}, {name: c, image: w}]}\n";
    let wanted = format!(
        "{POD}spec:\n  containers:\n  - image: z\n    name: b\n  - image: w\n    name: c\n  - image: x\n    name: a\n"
    );
    assert_eq!(merged(&object, patch), wanted);
}

#[test]
fn directives_delete_and_replace() {
    let object = format!("{POD}spec: {{containers: [{{name: a}}, {{name: b}}]}}\n");
    assert_eq!(
        merged(&object, "spec: {containers: [{name: a, $patch: delete}]}\n"),
        format!("{POD}spec:\n  containers:\n  - name: b\n")
    );
    assert_eq!(
        merged("a: {b: 1, c: 2}\n", "a: {$patch: replace, d: 3}\n"),
        "a:\n  d: 3\n"
    );
    assert_eq!(merged("a: 1\n", "$patch: delete\n"), "deleted");
}

#[test]
fn finalizers_are_joined() {
    let object = format!("{POD}metadata: {{finalizers: [a, b]}}\n");
    assert_eq!(
        merged(&object, "metadata: {finalizers: [c, a]}\n"),
        format!("{POD}metadata:\n  finalizers:\n  - c\n  - a\n  - b\n")
    );
}
