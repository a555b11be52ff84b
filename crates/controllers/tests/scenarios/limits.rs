//! Commits that would cost more than a build may: they are named with what there is too much of and what to do,
//! what was applied stays, and the next good commit is applied.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_kustomize::Limits;
use everflow_runtime::client::{At, Resource};
use everflow_runtime::events::EVENTS;

use super::remote::{condition, kustomization, source};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-limits";
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";

async fn commit(world: &mut World, files: Value) {
    let repositories = world.git.clone();
    repositories
        .lock()
        .unwrap()
        .get_mut(NAMESPACE)
        .unwrap()
        .more(&json!({"commit": files}), &files);
    world.ask_for("GitRepository/src").await;
    world.sleep(Duration::from_secs(8)).await;
}

async fn messages(world: &World) -> Vec<String> {
    let all = Default::default();
    let events = world.client.list_all(&EVENTS, Some(NAMESPACE), &all).await;
    let text = |event: &Value| event["message"].as_str().unwrap().to_owned();
    events.unwrap().items.iter().map(text).collect()
}

async fn kustomization_now(world: &World) -> Value {
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "app");
    world.client.get(&kustomizations, at).await.unwrap()
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn builds_beyond_a_limit_are_reported_and_prune_nothing() {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "limits", "namespace": NAMESPACE, "then": {},
        "files": {"kustomization.yaml": "resources: [one.yaml]\n", "one.yaml": MAP},
    }))
    .unwrap();
    let mut options = recorded_options();
    options.kustomize.build_limits = Limits {
        objects: 20,
        files: 100,
    };
    let mut world = World::start(&scenario, options, ControllerKind::ALL).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    let spec = json!({"targetNamespace": NAMESPACE, "wait": false});
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    let (ready, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(ready, "True", "{message}");
    let inventory = kustomization_now(&world).await["status"]["inventory"].clone();
    let path = vec!["b"; 20_000].join(".");
    let long = format!(
        "resources: []\nreplacements: [{{source: {{kind: ConfigMap}}, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{path}], options: {{create: true}}}}]}}]\n"
    );
    let maps: String = (0..21)
        .map(|number| format!("---\n{MAP}").replace("one", &format!("m{number}")))
        .collect();
    let bases = |level: usize| format!("resources: [../a{}, ../b{}]\n", level + 1, level + 1);
    let mut doubling = everflow_json::Map::new();
    doubling.insert("kustomization.yaml".into(), "resources: [a0, b0]\n".into());
    for level in 0..30 {
        for side in ["a", "b"] {
            let file = format!("namePrefix: {side}{level}-\n{}", bases(level));
            doubling.insert(
                format!("{side}{level}/kustomization.yaml").into(),
                file.into(),
            );
        }
    }
    for side in ["a", "b"] {
        let file = format!("namePrefix: {side}-\nresources: [one.yaml]\n");
        doubling.insert(format!("{side}30/kustomization.yaml").into(), file.into());
        doubling.insert(format!("{side}30/one.yaml").into(), MAP.into());
    }
    let cases = [
        (
            json!({"kustomization.yaml": long}),
            [
                "failed to generate kustomization.yaml: kustomization.yaml: Kustomization.replacements.targets.fieldPaths",
                "1000 levels",
            ],
        ),
        (
            json!({"kustomization.yaml": "resources: [many.yaml]\n", "many.yaml": maps}),
            [
                "kustomize build failed: many.yaml: more than 20 objects in one build",
                "raise --max-build-objects",
            ],
        ),
        (
            Value::Object(doubling),
            [
                "more than 100 files and directories in one build",
                "raise --max-build-files",
            ],
        ),
    ];
    for (files, words) in cases {
        commit(&mut world, files).await;
        let now = kustomization_now(&world).await;
        let conditions = now["status"]["conditions"].as_array().unwrap();
        let find = |kind: &str| {
            let found = conditions.iter().find(|one| one["type"] == kind);
            found.unwrap_or_else(|| panic!("no {kind} in {now:#}"))
        };
        let (ready, stalled) = (find("Ready"), find("Stalled"));
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("False"), &json!("BuildFailed"))
        );
        assert_eq!(stalled["status"], "True", "it waits for a change: {now:#}");
        let message = ready["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "{word} in {message}");
        }
        assert!(message.len() < 600, "{message}");
        assert_eq!(now["status"]["inventory"], inventory, "nothing is pruned");
        let map = world.client.get(&MAPS, At::new(NAMESPACE, "one")).await;
        assert!(map.is_ok());
        let told = messages(&world).await;
        assert!(told.iter().any(|text| text.contains(words[1])), "{told:?}");
    }
    let good = json!({"kustomization.yaml": "resources: [two.yaml]\n", "two.yaml": MAP.replace("one", "two")});
    commit(&mut world, good).await;
    let (ready, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(ready, "True", "{message}");
    assert!(condition(&world, NAMESPACE, "Stalled").await.is_none());
    assert!(
        world
            .client
            .get(&MAPS, At::new(NAMESPACE, "two"))
            .await
            .is_ok()
    );
    assert!(
        world
            .client
            .get(&MAPS, At::new(NAMESPACE, "one"))
            .await
            .is_err()
    );
    world.stop_engine().await;
}
