//! `everflow pull artifact`

use std::fs;
use std::path::Path;

use everflow_fetch::archive::{Item, Links, artifact_limits, copy_content, read_archive};
use everflow_fetch::oci::{LARGEST_PUSH, LayerOperation, OciRef, PullOptions, Pulled, Target};
use everflow_limits::Budget;

use super::remote::{Address, Registry, RegistryFlags, failed};
use super::work;
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, say};

/// How many files an artifact may have.
const MOST_FILES: u64 = 100_000;

/// `everflow pull artifact`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The artifact: oci://REGISTRY/REPOSITORY:TAG
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The directory to unpack to, which must exist
    #[arg(
        short,
        long,
        value_name = "DIR",
        default_value = "",
        hide_default_value = true
    )]
    output: String,
    #[command(flatten)]
    registry: RegistryFlags,
}

pub fn run(args: &Args, connection: &Connection) -> Result<(), Failure> {
    let Some(url) = &args.url else {
        return Err(work("artifact URL is required"));
    };
    if args.output.is_empty() {
        return Err(work("output path cannot be empty"));
    }
    if !Path::new(&args.output).is_dir() {
        return Err(work(format!(
            "invalid output path {:?}: it is no directory",
            args.output
        )));
    }
    let address = Address::parse(url)?;
    in_runtime(async {
        let registry = Registry::open(&address, &args.registry, connection.timeout)?;
        say::action(&format!("pulling artifact from {}", address.shown));
        let (pulled, digest) = fetch(&registry, &address.target).await?;
        unpack(&registry, &pulled, Path::new(&args.output))?;
        for (what, key) in [
            ("source", "org.opencontainers.image.source"),
            ("revision", "org.opencontainers.image.revision"),
        ] {
            if let Some(value) = pulled.metadata.get(key) {
                say::success(&format!("{what} {value}"));
            }
        }
        say::success(&format!("digest {}@{digest}", address.name()));
        say::success(&format!("artifact content extracted to {}", args.output));
        Ok(())
    })
}

/// The first layer of an artifact as it is, and the digest of the artifact.
pub async fn fetch(registry: &Registry, target: &Target) -> Result<(Pulled, String), Failure> {
    let mut wanted = OciRef::default();
    match target {
        Target::Tag(tag) => wanted.tag.clone_from(tag),
        Target::Digest(digest) => wanted.digest.clone_from(digest),
    }
    let Registry {
        client, deadline, ..
    } = registry;
    let resolution = client
        .resolve(&wanted, "", deadline)
        .await
        .map_err(failed)?;
    let options = PullOptions {
        operation: LayerOperation::Copy,
        ..PullOptions::default()
    };
    let pulled = client
        .pull(&resolution, &options, deadline)
        .await
        .map_err(failed)?;
    Ok((pulled, resolution.digest.to_string()))
}

/// Writes the files of an artifact below a directory; none of them can be elsewhere.
fn unpack(registry: &Registry, pulled: &Pulled, directory: &Path) -> Result<(), Failure> {
    let packed = registry.env.disk.open(&pulled.path())?;
    let limits = artifact_limits(LARGEST_PUSH, MOST_FILES);
    let budget = Budget::unlimited();
    let disk = |path: &Path, error: std::io::Error| {
        everflow_fetch::Error::disk("write", &path.display().to_string(), error)
    };
    read_archive(packed, limits, Links::Skip, &budget, &mut |path, item| {
        let place = directory.join(path);
        match item {
            Item::Directory => fs::create_dir_all(&place).map_err(|error| disk(&place, error)),
            Item::File { content, .. } => {
                if let Some(parent) = place.parent() {
                    fs::create_dir_all(parent).map_err(|error| disk(parent, error))?;
                }
                let mut file = fs::File::create(&place).map_err(|error| disk(&place, error))?;
                copy_content(content, &mut file, path).map(drop)
            }
        }
    })
    .map_err(failed)
}
