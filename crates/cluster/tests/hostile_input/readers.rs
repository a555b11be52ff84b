//! The readers of requests, and whole requests.

use std::sync::{Arc, LazyLock};

use everflow_cluster::auth::certificates::{Certificates, Peer};
use everflow_cluster::auth::tokens::Signer;
use everflow_cluster::codec::{gotypes, json, protobuf, quantity::Quantity, yaml};
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::rest::request::{parse_query, percent_decode};
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Authority, Options, Request};
use everflow_corpus::hostile::{Reader, texts};
use everflow_json::{Value, json as tree};
use everflow_schema::selectors::{FieldSelector, LabelSelector};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("request", request, requests)
        .recorded(recorded)
        .tokens(REQUEST)
        .cases(400),
    Reader::new("label-selector", label_selector, || {
        texts(&["a=b,c!=d,e in (f,g),!h,i,j notin (k),l>1"])
    })
    .tokens(&["in", "notin", "(", ")", "==", "!=", ">", "<", "a in (", "/"]),
    Reader::new("field-selector", field_selector, || {
        texts(&["metadata.name=a,status.phase!=b", "a=\\,\\="])
    })
    .tokens(&["metadata.name", "!=", "==", "\\", "\\,"]),
    Reader::new("json-body", json_body, || {
        texts(&[r#"{"a": [1, 2.5, "x", null], "a": {"b": true}}"#])
    })
    .tokens(JSON),
    Reader::new("yaml-body", yaml_body, || {
        texts(&["a: &x [1, 2]\nb: *x\na: 3\n", "{\"a\": 1}"])
    })
    .tokens(&[
        "[",
        "{a: ",
        "- ",
        "&x ",
        "*x",
        "\n---\n",
        "<<: ",
        "!!binary ",
        "? ",
    ]),
    Reader::new("protobuf-body", protobuf_body, || vec![config_map()])
        .tokens(&["k8s\0", "\u{12}", "\n"]),
    Reader::new("pod", pod, || texts(&[POD])).tokens(JSON),
    Reader::new("quantity", quantity, || {
        texts(&[
            "1.5Gi",
            "-500m",
            "1e3",
            "0.0000000001",
            "9223372036854775807",
        ])
    })
    .tokens(&[
        "9",
        "999999999999999999999999",
        ".",
        "e",
        "E-9",
        "Ki",
        "Ei",
        "n",
        "-",
        "e999999999",
    ]),
    Reader::new("query", query, || {
        texts(&["labelSelector=a%3Db&watch=true&x=+%zz"])
    })
    .tokens(&["%", "&", "%C3", "+"]),
    Reader::new("certificate", certificate, || {
        vec![certificate_of("jane").to_vec()]
    })
    .cases(400),
    Reader::new("certificate-subject", subject, || {
        texts(&["jane\ndevs", "system:node:a\nsystem:masters"])
    })
    .cases(60),
    Reader::new("token", token, || {
        texts(&[r#"{"sub": "system:serviceaccount:a:b"}"#])
    })
    .tokens(&[".", "=", "{\"a\":"]),
];

const JSON: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "{\"a\":",
    "null",
    "1e999",
    "\\ud800",
    "\"a\":1,",
    "-",
    "\"name\":\"x\",",
    "{}",
];
const REQUEST: &[&str] = &[
    "?fieldManager=a&force=true",
    "?labelSelector=a%20in%20(b)",
    "?fieldSelector=metadata.name=a",
    "?limit=1&continue=",
    "?watch=true&resourceVersion=1",
    "?dryRun=All&fieldValidation=Strict",
    "content-type: application/merge-patch+json\n",
    "content-type: application/apply-patch+yaml\n",
    "content-type: application/yaml\n",
    "accept: application/json;as=Table;g=meta.k8s.io;v=v1\n",
    "authorization: Bearer a.b.c\n",
    "impersonate-user: x\n",
    "{\"a\":",
    "[",
    "null",
    "\"$patch\": \"delete\",",
    "/status",
    "/scale",
    "\"metadata\":{\"generateName\":\"x\"},",
    "\"op\":\"copy\",\"from\":\"\",\"path\":\"/data\",",
    "/apis/apps/v1/namespaces/default/deployments",
    "\"x-kubernetes-validations\":[{\"rule\":\"self.a\"}],",
];
const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": "http"}}}], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}, "future": {"x": 1}}"#;

fn requests() -> Vec<Vec<u8>> {
    texts(&[
        "POST /api/v1/namespaces/default/configmaps?fieldManager=m\ncontent-type: application/json\n\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}, \"data\": {\"c\": \"d\"}}",
        "PATCH /api/v1/namespaces/default/configmaps/a\ncontent-type: application/json-patch+json\n\n[{\"op\": \"add\", \"path\": \"/data/x\", \"value\": \"y\"}]",
        "PATCH /api/v1/namespaces/default/configmaps/a\ncontent-type: application/strategic-merge-patch+json\n\n{\"data\": {\"$patch\": \"replace\", \"z\": \"1\"}}",
        "PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=m&force=true\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {q: r}\n",
        "GET /api/v1/namespaces/default/configmaps?labelSelector=a%3Db&limit=1\naccept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json\n\n",
        "PUT /api/v1/namespaces/default/configmaps/a\ncontent-type: application/yaml\n\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
        "DELETE /api/v1/namespaces/default/configmaps/a?propagationPolicy=Foreground\ncontent-type: application/json\n\n{\"kind\": \"DeleteOptions\", \"apiVersion\": \"v1\"}",
        "POST /apis/apps/v1/namespaces/default/deployments\ncontent-type: application/json\n\n{\"apiVersion\": \"apps/v1\", \"kind\": \"Deployment\", \"metadata\": {\"name\": \"d\"}, \"spec\": {\"selector\": {\"matchLabels\": {\"a\": \"b\"}}, \"template\": {\"metadata\": {\"labels\": {\"a\": \"b\"}}, \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"i\"}]}}}}",
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions\ncontent-type: application/json\n\n{\"apiVersion\": \"apiextensions.k8s.io/v1\", \"kind\": \"CustomResourceDefinition\", \"metadata\": {\"name\": \"ws.e.com\"}, \"spec\": {\"group\": \"e.com\", \"scope\": \"Namespaced\", \"names\": {\"plural\": \"ws\", \"kind\": \"W\"}, \"versions\": [{\"name\": \"v1\", \"served\": true, \"storage\": true, \"schema\": {\"openAPIV3Schema\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"x-kubernetes-validations\": [{\"rule\": \"self != ''\"}]}}}}}]}}",
    ])
}

/// Requests with a body of the recorded scenarios.
fn recorded() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for directory in ["patch", "ssa", "validation", "crd"] {
        let files = everflow_corpus::find(&format!("apiserver/scenarios/{directory}"));
        let files = files.and_then(|directory| std::fs::read_dir(directory).ok());
        let mut paths: Vec<_> = files
            .into_iter()
            .flatten()
            .flatten()
            .map(|file| file.path())
            .collect();
        paths.sort();
        for path in paths.into_iter().step_by(6) {
            let text = std::fs::read(path).unwrap();
            let scenario: Value = everflow_json::from_slice(&text).unwrap();
            let steps = scenario["steps"].as_array().into_iter().flatten();
            found.extend(steps.take(2).filter_map(|step| written(&step["request"])));
        }
    }
    found
}

fn written(request: &Value) -> Option<Vec<u8>> {
    let mut text = format!(
        "{} {}\n",
        request["method"].as_str()?,
        request["path"].as_str()?
    );
    let is_json = request["headers"]["Content-Type"].is_null();
    if is_json {
        text.push_str("content-type: application/json\n");
    }
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        text.push_str(&format!("{}: {}\n", name.to_lowercase(), value.as_str()?));
    }
    Some(format!("{text}\n{}", request.get("body")?).into_bytes())
}

/// A server with a few objects; each input gets one that begins like it.
fn server() -> ApiServer {
    static SERVER: LazyLock<ApiServer> = LazyLock::new(|| {
        let server = ApiServer::new(environment(), Options::default());
        for (plural, object) in [
            (
                "namespaces",
                tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
            ),
            (
                "namespaces/default/configmaps",
                tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"k": "v"}}),
            ),
        ] {
            let body = object.to_string();
            let request = Request::new("POST", &format!("/api/v1/{plural}"), body);
            server.handle(&request.header("content-type", "application/json"));
        }
        server
    });
    SERVER.fork(environment(), None)
}

fn environment() -> Arc<ManualEnvironment> {
    Arc::new(ManualEnvironment::new(
        Timestamp::from_seconds(1_800_000_000),
        3,
    ))
}

fn request(bytes: &[u8]) -> bool {
    let end = bytes
        .windows(2)
        .position(|window| window == b"\n\n")
        .unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes.get(end + 2..).unwrap_or_default().to_vec();
    let mut lines = head.lines();
    let (method, target) = lines
        .next()
        .unwrap_or_default()
        .split_once(' ')
        .unwrap_or_default();
    let mut request = Request::new(method, target, body);
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        request = request.header(name, value);
    }
    let answer = server().handle(&request);
    if let everflow_cluster::Body::Watch(mut watch) = answer.body {
        let _ = watch.poll();
    }
    (200..300).contains(&answer.status)
}

fn label_selector(bytes: &[u8]) -> bool {
    let object = tree!({"metadata": {"labels": {"a": "b", "l": "2"}}});
    LabelSelector::parse(&String::from_utf8_lossy(bytes))
        .map(|selector| selector.matches(&object))
        .is_ok()
}

fn field_selector(bytes: &[u8]) -> bool {
    let selector = FieldSelector::parse(&String::from_utf8_lossy(bytes));
    selector
        .map(|selector| selector.matches(&|_| "a".to_owned()))
        .is_ok()
}

fn json_body(bytes: &[u8]) -> bool {
    let _ = json::parse_open(bytes);
    let Ok(body) = json::parse(bytes) else {
        return false;
    };
    let _ = (
        body.duplicates(),
        body.has_duplicates(),
        json::member_text(bytes, "a"),
    );
    let value = body.to_value();
    let theirs: Result<Value, _> = everflow_json::from_slice(bytes);
    // Kubernetes reads -0 as the integer 0 and integers beyond 64 bits with a sign as floats; serde does not.
    let reads_alike = |digits: &[u8]| digits.len() < 19 && !digits.starts_with(b"-0");
    let numbers = bytes.split(|byte| !byte.is_ascii_digit() && *byte != b'-');
    if numbers.into_iter().all(reads_alike) {
        assert!(theirs.is_err() || theirs.is_ok_and(|theirs| theirs == value));
    }
    assert_eq!(body.into_value(), value);
    true
}

fn yaml_body(bytes: &[u8]) -> bool {
    let _ = yaml::parse_open(bytes);
    yaml::parse(bytes)
        .map(|(body, _)| body.into_value())
        .is_ok()
}

fn config_map() -> Vec<u8> {
    let object = tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}});
    everflow_schema::protobuf::encode(&object).unwrap()
}

fn protobuf_body(bytes: &[u8]) -> bool {
    protobuf::parse(bytes).is_ok()
}

/// Go's view of a kind.
fn pod(bytes: &[u8]) -> bool {
    let types = gotypes::types();
    let pod = types.kind("v1", "Pod").unwrap();
    let Ok(body) = json::parse_open(bytes) else {
        return false;
    };
    let (mut value, findings) = types.decode(&pod, &body);
    types.settle(&pod, &mut value);
    let _ = types.ordered_text(&pod, &value);
    drop(findings);
    true
}

fn quantity(bytes: &[u8]) -> bool {
    let Ok(quantity) = Quantity::parse(&String::from_utf8_lossy(bytes)) else {
        return false;
    };
    let _ = (
        quantity.milli(),
        quantity.whole(),
        quantity.sign(),
        quantity.is_zero(),
    );
    let _ = (
        quantity.plus(&quantity).canonical(),
        quantity.minus(&quantity).canonical(),
    );
    let _ = quantity.compare(&quantity.rounded_to_milli());
    // What is beyond the range of a quantity is cut off, as Go does.
    assert!(Quantity::parse(&quantity.canonical()).is_ok());
    true
}

fn query(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let _ = percent_decode(&text, true);
    !parse_query(&text).is_empty()
}

fn authority() -> &'static Authority {
    static AUTHORITY: LazyLock<Authority> =
        LazyLock::new(|| Authority::generate(&["localhost".to_owned()]).unwrap());
    &AUTHORITY
}

fn certificate_of(name: &str) -> CertificateDer<'static> {
    let (pem, _) = authority().client_certificate(name, Some("devs")).unwrap();
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn certificates() -> &'static Certificates {
    static CERTIFICATES: LazyLock<Arc<Certificates>> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority().ca_certificate.as_bytes()).unwrap())
            .unwrap();
        Certificates::new(roots, Arc::new(rustls::crypto::ring::default_provider())).unwrap()
    });
    &CERTIFICATES
}

/// The whole certificate; what its authority did not sign is refused.
fn certificate(bytes: &[u8]) -> bool {
    let chain = [CertificateDer::from(bytes)];
    matches!(certificates().peer(Some(&chain)), Peer::Known(_))
}

/// What the authority signed, with any name and group.
fn subject(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let (name, group) = text.split_once('\n').unwrap_or((&text, ""));
    let Ok((pem, _)) = authority().client_certificate(name, Some(group)) else {
        return false;
    };
    let chain = [CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    match certificates().peer(Some(&chain)) {
        Peer::Known(user) => {
            assert_eq!(user.name, name);
            true
        }
        _ => false,
    }
}

fn token(bytes: &[u8]) -> bool {
    let signer = Signer::new(b"secret");
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(signer.claims(&text), None);
    let claims: Result<Value, _> = everflow_json::from_slice(bytes);
    claims.is_ok_and(|claims| signer.claims(&signer.sign(&claims)) == Some(claims))
}
