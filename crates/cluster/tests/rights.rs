//! Who may do what, with the real server's words.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use everflow_cluster::auth::User;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

const ADMIN: &str = "the-admins-token";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

struct Cluster {
    server: ApiServer,
    env: Arc<ManualEnvironment>,
}

impl Cluster {
    fn new(controllers: &str) -> Self {
        let env = Arc::new(ManualEnvironment::new(
            Timestamp::from_seconds(1_794_740_000),
            1,
        ));
        let options = Options {
            authorization: true,
            tokens: vec![(ADMIN.into(), User::admin())],
            ..Options::default()
        }
        .with_controllers(controllers)
        .unwrap();
        Cluster {
            server: ApiServer::new(env.clone(), options),
            env,
        }
    }

    fn send(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::new(method, path, bytes)
            .header("authorization", &format!("Bearer {token}"))
            .header("content-type", media)
            .header("accept", "application/json")
            .header("user-agent", "test/1");
        let answer = self.server.handle(&request);
        let Body::Full(bytes) = answer.body else {
            return (answer.status, Value::Null);
        };
        (
            answer.status,
            everflow_json::from_slice(&bytes).unwrap_or_default(),
        )
    }

    fn make(&self, path: &str, body: Value) {
        let (status, answer) = self.send(ADMIN, "POST", path, body);
        assert_eq!(status, 201, "{answer}");
    }

    /// A service account that may write roles and bindings and read pods in a namespace, and its token.
    fn limited(&self) -> String {
        self.make("/api/v1/namespaces", json!({"metadata": {"name": "t1"}}));
        self.make(
            "/api/v1/namespaces/t1/serviceaccounts",
            json!({"metadata": {"name": "a"}}),
        );
        self.make(
            &format!("{RBAC}/namespaces/t1/roles"),
            json!({"metadata": {"name": "r"}, "rules": [
                {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["get", "create", "update", "patch", "delete"]},
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
            ]}),
        );
        self.make(
            &format!("{RBAC}/namespaces/t1/rolebindings"),
            json!({"metadata": {"name": "rb"}, "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                   "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "t1"}]}),
        );
        let (_, answer) = self.send(
            ADMIN,
            "POST",
            "/api/v1/namespaces/t1/serviceaccounts/a/token",
            json!({"spec": {"expirationSeconds": 600}}),
        );
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

#[test]
fn granting_rights_that_the_user_lacks_is_forbidden() {
    let cluster = Cluster::new("none");
    let token = cluster.limited();
    let roles = format!("{RBAC}/namespaces/t1/roles");
    let (status, answer) = cluster.send(
        &token,
        "POST",
        &roles,
        json!({"metadata": {"name": "r2"}, "rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods", "secrets"], "verbs": ["get", "delete"]},
            {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a", "b"], "verbs": ["get"]}
        ]}),
    );
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "roles.rbac.authorization.k8s.io \"r2\" is forbidden: user \"system:serviceaccount:t1:a\" (groups=[\"system:serviceaccounts\" \"system:serviceaccounts:t1\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}\n{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"delete\"]}\n{APIGroups:[\"apps\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}"
    );
    let (status, _) = cluster.send(
        &token,
        "PATCH",
        &format!("{roles}/r"),
        json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    );
    assert_eq!(status, 403);
    let (status, _) = cluster.send(
        &token,
        "PATCH",
        &format!("{roles}/r"),
        json!({"metadata": {"finalizers": ["a.io/b"]}}),
    );
    assert_eq!(status, 200, "what garbage collection needs may change");
}

#[test]
fn binding_a_role_with_more_rights_than_the_user_is_forbidden() {
    let cluster = Cluster::new("none");
    let token = cluster.limited();
    let bind = |kind: &str, role: &str| {
        cluster.send(
            &token,
            "POST",
            &format!("{RBAC}/namespaces/t1/rolebindings"),
            json!({"metadata": {"generateName": "b-"}, "roleRef": {"kind": kind, "name": role, "apiGroup": "rbac.authorization.k8s.io"}}),
        )
    };
    assert_eq!(bind("ClusterRole", "system:basic-user").0, 201);
    let (status, answer) = bind("ClusterRole", "system:node-problem-detector");
    assert_eq!(status, 403);
    assert!(
        answer["message"].as_str().unwrap().ends_with(
            "not currently held:\n{APIGroups:[\"\"], Resources:[\"events\"], Verbs:[\"create\" \"patch\" \"update\"]}\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"nodes/status\"], Verbs:[\"patch\"]}\n{APIGroups:[\"events.k8s.io\"], Resources:[\"events\"], Verbs:[\"create\" \"patch\" \"update\"]}"
        ),
        "{answer}"
    );
    let (status, answer) = bind("Role", "nope");
    assert_eq!(
        (status, answer["message"].as_str().unwrap()),
        (
            404,
            "rolebindings.rbac.authorization.k8s.io \"nope\" not found"
        )
    );
}

#[test]
fn binding_to_a_missing_role_is_named_in_the_refusal() {
    let cluster = Cluster::new("none");
    let token = cluster.limited();
    cluster.make(
        &format!("{RBAC}/namespaces/t1/rolebindings"),
        json!({"metadata": {"name": "dangling"}, "roleRef": {"kind": "Role", "name": "gone", "apiGroup": "rbac.authorization.k8s.io"},
               "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "t1"}]}),
    );
    let (status, answer) = cluster.send(
        &token,
        "GET",
        "/api/v1/namespaces/t1/secrets/x",
        Value::Null,
    );
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "secrets \"x\" is forbidden: User \"system:serviceaccount:t1:a\" cannot get resource \"secrets\" in API group \"\" in the namespace \"t1\": RBAC: role.rbac.authorization.k8s.io \"gone\" not found"
    );
}

#[test]
fn tokens_end_with_their_time_and_are_for_their_audience() {
    let cluster = Cluster::new("none");
    let token = cluster.limited();
    let review = |audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        cluster
            .send(
                ADMIN,
                "POST",
                "/apis/authentication.k8s.io/v1/tokenreviews",
                body,
            )
            .1["status"]
            .take()
    };
    let known = review(Value::Null);
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["user"]["username"], "system:serviceaccount:t1:a");
    assert_eq!(
        known["audiences"],
        json!(["https://kubernetes.default.svc"])
    );
    assert_eq!(
        review(json!(["x"]))["error"],
        "[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for the target audiences [\"x\"]]"
    );
    cluster.env.advance_micros(661 * 1_000_000);
    assert_eq!(
        review(Value::Null),
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let (status, _) = cluster.send(&token, "GET", "/api/v1/namespaces/t1/pods", Value::Null);
    assert_eq!(status, 401);
    let (forged, _) = cluster.send(
        &format!("{token}x"),
        "GET",
        "/api/v1/namespaces/t1/pods",
        Value::Null,
    );
    assert_eq!(forged, 401);
}
