//! What fits at the end of a command line: commands, flags, kinds, and names of objects in the cluster.

use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _};
use everflow_runtime::client::{Resource, Selection, meta_text};

use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::in_runtime;
use crate::flux::kinds::{Chosen, Family, KINDS, Kind, choose};
use crate::output::print_text;

/// How long the cluster may take: somebody waits at the keyboard.
const PATIENCE: Duration = Duration::from_secs(3);
/// Verbs whose words are a kind and names.
const OF_KINDS: [&str; 7] = [
    "get",
    "export",
    "delete",
    "suspend",
    "resume",
    "reconcile",
    "tree",
];

/// The words that are there; the last one is not finished.
#[derive(clap::Args, Debug)]
pub struct WordsArgs {
    #[arg(
        value_name = "WORD",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

/// Prints what fits, a line each.
pub fn complete(args: &WordsArgs) -> Result<(), Failure> {
    let program = crate::args::program();
    let (last, before) = match args.words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let mut found = candidates(&program, before, last);
    found.retain(|word| word.starts_with(last));
    found.sort_unstable();
    found.dedup();
    found
        .iter()
        .try_for_each(|word| print_text(&format!("{word}\n")))
}

fn candidates(program: &Command, before: &[String], last: &str) -> Vec<String> {
    let (command, rest) = descend(program, before);
    if let Some(values) = values_of_flag(program, command, before) {
        return values;
    }
    if last.starts_with('-') {
        return flags(program, command, before);
    }
    let mut found: Vec<String> = Vec::new();
    if rest.is_empty() {
        let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
        found.extend(commands.map(|one| one.get_name().to_owned()));
    }
    let name = command.get_name();
    if OF_KINDS.contains(&name) {
        found.extend(of_kind(name, &rest, before));
    }
    if name == "kustomization" && rest.is_empty() {
        // `build` and `diff kustomization` take one that is there.
        let kind = KINDS.iter().find(|kind| kind.name() == "Kustomization");
        found.extend(kind.into_iter().flat_map(|kind| objects(kind, before)));
    }
    found
}

/// The innermost command, and the words after it that are no flags.
fn descend<'c>(program: &'c Command, words: &[String]) -> (&'c Command, Vec<String>) {
    let mut command = program;
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            if !word.contains('=') && takes_value(program, command, word) {
                words.next();
            }
            continue;
        }
        match command.find_subcommand(word) {
            Some(next) if rest.is_empty() => command = next,
            _ => rest.push(word.clone()),
        }
    }
    (command, rest)
}

fn find_flag<'c>(program: &'c Command, command: &'c Command, word: &str) -> Option<&'c clap::Arg> {
    let fits = |arg: &&clap::Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| word == format!("-{short}")),
    };
    // Flags of the connection are defined by the verb above.
    let above = program.get_subcommands().flat_map(Command::get_arguments);
    command.get_arguments().chain(above).find(fits)
}

fn takes_value(program: &Command, command: &Command, word: &str) -> bool {
    find_flag(program, command, word).is_some_and(|arg| {
        let optional = arg
            .get_num_args()
            .is_some_and(|range| range.min_values() == 0);
        arg.get_action().takes_values() && !optional
    })
}

/// What may follow a flag that wants a value; `None` where none is wanted.
fn values_of_flag(program: &Command, command: &Command, before: &[String]) -> Option<Vec<String>> {
    let word = before
        .last()
        .filter(|word| word.starts_with('-') && !word.contains('='))?;
    if !takes_value(program, command, word) {
        return None;
    }
    let arg = find_flag(program, command, word)?;
    if arg.get_long() == Some("namespace") {
        let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
        return Some(listed(&namespaces, None, before));
    }
    let possible = arg.get_possible_values();
    Some(
        possible
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect(),
    )
}

fn flags(program: &Command, command: &Command, before: &[String]) -> Vec<String> {
    let verb = before
        .first()
        .and_then(|word| program.find_subcommand(word));
    let above = verb.into_iter().flat_map(Command::get_arguments);
    let above = above.filter(|arg| arg.is_global_set());
    command
        .get_arguments()
        .chain(above)
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| arg.get_long().map(|long| format!("--{long}")))
        .collect()
}

/// Words for kinds, and names of objects of the kind that is there already.
fn of_kind(verb: &str, rest: &[String], before: &[String]) -> Vec<String> {
    let words = |family: Family| {
        let of_family = KINDS.iter().filter(move |kind| kind.family == family);
        of_family.map(|kind| kind.words[0].to_owned())
    };
    let family = |word: &str| match word {
        "source" | "sources" => Some(Family::Source),
        "image" | "images" => Some(Family::Image),
        "artifact" | "artifacts" => Some(Family::Artifact),
        _ => None,
    };
    match rest {
        [] => {
            let mut found: Vec<String> = words(Family::Alone).collect();
            let families = match verb {
                "get" => ["all", "sources", "images", "artifacts"],
                _ => ["source", "image", "artifact", "kustomization"],
            };
            found.extend(families.map(str::to_owned));
            found
        }
        [word] if family(word).is_some() => family(word).into_iter().flat_map(words).collect(),
        _ => match choose("get", rest) {
            Ok((Chosen::One(kind), names)) => {
                let mut found = objects(kind, before);
                found.retain(|name| !names.contains(name));
                found
            }
            _ => Vec::new(),
        },
    }
}

fn objects(kind: &Kind, before: &[String]) -> Vec<String> {
    let Some(connection) = connection(before) else {
        return Vec::new();
    };
    let namespace = connection.namespace;
    listed(&kind.resource, Some(&namespace), before)
}

/// The names of what the cluster has; none when it does not answer.
fn listed(resource: &Resource, namespace: Option<&str>, before: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let asked = in_runtime(async {
        let Some(connection) = connection(before) else {
            return Ok(());
        };
        let session = connection.open()?;
        let selection = Selection::default().metadata();
        let listing = session.client.list_all(resource, namespace, &selection);
        if let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, listing).await {
            let names = list.items.iter().map(|object| meta_text(object, "name"));
            found.extend(names.map(str::to_owned));
        }
        Ok(())
    });
    // Nobody wants to read errors between what they type.
    drop(asked);
    found
}

/// What the command line says of the cluster so far, wherever it says so.
fn connection(before: &[String]) -> Option<Connection> {
    let command = Connection::augment_args(Command::new("connection")).ignore_errors(true);
    let mut words = vec!["connection".to_owned()];
    let mut rest = before.iter();
    while let Some(word) = rest.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if !name.starts_with('-') || find_flag(&command, &command, name).is_none() {
            continue;
        }
        words.push(word.clone());
        if !word.contains('=') && takes_value(&command, &command, name) {
            words.extend(rest.next().cloned());
        }
    }
    let matches = command.try_get_matches_from(words).ok()?;
    Connection::from_arg_matches(&matches).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &str) -> Vec<String> {
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let last = words.pop().unwrap_or_default();
        let mut found = candidates(&crate::args::program(), &words, &last);
        found.retain(|word| word.starts_with(&last));
        found
    }

    #[test]
    fn commands_kinds_and_flags_are_completed() {
        assert!(found("rec").contains(&"reconcile".to_owned()));
        assert!(found("get sources ").contains(&"git".to_owned()));
        assert!(found("create sec").contains(&"secret".to_owned()));
        assert!(found("create source git x --br").contains(&"--branch".to_owned()));
        assert!(found("get ks --al").contains(&"--all-namespaces".to_owned()));
        assert!(found("get ks -n apps --no").contains(&"--no-header".to_owned()));
    }
}
