//! What an installation consists of.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_install::{Component, LabelSelector, LeaseTimes, Options, manifests, to_yaml};
use everflow_json::Value;

fn named<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{kind} {name}"))
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect()
}

fn args(objects: &[Value]) -> Vec<&str> {
    let deployment = named(objects, "Deployment", "everflow");
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    args.as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect()
}

#[test]
fn definitions_and_the_namespace_come_before_all_else() {
    let objects = manifests(&Options::default()).unwrap();
    let kinds = kinds(&objects);
    let first = kinds
        .iter()
        .position(|kind| *kind != "CustomResourceDefinition")
        .unwrap();
    assert_eq!(kinds[first], "Namespace");
    assert!(!kinds[first..].contains(&"CustomResourceDefinition"));
}

#[test]
fn all_objects_have_the_part_of_flux_label() {
    let objects = manifests(&Options {
        pod_monitor: true,
        ..Options::default()
    })
    .unwrap();
    for object in &objects {
        let label = &object["metadata"]["labels"]["app.kubernetes.io/part-of"];
        assert_eq!(label, "flux", "{}", object["metadata"]["name"]);
    }
    let pod = &named(&objects, "Deployment", "everflow")["spec"]["template"];
    assert_eq!(
        pod["metadata"]["labels"]["app.kubernetes.io/part-of"],
        "flux"
    );
}

#[test]
fn services_keep_the_names_and_ports_of_flux() {
    let objects = manifests(&Options::default()).unwrap();
    for (name, target) in [
        ("source-controller", "http"),
        ("notification-controller", "http"),
        ("webhook-receiver", "http-webhook"),
    ] {
        let port = &named(&objects, "Service", name)["spec"]["ports"][0];
        assert_eq!(port["port"], 80, "{name}");
        assert_eq!(port["targetPort"], target, "{name}");
    }
}

#[test]
fn pods_are_hardened() {
    let objects = manifests(&Options::default()).unwrap();
    let pod = &named(&objects, "Deployment", "everflow")["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    let security = &container["securityContext"];
    assert_eq!(security["runAsNonRoot"], true);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["capabilities"]["drop"][0], "ALL");
    assert!(container["resources"]["limits"]["memory"].is_string());
}

#[test]
fn replicas_are_spread_and_never_unschedulable() {
    let objects = manifests(&Options::default()).unwrap();
    let deployment = named(&objects, "Deployment", "everflow");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    let spread = pod["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!(spread.len(), 2);
    for constraint in spread {
        assert_eq!(constraint["whenUnsatisfiable"], "ScheduleAnyway");
        assert_eq!(
            constraint["labelSelector"]["matchLabels"]["app"],
            "everflow"
        );
    }
    let apart = &pod["affinity"]["podAntiAffinity"];
    assert!(
        apart
            .get("requiredDuringSchedulingIgnoredDuringExecution")
            .is_none()
    );
    let terms = apart["preferredDuringSchedulingIgnoredDuringExecution"]
        .as_array()
        .unwrap();
    let first = &terms[0]["podAffinityTerm"];
    assert_eq!(first["labelSelector"]["matchLabels"]["app"], "spire-server");
    assert!(first["namespaceSelector"].as_object().unwrap().is_empty());
}

#[test]
fn a_budget_never_keeps_a_single_replica_from_being_drained() {
    let objects = manifests(&Options {
        replicas: 1,
        ..Options::default()
    })
    .unwrap();
    let budget = named(&objects, "PodDisruptionBudget", "everflow");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert!(budget["spec"].get("minAvailable").is_none());
}

#[test]
fn appliers_are_cluster_admin_unless_tenants_are_locked_down() {
    let objects = manifests(&Options::default()).unwrap();
    let binding = named(
        &objects,
        "ClusterRoleBinding",
        "cluster-reconciler-flux-system",
    );
    assert_eq!(binding["roleRef"]["name"], "cluster-admin");
    assert_eq!(binding["subjects"][0]["name"], "everflow");
    let options = Options {
        multitenant: true,
        ..Options::default()
    };
    let objects = manifests(&options).unwrap();
    assert!(!to_yaml(&objects).contains("cluster-admin"));
    let args = args(&objects);
    assert!(args.contains(&"--no-cross-namespace-refs"));
    assert!(args.contains(&"--default-service-account=default"));
    let role = named(&objects, "ClusterRole", "crd-controller-flux-system");
    let rules = role["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["verbs"][0] == "impersonate"));
}

#[test]
fn a_platform_admin_is_an_account_of_its_own() {
    let options = Options {
        multitenant: true,
        platform_admin: "kustomize-controller".into(),
        ..Options::default()
    };
    let objects = manifests(&options).unwrap();
    named(&objects, "ServiceAccount", "kustomize-controller");
    let binding = named(
        &objects,
        "ClusterRoleBinding",
        "cluster-reconciler-flux-system",
    );
    assert_eq!(binding["subjects"][0]["name"], "kustomize-controller");
}

#[test]
fn fewer_components_are_fewer_kinds_and_services() {
    let options = Options {
        components: vec![Component::Source, Component::Kustomize],
        ..Options::default()
    };
    let objects = manifests(&options).unwrap();
    let only = "--only=GitRepository,OCIRepository,HelmRepository,HelmChart,Bucket,Kustomization";
    assert!(args(&objects).contains(&only));
    assert!(!to_yaml(&objects).contains("webhook-receiver"));
}

#[test]
fn shards_have_deployments_and_services_of_their_own() {
    let sharding = everflow_install::Sharding {
        key: "sharding.fluxcd.io/key".into(),
        shards: vec!["one".into()],
    };
    let options = Options {
        sharding: Some(sharding),
        ..Options::default()
    };
    let objects = manifests(&options).unwrap();
    assert!(args(&objects).contains(&"--watch-label-selector=!sharding.fluxcd.io/key"));
    let shard = named(&objects, "Deployment", "everflow-one").to_string();
    assert!(
        shard.contains("--watch-label-selector=sharding.fluxcd.io/key=one"),
        "{shard}"
    );
    assert!(
        shard.contains("--storage-adv-addr=source-controller-one."),
        "{shard}"
    );
    named(&objects, "Service", "source-controller-one");
}

#[test]
fn options_that_make_no_sense_are_named() {
    let wrong = |options: Options| manifests(&options).unwrap_err().to_string();
    let text = wrong(Options {
        log_level: "loud".into(),
        ..Options::default()
    });
    assert!(text.starts_with("--log-level: \"loud\""), "{text}");
    // Beside the 15 s and the 19 s that everflow run has by itself.
    let too_short = LeaseTimes {
        duration: "15s".into(),
        ..LeaseTimes::default()
    };
    let too_long = LeaseTimes {
        renew_deadline: "20s".into(),
        ..LeaseTimes::default()
    };
    for lease in [too_short, too_long] {
        let text = wrong(Options {
            lease,
            ..Options::default()
        });
        assert!(
            text.starts_with("--leader-election-lease-duration:"),
            "{text}"
        );
    }
    let lease = LeaseTimes {
        duration: "20s".into(),
        ..LeaseTimes::default()
    };
    let fits = Options {
        lease,
        ..Options::default()
    };
    assert!(manifests(&fits).is_ok());
    let text = wrong(Options {
        memory_limit: "lots".into(),
        ..Options::default()
    });
    assert!(text.starts_with("--memory-limit:"), "{text}");
    let text = wrong(Options {
        namespace: "A b".into(),
        ..Options::default()
    });
    assert!(text.starts_with("--namespace:"), "{text}");
}

#[test]
fn selectors_for_what_to_keep_apart_from_are_taken() {
    let selector = LabelSelector::parse("--spread-from", "tier=identity").unwrap();
    let options = Options {
        keep_apart_from: vec![selector],
        ..Options::default()
    };
    let text = to_yaml(&manifests(&options).unwrap());
    assert!(text.contains("tier: identity") && !text.contains("spire"));
}
