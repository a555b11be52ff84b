//! Random files, encrypted and decrypted by the real sops.
//!
//! Runs only when `EVERFLOW_REAL` is set: it needs the real program (`real/peers.sh build sops`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::process::Command;

use everflow_limits::Budget;
use everflow_sops::{Format, Keys, decrypt};

const IDENTITY: &str = "AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";
const RECIPIENT: &str = "age1awuat8es0r8ppmma0t8walyz53c9tus99a6c7mdw3euhdcs8wguqv6gjz8";

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let index = self.below(words.len() as u64);
        words[usize::try_from(index).unwrap()]
    }
}

const SCALARS: [&str; 26] = [
    "plain",
    "\"quoted: text\"",
    "5",
    "-7",
    "1.25",
    "1e3",
    "true",
    "false",
    "null",
    "\"\"",
    "'on'",
    "\"123\"",
    "2001-12-14",
    "2001-12-14T21:59:43.10-05:00",
    "\"a\\nb\"",
    "ü",
    "0x1f",
    "0o17",
    "~",
    "\"~\"",
    "'#no comment'",
    "\"trailing \"",
    "a b c",
    "\"- x\"",
    "12345678901234",
    "\"=\"",
];

fn yaml(chance: &mut Chance, depth: usize, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    for index in 0..1 + chance.below(4) {
        if chance.below(5) == 0 {
            out.push_str(&format!("{pad}# remark {}\n", chance.below(100)));
        }
        let suffix = chance.pick(&["", "", "_unencrypted", "_secret"]);
        let key = format!(
            "{}{index}{suffix}",
            chance.pick(&["a", "data", "key-x", "y", "spec"])
        );
        match chance.below(if depth == 0 { 1 } else { 4 }) {
            0 | 1 => {
                let remark = if chance.below(6) == 0 {
                    " # behind"
                } else {
                    ""
                };
                out.push_str(&format!("{pad}{key}: {}{remark}\n", chance.pick(&SCALARS)));
            }
            2 => {
                out.push_str(&format!("{pad}{key}:\n"));
                yaml(chance, depth - 1, indent + 4, out);
            }
            _ => {
                out.push_str(&format!("{pad}{key}:\n"));
                for _ in 0..1 + chance.below(3) {
                    if chance.below(6) == 0 {
                        out.push_str(&format!("{pad}    # in a list\n"));
                    }
                    out.push_str(&format!("{pad}    - {}\n", chance.pick(&SCALARS)));
                }
            }
        }
    }
}

#[test]
fn random_files_decrypt_alike() {
    let Some(program) = everflow_corpus::real::program("sops") else {
        return;
    };
    let directory = std::env::temp_dir().join(format!("everflow-sops-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut keys = Keys::new();
    keys.add("age.agekey", IDENTITY.as_bytes()).unwrap();
    let runs: u64 = std::env::var("RUNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(60);
    let mut differences = Vec::new();
    let mut compared = 0;
    for seed in 1..=runs {
        let mut chance = Chance(seed * 7919);
        let mut text = String::new();
        yaml(&mut chance, 3, 0, &mut text);
        let rule: &[&str] = match chance.below(4) {
            0 => &[],
            1 => &["--encrypted-regex", "^data"],
            2 => &["--unencrypted-regex", "^spec"],
            _ => &["--encrypted-suffix", "_secret"],
        };
        let name = directory.join("plain.yaml");
        std::fs::write(&name, &text).unwrap();
        let run = |arguments: &[&str]| {
            Command::new(&program)
                .arg("--disable-version-check")
                .args(arguments)
                .env("SOPS_AGE_KEY", IDENTITY)
                .current_dir(&directory)
                .output()
                .unwrap()
        };
        let mut arguments = vec!["encrypt", "--age", RECIPIENT];
        arguments.extend(rule);
        arguments.push("plain.yaml");
        let encrypted = run(&arguments);
        if !encrypted.status.success() {
            continue;
        }
        std::fs::write(directory.join("encrypted.yaml"), &encrypted.stdout).unwrap();
        let real = run(&["decrypt", "encrypted.yaml"]);
        assert!(real.status.success());
        compared += 1;
        let budget = Budget::unlimited();
        match decrypt(
            &encrypted.stdout,
            Format::Yaml,
            Format::Yaml,
            &keys,
            &budget,
        ) {
            Ok(plain) if plain == real.stdout => {}
            Ok(plain) => differences.push(format!(
                "seed {seed}:\n{}\n-- instead of\n{}",
                String::from_utf8_lossy(&plain),
                String::from_utf8_lossy(&real.stdout)
            )),
            Err(error) => differences.push(format!("seed {seed}: {error}\n{text}")),
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    println!("{compared} files compared, {} differ", differences.len());
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}
