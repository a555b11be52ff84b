//! Who checks new objects before they are written.

use std::time::Duration;

use everflow_controllers::{ControllerKind, PreflightChoice};
use everflow_json::{Value, json};

use super::economy::{NAMESPACE, kustomization, scenario, source};
use super::world::{World, recorded_options};

/// The objects of the Kustomization, each tried in a dry run.
const ALL: [&str; 4] = ["configmaps", "configmaps", "serviceaccounts", "services"];

/// Delivers two ConfigMaps, a Service and a ServiceAccount into a cluster that has something more. Returns the
/// collections of which an object was tried in a dry run, and what was logged about that.
async fn deliver(choice: PreflightChoice, more: &[Value]) -> (Vec<String>, Vec<String>) {
    let mut options = recorded_options();
    options.kustomize.preflight = choice;
    let mut world = World::start(&scenario(), options, ControllerKind::ALL).await;
    for object in more {
        world.apply(object).await.unwrap();
    }
    world.apply(&source()).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    world.engine_client.meter().record();
    world.apply(&kustomization()).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    let kustomization = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = everflow_runtime::client::At::new(NAMESPACE, "app");
    let found = world.client.get(&kustomization, at).await.unwrap();
    let ready = found["status"]["conditions"].as_array().unwrap();
    let ready = ready.iter().find(|one| one["type"] == "Ready").unwrap();
    assert_eq!(ready["status"], "True", "{ready}");
    let recorded = world.engine_client.meter().recorded();
    let dry_runs = recorded.iter().filter_map(|line| {
        let target = line.split(' ').nth(1)?;
        let (path, _) = target
            .split_once('?')
            .filter(|(_, query)| query.contains("dryRun=All"))?;
        path.rsplit('/').nth(1).map(str::to_owned)
    });
    let mut dry_runs: Vec<String> = dry_runs.collect();
    dry_runs.sort();
    world.stop_engine().await;
    let logged = world.logged.lock().unwrap().clone();
    let logged = logged.split_inclusive('}').map(str::to_owned);
    let logged = logged.filter(|line| line.contains("\"logger\":\"preflight\""));
    (dry_runs, logged.collect())
}

fn rules(resources: &str) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": [resources], "operations": ["CREATE"]}])
}

fn webhook() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"},
        "webhooks": [{
            "name": "guard.example.com", "rules": rules("configmaps"), "failurePolicy": "Ignore",
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://guard.example.com/"},
        }],
    })
}

fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "services"},
        "spec": {"matchConstraints": {"resourceRules": rules("services")}, "validations": [{"expression": "true"}]},
    })
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn auto_checks_locally_where_nothing_else_judges() {
    let (dry_runs, logged) = deliver(PreflightChoice::Auto, &[]).await;
    assert_eq!(dry_runs, Vec::<String>::new());
    assert_eq!(logged, Vec::<String>::new());
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn auto_asks_the_server_for_kinds_that_a_webhook_is_called_for() {
    let (dry_runs, logged) = deliver(PreflightChoice::Auto, &[webhook()]).await;
    assert_eq!(dry_runs, ["configmaps", "configmaps"]);
    assert_eq!(logged.len(), 1, "{logged:#?}");
    let because = "\"because\":\"ValidatingWebhookConfiguration/guard\"";
    assert!(logged[0].contains(because), "{logged:#?}");
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn auto_asks_the_server_for_kinds_that_an_admission_policy_matches() {
    let (dry_runs, logged) = deliver(PreflightChoice::Auto, &[policy()]).await;
    assert_eq!(dry_runs, ["services"]);
    assert!(logged[0].contains("admission-policy"), "{logged:#?}");
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn auto_asks_the_server_in_namespaces_with_quotas_or_limit_ranges() {
    let limits = json!([{"type": "Container", "default": {"cpu": "1"}}]);
    for (kind, spec) in [
        ("ResourceQuota", json!({"hard": {"count/configmaps": "10"}})),
        ("LimitRange", json!({"limits": limits})),
    ] {
        let bound = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "b", "namespace": namespace},
                "spec": spec})
        };
        let (dry_runs, _) = deliver(PreflightChoice::Auto, &[bound(NAMESPACE)]).await;
        assert_eq!(dry_runs, ALL, "{kind}");
        let (dry_runs, _) = deliver(PreflightChoice::Auto, &[bound("default")]).await;
        assert_eq!(dry_runs, Vec::<String>::new(), "{kind}");
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn server_is_asked_about_all_and_local_about_none_whatever_is_installed() {
    let (dry_runs, _) = deliver(PreflightChoice::Server, &[]).await;
    assert_eq!(dry_runs, ALL);
    let (dry_runs, _) = deliver(PreflightChoice::Local, &[webhook(), policy()]).await;
    assert_eq!(dry_runs, Vec::<String>::new());
}
