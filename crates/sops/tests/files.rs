//! Files that the real sops made, beside what it decrypts them to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_limits::Budget;
use everflow_sops::{Error, Format, Keys, RecipientKind};

const IDENTITY: &str =
    "# a comment\n\nAGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63\n";

fn decrypt(content: &[u8], input: Format, output: Format, keys: &Keys) -> Result<Vec<u8>, Error> {
    everflow_sops::decrypt(content, input, output, keys, &Budget::unlimited())
}

fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn age() -> Keys {
    let mut keys = Keys::new();
    keys.add("age.agekey", IDENTITY.as_bytes()).unwrap();
    keys
}

fn decrypted(name: &str, keys: &Keys) -> Result<Vec<u8>, Error> {
    let format = Format::of_path(name);
    decrypt(&data(name), format, format, keys)
}

fn same(name: &str, keys: &Keys) {
    let plain = decrypted(name, keys).unwrap_or_else(|error| panic!("{name}: {error}"));
    let want = data(&format!("{name}.want"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&plain), text(&want), "{name}");
    assert_eq!(plain, want, "{name}");
}

#[test]
fn every_format_decrypts_to_the_same_bytes() {
    for name in ["all.yaml", "all.json", "all.env", "all.ini", "all.bin"] {
        same(name, &age());
    }
}

#[test]
fn every_rule_for_what_is_encrypted_is_known() {
    for name in [
        "regex.yaml",
        "unregex.yaml",
        "suffix.yaml",
        "comment.yaml",
        "uncomment.yaml",
        "maconly.yaml",
    ] {
        same(name, &age());
    }
}

#[test]
fn pgp_keys_decrypt_and_groups_of_keys_share() {
    let mut keys = Keys::new();
    keys.add("key.asc", &data("key.asc")).unwrap();
    same("pgp.yaml", &keys);
    assert!(matches!(
        decrypted("shamir.json", &keys),
        Err(Error::DataKey { report }) if report.contains("Shamir")
    ));
    keys.add("rsa.asc", &data("rsa.asc")).unwrap();
    same("rsa.json", &keys);
    same("shamir.json", &keys);
    let mut other = age();
    other.add("rsa.asc", &data("rsa.asc")).unwrap();
    same("shamir.json", &other);
}

#[test]
fn a_changed_file_is_refused() {
    let file = String::from_utf8(data("regex.yaml")).unwrap();
    let changes = [
        ("name: all-kinds", "name: other"),
        (
            "name: all-kinds",
            "name: all-kinds\n    namespace: kube-system",
        ),
        ("second: document", "second: other"),
    ];
    for (from, to) in changes {
        let changed = file.replacen(from, to, 1);
        assert_ne!(changed, file);
        let result = decrypt(changed.as_bytes(), Format::Yaml, Format::Yaml, &age());
        assert!(
            matches!(result, Err(Error::Integrity { .. })),
            "{to}: {result:?}"
        );
    }
    // A value that is moved under another key does not decrypt at all.
    let moved = file.replacen("    user: ENC", "    admin: ENC", 1);
    let result = decrypt(moved.as_bytes(), Format::Yaml, Format::Yaml, &age());
    assert!(matches!(result, Err(Error::Value { .. })), "{result:?}");
}

#[test]
fn plain_values_are_free_where_only_encrypted_ones_are_covered() {
    let file = String::from_utf8(data("maconly.yaml")).unwrap();
    let changed = file.replacen("name: all-kinds", "name: other", 1);
    assert_ne!(changed, file);
    decrypt(changed.as_bytes(), Format::Yaml, Format::Yaml, &age()).unwrap();
}

#[test]
fn recipients_that_cannot_be_asked_are_named() {
    let file = br#"{"a": "ENC[AES256_GCM,data:x,iv:x,tag:x,type:str]", "sops": {
        "kms": [{"arn": "arn:aws:kms:eu-west-1:1:key/2", "enc": "x", "created_at": "2026-01-01T00:00:00Z"}],
        "lastmodified": "2026-01-01T00:00:00Z", "mac": "ENC[x]", "version": "3.9.0"}}"#;
    let error = decrypt(file, Format::Json, Format::Json, &age()).unwrap_err();
    assert_eq!(
        error,
        Error::Unsupported {
            recipients: vec![(
                RecipientKind::AwsKms,
                "arn:aws:kms:eu-west-1:1:key/2".to_owned()
            )]
        }
    );
    assert!(
        error
            .to_string()
            .contains("AWS KMS (arn:aws:kms:eu-west-1:1:key/2)"),
        "{error}"
    );
}

#[test]
fn bad_input_is_an_error_and_never_a_panic() {
    for name in [
        "all.yaml", "all.json", "all.env", "all.ini", "all.bin", "pgp.yaml",
    ] {
        let format = Format::of_path(name);
        let content = data(name);
        for cut in (0..content.len()).step_by(97) {
            let _ = decrypt(&content[..cut], format, format, &age());
        }
        for other in [Format::Json, Format::Dotenv, Format::Ini, Format::Yaml] {
            let _ = decrypt(&content, other, Format::Yaml, &age());
        }
    }
    assert!(Keys::new().add("x.agekey", b"garbage").is_err());
    assert!(Keys::new().add("x.asc", b"garbage").is_err());
    assert!(
        Keys::new()
            .add("x.agekey", b"AGE-SECRET-KEY-1AAAA")
            .is_err()
    );
    assert!(Keys::new().add("other", b"garbage").is_ok());
}
