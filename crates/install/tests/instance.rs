//! FluxInstances, with the patches that people wrote for Flux's Deployments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_install::instance::{Built, build};
use everflow_install::{Error, Options};
use everflow_json::{Value, json};

fn instance(spec: Value) -> Value {
    let mut whole = json!({
        "apiVersion": "fluxcd.controlplane.io/v1",
        "kind": "FluxInstance",
        "metadata": {"name": "flux", "namespace": "flux-system"},
        "spec": {"distribution": {"version": "2.x", "registry": "ghcr.io/fluxcd"}},
    });
    for (key, value) in spec.as_object().unwrap().iter() {
        whole["spec"][key.as_str()] = value.clone();
    }
    whole
}

fn built(spec: Value) -> Built {
    build(&instance(spec), &Options::default()).unwrap()
}

fn patched(patches: Value) -> Built {
    built(json!({"kustomize": {"patches": patches}}))
}

fn named<'o>(built: &'o Built, kind: &str, name: &str) -> &'o Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    built
        .objects
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{kind} {name}"))
}

fn pod(built: &Built) -> &Value {
    &named(built, "Deployment", "everflow")["spec"]["template"]["spec"]
}

fn args(built: &Built) -> Vec<String> {
    let args = pod(built)["containers"][0]["args"].as_array().unwrap();
    args.iter()
        .map(|arg| arg.as_str().unwrap().to_owned())
        .collect()
}

fn has(built: &Built, arg: &str) -> bool {
    args(built).iter().any(|other| other == arg)
}

fn add_args(target: &str, flags: &[&str]) -> Value {
    let operations = flags.iter().map(|flag| {
        json!({"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag})
    });
    let operations: Vec<Value> = operations.collect();
    json!({"target": {"kind": "Deployment", "name": target}, "patch": json!(operations).to_string()})
}

#[test]
fn without_patches_it_is_what_the_options_say() {
    let built = built(json!({}));
    let plain = everflow_install::manifests(&Options::default()).unwrap();
    assert_eq!(built.objects, plain);
}

#[test]
fn spread_by_the_label_of_flux_replaces_our_own_of_that_topology() {
    let patch = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: all
spec:
  template:
    spec:
      topologySpreadConstraints:
        - maxSkew: 2
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/part-of: flux
";
    let target = json!({"kind": "Deployment", "labelSelector": "app.kubernetes.io/part-of=flux"});
    let built = patched(json!([{"target": target, "patch": patch}]));
    let spread = pod(&built)["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!(spread.len(), 2, "{spread:?}");
    let zone = &spread[1];
    assert_eq!(zone["maxSkew"], 2);
    assert_eq!(
        zone["labelSelector"]["matchLabels"]["app.kubernetes.io/part-of"],
        "flux"
    );
}

#[test]
fn selectors_of_one_controller_select_our_pods() {
    let patch = r#"[{"op": "add", "path": "/spec/template/spec/topologySpreadConstraints", "value": [
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {"matchLabels": {"app": "source-controller"}}}]}]"#;
    let target = json!({"kind": "Deployment", "name": "source-controller"});
    let built = patched(json!([{"target": target, "patch": patch}]));
    let spread = pod(&built)["topologySpreadConstraints"].as_array().unwrap();
    let rack = spread
        .iter()
        .find(|one| one["topologyKey"] == "rack")
        .unwrap();
    assert_eq!(
        rack["labelSelector"]["matchLabels"],
        json!({"app": "everflow"})
    );
}

#[test]
fn of_several_numbers_the_largest_counts_and_of_texts_the_last() {
    let built = patched(json!([
        add_args(
            "(kustomize-controller|helm-controller)",
            &["--concurrent=20", "--requeue-dependency=5s"]
        ),
        add_args("source-controller", &["--concurrent=10"]),
        add_args("helm-controller", &["--requeue-dependency=10s"]),
    ]));
    assert!(has(&built, "--concurrent=20"), "{:?}", args(&built));
    assert!(
        has(&built, "--requeue-dependency=10s"),
        "{:?}",
        args(&built)
    );
}

#[test]
fn arguments_replaced_by_their_place_are_found_as_flux_has_them() {
    let patch = r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/args/2", "value": "--log-level=debug"}]"#;
    let target = json!({"kind": "Deployment", "name": "kustomize-controller"});
    let built = patched(json!([{"target": target, "patch": patch}]));
    assert!(has(&built, "--log-level=debug"), "{:?}", args(&built));
    assert!(!has(&built, "--log-level=info"), "{:?}", args(&built));
}

#[test]
fn lease_times_and_switches_are_carried_over() {
    let built = patched(json!([add_args(
        "(kustomize-controller|helm-controller|source-controller|notification-controller)",
        &[
            "--leader-election-lease-duration=60s",
            "--leader-election-renew-deadline=40s",
            "--no-cross-namespace-refs=true",
            "--no-remote-bases=true",
            "--feature-gates=ExternalArtifact=true,OOMWatch=true",
        ],
    )]));
    assert!(has(&built, "--leader-election-lease-duration=60s"));
    assert!(has(&built, "--no-cross-namespace-refs"));
    assert!(
        has(&built, "--feature-gates=ExternalArtifact=true"),
        "{:?}",
        args(&built)
    );
    let notes = built.notes.join("\n");
    assert!(
        notes.contains("patches[0]: --no-remote-bases has no effect"),
        "{notes}"
    );
    assert!(notes.contains("OOMWatch"), "{notes}");
}

#[test]
fn lease_times_of_patches_that_cannot_work_together_are_refused() {
    let patches = json!([add_args(
        "source-controller",
        &["--leader-election-lease-duration=10s"]
    )]);
    let error = build(
        &instance(json!({"kustomize": {"patches": patches}})),
        &Options::default(),
    );
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("--leader-election-lease-duration: must be longer"),
        "{text}"
    );
}

#[test]
fn resources_take_the_larger_and_no_limit_is_the_largest() {
    let limit = |name: &str, memory: &str| {
        json!({"target": {"kind": "Deployment", "name": name}, "patch": json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [{"name": "manager",
                "resources": {"limits": {"memory": memory}}}]}}},
        }).to_string()})
    };
    let remove = json!({"target": {"kind": "Deployment", "name": "helm-controller"},
        "patch": r#"[{"op": "remove", "path": "/spec/template/spec/containers/0/resources/limits/cpu"}]"#});
    let built = patched(json!([
        limit("kustomize-controller", "2Gi"),
        limit("source-controller", "512Mi"),
        remove,
    ]));
    let limits = &pod(&built)["containers"][0]["resources"]["limits"];
    assert_eq!(limits, &json!({"memory": "2Gi"}));
}

#[test]
fn replicas_tolerations_and_volumes_are_carried_over() {
    let patch = json!([
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/spec/template/spec/tolerations", "value":
            [{"key": "infra", "operator": "Exists"}]},
        {"op": "replace", "path": "/spec/template/spec/volumes/0", "value":
            {"name": "temp", "emptyDir": {"medium": "Memory"}}},
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value":
            {"name": "ca", "configMap": {"name": "ca"}}},
        {"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value":
            {"name": "ca", "mountPath": "/etc/ssl/certs"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value":
            {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}},
    ]);
    let target = json!({"kind": "Deployment", "name": "kustomize-controller"});
    let built = patched(json!([{"target": target, "patch": patch.to_string()}]));
    assert_eq!(
        named(&built, "Deployment", "everflow")["spec"]["replicas"],
        3
    );
    let pod = pod(&built);
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "infra", "operator": "Exists"}])
    );
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = |name: &str| volumes.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(volume("tmp")["emptyDir"]["medium"], "Memory");
    assert_eq!(volume("ca")["configMap"]["name"], "ca");
    assert!(!volumes.iter().any(|one| one["name"] == "temp"));
    let container = &pod["containers"][0];
    assert!(container["env"].to_string().contains("proxy:3128"));
    assert!(
        container["volumeMounts"]
            .to_string()
            .contains("/etc/ssl/certs")
    );
}

#[test]
fn arguments_of_further_containers_stay_as_they_are() {
    let patch = json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value":
        {"name": "agent", "image": "agent:1", "args": ["serve", "--b=1", "--a=2", "--b=3"]}}]);
    let target = json!({"kind": "Deployment", "name": "(source|kustomize)-controller"});
    let built = patched(json!([{"target": target, "patch": patch.to_string()}]));
    let containers = pod(&built)["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    assert_eq!(
        containers[1]["args"],
        json!(["serve", "--b=1", "--a=2", "--b=3"])
    );
    assert!(
        built.notes.iter().all(|note| !note.contains("patches")),
        "{:?}",
        built.notes
    );
}

#[test]
fn durations_are_no_numbers() {
    let built = patched(json!([
        add_args("helm-controller", &["--requeue-dependency=2m"]),
        add_args("kustomize-controller", &["--requeue-dependency=1m"]),
    ]));
    assert!(has(&built, "--requeue-dependency=1m"), "{:?}", args(&built));
}

#[test]
fn patches_name_their_object_with_the_namespace_or_without_it() {
    let patch = |namespace: &str| {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: source-controller\n{namespace}spec:\n  \
             template:\n    spec:\n      priorityClassName: platform\n"
        );
        patched(json!([{ "patch": text }]))
    };
    for namespace in ["", "  namespace: flux-system\n"] {
        assert_eq!(
            pod(&patch(namespace))["priorityClassName"],
            "platform",
            "{namespace}"
        );
    }
}

#[test]
fn a_patch_counts_over_the_size_of_the_cluster() {
    let limit = r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/memory", "value": "1Gi"}]"#;
    let built = built(json!({
        "cluster": {"size": "large"},
        "kustomize": {"patches": [{"target": {"kind": "Deployment"}, "patch": limit}]},
    }));
    assert_eq!(
        pod(&built)["containers"][0]["resources"]["limits"]["memory"],
        "1Gi"
    );
    assert!(has(&built, "--concurrent=20"));
}

#[test]
fn annotations_of_accounts_and_patches_of_other_objects_are_made() {
    let built = patched(json!([
        {"target": {"kind": "ServiceAccount", "name": "source-controller"},
         "patch": r#"[{"op": "add", "path": "/metadata/annotations", "value": {"role": "reader"}}]"#},
        {"target": {"kind": "Namespace"},
         "patch": r#"[{"op": "add", "path": "/metadata/labels/team", "value": "platform"}]"#},
        {"patch": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: allow-webhooks\n  \
                   namespace: flux-system\n$patch: delete\n"},
    ]));
    let account = named(&built, "ServiceAccount", "everflow");
    assert_eq!(account["metadata"]["annotations"]["role"], "reader");
    assert_eq!(
        named(&built, "Namespace", "flux-system")["metadata"]["labels"]["team"],
        "platform"
    );
    let is_policy = |object: &&Value| object["metadata"]["name"] == "allow-webhooks";
    assert!(!built.objects.iter().any(|object| is_policy(&object)));
}

#[test]
fn a_patch_that_cannot_be_applied_is_named_with_its_place_and_reason() {
    let wrong = |patches: Value| {
        let error = build(
            &instance(json!({"kustomize": {"patches": patches}})),
            &Options::default(),
        );
        error.unwrap_err()
    };
    let good = add_args("source-controller", &["--concurrent=4"]);
    let error = wrong(
        json!([good, {"target": {"kind": "Deployment", "name": "source-controller"},
        "patch": r#"[{"op": "remove", "path": "/spec/nothing"}]"#}]),
    );
    assert!(matches!(&error, Error::Patch { index: 1, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("FluxInstance spec.kustomize.patches[1] cannot be applied:"),
        "{text}"
    );
    let error = wrong(
        json!([{"patch": "kind: Deployment\napiVersion: apps/v1\nmetadata:\n  name: sauce-controller\n"}]),
    );
    assert!(
        error
            .to_string()
            .contains("there is no Deployment sauce-controller"),
        "{error}"
    );
    let error = wrong(json!([{"target": {"kind": "Deployment"}}]));
    assert!(
        error.to_string().contains("field patch is required"),
        "{error}"
    );
    let error = wrong(
        json!([{"patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: helm-controller\n  \
                                        namespace: flux-system\n$patch: delete\n"}]),
    );
    assert!(
        error.to_string().contains("leave a controller out"),
        "{error}"
    );
}

#[test]
fn patches_without_effect_are_reported() {
    let built = patched(json!([
        add_args("image-automation-controller", &["--concurrent=4"]),
        {"target": {"kind": "Deployment", "name": "source-controller"}, "patch":
            r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror/source-controller:v1"},
                {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--kube-api-qps=500"},
                {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--bogus=1"}]"#},
    ]));
    let notes = built.notes.join("\n");
    for wanted in [
        "patches[0]: it is for nothing",
        "[manager].image is Flux's image",
        "--kube-api-qps has no effect",
        "--bogus has no counterpart",
    ] {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
    assert!(
        !args(&built)
            .iter()
            .any(|arg| arg.contains("kube-api") || arg.contains("bogus"))
    );
}

#[test]
fn size_tenants_storage_and_sync_are_read() {
    let built = built(json!({
        "components": ["source-controller", "kustomize-controller", "image-reflector-controller"],
        "cluster": {"size": "large", "multitenant": true, "networkPolicy": false, "domain": "corp.local",
            "tenantDefaultServiceAccount": "flux"},
        "storage": {"class": "fast", "size": "10Gi"},
        "commonMetadata": {"labels": {"team": "platform"}},
        "sync": {"kind": "GitRepository", "url": "https://git/x", "ref": "refs/heads/main", "path": "clusters/a",
            "pullSecret": "git"},
    }));
    for arg in [
        "--concurrent=20",
        "--requeue-dependency=5s",
        "--default-service-account=flux",
        "--no-cross-namespace-refs",
    ] {
        assert!(has(&built, arg), "{arg}: {:?}", args(&built));
    }
    assert!(
        args(&built)
            .iter()
            .any(|arg| arg.contains("svc.corp.local."))
    );
    assert_eq!(
        pod(&built)["containers"][0]["resources"]["limits"]["memory"],
        "3Gi"
    );
    let claim = &pod(&built)["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"];
    assert_eq!(claim["storageClassName"], "fast");
    assert!(
        !built
            .objects
            .iter()
            .any(|object| object["kind"] == "NetworkPolicy")
    );
    assert!(
        built
            .objects
            .iter()
            .all(|object| object["metadata"]["labels"]["team"] == "platform")
    );
    let source = named(&built, "GitRepository", "flux-system");
    assert_eq!(source["spec"]["ref"]["name"], "refs/heads/main");
    let sync = named(&built, "Kustomization", "flux-system");
    assert_eq!(sync["spec"]["serviceAccountName"], "kustomize-controller");
    assert!(
        built
            .notes
            .iter()
            .any(|note| note.contains("image-reflector-controller"))
    );
}

#[test]
fn fields_that_make_no_sense_are_named() {
    let wrong = |spec: Value| {
        build(&instance(spec), &Options::default())
            .unwrap_err()
            .to_string()
    };
    let text = wrong(json!({"cluster": {"size": "huge"}}));
    assert!(text.contains("spec.cluster.size"), "{text}");
    let text = wrong(json!({"sync": {"kind": "GitRepository"}}));
    assert!(text.contains("spec.sync.url"), "{text}");
    let text = wrong(json!({"components": ["sauce"]}));
    assert!(text.contains("spec.components[0]"), "{text}");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flux"}});
    let error = build(&other, &Options::default()).unwrap_err();
    assert_eq!(error.reason(), "InvalidInstance");
}
