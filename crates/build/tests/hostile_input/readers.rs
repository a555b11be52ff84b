//! The spec of a Kustomization in JSON, and files of its source, parted by zero bytes.

use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Keys, Request, build};
use everflow_corpus::hostile::Reader;
use everflow_json::{Value, json};
use everflow_kustomize::MemoryView;
use everflow_limits::{Budget, Stop};

/// All of them.
pub const ALL: &[Reader] = &[Reader::new("source", source, seeds)
    .tokens(TOKENS)
    .cases(500)];

const TOKENS: &[&str] = &[
    "${a}",
    "${a:-",
    "${a//x/${a}}",
    "$${",
    "}",
    "[",
    "{\"a\":",
    "- ",
    "&x ",
    "*x",
    "\n---\n",
    "resources: [a.yaml]\n",
    "resources: [.]\n",
    "kind: List\nitems:\n",
    "kind: Secret\n",
    "sops: {mac: ENC[x], age: [{enc: x}]}\n",
    "ENC[AES256_GCM,data:x,iv:x,tag:x,type:str]",
    "\"targetNamespace\":\"n\",",
    "\"patches\":[{\"patch\":\"a: b\"}],",
    "\"components\":[\"c\"],",
    "\"images\":[{\"name\":\"x\",\"newTag\":\"y\"}],",
    "\"commonMetadata\":{\"labels\":{\"a\":\"b\"}},",
    "\"decryption\":{\"provider\":\"sops\"},",
    "\"namePrefix\":\"x-\",",
    "../",
    "data:\n",
];

fn seeds() -> Vec<Vec<u8>> {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {k: '${a}'}\n";
    [
        r#"{"postBuild":{"substitute":{"a":"b"}},"targetNamespace":"n"}"#,
        r#"{"patches":[{"target":{"kind":"ConfigMap"},"patch":"[{\"op\":\"add\",\"path\":\"/data/x\",\"value\":\"y\"}]"}]}"#,
        r#"{"commonMetadata":{"labels":{"a":"b"}},"namePrefix":"x-","decryption":{"provider":"sops"}}"#,
    ]
    .map(|spec| format!("{spec}\0{map}\0resources: [a.yaml]\n").into_bytes())
    .to_vec()
}

fn source(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let spec = parts.next().unwrap_or_default();
    let Ok(Value::Object(spec)) = everflow_json::from_slice(spec) else {
        return false;
    };
    let mut whole = json!({
        "interval": "10m",
        "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "src"},
    });
    for (field, value) in spec {
        whole[field.as_str()] = value;
    }
    let object = json!({"metadata": {"namespace": "team", "name": "app"}, "spec": whole});
    let Ok(object) = Object::<Kustomization>::read(&object) else {
        return false;
    };
    let mut files = vec![("/a.yaml", parts.next().unwrap_or_default().to_vec())];
    if let Some(kustomization) = parts.next() {
        files.push(("/kustomization.yaml", kustomization.to_vec()));
    }
    let view: MemoryView = files.into_iter().collect();
    let budget = Budget::new(Stop::new(), 8 << 20);
    let mut keys = Keys::new();
    let key = b"AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";
    keys.add("age.agekey", key).unwrap();
    let mut request = Request::new(&object, &view, &budget);
    request.keys = &keys;
    build(&request).map_err(|error| error.to_string()).is_ok()
}
