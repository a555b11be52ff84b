//! Our definitions in effect: the recorded scenarios with Flux's kinds, replayed in process with
//! our definitions in the place of Flux's. What is accepted, refused and in which words, defaulted,
//! pruned, applied and shown in tables must be what the real server made of the real definitions.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../cluster/tests/replay/compare.rs"]
mod compare;
#[path = "../../cluster/tests/replay/run.rs"]
#[allow(dead_code)]
mod run;

use everflow_api::crds;
use everflow_corpus::Outcome;

#[test]
fn recorded_scenarios_replay_with_our_definitions() {
    let Some(root) = everflow_corpus::find("apiserver") else {
        return;
    };
    let stage = std::env::temp_dir().join(format!("everflow-api-replay-{}", std::process::id()));
    let definitions = stage.join("fixtures/crds");
    std::fs::create_dir_all(&definitions).unwrap();
    for crd in crds() {
        let part = |path: &str| crd.pointer(path).and_then(|value| value.as_str()).unwrap();
        let (group, plural) = (part("/spec/group"), part("/spec/names/plural"));
        std::fs::write(
            definitions.join(format!("{group}_{plural}.json")),
            crd.to_string(),
        )
        .unwrap();
    }
    let mut outcome = Outcome::default();
    for file in run::scenario_files(&root) {
        let id = run::id_of(&root, &file);
        if id.starts_with("flux/") {
            let ours = run::replay(&stage, &file);
            // Where the embedded server itself differs from the recording, it must do so with
            // Flux's definitions in the same way.
            let same = ours.is_err() && ours == run::replay(&root, &file);
            if same {
                println!("{id} differs with Flux's own definitions too");
            }
            outcome.record(id, if same { Ok(()) } else { ours });
        }
    }
    std::fs::remove_dir_all(&stage).unwrap();
    assert_eq!(outcome.total(), 35);
    outcome.assert("");
}
