//! The commands of the program and their flags, as its own Markdown pages have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Commands by their path, such as `create source git`, with the flags that they take.
pub struct Commands {
    flags: BTreeMap<String, BTreeSet<String>>,
    /// Other names, by path.
    aliases: BTreeMap<String, String>,
    /// Flags of all commands of a verb.
    shared: BTreeMap<String, BTreeSet<String>>,
}

impl Commands {
    /// Asks the program; `name` is that of the test, for the pages need a directory.
    pub fn of_the_program(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{name}"));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["man", "--markdown"])
            .arg(&directory)
            .status();
        assert!(made.unwrap().success());
        let mut commands = Commands {
            flags: BTreeMap::new(),
            aliases: BTreeMap::new(),
            shared: BTreeMap::new(),
        };
        for entry in std::fs::read_dir(&directory).unwrap() {
            commands.read(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        commands
    }

    fn read(&mut self, page: &str) {
        let mut verb = String::new();
        let mut path = String::new();
        let mut is_shared = false;
        for line in page.lines() {
            let heading = line.trim_start_matches('#').trim();
            if line.starts_with('#') {
                is_shared = heading == "Flags of all commands below";
                if let Some(name) = heading.strip_prefix("everflow ") {
                    path = name.to_owned();
                    verb = name.split(' ').next().unwrap().to_owned();
                    self.flags.entry(path.clone()).or_default();
                }
            } else if let Some(names) = line.strip_prefix("Also: ") {
                let parent = path.rsplit_once(' ').map_or("", |(parent, _)| parent);
                for name in names.split('`').skip(1).step_by(2) {
                    let other = format!("{parent} {name}").trim().to_owned();
                    self.aliases.insert(other, path.clone());
                }
            } else if let Some(row) = line.strip_prefix("| `-") {
                let cell = row.split('`').next().unwrap();
                let names = format!("-{cell}");
                let names = names
                    .split([' ', ',', '[', '='])
                    .filter(|word| word.starts_with('-'));
                let also = line.split("Also: ").nth(1).unwrap_or_default();
                let also = also.split('`').filter(|word| word.starts_with("--"));
                let flags = match is_shared {
                    true => self.shared.entry(verb.clone()).or_default(),
                    false => self.flags.entry(path.clone()).or_default(),
                };
                flags.extend(names.chain(also).map(str::to_owned));
            }
        }
    }

    fn resolve(&self, path: &str) -> Option<String> {
        let known = self.flags.contains_key(path).then(|| path.to_owned());
        known.or_else(|| self.aliases.get(path).cloned())
    }

    /// Whether the words behind `everflow` are a command of the program, with flags that it takes.
    pub fn check(&self, words: &[&str]) -> Result<(), String> {
        let mut path = String::new();
        let mut flags = Vec::new();
        let mut is_path = true;
        for word in words {
            if word.starts_with('-') && word.len() > 1 {
                flags.push(word.split('=').next().unwrap());
                continue;
            }
            let next = format!("{path} {word}").trim().to_owned();
            match self.resolve(&next).filter(|_| is_path) {
                Some(known) => path = known,
                None => is_path = false,
            }
        }
        if path.is_empty() {
            return match words.iter().all(|word| word.starts_with('-')) {
                true => Ok(()),
                false => Err(format!(
                    "everflow {}: there is no such command",
                    words.join(" ")
                )),
            };
        }
        let verb = path.split(' ').next().unwrap();
        let shared = self.shared.get(verb);
        for flag in flags
            .into_iter()
            .filter(|flag| !matches!(*flag, "-h" | "--help" | "--"))
        {
            let is_known = self.flags[&path].contains(flag)
                || shared.is_some_and(|shared| shared.contains(flag));
            if !is_known {
                return Err(format!("everflow {path} has no flag {flag}"));
            }
        }
        Ok(())
    }
}

/// The commands of this program in a piece of shell, each as the words behind its name.
pub fn in_shell(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in joined.lines() {
        let line = line
            .trim()
            .trim_start_matches("$ ")
            .replace("cargo run --release --", "everflow");
        let line = line.split(" # ").next().unwrap_or_default();
        for part in line.split(['|', ';', '>', '&', '(']) {
            let mut words = part
                .split_whitespace()
                .map(|word| word.trim_matches(['"', '\'', ')']));
            let is_ours = |word: &str| matches!(word, "everflow" | "$EVERFLOW" | "$program");
            let begins =
                |word: &&str| !matches!(*word, "!" | "if" | "elif" | "run:" | "entry:" | "-");
            if words.by_ref().find(begins).is_some_and(is_ours) {
                let rest = words.filter(|word| !word.is_empty() && !word.contains("${"));
                found.push(rest.map(str::to_owned).collect());
            }
        }
    }
    found
}
