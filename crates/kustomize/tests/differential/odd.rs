//! Ways to write the same objects that parsers trip over.

use crate::random::Random;

/// Changes the looks of a file of manifests, and now and then what it says.
pub fn dress(r: &mut Random, text: String) -> String {
    match r.below(70) {
        0 => text.replace('\n', "\r\n"),
        1 => format!("\u{feff}{text}"),
        2 => format!("# a comment first\n\n---\n{text}"),
        3 => format!("---\n{text}...\n"),
        4 => format!("{text}---\n# nothing here\n---\n---\n"),
        5 => with_comments(&text),
        6 => in_list(&text, "v1", "List"),
        7 => in_list(&text, "v1", "ConfigMapList"),
        8 => text.replace(":\n", ":   \n"),
        9 => text.replace("metadata:\n", "metadata: # told apart by this\n"),
        10 => format!("{text}\n\n   \n"),
        11 => text.trim_end().to_owned(),
        12 => text.replace("kind: ", "\"kind\": "),
        13 => text.replace("\napiVersion: ", "\n'apiVersion' : "),
        14 => format!("%YAML 1.1\n---\n{text}"),
        15 => format!("{text}---\n{}", r.pick(&ODD_OBJECTS)),
        16 => format!("{text}---\n{}", r.pick(&ODD_OBJECTS)),
        17 => format!("{text}---\n{}", r.pick(&ODD_OBJECTS)),
        18 => format!("{text}--- # second\n{}", r.pick(&ODD_OBJECTS)),
        19 => format!("{text}---\n{}", r.pick(&BROKEN_OBJECTS)),
        _ => text,
    }
}

fn with_comments(text: &str) -> String {
    let mut out = String::new();
    for (number, line) in text.lines().enumerate() {
        let in_block = line.starts_with("      ") || line.contains("data") || line.ends_with('|');
        if number % 7 == 3 && !in_block && line.contains(": ") && !line.contains(['>', '|', '"']) {
            out.push_str(&format!("{line} # note {number}\n"));
        } else {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

fn in_list(text: &str, api_version: &str, kind: &str) -> String {
    let mut out = format!("apiVersion: {api_version}\nkind: {kind}\nitems:\n");
    for document in text.split("---\n") {
        for (number, line) in document.lines().enumerate() {
            let lead = if number == 0 { "- " } else { "  " };
            out.push_str(&format!("{lead}{line}\n"));
        }
    }
    out
}

const ODD_OBJECTS: [&str; 22] = [
    "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"json\"}, \"data\": {\"a\": \"1\"}}\n",
    "{\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"tabs\"},\n\t\"data\": {\"a\": \"\\u00e9\\n\"}}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: anchors}\ndata:\n  one: &one |\n    text\n  two: *one\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: merged}\ndata: &d\n  a: x\n  b: y\nbinaryData:\n  <<: *d\n  b: z\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: blocks}\ndata:\n  keep: |+\n    a\n\n  strip: |-\n    a\n  indented: |2\n      a\n     b\n  folded: >-\n    a\n    b\n\n    c\n  empty: |\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: quoted}\ndata:\n  \"a b\": 'it''s'\n  'c:d': \"tab\\there\"\n  ? e\n  : f\n  long: \"a long line that goes on and on and on, past the eightieth column, so that it has to be folded somewhere\"\n  trailing: \"ends with space \"\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata:\n  a: \"yes\"\n  b: \"null\"\n  c: \"0x1F\"\n  d: \"1e3\"\n  e: \"~\"\n  f: \"2001-01-01\"\n  g: \"1:30\"\n  h: \"0o7\"\n  i: \"+1\"\n  j: \".5\"\n  k: \"=\"\n  l: \"<<\"\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: numbers}\nspec:\n  a: 0x1F\n  b: 0o17\n  c: 1_000\n  d: 1.0\n  e: -0.0\n  f: 1e3\n  g: .5\n  h: 123456789012345678901234567890\n  i: 2001-01-01\n  j: 1:30\n  k: +12\n  l: 017\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: flow}\nspec: {a: [1, {b: c, d: [x, \"y\"]}], e: {f: {}}, g: [], h: '', i: \"\", j: ~}\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: tags}\nspec:\n  a: !!str 1\n  b: !!int \"2\"\n  c: !!float 3\n  d: !!bool \"true\"\n  e: !!null ''\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: nested-lists}\nspec:\n  m:\n  - - a\n    - b\n  - - - c\n  - []\n  -\n    - d\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: unicode}\nspec:\n  a: \"\\u2028\"\n  b: \"é ü 日本\"\n  c: \"\\x85\"\n  d: \"\\U0001F600\"\n  e: \"\\ufeffx\"\n  f: \"bell \\a\"\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: bin}\ndata:\n  a: !!binary aGVsbG8=\nstringData:\n  b: 5\n  c: true\n",
    "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.example.com}\nspec:\n  service: {name: web, namespace: default}\n  group: example.com\n",
    "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: hooks}\nwebhooks:\n- name: a.example.com\n  clientConfig:\n    service: {name: web, namespace: default, path: /x}\n- name: b.example.com\n  clientConfig:\n    service: {name: api, namespace: shop}\n",
    "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: checks}\nwebhooks:\n- name: a.example.com\n  clientConfig:\n    service: {name: db}\n  namespaceSelector: {matchLabels: {app: web}}\n",
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.com}\nspec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Gadget, plural: gadgets}\n  conversion:\n    strategy: Webhook\n    webhook:\n      clientConfig:\n        service: {name: web, namespace: system}\n",
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: listed}\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: deeper}\n",
    "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: vol}\nspec:\n  claimRef: {name: web, namespace: default}\n  storageClassName: fast\n",
    "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: x\n",
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n",
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: spread\n  labels: {app: web}\nspec:\n  priorityClassName: high\n  topologySpreadConstraints:\n  - labelSelector: {matchLabels: {app: web}}\n    maxSkew: 1\n  affinity:\n    podAntiAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n      - labelSelector: {matchLabels: {app: web}}\n        topologyKey: x\n      preferredDuringSchedulingIgnoredDuringExecution:\n      - weight: 1\n        podAffinityTerm: {labelSelector: {matchLabels: {app: web}}, topologyKey: y}\n  volumes:\n  - name: p\n    projected:\n      sources:\n      - configMap: {name: web}\n      - secret: {name: db}\n  containers:\n  - name: c0\n    image: nginx\n",
];

const BROKEN_OBJECTS: [&str; 12] = [
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
    "kind: ConfigMap\nmetadata: {name: no-version}\n",
    "apiVersion: v1\nmetadata: {name: no-kind}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata:\n  a: x\n  a: y\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: tab\n",
    "just text\n",
    "- a\n- b\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: open\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: keys\ndata:\n  1: one\n  true: yes\n",
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: keys}\nspec:\n  1: one\n  null: x\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alias}\ndata: *none\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [a, b]}\n",
];
