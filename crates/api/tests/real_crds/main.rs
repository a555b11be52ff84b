//! Flux's definitions and ours on a real API server, when `EVERFLOW_REAL=1` asks for it: the same
//! random objects are given to both, and everything that comes back must be the same.
//!
//! `CASES` says how many objects of each kind there are, `SEED` which. The recordings lack the
//! kinds of notifications; `EVERFLOW_FLUX_CRDS` may name a directory with their definitions as
//! JSON.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod generate;
mod server;
#[path = "../common/typed.rs"]
mod typed;

use std::path::Path;

use everflow_api::crds;
use everflow_json::{Value, json};
use generate::{Random, value};
use server::{Reply, Request, Server};

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

fn definitions_in(directory: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let is_json = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|e| e == "json");
    files
        .iter()
        .filter(|file| is_json(file))
        .map(|file| {
            everflow_json::from_str(&std::fs::read_to_string(file.path()).unwrap()).unwrap()
        })
        .collect()
}

/// A kind as its definition has it.
struct Kind<'a> {
    definition: &'a Value,
}

impl Kind<'_> {
    fn text(&self, pointer: &str) -> &str {
        self.definition.pointer(pointer).unwrap().as_str().unwrap()
    }

    fn version(&self) -> &Value {
        &self.definition["spec"]["versions"][0]
    }

    fn path(&self) -> String {
        format!(
            "/apis/{}/{}/namespaces/default/{}",
            self.text("/spec/group"),
            self.version()["name"].as_str().unwrap(),
            self.text("/spec/names/plural")
        )
    }

    fn schema(&self, part: &str) -> Option<&Value> {
        self.version()["schema"]["openAPIV3Schema"]["properties"].get(part)
    }

    fn object(&self, name: &str, spec: Value) -> Value {
        let api_version = format!(
            "{}/{}",
            self.text("/spec/group"),
            self.version()["name"].as_str().unwrap()
        );
        json!({
            "apiVersion": api_version, "kind": self.text("/spec/names/kind"),
            "metadata": {"name": name}, "spec": spec,
        })
    }

    /// Objects that are only tried, so that nothing stands in the way of the next.
    fn trials(&self, random: &mut Random, count: u64) -> Vec<Request> {
        let path = format!("{}?dryRun=All&fieldValidation=Warn", self.path());
        let schema = self.schema("spec").unwrap();
        (0..count)
            .map(|index| {
                let wrong = [0, 0, 2, 5][index as usize % 4];
                let fill = [0, 20, 50, 80][index as usize / 4 % 4];
                let spec = value(random, schema, fill, wrong);
                Request::new("POST", &path, Some(self.object("trial", spec)))
            })
            .collect()
    }

    /// Objects that stay, statuses for them, and the tables of them.
    fn stored(&self, random: &mut Random, accepted: &[Value], count: u64) -> Vec<Request> {
        let mut requests = Vec::new();
        for (index, spec) in accepted.iter().take(4).enumerate() {
            let name = format!("kept-{index}");
            requests.push(Request::new(
                "POST",
                self.path(),
                Some(self.object(&name, spec.clone())),
            ));
            let Some(schema) = self.schema("status") else {
                continue;
            };
            let path = format!("{}/{name}/status", self.path());
            for round in 0..count / 4 {
                let status = value(random, schema, 60, [0, 0, 3][round as usize % 3]);
                let body = json!({"status": status});
                requests.push(Request::new("PATCH", &path, Some(body)));
            }
        }
        let mut table = Request::new("GET", self.path(), None);
        table.accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        requests.push(table);
        requests.push(Request::new("GET", self.path(), None));
        requests
    }
}

/// What differs between two runs of the same server is taken out.
fn normal(reply: &Reply) -> Value {
    let mut body = reply.body.clone();
    strip(&mut body);
    if let Some(causes) = body.pointer_mut("/details/causes") {
        // The order of several errors is that of a map in Go.
        let list = causes.as_array_mut().unwrap();
        list.sort_by_key(ToString::to_string);
        body["message"] = Value::Null;
    }
    if let Some(Value::Array(resources)) = body.get_mut("resources") {
        // Discovery lists kinds as they became known.
        resources.sort_by_key(|resource| resource["name"].to_string());
    }
    json!({"status": reply.status, "body": body})
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in ["uid", "resourceVersion", "creationTimestamp", "time"] {
                map.remove(name);
            }
            // Categories of releases are newer than the recorded definition.
            if map.get("name") == Some(&json!("helmreleases")) {
                map.remove("categories");
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Cells of the column for the age tell of the run.
fn without_ages(table: &mut Value) {
    let columns = table["columnDefinitions"].as_array().unwrap().clone();
    let ages: Vec<usize> = (0..columns.len())
        .filter(|index| columns[*index]["name"] == "Age")
        .collect();
    for row in table["rows"].as_array_mut().unwrap() {
        for index in &ages {
            row["cells"][index] = Value::Null;
        }
    }
}

fn answers(server: &Server, requests: &[Request]) -> Vec<Value> {
    let replies = server.send(requests);
    let normalised = replies.iter().map(|reply| {
        let mut normal = normal(reply);
        if reply.body["kind"] == "Table" {
            without_ages(&mut normal["body"]);
        }
        normal
    });
    normalised.collect()
}

#[test]
fn both_sets_of_definitions_have_the_same_effect() {
    let Some(directory) = everflow_corpus::find("apiserver/fixtures/crds") else {
        return;
    };
    let mut theirs = definitions_in(&directory);
    if let Some(more) = std::env::var_os("EVERFLOW_FLUX_CRDS") {
        theirs.extend(definitions_in(Path::new(&more)));
    }
    let known: Vec<&str> = theirs
        .iter()
        .map(|definition| definition["metadata"]["name"].as_str().unwrap())
        .collect();
    let ours: Vec<Value> = crds()
        .into_iter()
        .filter(|definition| known.contains(&definition["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(ours.len(), theirs.len());
    let (seed, count) = (number("SEED", 1), number("CASES", 80));
    let Some(real) = Server::with_definitions("theirs", &theirs) else {
        return;
    };
    let Some(own) = Server::with_definitions("ours", &ours) else {
        return;
    };

    let (mut accepted, mut refused, mut compared, mut read) = (0, 0, 0, 0);
    let mut differences = Vec::new();
    for (index, definition) in theirs.iter().enumerate() {
        let kind = Kind { definition };
        let mut random = Random::new(seed + index as u64);
        let mut requests = kind.trials(&mut random, count);
        let mut first = answers(&real, &requests);
        let specs: Vec<Value> = requests
            .iter()
            .zip(&first)
            .filter(|(_, answer)| answer["status"] == 201)
            .map(|(request, _)| request.body.as_ref().unwrap()["spec"].clone())
            .collect();
        let discovery = kind.path().replace("/namespaces/default", "");
        let (group, _) = discovery.rsplit_once('/').unwrap();
        let mut more = kind.stored(&mut random, &specs, count);
        more.push(Request::new("GET", group, None));
        first.extend(answers(&real, &more));
        requests.extend(more);
        let second = answers(&own, &requests);
        for answer in second.iter().filter(|answer| answer["status"] == 201) {
            // What a server takes, our types can read, and they lose nothing of it.
            let object = &answer["body"];
            if object.get("spec").is_none() {
                continue; // It is not required; our types say what is missing in it.
            }
            assert_eq!(&typed::by_kind(object).unwrap().unwrap(), object);
            read += 1;
        }
        for ((request, first), second) in requests.iter().zip(&first).zip(&second) {
            compared += 1;
            match first["status"].as_u64() {
                Some(200..300) => accepted += 1,
                _ => refused += 1,
            }
            if first != second {
                let mut report = format!("{request:?}\ntheirs: {first}\nours: {second}\n");
                report.truncate(4000);
                differences.push(report);
            }
        }
    }
    println!(
        "{} kinds, seed {seed}: {compared} answers compared, {accepted} accepted, {refused} refused, {} differ; {read} objects read",
        theirs.len(),
        differences.len()
    );
    assert!(accepted > compared / 4 && refused > compared / 10);
    differences.truncate(5);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
