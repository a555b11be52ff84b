//! The commands as Markdown, one page for each verb, from the definitions that `--help` is made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command};

/// The first line of every page.
const MADE: &str = "<!-- Made by `everflow man --markdown DIR`; do not edit. -->\n\n";

/// A flag or argument, and what it means.
type Row = (String, String);

/// The pages by file name: `README.md` lists the verbs, `VERB.md` tells all about one.
pub fn pages(mut program: Command) -> BTreeMap<String, String> {
    program.build();
    let mut list = format!("{MADE}# Commands\n\n| Command | |\n|---|---|\n");
    let mut pages = BTreeMap::new();
    for verb in shown(&program) {
        let name = verb.get_name();
        let about = cell(
            &verb
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
        let _ = writeln!(list, "| [`everflow {name}`]({name}.md) | {about} |");
        pages.insert(format!("{name}.md"), page(verb));
    }
    pages.insert("README.md".to_owned(), list);
    pages
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn page(verb: &Command) -> String {
    let mut text = format!("{MADE}# everflow {}\n\n", verb.get_name());
    let leaves = leaves(verb);
    let shared = match leaves.len() {
        0 | 1 => Vec::new(),
        _ => shared_flags(&leaves),
    };
    describe(verb, &mut text, &shared);
    if !shared.is_empty() {
        text.push_str("## Flags of all commands below\n\n");
        table("Flag", &shared, &mut text);
    }
    sections(verb, &mut text, &shared);
    format!("{}\n", text.trim_end())
}

fn sections(command: &Command, text: &mut String, shared: &[Row]) {
    for inner in shown(command) {
        let name = inner.get_bin_name().unwrap_or(inner.get_name());
        let _ = write!(text, "## {name}\n\n");
        describe(inner, text, shared);
        sections(inner, text, shared);
    }
}

/// What a command does, how it is called, and what only it takes.
fn describe(command: &Command, text: &mut String, shared: &[Row]) {
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = write!(text, "{}\n\n", about.to_string().trim());
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    let lines = usage.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let _ = write!(text, "```text\n{lines}\n```\n\n");
    let aliases = quoted(command.get_visible_aliases());
    if !aliases.is_empty() {
        let _ = write!(text, "Also: {aliases}.\n\n");
    }
    let given = command.get_positionals().filter(|arg| !arg.is_hide_set());
    let given: Vec<Row> = given
        .map(|arg| (format!("`{}`", value_names(arg)), meaning(arg)))
        .collect();
    table("Argument", &given, text);
    let mut own = flags(command);
    own.retain(|row| !shared.contains(row));
    table("Flag", &own, text);
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let _ = write!(text, "```text\n{}\n```\n\n", after.to_string().trim_end());
    }
}

fn table(head: &str, rows: &[Row], text: &mut String) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(text, "| {head} | |\n|---|---|\n");
    for (name, meaning) in rows {
        let _ = writeln!(text, "| {name} | {meaning} |");
    }
    text.push('\n');
}

/// The commands below this one that have none below them.
fn leaves(command: &Command) -> Vec<&Command> {
    let mut found = Vec::new();
    for inner in shown(command) {
        match shown(inner).next() {
            Some(_) => found.extend(leaves(inner)),
            None => found.push(inner),
        }
    }
    found
}

/// The flags that all of several commands take, with the same meaning.
fn shared_flags(commands: &[&Command]) -> Vec<Row> {
    let mut all = commands.iter().map(|command| flags(command));
    let mut shared = all.next().unwrap_or_default();
    for flags in all {
        shared.retain(|row| flags.contains(row));
    }
    shared
}

fn flags(command: &Command) -> Vec<Row> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set() && arg.get_id() != "help")
        .map(|arg| (spelling(arg), meaning(arg)))
        .collect()
}

/// `-n, --namespace <NAME>`
fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let names = names.join(", ");
    let may_stand_alone = arg
        .get_num_args()
        .is_some_and(|count| count.min_values() == 0);
    match (arg.get_action().takes_values(), may_stand_alone) {
        (false, _) => format!("`{names}`"),
        (true, true) => format!("`{names}[=<{}>]`", value_names(arg)),
        (true, false) => format!("`{names} <{}>`", value_names(arg)),
    }
}

fn value_names(arg: &Arg) -> String {
    match arg.get_value_names().unwrap_or_default() {
        [] => arg.get_id().as_str().to_uppercase(),
        names => names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// The help of a flag in one line, with its values, its default and its environment variable.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut parts = vec![cell(&help.map(ToString::to_string).unwrap_or_default())];
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        let values = quoted(
            values
                .iter()
                .filter(|value| !value.is_hide_set())
                .map(|value| value.get_name()),
        );
        if !values.is_empty() && !arg.is_hide_possible_values_set() {
            parts.push(format!("One of {values}."));
        }
        let defaults = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy());
        let defaults = quoted(defaults.filter(|value| !value.is_empty()));
        if !defaults.is_empty() && !arg.is_hide_default_value_set() {
            parts.push(format!("Default: {defaults}."));
        }
        if let Some(variable) = arg.get_env() {
            parts.push(format!("Environment: `{}`.", variable.to_string_lossy()));
        }
    }
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases = quoted(aliases.iter().map(|alias| format!("--{alias}")));
    if !aliases.is_empty() {
        parts.push(format!("Also: {aliases}."));
    }
    sentences(&parts)
}

fn quoted(words: impl Iterator<Item = impl AsRef<str>>) -> String {
    let words = words.map(|word| format!("`{}`", word.as_ref()));
    words.collect::<Vec<_>>().join(", ")
}

/// Parts one after the other, each with its full stop.
fn sentences(parts: &[String]) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if !text.is_empty() {
            let is_ended = text.ends_with(['.', '!', '?', ':']);
            text.push_str(if is_ended { " " } else { ". " });
        }
        text.push_str(part);
    }
    text
}

/// A text that may stand in a cell of a table: one line, nothing in it that Markdown or HTML would take for its own.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace('|', "\\|");
    let parts = line.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part
            .replace('<', "\\<")
            .replace('*', "\\*")
            .replace('_', "\\_"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn example() -> Command {
        let namespace = Arg::new("namespace").short('n').long("namespace");
        let namespace = namespace
            .value_name("NAME")
            .help("Where")
            .default_value("a");
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue);
        let quick = quick.help("Do it at once, `a|b` or <c>");
        let one = Command::new("one")
            .about("Makes one")
            .arg(namespace.clone());
        let two = Command::new("two")
            .about("Makes two")
            .arg(namespace)
            .arg(quick);
        let make = Command::new("make").about("Makes things");
        let hidden = Command::new("secret").hide(true);
        Command::new("everflow").subcommands([make.subcommand(one).subcommand(two), hidden])
    }

    #[test]
    fn flags_that_all_commands_of_a_verb_share_are_listed_once() {
        let pages = pages(example());
        assert_eq!(pages.len(), 2, "{:?}", pages.keys());
        let page = &pages["make.md"];
        let row = "| `-n, --namespace <NAME>` | Where. Default: `a`. |";
        assert_eq!(page.matches(row).count(), 1, "{page}");
        assert!(page.contains("## everflow make two"), "{page}");
        assert!(!pages["README.md"].contains("secret"));
    }

    #[test]
    fn texts_cannot_break_a_table() {
        let page = &pages(example())["make.md"];
        assert!(
            page.contains("| `--quick` | Do it at once, `a\\|b` or \\<c> |"),
            "{page}"
        );
    }
}
