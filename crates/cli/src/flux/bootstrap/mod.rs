//! `everflow bootstrap`: a repository that the cluster is kept by, and the engine that keeps it so.

mod apply;
mod components;
mod flags;
mod git;
mod health;
mod manifests;
mod moving;
mod plan;
mod provider;
mod secret;
mod steps;
mod tree;

use clap::Subcommand;

use super::connection::Connection;
use crate::exit::Failure;
use flags::Common;

pub(super) use components::{ComponentOptions, components};
pub(super) use health::until_deployed;
pub(super) use manifests::objects_of;

/// `everflow bootstrap`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Deploy from a repository of Bitbucket Server or Data Center
    BitbucketServer(provider::BitbucketArgs),
    /// Deploy from any git repository
    Git(git::Args),
    /// Deploy from a repository of Gitea or Forgejo
    Gitea(provider::GiteaArgs),
    /// Deploy from a repository of GitHub
    Github(provider::GithubArgs),
    /// Deploy from a repository of GitLab
    Gitlab(provider::GitlabArgs),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let what = args.what.as_ref().ok_or(Failure::help("bootstrap"))?;
    let bootstrap = steps::Bootstrap::new(&args.common, &args.connection)?;
    super::in_runtime(async {
        match what {
            What::Git(args) => git::run(args, &bootstrap).await,
            What::BitbucketServer(args) => provider::bitbucket(args, &bootstrap).await,
            What::Gitea(args) => provider::gitea(args, &bootstrap).await,
            What::Github(args) => provider::github(args, &bootstrap).await,
            What::Gitlab(args) => provider::gitlab(args, &bootstrap).await,
        }
    })
}

fn work(text: impl std::fmt::Display) -> Failure {
    Failure::Work(text.to_string())
}

/// The content of a file; the text says what it is for.
fn read_file(path: &str, what: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| work(format!("{what}: {path}: {error}")))?;
    String::from_utf8(bytes).map_err(|_| work(format!("{what}: {path} is not text")))
}

/// A secret that is given by the environment, or typed in.
fn secret_word(variable: &str, question: &str) -> Result<String, Failure> {
    if let Ok(word) = std::env::var(variable)
        && !word.is_empty()
    {
        return Ok(word);
    }
    super::say::plain(question);
    let mut word = String::new();
    std::io::stdin()
        .read_line(&mut word)
        .map_err(|error| work(format!("could not read token: {error}")))?;
    match word.trim() {
        "" => Err(work(format!(
            "no token: set {variable}, or type it on standard input"
        ))),
        word => Ok(word.to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use everflow_json::Value;

    /// The command that words stand for.
    fn command(program: &clap::Command, words: &str) -> clap::Command {
        let words = words.split(' ').skip(1);
        words.fold(program.clone(), |command, word| {
            command.find_subcommand(word).unwrap().clone()
        })
    }

    #[test]
    fn flags_are_those_of_flux() {
        let Some(corpus) = everflow_corpus::find("flux") else {
            return;
        };
        let text = std::fs::read_to_string(corpus.join("cli/commands.json")).unwrap();
        let recorded: Value = everflow_json::from_str(&text).unwrap();
        let mut program = crate::args::program();
        program.build();
        let mut count = 0;
        for one in recorded.as_array().unwrap() {
            let words = one["command"].as_str().unwrap();
            if !words.starts_with("flux bootstrap") {
                continue;
            }
            let ours = command(&program, words);
            for field in ["flags", "persistentFlags"] {
                for flag in one[field].as_array().into_iter().flatten() {
                    let name = flag["name"].as_str().unwrap();
                    if name == "help" {
                        continue;
                    }
                    let is_it = |arg: &&clap::Arg| {
                        let others = arg.get_all_aliases().unwrap_or_default();
                        arg.get_long() == Some(name) || others.contains(&name)
                    };
                    let found = ours.get_arguments().find(is_it);
                    let found = found.unwrap_or_else(|| panic!("{words} --{name}"));
                    let short = flag["shorthand"]
                        .as_str()
                        .and_then(|text| text.chars().next());
                    assert_eq!(found.get_short(), short, "{words} --{name}");
                    count += 1;
                }
            }
        }
        assert!(count > 70, "{count}");
    }
}
