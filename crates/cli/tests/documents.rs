//! The documents: their links lead somewhere, the commands in them are the program's, and those in code blocks work.
#![allow(clippy::unwrap_used)]

#[path = "common/commands.rs"]
mod commands;

use std::path::{Path, PathBuf};
use std::process::Command;

use commands::{Commands, in_shell};

/// The pages of the book in their order; those that are not there are left out.
const ORDER: [&str; 14] = [
    "README.md",
    "try.md",
    "up.md",
    "install.md",
    "bootstrap.md",
    "adopt.md",
    "move.md",
    "ci.md",
    "commands/README.md",
    "reasons.md",
    "availability.md",
    "security.md",
    "limits.md",
    "conformance.md",
];

/// Pages beside docs/ that are in the book, too, below the others.
const BESIDE: [&str; 7] = [
    "../examples/sovereign/README.md",
    "../bench/RESULTS.md",
    "../SHORTCOMINGS.md",
    "../CHANGELOG.md",
    "../ARCHITECTURE.md",
    "../CONTRIBUTING.md",
    "dependencies.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// Markdown files below a directory, as paths from the root.
fn pages_below(directory: &str, found: &mut Vec<String>) {
    let mut names: Vec<String> = std::fs::read_dir(root().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let path = format!("{directory}/{name}");
        if root().join(&path).is_dir() {
            pages_below(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// What users read, written by hand.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    pages_below("docs", &mut found);
    pages_below("examples", &mut found);
    found.retain(|page| !page.starts_with("docs/commands/"));
    found
}

/// Fenced blocks with the word behind the fence.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let body = lines
            .by_ref()
            .take_while(|line| !line.trim_start().starts_with("```"));
        let body: Vec<&str> = body.collect();
        found.push((language.to_owned(), body.join("\n")));
    }
    found
}

/// The text without its fenced blocks.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn title(page: &Path) -> String {
    let text = read(page);
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading
        .unwrap_or_else(|| panic!("{} has no title", page.display()))
        .to_owned()
}

fn summary() -> String {
    let docs = root().join("docs");
    let mut text = String::from("# Summary\n\n");
    for page in ORDER.iter().filter(|page| docs.join(page).exists()) {
        let indent = if *page == "README.md" { "" } else { "- " };
        text += &format!("{indent}[{}]({page})\n", title(&docs.join(page)));
        if *page == "README.md" {
            text.push('\n');
        }
        if *page == "commands/README.md" {
            let mut commands = Vec::new();
            pages_below("docs/commands", &mut commands);
            for command in commands
                .iter()
                .filter(|command| !command.ends_with("README.md"))
            {
                let page = command.strip_prefix("docs/").unwrap();
                text += &format!("  - [{}]({page})\n", title(&root().join(command)));
            }
        }
    }
    text.push('\n');
    for page in BESIDE {
        text += &format!("- [{}]({page})\n", title(&docs.join(page)));
    }
    text
}

/// `EVERFLOW_UPDATE=1` writes it anew.
#[test]
fn summary_of_the_book_has_every_page() {
    let path = root().join("docs/SUMMARY.md");
    if std::env::var_os("EVERFLOW_UPDATE").is_some() {
        std::fs::write(&path, summary()).unwrap();
    }
    assert_eq!(
        read(&path),
        summary(),
        "EVERFLOW_UPDATE=1 writes docs/SUMMARY.md anew"
    );
    for page in pages().iter().filter_map(|page| page.strip_prefix("docs/")) {
        let is_listed = ORDER.contains(&page) || BESIDE.contains(&page) || page == "SUMMARY.md";
        assert!(is_listed, "docs/{page} has no place in ORDER of this test");
    }
}

/// The name that a heading has in links, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>()
        .trim()
        .to_lowercase()
        .replace(' ', "-")
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = prose(&read(page));
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted)
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut all = pages();
    pages_below("docs/commands", &mut all);
    all.extend(
        [
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "SHORTCOMINGS.md",
            "CHANGELOG.md",
            "bench/RESULTS.md",
        ]
        .map(str::to_owned),
    );
    let mut broken = Vec::new();
    for page in &all {
        let path = root().join(page);
        let text = prose(&read(&path));
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") || link.contains('`') {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let is_there = target.exists() && (heading.is_empty() || has_anchor(&target, heading));
            if !is_there {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The commands in code blocks and in running text.
fn commands_of(text: &str) -> Vec<Vec<String>> {
    let shell = |language: &str| matches!(language, "sh" | "console" | "yaml");
    let blocks = blocks(text);
    let mut found: Vec<Vec<String>> = blocks
        .iter()
        .filter(|(language, _)| shell(language))
        .flat_map(|(_, body)| in_shell(body))
        .collect();
    let prose = prose(text).replace('\n', " ");
    let quoted = prose.split('`').skip(1).step_by(2);
    found.extend(
        quoted
            .filter(|code| code.starts_with("everflow "))
            .flat_map(in_shell),
    );
    found
}

#[test]
fn commands_in_the_documents_exist_with_their_flags() {
    let program = Commands::of_the_program("documents");
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for words in commands_of(&read(&root().join(&page))) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            count += 1;
            if let Err(why) = program.check(&words) {
                wrong.push(format!("{page}: {why}"));
            }
        }
    }
    assert!(count > 60, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_and_flags_that_are_not_there_are_found() {
    let program = Commands::of_the_program("unknown");
    for good in [
        "get all -A",
        "create source git a --url=b",
        "diff ks a --path b",
        "-h",
    ] {
        program.check(&good.split(' ').collect::<Vec<_>>()).unwrap();
    }
    for wrong in ["gett all", "get all --no-such-flag", "up --prune"] {
        let words: Vec<&str> = wrong.split(' ').collect();
        assert!(program.check(&words).is_err(), "{wrong}");
    }
    let text = "$ everflow up a \\\n  --offline # now\nkubectl x | everflow get all; ls\n";
    assert_eq!(
        in_shell(text),
        [vec!["up", "a", "--offline"], vec!["get", "all"]]
    );
}

/// Verbs that need neither a cluster nor a network, nor go on until somebody ends them.
const ALONE: [&str; 5] = ["helm", "kustomize", "test", "up", "version"];

fn runs_here(words: &[String]) -> bool {
    // A word in capitals, or the directory that the reader is in, stands for what only the reader has.
    let is_placeholder = |word: &String| {
        let has_capitals = word.chars().all(|c| c.is_ascii_uppercase() || c == '/');
        word == "." || (word.len() > 1 && has_capitals)
    };
    let goes_on = ["--watch", "--kubeconfig-out"];
    let is_alone = |verb: &String| ALONE.contains(&verb.as_str());
    words.first().is_some_and(is_alone)
        && !words
            .iter()
            .any(|word| is_placeholder(word) || goes_on.contains(&word.as_str()))
}

/// What a command says, without digests and times; lines that come as things get ready are sorted.
fn comparable(said: &str) -> Vec<String> {
    let digest = regex::Regex::new("sha256:[0-9a-f]+").unwrap();
    let time = regex::Regex::new(r"^[0-9.]+m?s$").unwrap();
    let lines = said
        .lines()
        .filter(|line| !line.trim().is_empty() && !time.is_match(line));
    let mut lines: Vec<String> = lines
        .map(|line| digest.replace_all(line, "sha256:…").into_owned())
        .collect();
    lines.sort();
    lines
}

#[test]
fn code_blocks_that_need_no_cluster_work() {
    let mut count = 0;
    for page in pages() {
        for (language, body) in blocks(&read(&root().join(&page))) {
            if language != "sh" && language != "console" {
                continue;
            }
            for words in in_shell(&body).iter().filter(|words| runs_here(words)) {
                count += 1;
                let output = Command::new(env!("CARGO_BIN_EXE_everflow"))
                    .args(words)
                    .current_dir(root())
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stdout);
                let complaints = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "{page}: {words:?}: {said}{complaints}"
                );
                if language == "console" {
                    let shown = body.split_once('\n').unwrap().1;
                    assert_eq!(comparable(shown), comparable(&said), "{page}: {words:?}");
                }
            }
        }
    }
    assert!(count >= 9, "{count}");
}

/// What mdBook reads: the summary above all pages, each of which is there.
#[test]
fn book_is_laid_out_with_all_its_pages() {
    let made = Command::new("bash")
        .arg(root().join("docs/book.sh"))
        .arg("--stage")
        .output();
    let made = made.unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let source = root().join("target/book/src");
    let summary = read(&source.join("SUMMARY.md"));
    let links = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let missing: Vec<&str> = links.filter(|link| !source.join(link).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
