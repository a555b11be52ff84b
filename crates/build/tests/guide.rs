//! What a build does, case by case.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_build::{Built, Contents, EmptyBecause, Error, Keys, Request, build};
use everflow_json::{Value, json};
use everflow_kustomize::{Cache, MemoryView};
use everflow_limits::Budget;

const KEY: &str = "AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";

fn object(spec: Value) -> Object<Kustomization> {
    let mut whole = json!({
        "interval": "10m",
        "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "src"},
    });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let object = json!({"metadata": {"namespace": "team", "name": "app"}, "spec": whole});
    Object::read(&object).unwrap()
}

fn tree(files: &[(&str, &str)]) -> MemoryView {
    files
        .iter()
        .map(|(path, text)| (*path, text.as_bytes().to_vec()))
        .collect()
}

fn built(spec: Value, files: &[(&str, &str)]) -> Result<Built, Error> {
    build(&Request::new(
        &object(spec),
        &tree(files),
        &Budget::unlimited(),
    ))
}

fn message(spec: Value, files: &[(&str, &str)]) -> String {
    built(spec, files).unwrap_err().to_string()
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn an_empty_directory_is_proven_empty() {
    let mut view = tree(&[("/other/a.yaml", "x: y")]);
    view.add_directory("/apps");
    let object = object(json!({"path": "./apps"}));
    let built = build(&Request::new(&object, &view, &Budget::unlimited())).unwrap();
    let Contents::Empty(proof) = &built.contents else {
        panic!("{built:?}");
    };
    let path = "apps".to_owned();
    assert_eq!(proof.because(), &EmptyBecause::NoManifests { path });
    assert_eq!(
        built.digest,
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn paths_and_links_out_of_the_source_are_refused() {
    for path in ["../../etc/passwd", "/etc/passwd", "../../../../../etc"] {
        let file = format!("resources: ['{path}']\n");
        let text = message(json!({}), &[("/kustomization.yaml", &file)]);
        assert!(text.contains("fs-security-constraint"), "{text}");
    }
    let mut view = tree(&[("/kustomization.yaml", "resources: [link]\n")]);
    view.link("/link", "/../outside");
    let object = object(json!({}));
    assert!(build(&Request::new(&object, &view, &Budget::unlimited())).is_err());
}

#[test]
fn a_path_that_climbs_is_joined_inside() {
    let built = built(
        json!({"path": "../../apps"}),
        &[("/apps/a.yaml", &map("one"))],
    )
    .unwrap();
    assert_eq!(built.contents.objects().len(), 1);
}

#[test]
fn a_broken_manifest_is_named_with_its_line() {
    let broken = format!("{}---\na: [\n", map("one"));
    let text = message(json!({"path": "apps"}), &[("/apps/x.yaml", &broken)]);
    assert!(
        text.starts_with("failed to decode Kubernetes YAML from apps/x.yaml: MalformedYAMLError"),
        "{text}"
    );
    assert!(text.contains("of the file)"), "{text}");
}

#[test]
fn a_duplicate_is_named_with_both_files() {
    let files = [
        ("/a.yaml", map("one")),
        ("/b.yaml", format!("# b\n{}", map("one"))),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    let text = message(json!({}), &files);
    assert!(
        text.contains("already registered id: ConfigMap.v1.[noGrp]/one"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "(in a.yaml:1 and b.yaml:2); the object is there twice: remove or rename one of the two"
        ),
        "{text}"
    );
}

#[test]
fn a_missing_variable_is_named_with_object_file_and_line() {
    let file = format!("{}data:\n  a: plain\n  b: ${{who}}\n", map("one"));
    let spec = json!({"postBuild": {"substitute": {"other": "x"}}});
    let error = built(spec.clone(), &[("/apps/a.yaml", &file)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "post build failed for 'ConfigMap.v1.[noGrp]/one': envsubst error: variable substitution \
         failed: variable not set (strict mode): \"who\" (in apps/a.yaml:7); give it a value in \
         spec.postBuild, or a default as in ${who:=default}; write $${who} for text that is to stay"
    );
    let object = object(spec);
    let view = tree(&[("/apps/a.yaml", &file)]);
    let budget = Budget::unlimited();
    let mut request = Request::new(&object, &view, &budget);
    request.strict = false;
    let built = build(&request).unwrap();
    assert_eq!(
        built.contents.objects()[0]["data"],
        json!({"a": "plain", "b": null})
    );
}

#[test]
fn inline_variables_win_over_substitute_from_and_objects_can_opt_out() {
    let opt_out = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: two\n  annotations: \
                   {kustomize.toolkit.fluxcd.io/substitute: disabled}\ndata: {a: '${x}'}\n";
    let file = format!(
        "{}data: {{a: '${{x}}', b: '${{y}}'}}\n---\n{opt_out}",
        map("one")
    );
    let object = object(json!({"postBuild": {"substitute": {"x": "own"}}}));
    let view = tree(&[("/a.yaml", &file)]);
    let variables = BTreeMap::from([
        ("x".to_owned(), "far".to_owned()),
        ("y".to_owned(), "far".to_owned()),
    ]);
    let budget = Budget::unlimited();
    let mut request = Request::new(&object, &view, &budget);
    request.variables = &variables;
    let built = build(&request).unwrap();
    assert_eq!(
        built.contents.objects()[0]["data"],
        json!({"a": "own", "b": "far"})
    );
    assert_eq!(built.contents.objects()[1]["data"], json!({"a": "${x}"}));
}

#[test]
fn substitution_must_not_make_two_objects_one() {
    let file = format!("{}---\n{}", map("a-${x}"), map("a-b"));
    let spec = json!({"postBuild": {"substitute": {"x": "b"}}});
    let kustomization = "resources: [m.yaml]\n";
    let error = built(
        spec,
        &[("/kustomization.yaml", kustomization), ("/m.yaml", &file)],
    );
    assert!(matches!(error, Err(Error::Duplicate { .. })), "{error:?}");
}

#[test]
fn components_and_images_of_the_object_are_added() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: \
                      {spec: {containers: [{name: c, image: 'nginx:1'}]}}}\n";
    let component =
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: p-\n";
    let files = [
        ("/app/d.yaml", deployment),
        ("/parts/one/kustomization.yaml", component),
    ];
    let spec = json!({
        "path": "app",
        "components": ["../parts/one", "../parts/none"],
        "ignoreMissingComponents": true,
        "images": [{"name": "nginx", "newName": "mirror/nginx", "newTag": "2"}],
        "commonMetadata": {"labels": {"team": "x"}},
    });
    let built = built(spec, &files).unwrap();
    let object = &built.contents.objects()[0];
    assert_eq!(object["metadata"]["name"], "p-d");
    assert_eq!(object["metadata"]["labels"]["team"], "x");
    assert_eq!(
        object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"],
        "app"
    );
    let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "mirror/nginx:2");
    let remote = json!({"components": ["https://example.org/c"]});
    assert!(
        message(remote, &[]).starts_with("component path 'https://example.org/c' must be local")
    );
}

#[test]
fn unknown_fields_of_the_outermost_file_pass_and_wrong_types_do_not() {
    let file =
        "resources: [a.yaml]\nnonsense: 1\npatches: [{patch: '[]', extra: 1, target: {kind: X}}]\n";
    built(
        json!({}),
        &[("/kustomization.yaml", file), ("/a.yaml", &map("one"))],
    )
    .unwrap();
    let text = message(json!({}), &[("/kustomization.yaml", "resources: {a: b}\n")]);
    assert!(
        text.starts_with("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal"),
        "{text}"
    );
    assert!(
        text.ends_with("(in kustomization.yaml); correct the kustomization file"),
        "{text}"
    );
}

#[test]
fn cached_build_equals_uncached_build_and_notices_changes() {
    let cache = Cache::default();
    let object = object(json!({"path": "app"}));
    let digest = |text: &str| {
        let view = tree(&[("/app/a.yaml", text)]);
        let budget = Budget::unlimited();
        let mut request = Request::new(&object, &view, &budget);
        request.cache = Some(&cache);
        build(&request).unwrap().digest
    };
    let first = digest(&map("one"));
    assert_eq!(first, digest(&map("one")));
    assert_ne!(first, digest(&map("two")));
}

// ---- secrets ----

fn sops_data(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    std::fs::read_to_string(format!("{root}/../sops/tests/data/{name}")).unwrap()
}

fn with_keys(spec: Value, files: &[(&str, &str)]) -> Result<Built, Error> {
    let mut keys = Keys::new();
    keys.add("age.agekey", KEY.as_bytes()).unwrap();
    let object = object(spec);
    let view = tree(files);
    let budget = Budget::unlimited();
    let mut request = Request::new(&object, &view, &budget);
    request.keys = &keys;
    build(&request)
}

fn decryption() -> Value {
    json!({"decryption": {"provider": "sops", "secretRef": {"name": "keys"}}})
}

#[test]
fn an_encrypted_secret_is_decrypted_and_verified() {
    let secret = sops_data("regex.yaml");
    let secret = secret.split("---\nsecond").next().unwrap();
    // Half of a file of two documents is not what sops left: its code cannot fit.
    let error = with_keys(decryption(), &[("/s.yaml", secret)]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("failed to verify sops data integrity"),
        "{error}"
    );
    assert!(error.to_string().contains("(in s.yaml"), "{error}");
    let error = built(json!({}), &[("/s.yaml", secret)]).unwrap_err();
    assert!(matches!(error, Error::StillEncrypted { .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("Secret/all-kinds is SOPS encrypted"),
        "{error}"
    );
}

#[test]
fn files_of_generators_are_decrypted_before_the_build() {
    let file = "secretGenerator:\n- name: s\n  files: [config.json=all.json]\n  envs: [all.env]\n\
                generatorOptions: {disableNameSuffixHash: true}\n";
    let (json_file, env_file) = (sops_data("all.json"), sops_data("all.env"));
    let files = [
        ("/kustomization.yaml", file),
        ("/all.json", json_file.as_str()),
        ("/all.env", env_file.as_str()),
    ];
    let built = with_keys(decryption(), &files).unwrap();
    let data = &built.contents.objects()[0]["data"];
    // "1", and the JSON in clear.
    assert_eq!(data["A"], "MQ==");
    assert!(
        data["config.json"].as_str().unwrap().starts_with("ewoJ"),
        "{data}"
    );
    let error = built_without_keys(&files);
    assert!(
        error.starts_with("error decrypting sources: cannot get sops data key"),
        "{error}"
    );
}

fn built_without_keys(files: &[(&str, &str)]) -> String {
    built(decryption(), files).unwrap_err().to_string()
}
