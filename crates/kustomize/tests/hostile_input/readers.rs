//! Trees of a few files, parted by zero bytes: the kustomization, an object, a patch, an environment file.

use everflow_corpus::hostile::{Reader, texts};
use everflow_kustomize::{
    MemoryView, Options, Plugins, build, check_objects, is_remote, read_kustomization,
};
use everflow_limits::{Budget, Stop};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("tree", tree, trees).tokens(TOKENS).cases(600),
    Reader::new("objects", objects, || texts(&[OBJECT])).tokens(TOKENS),
    Reader::new("kustomization", kustomization, || {
        texts(&["resources: [a.yaml]\nnamePrefix: x-\n"])
    })
    .tokens(TOKENS),
    Reader::new("address", address, || {
        texts(&["https://github.com/o/r//path?ref=v1&submodules=false&timeout=90s"])
    })
    .tokens(&[
        "git::",
        "ssh://",
        "git@",
        "//",
        "?ref=",
        "&timeout=",
        "_git/",
        ".git/",
        "%",
    ]),
];

const OBJECT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {a: b}}\nspec:\n  replicas: 1\n  template: {spec: {containers: [{name: c, image: nginx:1, env: [{name: X, value: y}]}]}}\n";

const TOKENS: &[&str] = &[
    "[",
    "{a: ",
    "- ",
    "&x ",
    "*x",
    "<<: *x\n",
    "|\n ",
    "\n---\n",
    "resources: [a.yaml]\n",
    "resources: [.]\n",
    "components: [..]\n",
    "namePrefix: x-\n",
    "labels: [{pairs: {a: b}, includeSelectors: true}]\n",
    "commonLabels: {a: b}\n",
    "images: [{name: nginx, newTag: '2'}]\n",
    "replicas: [{name: web, count: 3}]\n",
    "patches: [{path: patch.yaml}]\n",
    "patches: [{target: {kind: D.*}, patch: '[{op: copy, from: /spec, path: /spec/a}]'}]\n",
    "replacements: [{source: {kind: Deployment}, targets: [{select: {kind: Deployment}, fieldPaths: [spec.replicas]}]}]\n",
    "configMapGenerator: [{name: m, envs: [env]}]\n",
    "vars: [{name: V, objref: {kind: Deployment, name: web, apiVersion: apps/v1}}]\n",
    "$patch: delete\n",
    "$(V)",
    "op: copy",
    "op: test",
    "/-",
    "~1",
    "[name=c]",
    ".*.",
    "a=b\n",
    "sortOptions: {order: legacy}\n",
    "openapi: {path: a.yaml}\n",
    "crds: [a.yaml]\n",
];

fn trees() -> Vec<Vec<u8>> {
    let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2, template: {spec: {containers: [{name: d, $patch: replace}]}}}\n";
    let tree = |kustomization: &str| format!("{kustomization}\0{OBJECT}\0{patch}\0A=b\nC=d\n");
    let trees = [
        "resources: [a.yaml]\nnamePrefix: x-\nnamespace: ns\ncommonLabels: {q: r}\nimages: [{name: nginx, newTag: '2'}]\n",
        "resources: [a.yaml]\npatches: [{path: patch.yaml}]\nconfigMapGenerator: [{name: m, envs: [env]}]\n",
        "resources: [a.yaml]\nreplacements: [{source: {kind: Deployment, fieldPath: metadata.name}, targets: [{select: {kind: Deployment}, fieldPaths: ['spec.template.spec.containers.[name=c].image'], options: {delimiter: ':', index: 0}}]}]\n",
        "resources: [a.yaml]\npatches:\n- target: {kind: Deployment}\n  patch: |-\n    - {op: copy, from: /spec/replicas, path: /spec/copied}\n    - {op: add, path: /spec/x, value: [1]}\n",
    ];
    trees.map(|text| tree(text).into_bytes()).to_vec()
}

fn budget() -> Budget {
    Budget::new(Stop::new(), 8 << 20)
}

fn tree(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default().to_vec();
    let names = ["kustomization.yaml", "a.yaml", "patch.yaml", "env"];
    let files = names.map(|name| (format!("/app/{name}"), part()));
    let view: MemoryView = files.into_iter().collect();
    let budget = budget();
    let output = build(
        &view,
        "/app",
        &Options::default(),
        Plugins::default(),
        &budget,
    );
    let written = output.and_then(|output| output.to_yaml_within(&budget));
    written.map_err(|error| error.to_string()).is_ok()
}

fn objects(bytes: &[u8]) -> bool {
    check_objects(bytes, &budget()).is_ok()
}

fn kustomization(bytes: &[u8]) -> bool {
    read_kustomization(bytes, &budget()).is_ok()
}

fn address(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    is_remote(&text)
}
