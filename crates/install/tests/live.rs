//! What people have set on the Deployments of a Flux that runs, carried over to ours.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_install::instance::{Carried, carry_live};
use everflow_install::{Options, manifests};
use everflow_json::{Value, json};

/// A Deployment of Flux 2.9 as an API server gives it, defaults filled in.
fn live(name: &str, args: &[&str]) -> Value {
    let mut all = vec![
        "--events-addr=http://notification-controller.flux-system.svc.cluster.local./".to_owned(),
        "--watch-all-namespaces=true".to_owned(),
        "--log-level=info".to_owned(),
        "--log-encoding=json".to_owned(),
        "--enable-leader-election".to_owned(),
    ];
    if name == "source-controller" {
        all.push("--storage-path=/data".to_owned());
        let address =
            "--storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.cluster.local.";
        all.push(address.to_owned());
    }
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "flux-system", "generation": 3, "uid": "u",
            "labels": {"app.kubernetes.io/part-of": "flux", "app.kubernetes.io/version": "v2.8.1"}},
        "spec": {
            "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name, "app.kubernetes.io/version": "v2.8.1"},
                    "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true",
                        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"},
                },
                "spec": {
                    "containers": [{
                        "name": "manager", "image": format!("ghcr.io/fluxcd/{name}:v1.8.0"),
                        "args": all, "terminationMessagePath": "/dev/termination-log",
                        "env": [{"name": "RUNTIME_NAMESPACE", "valueFrom": {"fieldRef": {
                            "apiVersion": "v1", "fieldPath": "metadata.namespace"}}}],
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"},
                            "requests": {"cpu": "100m", "memory": "64Mi"}},
                        "volumeMounts": [{"mountPath": "/tmp", "name": "temp"}],
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                    "priorityClassName": "system-cluster-critical",
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "securityContext": {"fsGroup": 1337},
                    "volumes": [{"name": "temp", "emptyDir": {}}],
                },
            },
        },
    })
}

const NAMES: [&str; 4] = [
    "source-controller",
    "kustomize-controller",
    "helm-controller",
    "notification-controller",
];

fn carried(change: impl Fn(&mut Vec<Value>)) -> (Carried, Value) {
    let mut all: Vec<Value> = NAMES.iter().map(|name| live(name, &[])).collect();
    change(&mut all);
    let options = Options::default();
    let mut objects = manifests(&options).unwrap();
    let carried = carry_live(&options, &all, &mut objects);
    let deployment = objects.into_iter().find(|one| one["kind"] == "Deployment");
    (carried, deployment.unwrap())
}

fn manager(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn has(deployment: &Value, arg: &str) -> bool {
    let args = manager(deployment)["args"].as_array().unwrap();
    args.iter().any(|other| other == arg)
}

#[test]
fn a_flux_as_it_is_installed_changes_nothing() {
    let (carried, deployment) = carried(|_| {});
    assert_eq!(carried, Carried::default());
    let plain = manifests(&Options::default()).unwrap();
    assert!(plain.contains(&deployment));
}

#[test]
fn arguments_that_matter_are_carried_over() {
    let (carried, deployment) = carried(|all| {
        let lock = [
            "--no-cross-namespace-refs=true",
            "--default-service-account=tenant",
        ];
        all[1] = live(
            "kustomize-controller",
            &[&lock[..], &["--concurrent=20"]].concat(),
        );
        all[2] = live(
            "helm-controller",
            &[&lock[..], &["--concurrent=8", "--oom-watch-interval=1s"]].concat(),
        );
    });
    for arg in [
        "--no-cross-namespace-refs",
        "--default-service-account=tenant",
        "--concurrent=20",
    ] {
        assert!(has(&deployment, arg), "{arg}: {deployment}");
    }
    let told = carried.changes.join("\n");
    assert!(told.contains("[--concurrent] = 20"), "{told}");
    assert!(
        told.contains("[--default-service-account] = tenant"),
        "{told}"
    );
    assert_eq!(
        carried.notes,
        ["--oom-watch-interval has no counterpart and is left out"]
    );
}

#[test]
fn limits_are_raised_and_never_lowered() {
    let (_, deployment) = carried(|all| {
        let resources = |memory: &str| {
            json!({"limits": {"cpu": "2", "memory": memory},
            "requests": {"cpu": "50m", "memory": "16Mi"}})
        };
        let pod = |one: &mut Value, memory: &str| {
            one["spec"]["template"]["spec"]["containers"][0]["resources"] = resources(memory);
        };
        pod(&mut all[1], "4Gi");
        pod(&mut all[2], "256Mi");
    });
    let resources = &manager(&deployment)["resources"];
    assert_eq!(resources["limits"], json!({"cpu": "2", "memory": "4Gi"}));
    let own = Options::default();
    assert_eq!(resources["requests"]["memory"], own.memory_request.as_str());
    assert_eq!(resources["requests"]["cpu"], own.cpu_request.as_str());
}

#[test]
fn where_pods_run_and_what_they_are_given_is_carried_over() {
    let (_, deployment) = carried(|all| {
        for one in all.iter_mut() {
            let pod = &mut one["spec"]["template"];
            pod["metadata"]["annotations"]["linkerd.io/inject"] = json!("enabled");
            pod["spec"]["tolerations"] = json!([{"key": "platform", "operator": "Exists"}]);
            pod["spec"]["volumes"] = json!([{"name": "temp", "emptyDir": {}},
                {"name": "ca", "configMap": {"name": "ca", "defaultMode": 420}}]);
            let manager = &mut pod["spec"]["containers"][0];
            manager["volumeMounts"] = json!([{"mountPath": "/tmp", "name": "temp"},
                {"mountPath": "/etc/ssl/certs", "name": "ca", "readOnly": true}]);
            manager["env"] = json!([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]);
        }
    });
    let pod = &deployment["spec"]["template"];
    assert_eq!(
        pod["metadata"]["annotations"]["linkerd.io/inject"],
        "enabled"
    );
    assert_eq!(pod["spec"]["tolerations"][0]["key"], "platform");
    let text = pod["spec"].to_string();
    for part in [
        "\"name\":\"ca\"",
        "/etc/ssl/certs",
        "HTTPS_PROXY",
        "RUNTIME_NAMESPACE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Its own volumes stay.
    let mounts = manager(&deployment)["volumeMounts"].as_array().unwrap();
    let paths: Vec<&str> = mounts
        .iter()
        .map(|one| one["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["/data", "/tmp", "/etc/everflow/api", "/etc/ssl/certs"]
    );
}

#[test]
fn selectors_of_shards_are_left_out_and_others_kept() {
    let selector = "--watch-label-selector=team=shop";
    let (_, deployment) = carried(|all| {
        all[1] = live("kustomize-controller", &[selector]);
    });
    assert!(has(&deployment, selector));
    let (_, deployment) = carried(|all| {
        all[1] = live(
            "kustomize-controller",
            &["--watch-label-selector=!sharding.fluxcd.io/key"],
        );
        all.push(live(
            "kustomize-controller-one",
            &["--watch-label-selector=sharding.fluxcd.io/key=one"],
        ));
    });
    assert!(
        !manager(&deployment)
            .to_string()
            .contains("watch-label-selector")
    );
}
