//! How long an apply takes. Run with
//! `cargo test --release -p everflow-merge --test speed -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use everflow_json::{Value, json};
use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer, zero_object};
use everflow_schema::builtin;

/// The processor time of this thread in nanoseconds, where the system tells; it does not count
/// what others do on the machine.
fn cpu_nanoseconds() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn per_run(name: &str, runs: u32, mut work: impl FnMut()) {
    work();
    let start = Instant::now();
    let before = cpu_nanoseconds();
    for _ in 0..runs {
        work();
    }
    let spent = before
        .zip(cpu_nanoseconds())
        .map(|(before, after)| after - before);
    let seconds = match spent {
        Some(nanoseconds) => nanoseconds as f64 / 1e9,
        None => start.elapsed().as_secs_f64(),
    };
    println!("{name}: {:.1} µs", seconds * 1e6 / f64::from(runs));
}

fn with_kind<T>(
    group: &str,
    version: &str,
    kind: &str,
    work: impl FnOnce(&FieldManager<'_>) -> T,
) -> T {
    let schema = builtin().schema(group, version, kind).unwrap();
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let zero = zero_object(schema, &api_version, kind);
    let versions = SingleVersion::new(&api_version, schema);
    let reset = ResetFields::Nothing;
    work(&FieldManager {
        versions: &versions,
        api_version: &api_version,
        kind,
        subresource: "",
        reset: &reset,
        zero: &zero,
    })
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        now: "2026-01-01T00:00:00Z",
    }
}

#[test]
#[ignore = "measures time"]
fn apply_takes_microseconds() {
    with_kind("", "v1", "ConfigMap", |fields| {
        let first = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n", "labels": {"app": "x"}}, "data": {"a": "1", "b": "2"}});
        let mut second = first.clone();
        second["data"]["a"] = json!("3");
        let mut live = fields
            .apply(fields.zero, &first, writer("one"), false)
            .unwrap();
        live["metadata"]["uid"] = json!("u");
        per_run("ConfigMap, create", 20_000, || {
            drop(fields.apply(fields.zero, &first, writer("one"), false))
        });
        per_run("ConfigMap, no-op", 20_000, || {
            drop(fields.apply(&live, &first, writer("one"), false))
        });
        per_run("ConfigMap, change", 20_000, || {
            drop(fields.apply(&live, &second, writer("one"), false))
        });
        per_run("ConfigMap, conflict", 20_000, || {
            drop(fields.apply(&live, &second, writer("two"), false))
        });
        per_run("ConfigMap, update", 20_000, || {
            drop(fields.update(&live, second.clone(), writer("two")))
        });
    });
    with_kind("apps", "v1", "Deployment", |fields| {
        let first = deployment(1, "r");
        let second = deployment(1, "s");
        let live = fields
            .apply(fields.zero, &first, writer("one"), false)
            .unwrap();
        per_run("Deployment, create", 10_000, || {
            drop(fields.apply(fields.zero, &first, writer("one"), false))
        });
        per_run("Deployment, no-op", 10_000, || {
            drop(fields.apply(&live, &first, writer("one"), false))
        });
        per_run("Deployment, change", 10_000, || {
            drop(fields.apply(&live, &second, writer("one"), false))
        });
        let mut smaller = first.clone();
        smaller["spec"].as_object_mut().unwrap().remove("replicas");
        per_run("Deployment, drop a field", 10_000, || {
            drop(fields.apply(&live, &smaller, writer("one"), false))
        });
    });
    for count in [1_000, 4_000, 16_000] {
        with_kind("apps", "v1", "Deployment", |fields| {
            let first = deployment(count, "r");
            let mut second = deployment(count, "s");
            second["spec"]["template"]["spec"]["containers"]
                .as_array_mut()
                .unwrap()
                .reverse();
            let live = fields
                .apply(fields.zero, &first, writer("one"), false)
                .unwrap();
            per_run(
                &format!("{count} containers, reversed and changed"),
                3,
                || {
                    drop(fields.apply(&live, &second, writer("one"), false).unwrap());
                },
            );
            let schema = builtin().schema("apps", "v1", "Deployment").unwrap();
            per_run(&format!("{count} containers, strategic patch"), 3, || {
                drop(everflow_merge::strategic::apply(&live, &second, schema).unwrap());
            });
        });
    }
}

fn deployment(containers: usize, image: &str) -> Value {
    let containers: Vec<Value> = (0..containers)
        .map(|n| {
            json!({"name": format!("c{n}"), "image": image, "env": [{"name": "A", "value": "1"}],
                "ports": [{"containerPort": 80}]})
        })
        .collect();
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "n"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}}})
}
