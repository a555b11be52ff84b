//! `everflow sim` as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

/// Exit code, standard output and standard error.
fn sim(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_everflow"))
        .arg("sim")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_run_says_what_it_did() {
    let (code, out, err) = sim(&["run", "--scenario", "drift", "--seeds", "1..4"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("3 runs of 1 scenario in "), "{out}");
    for part in [
        " reconciles (",
        " states, ",
        "slowest recovery after the last fault: ",
    ] {
        assert!(out.contains(part), "{out}");
    }
}

#[test]
fn a_seed_is_replayed_to_the_letter() {
    let args = ["replay", "5", "--scenario", "drift", "--trace"];
    let (code, out, _) = sim(&args);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("s  replica 0: starts\n"), "{out}");
    assert!(out.contains("drift: all is well "), "{out}");
    assert_eq!(sim(&args).1, out);
}

#[test]
fn finding_is_printed_with_its_history() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("never.yaml");
    let text = "name: never\nabout: It expects what never comes, once the API has been down.\n\
        objects:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: here, namespace: apps}}\n\
        actions:\n- at: 5\n  delete: {apiVersion: v1, kind: ConfigMap, namespace: apps, name: here}\n\
        expect:\n- object: {apiVersion: v1, kind: ConfigMap, namespace: apps, name: here}\n";
    std::fs::write(&file, text).unwrap();
    let (code, _, err) = sim(&[
        "run",
        "--seeds",
        "0..2",
        "--scenario",
        file.to_str().unwrap(),
    ]);
    assert_eq!(code, 1);
    assert_eq!(
        err,
        "✗ never: without any fault: expectation: ConfigMap apps/here is missing\n"
    );
}

#[test]
fn wrong_usage_ends_with_2_and_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.yaml");
    std::fs::write(&file, "name: bad\nabout: b\nreplicas: two\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, said) in [
        (
            vec!["run", "--seeds", "5"],
            "--seeds 5: write FROM..TO, such as 0..1000",
        ),
        (
            vec!["run", "--seeds", "9..3"],
            "there is no seed in it; TO must be greater than FROM",
        ),
        (
            vec!["run", "--seeds", "a..b"],
            "--seeds a..b: write FROM..TO",
        ),
        (vec!["run", "--jobs", "0"], "0 is not in 1..=512"),
        (
            vec!["run", "--scenario", "no-such"],
            "there is no scenario \"no-such\"; `everflow sim list` shows them",
        ),
        (
            vec!["run", "--scenario", "no-such.yaml"],
            "cannot read no-such.yaml",
        ),
        (
            vec!["run", "--scenario", file],
            "bad.yaml: replicas: invalid type: string \"two\"",
        ),
        (
            vec!["run", "--path", "no-such-directory"],
            "no-such-directory: it must be a directory",
        ),
        (vec!["run", "--time-budget", "soon"], "--time-budget"),
        (
            vec!["replay", "--plan", "{}"],
            "--plan: say which --scenario it is for",
        ),
        (
            vec!["replay", "--plan", "{}", "--scenario", "drift"],
            "--plan: missing field `seed`",
        ),
        (vec!["replay"], "required"),
        (vec!["show", "no-such"], "there is no scenario \"no-such\""),
    ] {
        let (code, out, err) = sim(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

#[test]
fn scenarios_are_listed_and_shown() {
    let (code, out, _) = sim(&["list"]);
    assert_eq!(code, 0);
    assert!(out.contains("\ndrift\n    Somebody deletes"), "{out}");
    let (code, out, _) = sim(&["show", "drift"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("name: drift\nabout: "), "{out}");
}
