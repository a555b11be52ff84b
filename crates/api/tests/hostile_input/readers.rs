//! The readers of Flux's kinds.

use std::fmt::Debug;

use everflow_api::helm::HelmRelease;
use everflow_api::inventory::{ObjectId, ResourceRef};
use everflow_api::kustomization::Kustomization;
use everflow_api::notification::{Alert, Provider, Receiver};
use everflow_api::object::{Kind, Object};
use everflow_api::source::{
    Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OCIRepository,
};
use everflow_api::view;
use everflow_corpus::hostile::{Reader, texts};
use everflow_json::Value;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("kustomization", object::<Kustomization>, || {
        texts(&[KUSTOMIZATION])
    })
    .tokens(TOKENS),
    Reader::new("helm-release", object::<HelmRelease>, || texts(&[RELEASE])).tokens(TOKENS),
    Reader::new("git-repository", object::<GitRepository>, || texts(&[GIT])).tokens(TOKENS),
    Reader::new("other-kinds", others, || texts(&[BUCKET])).tokens(TOKENS),
    Reader::new("inventory-entry", entry, || {
        texts(&[
            "apps_web_apps_Deployment v1",
            "__a_Namespace v1",
            "a_b__c_rbac_Role v1",
        ])
    })
    .tokens(&["_", "__", " ", "."]),
];

const TOKENS: &[&str] = &[
    "null",
    "[",
    "{",
    "{\"a\":",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e30",
    "\"1h\"",
    "\"99999999h\"",
    "true",
    "\"conditions\":[",
    "\"interval\":",
];
const KUSTOMIZATION: &str = r#"{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "a", "namespace": "b", "annotations": {"reconcile.fluxcd.io/requestedAt": "x"}}, "spec": {"interval": "10m", "retryInterval": "1m", "prune": true, "path": "./a", "sourceRef": {"kind": "GitRepository", "name": "r"}, "postBuild": {"substitute": {"a": "b"}, "substituteFrom": [{"kind": "ConfigMap", "name": "c", "optional": true}]}, "patches": [{"patch": "x", "target": {"kind": "Deployment"}}], "healthChecks": [{"kind": "Deployment", "name": "d"}], "dependsOn": [{"name": "z"}], "future": {"x": [1]}}, "status": {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "inventory": {"entries": [{"id": "b_c__ConfigMap", "v": "v1"}]}, "history": [{"digest": "d", "firstReconciled": "2026-01-01T00:00:00Z", "lastReconciled": "2026-01-01T00:00:00Z", "lastReconciledDuration": "1s", "lastReconciledStatus": "ReconciliationSucceeded", "totalReconciliations": 2}]}}"#;
const RELEASE: &str = r#"{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "a"}, "spec": {"interval": "10m", "chart": {"spec": {"chart": "c", "version": ">=1", "sourceRef": {"kind": "HelmRepository", "name": "r"}, "valuesFiles": ["a"]}}, "values": {"a": [1, {"b": null}]}, "valuesFrom": [{"kind": "Secret", "name": "s", "targetPath": "a.b"}], "install": {"remediation": {"retries": 3}}, "driftDetection": {"mode": "enabled", "ignore": [{"paths": ["/a"]}]}}}"#;
const GIT: &str = r#"{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "a"}, "spec": {"url": "https://a", "interval": "1m", "ref": {"semver": ">=1", "branch": "b"}, "verify": {"mode": "HEAD", "secretRef": {"name": "k"}}, "include": [{"repository": {"name": "x"}, "fromPath": "a", "toPath": "b"}], "ignore": "/*"}, "status": {"artifact": {"path": "p", "url": "u", "revision": "r", "digest": "d", "lastUpdateTime": "2026-01-01T00:00:00Z", "size": 5}}}"#;
const BUCKET: &str = r#"{"metadata": {"name": "a"}, "spec": {"endpoint": "e", "bucketName": "b", "interval": "1m", "provider": "generic", "url": "oci://a/b", "chart": "c", "sourceRef": {"kind": "Bucket", "name": "x"}, "type": "slack", "eventSources": [{"kind": "Bucket", "name": "*"}], "resources": [{"kind": "Bucket", "name": "*"}], "providerRef": {"name": "p"}, "secretRef": {"name": "s"}}}"#;

fn read<K: Kind + Debug>(value: &Value) -> bool {
    let _ = Object::<K>::read_spec(value);
    let Ok(object) = Object::<K>::read(value) else {
        return false;
    };
    let written = object.to_value();
    let again = Object::<K>::read(&written);
    assert_eq!(again.unwrap().to_value(), written);
    true
}

fn object<K: Kind + Debug>(bytes: &[u8]) -> bool {
    let Ok(value) = everflow_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let _ = (
        view::name_of(&value),
        view::generation(&value),
        view::observed_generation(&value),
    );
    let _ = (
        view::complaint(&value),
        view::is_current(&value),
        view::is_suspended(&value),
    );
    let _ = (view::artifact_revision(&value), view::is_deleted(&value));
    read::<K>(&value)
}

fn others(bytes: &[u8]) -> bool {
    let Ok(value) = everflow_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let taken = [
        read::<Bucket>(&value),
        read::<ExternalArtifact>(&value),
        read::<HelmChart>(&value),
        read::<HelmRepository>(&value),
        read::<OCIRepository>(&value),
        read::<Alert>(&value),
        read::<Provider>(&value),
        read::<Receiver>(&value),
    ];
    taken.contains(&true)
}

fn entry(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let (id, version) = text.split_once(' ').unwrap_or((&text, ""));
    let entry = ResourceRef {
        id: id.to_owned(),
        version: version.to_owned(),
        ..ResourceRef::default()
    };
    let Ok(id) = entry.object_id() else {
        return false;
    };
    let again: ObjectId = ResourceRef::new(&id, version).object_id().unwrap();
    assert_eq!(again, id);
    let _ = id.subject();
    true
}
