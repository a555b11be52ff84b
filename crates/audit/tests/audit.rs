//! What is found on small clusters, and that what is proposed mends it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use everflow_audit::{Finding, Form, Model, Options, Rule, Severity, audit, picture, sarif};
use everflow_json::{Value, json};

fn node(name: &str, zone: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}}})
}

fn deployment(namespace: &str, name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
            },
        },
    })
}

fn pod(of: &Value, number: usize, node: &str) -> Value {
    let name = of["metadata"]["name"].as_str().unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-{number}"), "namespace": of["metadata"]["namespace"].clone(),
            "labels": {"app": name}},
        "spec": {"nodeName": node},
    })
}

fn found(objects: Vec<Value>) -> (Model, Vec<Finding>) {
    let model = Model::new(objects);
    let findings = audit(&model, &Options::default());
    (model, findings)
}

fn of(findings: &[Finding], rule: Rule) -> Vec<&Finding> {
    findings
        .iter()
        .filter(|finding| finding.rule == rule)
        .collect()
}

/// The cluster of the incident: one worker carries delivery and the identity root.
fn incident(nodes: &[&str]) -> Vec<Value> {
    let flux = deployment("flux-system", "kustomize-controller", 1);
    let spire = deployment("spire", "spire-server", 1);
    let mut objects: Vec<Value> = nodes.iter().map(|name| node(name, "a")).collect();
    objects.extend([
        pod(&flux, 0, "prod-worker-2"),
        pod(&spire, 0, "prod-worker-2"),
        flux,
        spire,
    ]);
    objects
}

#[test]
fn workloads_on_one_node_are_named_in_a_sentence_and_moved_apart() {
    let (model, findings) = found(incident(&["prod-worker-1", "prod-worker-2"]));
    let [shared] = of(&findings, Rule::SharedNode)[..] else {
        panic!("{findings:#?}");
    };
    assert_eq!(shared.severity, Severity::Error);
    assert_eq!(
        shared.message,
        "prod-worker-2 carries GitOps and workload identity: if it fails, the fix cannot be delivered"
    );
    let fix = shared.fix.as_ref().unwrap();
    assert_eq!(
        (fix.form, fix.place.as_str()),
        (Form::Kustomize, "Deployment/spire/spire-server")
    );
    assert!(
        fix.text
            .contains("preferredDuringSchedulingIgnoredDuringExecution"),
        "{}",
        fix.text
    );
    let svg = picture(&model, &findings);
    assert!(
        svg.contains("#f8d0d0") && svg.contains("flux-system/kustomize-controller (GitOps, alone)")
    );
}

#[test]
fn finding_that_no_patch_resolves_has_no_fix() {
    let (_, findings) = found(incident(&["prod-worker-2"]));
    let shared = of(&findings, Rule::SharedNode)[0];
    assert!(shared.fix.is_none() && shared.remedy.contains("add a node"));
}

#[test]
fn zones_count_when_there_are_several() {
    let (flux, spire) = (
        deployment("flux-system", "everflow", 1),
        deployment("spire", "spire-server", 1),
    );
    let objects = vec![
        node("one", "a"),
        node("two", "a"),
        node("three", "b"),
        pod(&flux, 0, "one"),
        pod(&spire, 0, "two"),
        flux,
        spire,
    ];
    let (_, findings) = found(objects);
    assert!(of(&findings, Rule::SharedNode).is_empty());
    let zone = of(&findings, Rule::SharedZone)[0];
    assert!(
        zone.message
            .starts_with("a carries GitOps and workload identity"),
        "{}",
        zone.message
    );
    assert!(zone.fix.is_some());
}

#[test]
fn manifests_are_checked_without_nodes() {
    let mut bare = deployment("spire", "spire-server", 2);
    bare["spec"]["template"]["spec"]["containers"][0]
        .as_object_mut()
        .unwrap()
        .remove("resources");
    let (_, findings) = found(vec![
        bare,
        deployment("default", "shop", 1),
        deployment("flux-system", "everflow", 1),
    ]);
    let rules: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(
        rules,
        [
            Rule::SingleReplica,
            Rule::NoSpread,
            Rule::BestEffort,
            Rule::NoBudget
        ]
    );
    for finding in &findings {
        assert!(finding.fix.is_some(), "{finding:#?}");
    }
    // Two replicas come with what keeps them apart and a budget.
    let text = &findings[0].fix.as_ref().unwrap().text;
    assert!(
        text.contains("replicas: 2") && text.contains("topologySpreadConstraints"),
        "{text}"
    );
}

#[test]
fn second_replica_is_not_proposed_when_a_standby_is_never_ready() {
    let (_, findings) = found(vec![deployment("flux-system", "source-controller", 1)]);
    let single = of(&findings, Rule::SingleReplica)[0];
    assert!(single.fix.is_none() && single.remedy.contains("never ready as a standby"));
}

#[test]
fn replicas_on_one_node_are_spread() {
    let mut flux = deployment("flux-system", "everflow", 2);
    flux["metadata"]["labels"] = json!({
        "fluxcd.controlplane.io/name": "flux", "fluxcd.controlplane.io/namespace": "flux-system"});
    let objects = vec![
        node("one", "a"),
        node("two", "a"),
        pod(&flux, 0, "one"),
        pod(&flux, 1, "one"),
        flux,
    ];
    let (_, findings) = found(objects);
    let together = of(&findings, Rule::ReplicasTogether)[0];
    assert_eq!(
        together.message,
        "all 2 replicas of flux-system/everflow run on one: if it fails, none is left"
    );
    let fix = together.fix.as_ref().unwrap();
    assert_eq!(
        (fix.form, fix.place.as_str()),
        (Form::FluxInstance, "FluxInstance/flux-system/flux")
    );
    assert!(fix.text.contains("kind: FluxInstance") && fix.text.contains("ScheduleAnyway"));
}

fn webhook(selector: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "policy"},
        "webhooks": [{
            "name": "policy.example.com", "namespaceSelector": selector,
            "clientConfig": {"service": {"namespace": "policy", "name": "policy"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        }],
    })
}

#[test]
fn webhooks_that_keep_their_own_server_from_starting_are_found() {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "policy", "namespace": "policy"}, "spec": {"selector": {"app": "policy"}}});
    let server = deployment("policy", "policy", 2);
    let flux = deployment("flux-system", "everflow", 2);
    let (_, findings) = found(vec![
        webhook(json!({})),
        service.clone(),
        server.clone(),
        flux.clone(),
    ]);
    let deadlock = of(&findings, Rule::AdmissionDeadlock)[0];
    assert!(
        deadlock
            .message
            .ends_with("once they are gone, they cannot come back"),
        "{}",
        deadlock.message
    );
    let fix = deadlock.fix.as_ref().unwrap();
    assert!(
        fix.text.contains("- flux-system") && fix.text.contains("operator: NotIn"),
        "{}",
        fix.text
    );
    let own = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["policy"]}]});
    let (_, findings) = found(vec![
        webhook(own),
        service.clone(),
        server.clone(),
        flux.clone(),
    ]);
    let deadlock = of(&findings, Rule::AdmissionDeadlock)[0];
    assert!(
        deadlock.message.contains("delivery cannot start anew"),
        "{}",
        deadlock.message
    );
    let both = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["policy", "flux-system"]}]});
    let (_, findings) = found(vec![webhook(both), service, server, flux]);
    assert!(of(&findings, Rule::AdmissionDeadlock).is_empty());
}

#[test]
fn dependency_of_delivery_that_it_deploys_itself_is_a_recovery_chain() {
    let mut dns = deployment("kube-system", "coredns", 2);
    dns["metadata"]["labels"] = json!({
        "helm.toolkit.fluxcd.io/name": "dns", "helm.toolkit.fluxcd.io/namespace": "infra"});
    let (_, findings) = found(vec![dns]);
    let chain = of(&findings, Rule::RecoveryChain)[0];
    assert_eq!(
        chain.message,
        "delivery needs DNS (kube-system/coredns), and HelmRelease/infra/dns delivers it: if it fails, its fix cannot be delivered"
    );
    // What a chart makes is patched where its HelmRelease keeps it.
    let fix = of(&findings, Rule::NoSpread)[0].fix.as_ref().unwrap();
    assert_eq!(fix.form, Form::HelmRelease);
    assert!(fix.text.contains("postRenderers"), "{}", fix.text);
}

#[test]
fn one_replica_on_a_volume_of_one_node_cannot_move() {
    let mut vault = deployment("vault", "vault", 1);
    vault["kind"] = "StatefulSet".into();
    vault["spec"]["volumeClaimTemplates"] = json!([
        {"metadata": {"name": "data"}, "spec": {"storageClassName": "local"}}]);
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local"}, "provisioner": "rancher.io/local-path"});
    let (_, findings) = found(vec![vault.clone(), class]);
    let bound = of(&findings, Rule::NodeBoundVolume)[0];
    assert!(
        bound
            .message
            .contains("its volume data is bound to one node"),
        "{}",
        bound.message
    );
    let cloud = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local"}, "provisioner": "ebs.csi.aws.com"});
    let (_, findings) = found(vec![vault, cloud]);
    assert!(of(&findings, Rule::NodeBoundVolume).is_empty());
}

#[test]
fn leases_are_measured_by_the_latency_seen() {
    let mut flux = deployment("flux-system", "everflow", 2);
    flux["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["--log-level=info", "--leader-election-lease-duration=20s"]);
    let model = Model::new(vec![flux]);
    assert!(of(&audit(&model, &Options::default()), Rule::ShortLease).is_empty());
    let slow = Options {
        latency: Duration::from_secs(2),
    };
    let findings = audit(&model, &slow);
    let short = of(&findings, Rule::ShortLease)[0];
    assert_eq!(
        short.message,
        "the lease of flux-system/everflow holds for 20s only: the API server took up to 2.0s to answer"
    );
    let text = &short.fix.as_ref().unwrap().text;
    assert!(
        text.contains("--log-level=info") && text.contains("--leader-election-lease-duration=40s"),
        "{text}"
    );
}

#[test]
fn labels_extend_the_list() {
    let mut shop = deployment("default", "shop", 1);
    shop["metadata"]["labels"] = json!({"audit.everflow.dev/role": "the-licence-server"});
    let (_, findings) = found(vec![shop]);
    let single = of(&findings, Rule::SingleReplica)[0];
    assert!(
        single
            .message
            .contains("default/shop (the licence server) has one replica"),
        "{}",
        single.message
    );
}

#[test]
fn findings_are_written_for_other_programs() {
    let (_, findings) = found(incident(&["prod-worker-2"]));
    let log = sarif(&findings);
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(
        log["runs"][0]["results"].as_array().unwrap().len(),
        findings.len()
    );
    assert_eq!(log["runs"][0]["results"][0]["ruleId"], "SharedNode");
    assert_eq!(findings[0].to_value()["severity"], "error");
}

#[test]
fn malformed_objects_do_not_panic() {
    let odd = [
        json!({}),
        json!([1]),
        json!({"kind": "Deployment"}),
        json!({"kind": "Node"}),
        json!({"kind": "Pod", "spec": 1}),
        json!({"kind": "Deployment", "metadata": {"name": "coredns", "labels": 3}, "spec": {"replicas": -1, "selector": []}}),
        json!({"kind": "ValidatingWebhookConfiguration", "webhooks": [{"clientConfig": 1, "rules": {}}]}),
        json!({"kind": "Lease", "metadata": {"name": "x-leader-election"}, "spec": {"leaseDurationSeconds": "1"}}),
    ];
    let (model, findings) = found(odd.to_vec());
    picture(&model, &findings);
}
