//! Random definitions with rules in CEL, and random objects of their kinds.

use everflow_json::{Map, Value, json};

use crate::documents::Operation;
use crate::random::Random;

const NAMES: [&str; 6] = ["a", "b", "c", "d-e", "namespace", "f"];
const TEXTS: [&str; 9] = ["ab", "b", "abc", "", "Q", "a b", "10.0.0.1", "1Gi", "éa"];

/// A schema node with, perhaps, rules.
fn node(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth < 3 { 12 } else { 8 };
    let mut node = match random.below(kinds) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "number"}),
        2 => json!({"type": "boolean"}),
        3 => json!({"x-kubernetes-int-or-string": true}),
        4 => json!({"type": "string", "format": *random.pick(&["date-time", "duration", "byte"])}),
        5 => json!({"type": "string", "enum": ["red", "green", "b"]}),
        6 | 7 => json!({"type": "string"}),
        8 => object(random, depth + 1),
        9 => json!({"type": "object", "additionalProperties": node(random, depth + 1)}),
        10 => list(random, depth + 1),
        _ => {
            let mut item = json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "maxLength": 9}, "val": node(random, depth + 1)}});
            add_rules(random, &mut item);
            json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"]})
        }
    };
    let limit = 1 + random.below(10);
    match node["type"].as_str() {
        Some("string") if !random.one_in(12) => node["maxLength"] = json!(limit + 10),
        Some("array") if !random.one_in(12) => node["maxItems"] = json!(limit),
        Some("object") if node.get("properties").is_none() && !random.one_in(12) => {
            node["maxProperties"] = json!(limit);
        }
        _ => {}
    }
    add_rules(random, &mut node);
    node
}

fn list(random: &mut Random, depth: usize) -> Value {
    match random.below(3) {
        0 => {
            json!({"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3, "x-kubernetes-list-type": "set"})
        }
        1 => {
            json!({"type": "array", "items": node(random, depth), "x-kubernetes-list-type": "atomic"})
        }
        _ => json!({"type": "array", "items": node(random, depth)}),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in random.some(&NAMES, 1) {
        properties.insert(name.into(), node(random, depth));
    }
    let mut object = json!({"type": "object", "properties": properties});
    if random.one_in(6) {
        object["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    object
}

fn add_rules(random: &mut Random, node: &mut Value) {
    if !random.one_in(3) {
        return;
    }
    let mut rules = Vec::new();
    for _ in 0..=random.below(2) {
        let mut text = expression(random, node, "self", 0);
        if random.one_in(8) {
            text = match random.below(3) {
                0 => "self == oldSelf".to_owned(),
                1 => format!("({text}) || self == oldSelf"),
                _ => format!("oldSelf == oldSelf && ({text})"),
            };
        }
        if random.one_in(60) {
            text = mistake(random, &text);
        }
        let mut rule = json!({"rule": text});
        if random.one_in(5) {
            rule["message"] = json!("bad thing");
        }
        if random.one_in(5) {
            let texts = [
                "'made ' + 'up'",
                "string(1/0)",
                "''",
                "'%s!'.format(['x'])",
                "1",
            ];
            let count = 4 + usize::from(random.one_in(6));
            rule["messageExpression"] = json!(*random.pick(&texts[..count]));
        }
        if random.one_in(4) {
            let reasons = [
                "FieldValueInvalid",
                "FieldValueForbidden",
                "FieldValueRequired",
                "FieldValueDuplicate",
            ];
            rule["reason"] = json!(*random.pick(&reasons));
        }
        if random.one_in(60) {
            rule["optionalOldSelf"] = json!(true);
        }
        rules.push(rule);
    }
    node["x-kubernetes-validations"] = json!(rules);
}

/// A rule that does not compile, most of the time.
fn mistake(random: &mut Random, text: &str) -> String {
    match random.below(6) {
        0 => format!("{text} &&"),
        1 => format!("({text}) && self.zzz == 1"),
        2 => format!("({text}) && nope"),
        3 => format!("size({text}) == 1"),
        4 => format!("({text}) && 1 + 'a' == 2"),
        _ => format!("({text}) ? 1 : 2"),
    }
}

fn escaped(name: &str) -> &str {
    match name {
        "d-e" => "d__dash__e",
        "namespace" => "__namespace__",
        name => name,
    }
}

/// A condition on the value of a node.
fn expression(random: &mut Random, node: &Value, value: &str, depth: usize) -> String {
    let choose = |random: &mut Random, all: &[&str]| random.pick(all).replace("{}", value);
    if node.get("x-kubernetes-int-or-string").is_some() {
        return choose(
            random,
            &[
                "type({}) == int",
                "type({}) == string || {} > 1",
                "{} == 80",
                "string({}).size() < 4",
            ],
        );
    }
    match (node["type"].as_str(), node["format"].as_str()) {
        (_, Some("date-time")) => choose(
            random,
            &[
                "{} > timestamp('2021-01-01T00:00:00Z')",
                "{}.getFullYear() == 2022",
            ],
        ),
        (_, Some("duration")) => choose(random, &["{} > duration('1h')", "{}.getMinutes() >= 60"]),
        (_, Some("byte")) => choose(
            random,
            &["size({}) > 3", "string({}) == 'abc'", "{} != b'abc'"],
        ),
        (Some("integer"), _) => choose(
            random,
            &[
                "{} > 3",
                "{} % 2 == 0",
                "{} in [1, 2, 3]",
                "10 / {} > 2",
                "double({}) < 4.5",
                "{} < 5.5",
            ],
        ),
        (Some("number"), _) => choose(
            random,
            &["{} > 1.5", "{} < 3", "int({}) == 1", "{} * 2.0 == 3.0"],
        ),
        (Some("boolean"), _) => choose(random, &["{}", "!{}", "{} == true"]),
        (Some("string"), _) => choose(
            random,
            &[
                "{} == 'ab'",
                "{}.size() > 2",
                "{}.startsWith('a')",
                "{}.matches('^[a-c]+$')",
                "{} in ['ab', 'b']",
                "{}.contains('b')",
                "{} + 'x' != 'abx'",
                "{}.lowerAscii() == {}",
                "{}.split('b').size() < 3",
                "{}.replace('a', 'zz').size() > 3",
                "isIP({})",
                "isQuantity({})",
                "{}.indexOf('b') > 0",
                "!format.dns1123Label().validate({}).hasValue()",
                "{} < 'b'",
                "{}.find('[a-b]+') != ''",
            ],
        ),
        (Some("array"), _) => {
            let item = ["x", "y", "z", "w"][depth % 4];
            let inner = expression(random, &node["items"], item, depth + 1);
            let forms = [
                "{}.size() < 3",
                "{}.all(@, #)",
                "{}.exists(@, #)",
                "{}.exists_one(@, #)",
                "{}.filter(@, #).size() < 2",
                "{}.all(i, @, i < 2 || #)",
                "{}[0] == {}[0]",
                "{} == {}",
            ];
            choose(random, &forms)
                .replace('@', item)
                .replace('#', &inner)
        }
        (Some("object"), _) if node.get("additionalProperties").is_some() => {
            let key = ["k", "l", "m", "n"][depth % 4];
            let inner = expression(
                random,
                &node["additionalProperties"],
                &format!("{value}[{key}]"),
                depth + 1,
            );
            let forms = [
                "{}.size() < 3",
                "'ab' in {}",
                "{}.all(@, @.size() < 3)",
                "{}.all(@, #)",
                "{}.exists(@, #)",
                "{} == {}",
            ];
            choose(random, &forms)
                .replace('@', key)
                .replace('#', &inner)
        }
        (Some("object"), _) => {
            let properties = node["properties"].as_object().cloned().unwrap_or_default();
            let names: Vec<&everflow_json::Text> = properties.keys().collect();
            let name = *random.pick(&names);
            let field = format!("{value}.{}", escaped(name));
            let inner = expression(random, &properties[name], &field, depth + 1);
            match random.below(6) {
                0 => format!("has({field})"),
                1 => format!("!has({field}) || {inner}"),
                2 => format!("has({field}) && {inner}"),
                3 => format!("(has({field}) ? {inner} : true)"),
                _ => inner,
            }
        }
        _ => "true".to_owned(),
    }
}

/// A value that the types of a node allow.
fn value(random: &mut Random, node: &Value) -> Value {
    if node.get("x-kubernetes-int-or-string").is_some() {
        return random
            .pick(&[json!(80), json!("80"), json!("a%"), json!(3)])
            .clone();
    }
    match (node["type"].as_str(), node["format"].as_str()) {
        (_, Some("date-time")) => {
            json!(*random.pick(&["2022-01-02T03:04:05Z", "2020-05-05T00:00:00Z"]))
        }
        (_, Some("duration")) => json!(*random.pick(&["1h", "90m", "10s"])),
        (_, Some("byte")) => json!(*random.pick(&["YWJj", "YWJjZA=="])),
        (Some("integer"), _) => json!(random.below(8) as i64 - 2),
        (Some("number"), _) => random.pick(&[json!(1.5), json!(1), json!(2.25)]).clone(),
        (Some("boolean"), _) => json!(random.one_in(2)),
        (Some("string"), _) if node.get("enum").is_some() => {
            json!(*random.pick(&["red", "green", "b"]))
        }
        (Some("string"), _) => json!(*random.pick(&TEXTS)),
        (Some("array"), _) if node["x-kubernetes-list-type"] == "map" => {
            let names = random.some(&["n1", "n2", "n3"], 0);
            let items = names.into_iter().map(|name| {
                let mut item = value(random, &node["items"]);
                item["name"] = json!(name);
                item
            });
            Value::Array(items.collect())
        }
        (Some("array"), _) if node["x-kubernetes-list-type"] == "set" => {
            json!(random.some(&["ab", "b", "c"], 0))
        }
        (Some("array"), _) => (0..random.below(3))
            .map(|_| value(random, &node["items"]))
            .collect(),
        (Some("object"), _) if node.get("additionalProperties").is_some() => {
            let keys = random.some(&["ab", "b", "ccc"], 0);
            let entries = keys
                .into_iter()
                .map(|key| (key.to_owned(), value(random, &node["additionalProperties"])));
            Value::Object(entries.collect())
        }
        (Some("object"), _) => {
            let mut object = Map::new();
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                if !random.one_in(4) {
                    object.insert(name.clone(), value(random, property));
                }
            }
            Value::Object(object)
        }
        _ => json!({}),
    }
}

/// One definition and what is asked of its kind.
pub struct Round {
    /// The creation of the definition.
    pub definition: Operation,
    /// A request that is answered with 200 as soon as the kind is served.
    pub probe: Operation,
    /// The requests.
    pub operations: Vec<Operation>,
}

/// A random definition with random objects.
pub fn round(random: &mut Random, number: usize) -> Round {
    let group = format!("r{number}.rules.io");
    let mut spec = object(random, 0);
    add_rules(random, &mut spec);
    let mut status = object(random, 2);
    add_rules(random, &mut status);
    let mut schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    if random.one_in(2) {
        let rule = match random.below(3) {
            0 => "self.metadata.name != 'x2'".to_owned(),
            1 => expression(random, &schema, "self", 0),
            _ => "has(self.spec) || has(self.status)".to_owned(),
        };
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    }
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}});
    let collection = format!("/apis/{group}/v1/namespaces/differential/things");
    let operations = (0..30)
        .map(|_| operation(random, &schema, &group, &collection))
        .collect();
    Round {
        definition: Operation::new(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            "application/json",
            &definition,
        ),
        probe: Operation::new("GET", collection.clone(), "application/json", &Value::Null),
        operations,
    }
}

fn operation(random: &mut Random, schema: &Value, group: &str, collection: &str) -> Operation {
    let name = *random.pick(&["x1", "x2", "x3"]);
    let path = format!("{collection}/{name}");
    let document = |part: &str, value: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, part: value});
    let spec = value(random, &schema["properties"]["spec"]);
    let status = value(random, &schema["properties"]["status"]);
    match random.below(6) {
        0 | 1 => Operation::new(
            "POST",
            collection.to_owned(),
            "application/json",
            &document("spec", spec),
        ),
        2 => Operation::new(
            "PATCH",
            path,
            "application/merge-patch+json",
            &json!({"spec": spec}),
        ),
        3 => Operation::new(
            "PATCH",
            format!("{path}?fieldManager=m{}&force=true", random.below(2)),
            "application/apply-patch+yaml",
            &document("spec", spec),
        ),
        4 => Operation::new(
            "PATCH",
            format!("{path}/status"),
            "application/merge-patch+json",
            &json!({"status": status}),
        ),
        _ => Operation::new(
            "PATCH",
            path,
            "application/merge-patch+json",
            &json!({"metadata": {"labels": {"a": random.pick(&TEXTS[..3])}}}),
        ),
    }
}
