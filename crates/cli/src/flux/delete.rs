//! `everflow delete`

use everflow_runtime::client::{At, DeleteOptions};

use super::connection::Connection;
use super::{confirm, each, in_runtime, kinds, say};
use crate::exit::Failure;

/// `everflow delete`
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (source git, kustomization, …), and the names of objects
    #[arg(value_name = "KIND NAME...")]
    words: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    silent: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, names) = kinds::choose_one("delete", &args.words)?;
    if matches!(kind.name(), "ExternalArtifact" | "ArtifactGenerator") {
        return Err(Failure::help("delete"));
    }
    let noun = kind.noun;
    if names.is_empty() {
        return Err(Failure::Work(format!("{noun} name is required")));
    }
    in_runtime(async {
        let session = args.connection.open()?;
        let session = &session;
        each(names, |name| async move {
            let namespace = &args.connection.namespace;
            let at = At::new(namespace, name);
            let told = |error| Failure::Work(session.told(kind, &error));
            session.client.get(&kind.resource, at).await.map_err(told)?;
            if !args.silent {
                confirm::ask(&format!("Are you sure you want to delete this {noun}"))?;
            }
            say::action(&format!("deleting {noun} {name} in {namespace} namespace"));
            session
                .client
                .delete(&kind.resource, at, &DeleteOptions::default())
                .await
                .map_err(told)?;
            say::success(&format!("{noun} deleted"));
            Ok(())
        })
        .await
    })
}
