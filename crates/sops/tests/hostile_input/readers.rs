//! The readers of SOPS files and keys.

#[path = "seal.rs"]
mod seal;

use std::sync::LazyLock;

use everflow_corpus::hostile::{Reader, texts};
use everflow_json::{Value, json};
use everflow_limits::{Budget, Stop};
use everflow_sops::{Error, Format, Keys};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("yaml", yaml, || files(&["all.yaml", "comment.yaml", "maconly.yaml"]))
        .tokens(YAML)
        .cases(100),
    Reader::new("json", json, || files(&["all.json", "all.bin"]))
        .tokens(JSON)
        .cases(100),
    Reader::new("dotenv", dotenv, || files(&["all.env"])).tokens(FLAT).cases(100),
    Reader::new("ini", ini, || files(&["all.ini"])).tokens(FLAT).cases(100),
    Reader::new("yaml-content", yaml_content, || {
        texts(&[
            "# head\na: 1 # line\nb: &x [1.5, true, null, 2001-12-14]\nc: *x\nd: |\n  text\n# foot\n",
            "---\na: {b: !!binary aGk=}\n---\nc: yes\n",
        ])
    })
    .tokens(YAML),
    Reader::new("json-content", json_content, || {
        texts(&["{\"a\": [1, 2.5, \"x\", null, true], \"b\": {\"c\": {}}}"])
    })
    .tokens(JSON),
    Reader::new("dotenv-content", dotenv_content, || texts(&["# c\nA=1\nB=two\\nlines\n"])).tokens(FLAT),
    Reader::new("ini-content", ini_content, || {
        texts(&["; c\na = 1\n[s]\nb = `x;y`\nc: \"\"\"long\"\"\"\n"])
    })
    .tokens(FLAT),
    Reader::new("value", typed_value, || {
        texts(&[
            "str\ntext",
            "bytes\n\0",
            "int\n-5",
            "float\n1e3",
            "bool\nTrue",
            "comment\n c",
            "time\n2001-12-14t21:59:43.10-05:00",
        ])
    })
    .cases(100)
    .tokens(&["time\n", "2001-12-14 2:59:43 +", "float\n", "-5", "12:30", "inf", "NaN"]),
    Reader::new("object", object, || files(&["all.json"])).tokens(JSON).cases(100),
    Reader::new("age-file", age_file, || vec![seal::age(&seal::DATA_KEY)])
        .tokens(&["-> X25519 ", "---", "age-encryption.org/v1\n", "\n--- ", "AAAA"]),
    Reader::new("pgp-message", pgp_message, || vec![pgp_seed()]).cases(60).tokens(PGP),
    Reader::new("age-keys", age_keys, || texts(&[seal::IDENTITY, "# c\n\n"])).tokens(&["AGE-SECRET-KEY-1", "qpzry9x8"]),
    Reader::new("pgp-keys", pgp_keys, || files(&["key.asc"])).cases(100).tokens(PGP),
];

const YAML: &[&str] = &[
    "[",
    "{a: ",
    "- ",
    "? ",
    "&x ",
    "*x",
    "|\n ",
    "\n---\n",
    "# c\n",
    "!!binary ",
    "!!timestamp ",
    "<<: ",
    "sops:\n",
    "    - ",
    "ENC[AES256_GCM,data:",
    ",type:time]",
];
const JSON: &[&str] = &[
    "[",
    "{\"a\":",
    "{",
    "]",
    "}",
    "1e999",
    "\"sops\":",
    "\\u0000",
    "ENC[AES256_GCM,data:",
];
const FLAT: &[&str] = &[
    "[sops]\n",
    "sops_",
    "__map_a",
    "__list_1",
    "__list_999",
    "\nsops_a__map_a",
    "\"\"\"",
    "`",
    "#",
    ";",
];
const PGP: &[&str] = &[
    "-----BEGIN PGP MESSAGE-----\n",
    "\n\n",
    "=",
    "-----END PGP MESSAGE-----",
];

fn data(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    // The guided targets are built from another directory.
    let other = format!(
        "{}/../crates/sops/tests/data/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(path)
        .or_else(|_| std::fs::read(other))
        .unwrap()
}

fn files(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| data(name)).collect()
}

fn decrypt(content: &[u8], from: Format, to: Format, keys: &Keys) -> Result<Vec<u8>, Error> {
    let budget = Budget::new(Stop::new(), 64 << 20);
    everflow_sops::decrypt(content, from, to, keys, &budget)
}

fn decrypt_value(object: &Value, keys: &Keys) -> Result<Value, Error> {
    let budget = Budget::new(Stop::new(), 64 << 20);
    everflow_sops::decrypt_value(object, keys, &budget)
}

fn keys() -> &'static Keys {
    static KEYS: LazyLock<Keys> = LazyLock::new(|| {
        let mut keys = Keys::new();
        keys.add("age.agekey", seal::IDENTITY.as_bytes()).unwrap();
        keys
    });
    &KEYS
}

/// Into its own format and into another one.
fn decrypt_as(content: &[u8], format: Format) -> bool {
    const OTHERS: [Format; 5] = [
        Format::Yaml,
        Format::Json,
        Format::Dotenv,
        Format::Ini,
        Format::Binary,
    ];
    let _ = (Format::detect(content), format.is_marked(content));
    let _ = decrypt(
        content,
        format,
        OTHERS[content.len() % OTHERS.len()],
        keys(),
    );
    decrypt(content, format, format, keys()).is_ok()
}

fn yaml(bytes: &[u8]) -> bool {
    decrypt_as(bytes, Format::Yaml)
}

fn json(bytes: &[u8]) -> bool {
    decrypt_as(bytes, Format::Json) | decrypt(bytes, Format::Binary, Format::Binary, keys()).is_ok()
}

fn dotenv(bytes: &[u8]) -> bool {
    decrypt_as(bytes, Format::Dotenv)
}

fn ini(bytes: &[u8]) -> bool {
    decrypt_as(bytes, Format::Ini)
}

/// The metadata of a file with nothing encrypted in it.
fn metadata() -> &'static Value {
    static METADATA: LazyLock<Value> = LazyLock::new(|| metadata_with(&seal::metadata(b"")));
    &METADATA
}

fn metadata_with(fields: &[(&'static str, String)]) -> Value {
    let mut metadata = json!({});
    for (name, value) in fields {
        match *name {
            "enc" => metadata["age"] = json!([{"recipient": "age1x", "enc": value.as_str()}]),
            name => metadata[name] = json!(value.as_str()),
        }
    }
    metadata
}

fn yaml_content(bytes: &[u8]) -> bool {
    let end = format!("\nsops: {}\n", metadata());
    let content = match bytes.windows(5).position(|window| window == b"\n---\n") {
        // The metadata of the first document counts.
        Some(at) => [&bytes[..at], end.as_bytes(), &bytes[at + 1..]].concat(),
        None => [bytes, end.as_bytes()].concat(),
    };
    decrypt_as(&content, Format::Yaml)
}

fn json_content(bytes: &[u8]) -> bool {
    let start = bytes
        .iter()
        .position(|byte| *byte == b'{')
        .map_or(0, |at| at + 1);
    let sops = format!("{{\"sops\": {},", metadata());
    decrypt_as(&[sops.as_bytes(), &bytes[start..]].concat(), Format::Json)
}

/// The metadata with flat keys.
fn flat(prefix: &str) -> String {
    let fields = seal::metadata(b"");
    let line = |(name, value): &(&str, String)| {
        let name = if *name == "enc" {
            "age__list_0__map_enc"
        } else {
            name
        };
        format!("{prefix}{name}={}\n", value.replace('\n', "\\n"))
    };
    fields.iter().map(line).collect()
}

fn dotenv_content(bytes: &[u8]) -> bool {
    decrypt_as(
        &[bytes, b"\n", flat("sops_").as_bytes()].concat(),
        Format::Dotenv,
    )
}

fn ini_content(bytes: &[u8]) -> bool {
    decrypt_as(
        &[bytes, b"\n[sops]\n", flat("").as_bytes()].concat(),
        Format::Ini,
    )
}

/// The type of a value on the first line, and what it decrypts to.
fn typed_value(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let kind = String::from_utf8_lossy(&bytes[..end]);
    let sealed = seal::value(&bytes[(end + 1).min(bytes.len())..], &kind, "sealed:");
    let object = json!({"sealed": sealed, "sops": metadata().clone()});
    let text = object.to_string();
    let _ = decrypt(text.as_bytes(), Format::Json, Format::Yaml, keys());
    decrypt_value(&object, keys()).is_ok()
}

fn object(bytes: &[u8]) -> bool {
    everflow_json::from_slice(bytes)
        .is_ok_and(|object: Value| decrypt_value(&object, keys()).is_ok())
}

fn with_recipient(kind: &str, encrypted: &str, keys: &Keys) -> bool {
    let mut metadata = metadata().clone();
    if let Some(map) = metadata.as_object_mut() {
        map.remove("age");
        map.insert(
            kind.into(),
            json!([{"recipient": "age1x", "fp": "F", "enc": encrypted}]),
        );
    }
    decrypt_value(&json!({"a": "b", "sops": metadata}), keys).is_ok()
}

fn age_file(bytes: &[u8]) -> bool {
    with_recipient("age", &seal::armor(bytes), keys())
}

fn pgp_seed() -> Vec<u8> {
    let file = everflow_yaml::sigs::yaml_to_json(&data("pgp.yaml")).unwrap();
    file["sops"]["pgp"][0]["enc"]
        .as_str()
        .unwrap()
        .as_bytes()
        .to_vec()
}

fn pgp_message(bytes: &[u8]) -> bool {
    static KEYS: LazyLock<Keys> = LazyLock::new(|| {
        let mut keys = Keys::new();
        keys.add("key.asc", &data("key.asc")).unwrap();
        keys
    });
    with_recipient("pgp", &String::from_utf8_lossy(bytes), &KEYS);
    // Whether the message is read; its data key is that of another file.
    bytes.starts_with(b"-----BEGIN PGP MESSAGE")
}

fn age_keys(bytes: &[u8]) -> bool {
    Keys::new().add("a.agekey", bytes).is_ok()
}

fn pgp_keys(bytes: &[u8]) -> bool {
    let mut keys = Keys::new();
    let taken = keys.add("a.asc", bytes).is_ok();
    if taken {
        with_recipient("pgp", &String::from_utf8_lossy(&pgp_seed()), &keys);
    }
    taken
}
