//! `everflow diff artifact`

use std::collections::BTreeMap;
use std::io::Read;

use everflow_fetch::archive::{
    Algorithm, Item, Links, artifact_limits, digest_reader, read_archive,
};
use everflow_fetch::oci::LARGEST_PUSH;
use everflow_limits::Budget;

use super::local::{self, ContentFlags};
use super::remote::{Address, Registry, RegistryFlags, failed};
use super::{pull, work};
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, say};
use crate::output::print_text;

/// How many files an artifact may have.
const MOST_FILES: u64 = 100_000;

/// `everflow diff artifact`
#[derive(clap::Args, Debug)]
pub struct DiffArgs {
    /// The artifact: oci://REGISTRY/REPOSITORY:TAG
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The directory or file to compare with
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true
    )]
    path: String,
    #[command(flatten)]
    content: ContentFlags,
    #[command(flatten)]
    registry: RegistryFlags,
}

/// Runs the verb.
pub fn diff(args: &DiffArgs, connection: &Connection) -> Result<(), Failure> {
    let Some(url) = &args.url else {
        return Err(work("artifact URL is required"));
    };
    if args.path.is_empty() {
        return Err(work("invalid path \"\""));
    }
    let address = Address::parse(url)?;
    local::existing(&args.path)?;
    in_runtime(async {
        let registry = Registry::open(&address, &args.registry, connection.timeout)?;
        let (pulled, _) = pull::fetch(&registry, &address.target).await?;
        let there = files(registry.env.disk.open(&pulled.path())?)?;
        let packed = local::pack(&args.path, &args.content, false)?;
        let here = files(&packed[..])?;
        let changes = changes(&there, &here);
        if changes.is_empty() {
            say::success("no changes detected");
            return Ok(());
        }
        print_text(&changes)?;
        Err(work(
            "the remote artifact contents differs from the local one",
        ))
    })
}

/// The files of an archive with the digests of their content.
fn files(packed: impl Read) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    let limits = artifact_limits(LARGEST_PUSH, MOST_FILES);
    let budget = Budget::unlimited();
    read_archive(packed, limits, Links::Skip, &budget, &mut |path, item| {
        if let Item::File { content, .. } = item {
            let digest = digest_reader(Algorithm::Sha256, content)
                .map_err(|error| everflow_fetch::Error::disk("read", path, error))?;
            found.insert(path.to_owned(), digest.to_string());
        }
        Ok(())
    })
    .map_err(failed)?;
    Ok(found)
}

/// One line for each file that is another: only here, only there, or with other content.
fn changes(there: &BTreeMap<String, String>, here: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (path, digest) in here {
        match there.get(path) {
            None => text.push_str(&format!("+ {path}\n")),
            Some(other) if other != digest => text.push_str(&format!("± {path}\n")),
            Some(_) => {}
        }
    }
    for path in there.keys().filter(|path| !here.contains_key(*path)) {
        text.push_str(&format!("- {path}\n"));
    }
    text
}
