//! Small files and keys that would take much time, memory or stack.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "hostile_input/seal.rs"]
#[allow(dead_code)]
mod seal;

use std::time::{Duration, Instant};

use everflow_json::{Value, json};
use everflow_limits::{Budget, Stop};
use everflow_sops::{Error, Format, Keys};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// One test at a time may count memory.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// On the stack that blocking work has; what it gives, and how much memory it took.
fn measured<T: Send>(work: impl FnOnce() -> T + Send) -> (T, usize) {
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    });
    (result, MEMORY.peak_usage() - before)
}

fn budget() -> Budget {
    Budget::new(Stop::new(), 64 << 20)
}

fn decrypt(content: &[u8], from: Format, to: Format, keys: &Keys) -> Result<Vec<u8>, Error> {
    everflow_sops::decrypt(content, from, to, keys, &budget())
}

fn decrypt_value(object: &Value, keys: &Keys) -> Result<Value, Error> {
    everflow_sops::decrypt_value(object, keys, &budget())
}

fn keys() -> Keys {
    let mut keys = Keys::new();
    keys.add("age.agekey", seal::IDENTITY.as_bytes()).unwrap();
    keys
}

fn refused(content: &str, format: Format) -> (String, usize) {
    let (result, used) = measured(|| decrypt(content.as_bytes(), format, format, &keys()));
    (
        result.expect_err("the file was decrypted").to_string(),
        used,
    )
}

#[test]
fn metadata_keys_of_many_steps_are_refused() {
    let key = format!("sops_a{}", "__map_a".repeat(100_000));
    let (error, _) = refused(&format!("A=1\n{key}=x\nsops_mac=ENC[\n"), Format::Dotenv);
    assert!(
        error.contains("deeper than"),
        "{}",
        &error[..error.len().min(200)]
    );
}

#[test]
fn lists_in_metadata_keys_take_no_more_than_their_text() {
    let key = format!("a{}", "__list_999".repeat(5_000));
    let (_, used) = refused(&format!("[s]\na = 1\n[sops]\n{key} = x\n"), Format::Ini);
    assert!(used < 16 << 20, "{used} bytes");
}

fn metadata_lines() -> String {
    let fields = seal::metadata(b"");
    let line = |(name, value): &(&str, String)| match *name {
        "enc" => format!("    age: [{{enc: {}}}]\n", json!(value.as_str())),
        name => format!("    {name}: {}\n", json!(value.as_str())),
    };
    format!("sops:\n{}", fields.iter().map(line).collect::<String>())
}

#[test]
fn aliases_that_nest_are_refused() {
    let mut text = "a0: &a0 x\n".to_owned();
    for level in 1..200 {
        let (open, close) = ("[".repeat(900), "]".repeat(900));
        text.push_str(&format!(
            "a{level}: &a{level} {open}*a{}{close}\n",
            level - 1
        ));
    }
    let (error, _) = refused(&(text + &metadata_lines()), Format::Yaml);
    assert!(error.contains("nest") || error.contains("alias"), "{error}");
}

#[test]
fn aliases_of_large_values_are_refused() {
    let large = "x".repeat(1 << 20);
    let text = format!("a: &a {large}\nb: [{}]\n", "*a, ".repeat(200));
    let (error, used) = refused(&(text + &metadata_lines()), Format::Yaml);
    assert!(error.contains("64 MiB of memory"), "{error}");
    assert!(used < 128 << 20, "{used} bytes");
}

fn object(metadata: Value) -> Value {
    json!({"a": "b", "sops": metadata})
}

fn metadata() -> Value {
    let fields = seal::metadata(b"")
        .into_iter()
        .filter(|(name, _)| *name != "enc");
    fields
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}

#[test]
fn files_with_very_many_recipients_are_refused_soon() {
    let mut metadata = metadata();
    let other = seal::armor(&seal::age(&seal::DATA_KEY)).replacen("YWdl", "YWdm", 1);
    metadata["age"] = (0..20_000)
        .map(|_| json!({"enc": other.as_str()}))
        .collect();
    let began = Instant::now();
    let error = decrypt_value(&object(metadata), &keys()).unwrap_err();
    assert!(error.to_string().contains("recipients"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn age_files_with_very_many_stanzas_are_refused_soon() {
    let file = String::from_utf8_lossy(&seal::age(&seal::DATA_KEY)).into_owned();
    let (intro, rest) = file.split_once('\n').unwrap();
    let mut lines = rest.lines();
    let stanza = format!("{}\n{}\n", lines.next().unwrap(), lines.next().unwrap());
    let forged = stanza.replacen(&stanza[10..14], "AAAA", 1).repeat(20_000);
    let file = format!("{intro}\n{forged}--- {}\n", "A".repeat(43));
    let mut metadata = metadata();
    metadata["age"] = json!([{"enc": seal::armor(file.as_bytes())}]);
    let began = Instant::now();
    let error = decrypt_value(&object(metadata), &keys()).unwrap_err();
    assert!(matches!(&error, Error::DataKey { .. }), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn zones_of_five_bytes_that_cut_a_character_are_refused() {
    let moment = seal::value("2001-12-14 02:59:43 +1é1".as_bytes(), "time", "sealed:");
    let mut metadata = metadata();
    metadata["age"] = json!([{"enc": seal::armor(&seal::age(&seal::DATA_KEY))}]);
    let sealed = json!({"sealed": moment, "sops": metadata});
    assert!(decrypt_value(&sealed, &keys()).is_err());
}

fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// 33 kB that hold 24 MiB of zeros for the key in `key.asc`.
#[test]
fn pgp_messages_are_decompressed_to_the_length_of_a_key() {
    let mut keys = Keys::new();
    keys.add("key.asc", &data("key.asc")).unwrap();
    let mut metadata = metadata();
    let message = String::from_utf8(data("compressed-zeros.asc")).unwrap();
    metadata["pgp"] = json!([{"fp": "x", "enc": message}]);
    let (result, used) = measured(|| decrypt_value(&object(metadata), &keys));
    let error = result.unwrap_err().to_string();
    let words: Vec<&str> = error
        .split(['\n', '|', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    assert!(
        words.join(" ").contains("the data key is longer than"),
        "{error}"
    );
    assert!(used < 16 << 20, "{used} bytes");
}

/// The key asks for 256 MiB to try a passphrase; it may ask for 2 GiB.
#[test]
fn pgp_keys_that_are_locked_with_argon2_are_refused() {
    let (result, used) = measured(|| Keys::new().add("key.asc", &data("argon2.asc")));
    assert!(result.unwrap_err().to_string().contains("Argon2"));
    assert!(used < 16 << 20, "{used} bytes");
}

#[test]
fn very_many_comments_before_a_value_take_time_in_proportion() {
    let metadata = metadata_lines().replace(
        "encrypted_regex: \"^sealed$\"",
        "encrypted_comment_regex: secret",
    );
    assert!(metadata.contains("encrypted_comment_regex"));
    let text = format!("a: 1\n{}b: 2\n{metadata}", "# c\n".repeat(60_000));
    let began = Instant::now();
    decrypt(text.as_bytes(), Format::Yaml, Format::Yaml, &keys()).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn ini_sections_with_one_very_long_key_are_refused() {
    let flat: String = seal::metadata(b"")
        .iter()
        .map(|(name, value)| match *name {
            "enc" => format!("age__list_0__map_enc = {}\n", value.replace('\n', "\\n")),
            name => format!("{name} = {value}\n"),
        })
        .collect();
    let text = format!(
        "[s]\n{} = 1\n{}[sops]\n{flat}",
        "k".repeat(100_000),
        "a = 1\n".repeat(2_000)
    );
    let (error, used) = refused(&text, Format::Ini);
    assert!(error.contains("64 MiB of memory"), "{error}");
    assert!(used < 16 << 20, "{used} bytes");
}
