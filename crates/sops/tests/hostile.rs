//! Files that are meant to hurt: an error that says what there is too much of, in bounded memory and time.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everflow_limits::{Budget, Exceeded, Stop};
use everflow_sops::{Error, Format, Keys, decrypt, decrypt_value};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::sample::Index;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How much a file may use here.
const SHARE: usize = 8 << 20;
/// What estimates may be wrong by: texts and lists grow by doubling.
const SLACK: usize = 3;

const IDENTITY: &str =
    "AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63\n";

/// Memory and time are measured for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn keys() -> Keys {
    let mut keys = Keys::new();
    keys.add("age.agekey", IDENTITY.as_bytes()).unwrap();
    keys.add("key.asc", &data("key.asc")).unwrap();
    keys
}

/// Decrypts with little memory. That it takes much more than it may is a failure.
fn within_share(content: &[u8], input: Format, output: Format) -> Result<Vec<u8>, Error> {
    let keys = keys();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let budget = Budget::new(Stop::new(), SHARE as u64);
    let result = decrypt(content, input, output, &keys, &budget);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak <= SLACK * SHARE + (1 << 20), "{} MB", peak >> 20);
    assert_eq!(budget.used(), 0);
    result
}

const METADATA: &str = "sops:\n  lastmodified: '2025-01-01T00:00:00Z'\n  mac: ENC[x]\n  age:\n";

#[test]
fn metadata_of_many_levels_is_refused() {
    let _alone = alone();
    let levels = "__map_a".repeat(100_000);
    let error = within_share(
        format!("sops_a{levels}=1\n").as_bytes(),
        Format::Dotenv,
        Format::Dotenv,
    );
    assert!(matches!(
        error,
        Err(Error::Exceeded(Exceeded::Depth { .. }))
    ));
    let error = within_share(
        format!("[sops]\na{levels} = 1\n").as_bytes(),
        Format::Ini,
        Format::Ini,
    );
    assert!(matches!(
        error,
        Err(Error::Exceeded(Exceeded::Depth { .. }))
    ));
}

#[test]
fn files_that_grow_when_they_are_read_are_refused() {
    let _alone = alone();
    let lists: String = (0..20_000)
        .map(|number| format!("sops_l{number}__list_999=x\n"))
        .collect();
    let wide = format!(
        "a: &a [{}]\nb: [{}]\n{METADATA}",
        vec!["x"; 5_000].join(", "),
        vec!["*a"; 5_000].join(", ")
    );
    let recipients = format!("{METADATA}{}", "  - {}\n".repeat(100_000));
    let comments = "#\n".repeat(1 << 20);
    let lines = "a=\n".repeat(1 << 20);
    for (content, format) in [
        (lists, Format::Dotenv),
        (wide, Format::Yaml),
        (recipients, Format::Yaml),
        (comments, Format::Yaml),
        (lines, Format::Dotenv),
        (
            format!("{{\"a\": [{}]}}", vec!["1"; 1 << 20].join(",")),
            Format::Json,
        ),
    ] {
        let error = within_share(content.as_bytes(), format, format).unwrap_err();
        let limit = SHARE as u64;
        assert_eq!(error, Error::Exceeded(Exceeded::Memory { limit }));
        assert_eq!(error.exceeded(), Some(&Exceeded::Memory { limit }));
    }
}

#[test]
fn aliases_cannot_make_a_file_deeper_than_it_is_read() {
    let _alone = alone();
    let mut text = "a0: &a0 x\n".to_owned();
    for number in 1..40 {
        let alias = format!("*a{}", number - 1);
        text.push_str(&format!(
            "a{number}: &a{number} {}{alias}{}\n",
            "[".repeat(900),
            "]".repeat(900)
        ));
    }
    text.push_str(METADATA);
    let budget = Budget::unlimited();
    let error = decrypt(
        text.as_bytes(),
        Format::Yaml,
        Format::Yaml,
        &keys(),
        &budget,
    );
    assert!(matches!(
        error,
        Err(Error::Exceeded(Exceeded::Depth { .. }))
    ));
}

#[test]
fn a_data_key_that_is_compressed_to_nothing_is_refused() {
    let _alone = alone();
    let message = String::from_utf8(data("compressed.asc")).unwrap();
    let message = message.replace('\n', "\\n");
    let text = format!(
        "{{\"a\": \"b\", \"sops\": {{\"lastmodified\": \"2025-01-01T00:00:00Z\", \"mac\": \"ENC[x]\", \"pgp\": [{{\"fp\": \"x\", \"enc\": \"{message}\"}}]}}}}"
    );
    let error = within_share(text.as_bytes(), Format::Json, Format::Json).unwrap_err();
    // The report breaks lines.
    let report = error.to_string().replace("\n      |", "");
    assert!(
        report.contains("the data key is longer than 65536 bytes"),
        "{report}"
    );
    let long = text.replace("-----BEGIN", &"x".repeat(70_000));
    let error = within_share(long.as_bytes(), Format::Json, Format::Json).unwrap_err();
    let report = error.to_string().replace("\n      |", "");
    assert!(
        report.contains("the encrypted data key is longer than 65536 bytes"),
        "{report}"
    );
}

#[test]
fn a_key_that_asks_for_memory_to_be_unlocked_is_refused() {
    let error = Keys::new().add("k.asc", &data("argon2.asc")).unwrap_err();
    assert!(error.to_string().contains("Argon2"), "{error}");
}

#[test]
fn a_raised_flag_ends_the_search_for_the_data_key() {
    let _alone = alone();
    let share = "x".repeat(42) + "A";
    let stanza = format!("-> X25519 {share}\n{share}\n");
    let file = format!("age-encryption.org/v1\n{}--- {share}\n", stanza.repeat(16));
    let armored = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(file)
    };
    let recipient = format!(
        "{{\"recipient\": \"x\", \"enc\": \"-----BEGIN AGE ENCRYPTED FILE-----\\n{armored}\\n-----END AGE ENCRYPTED FILE-----\"}}"
    );
    let text = format!(
        "{{\"a\": \"b\", \"sops\": {{\"lastmodified\": \"2025-01-01T00:00:00Z\", \"mac\": \"ENC[x]\", \"age\": [{}]}}}}",
        vec![recipient; 250].join(", ")
    );
    let mut keys = Keys::new();
    keys.add("k.agekey", IDENTITY.repeat(2_000).as_bytes())
        .unwrap();
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        stop.raise();
    });
    let started = Instant::now();
    let error = decrypt(text.as_bytes(), Format::Json, Format::Json, &keys, &budget).unwrap_err();
    assert_eq!(error, Error::Exceeded(Exceeded::Stopped), "{error}");
    assert!(started.elapsed() < Duration::from_secs(1));
    timer.join().unwrap();
}

const FILES: [(&str, Format); 10] = [
    ("all.yaml", Format::Yaml),
    ("all.json", Format::Json),
    ("all.env", Format::Dotenv),
    ("all.ini", Format::Ini),
    ("all.bin", Format::Binary),
    ("comment.yaml", Format::Yaml),
    ("pgp.yaml", Format::Yaml),
    ("regex.yaml", Format::Yaml),
    ("shamir.json", Format::Json),
    ("maconly.yaml", Format::Yaml),
];

/// Changes some bytes, puts a part in many times, and cuts.
fn mutate(content: &mut Vec<u8>, changes: &[(Index, u8)], part: (Index, u8, u16), cut: usize) {
    for (at, byte) in changes {
        let at = at.index(content.len());
        content[at] = *byte;
    }
    let (at, length, times) = part;
    let at = at.index(content.len());
    let end = (at + usize::from(length)).min(content.len());
    let repeated = content[at..end].repeat(usize::from(times));
    content.splice(at..end, repeated);
    content.truncate(content.len().saturating_sub(cut));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn changed_files_are_decrypted_or_refused_within_bounds(
        file in 0..FILES.len(),
        output in 0..FILES.len(),
        changes in prop::collection::vec(any::<(Index, u8)>(), 0..3),
        part in (any::<Index>(), any::<u8>(), prop_oneof![Just(1_u16), 0..3_u16, 0..2_000_u16]),
        cut in prop_oneof![Just(0_usize), 0..200_usize],
    ) {
        let _alone = alone();
        let (name, input) = FILES[file];
        let mut content = data(name);
        mutate(&mut content, &changes, part, cut);
        let started = Instant::now();
        let _ = within_share(&content, input, input);
        let _ = within_share(&content, input, FILES[output].1);
        if let Ok(object) = everflow_yaml::sigs::yaml_to_json(&content) {
            let budget = Budget::new(Stop::new(), SHARE as u64);
            let _ = decrypt_value(&object, &keys(), &budget);
        }
        prop_assert!(started.elapsed() < Duration::from_secs(10));
    }
}
