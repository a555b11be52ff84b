//! The command line as flux's library reads it, and wrong ones in its words and with its exit codes.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args as _, Command};

use super::connection::Connection;
use super::go_flags::go_bool;
use crate::exit::Failure;

/// The verbs that are flux's.
const VERBS: [&str; 29] = [
    "build",
    "check",
    "completion",
    "create",
    "debug",
    "delete",
    "diff",
    "envsubst",
    "events",
    "export",
    "get",
    "install",
    "list",
    "logs",
    "migrate",
    "plugin",
    "pull",
    "push",
    "reconcile",
    "resume",
    "stats",
    "suspend",
    "tag",
    "trace",
    "tree",
    "trigger",
    "uninstall",
    "version",
    "bootstrap",
];

/// How different a word may be from a verb that is suggested for it.
const CLOSE: usize = 2;

/// Makes a command read its flags as flux does: truth values may be given (`--prune=false`), and of a flag
/// that is given twice the last one counts.
pub fn as_flux_reads(mut program: Command) -> Command {
    for verb in VERBS {
        if program.find_subcommand(verb).is_some() {
            program = program.mut_subcommand(verb, go_like);
        }
    }
    program
}

fn go_like(command: Command) -> Command {
    command
        .args_override_self(true)
        .mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .value_name("BOOL")
                .hide_possible_values(true)
                .default_value("false")
                .hide_default_value(true)
                .default_missing_value("true")
                .value_parser(go_bool),
            _ => arg,
        })
        .mut_subcommands(go_like)
}

/// Flags that say which cluster may stand before the verb; here they are moved behind it.
pub fn reordered(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let connection = Connection::augment_args(Command::new("connection"));
    let takes_value = |word: &str| {
        let fits = |arg: &&clap::Arg| match word.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg
                .get_short()
                .is_some_and(|short| word == format!("-{short}")),
        };
        let arg = connection.get_arguments().find(fits)?;
        Some(arg.get_action().takes_values())
    };
    let mut rest: Vec<OsString> = words.collect();
    if rest.len() == 2 && rest[1] == "-v" {
        rest[1] = "--version".into();
    }
    let mut moved = Vec::new();
    while let Some(word) = rest.get(1).and_then(|word| word.to_str()) {
        let (name, is_complete) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word, false),
        };
        let Some(has_value) = takes_value(name) else {
            break;
        };
        let count = match has_value && !is_complete {
            true => 2,
            false => 1,
        };
        let end = rest.len().min(1 + count);
        moved.extend(rest.drain(1..end));
    }
    let is_verb = rest
        .get(1)
        .and_then(|word| word.to_str())
        .is_some_and(|word| VERBS.contains(&word));
    let place = match is_verb {
        true => 2,
        false => 1,
    };
    rest.splice(place..place, moved);
    rest
}

/// What flux would say about a command line; `None` when it is not for us to say.
pub fn complaint(error: &clap::Error, program: &Command, words: &[OsString]) -> Option<Failure> {
    let word = |number: usize| words.get(number).and_then(|word| word.to_str());
    let Some(verb) = word(1) else {
        // Nothing asked for: what could be.
        return Some(Failure::help(""));
    };
    if error.kind() == ErrorKind::InvalidSubcommand {
        return match verb {
            "help" => Some(Failure::help("")),
            _ if VERBS.contains(&verb) => Some(Failure::help(known_path(program, words))),
            _ if program.find_subcommand(verb).is_some() => None,
            _ => Some(Failure::Work(unknown_verb(program, verb))),
        };
    }
    if !VERBS.contains(&verb) {
        return None;
    }
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let said = match error.kind() {
        ErrorKind::UnknownArgument => match flag.strip_prefix("--") {
            Some(_) => format!("unknown flag: {flag}"),
            None if flag.starts_with('-') => {
                let short = flag.trim_start_matches('-');
                format!("unknown shorthand flag: '{short}' in -{short}")
            }
            None => return None,
        },
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            let last = words.last().and_then(|word| word.to_str());
            let last = last.unwrap_or_default();
            let short = last.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            match short {
                Some(short) => format!("flag needs an argument: '{short}' in -{short}"),
                None => format!("flag needs an argument: {flag}"),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            format!("invalid argument {value:?} for {flag:?} flag: {cause}")
        }
        _ => return None,
    };
    Some(Failure::Work(said))
}

/// The words of a command line that are commands.
fn known_path(program: &Command, words: &[OsString]) -> String {
    let mut path = Vec::new();
    let mut command = program;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if word.starts_with('-') {
            continue;
        }
        let Some(next) = command.find_subcommand(word) else {
            break;
        };
        path.push(next.get_name().to_owned());
        command = next;
    }
    path.join(" ")
}

fn unknown_verb(program: &Command, verb: &str) -> String {
    let name = program.get_name();
    let mut text = format!("unknown command {verb:?} for {name:?}");
    let mut close: Vec<&str> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .filter(|known| distance(known, verb) <= CLOSE || known.starts_with(verb))
        .collect();
    close.sort_unstable();
    if !close.is_empty() {
        text.push_str("\n\nDid you mean this?");
        for known in close {
            text.push_str("\n\t");
            text.push_str(known);
        }
    }
    text
}

/// How many letters must be changed, put in or left out to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = number + 1;
        for (column, wanted) in other.iter().enumerate() {
            let changed = before + usize::from(*wanted != letter);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn flags_of_the_connection_may_stand_before_the_verb() {
        let moved = reordered(words("everflow -n apps --context=c get ks").into_iter());
        assert_eq!(moved, words("everflow get -n apps --context=c ks"));
        let kept = reordered(words("everflow up -n x").into_iter());
        assert_eq!(kept, words("everflow up -n x"));
    }

    #[test]
    fn edit_distance_counts_differing_letters() {
        assert_eq!(distance("logs", "bogus"), 2);
        assert_eq!(distance("get", "get"), 0);
        assert_eq!(distance("", "ab"), 2);
    }
}
