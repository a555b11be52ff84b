//! `everflow push artifact`

use std::collections::BTreeMap;

use everflow_fetch::oci::{NewArtifact, Target};
use everflow_json::json;
use everflow_time::Timestamp;

use super::local::{self, ContentFlags, LinkFlags};
use super::remote::{Address, Registry, RegistryFlags};
use super::work;
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, say};
use crate::output::{DataFormat, print_data};

const CREATED: &str = "org.opencontainers.image.created";
const SOURCE: &str = "org.opencontainers.image.source";
const REVISION: &str = "org.opencontainers.image.revision";

/// `everflow push artifact`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to: oci://REGISTRY/REPOSITORY:TAG
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The directory or file; - for standard input
    #[arg(
        short = 'f',
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true
    )]
    path: String,
    /// Where the content comes from: an address
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    source: String,
    /// The revision of the content: BRANCH@sha1:COMMIT or TAG
    #[arg(
        long,
        value_name = "REVISION",
        default_value = "",
        hide_default_value = true
    )]
    revision: String,
    /// Annotations of the artifact
    #[arg(short, long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,
    /// Print what was pushed: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DataFormat>,
    /// Give the same content the same digest, by setting its creation time to 1970
    #[arg(long)]
    reproducible: bool,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    debug: bool,
    #[command(flatten)]
    content: ContentFlags,
    #[command(flatten)]
    links: LinkFlags,
    #[command(flatten)]
    registry: RegistryFlags,
}

pub fn run(args: &Args, connection: &Connection) -> Result<(), Failure> {
    let Some(url) = &args.url else {
        return Err(work("artifact URL is required"));
    };
    if args.source.is_empty() {
        return Err(work("--source is required"));
    }
    if args.revision.is_empty() {
        return Err(work("--revision is required"));
    }
    if args.path.is_empty() {
        return Err(work("invalid path \"\""));
    }
    let address = Address::parse(url)?;
    local::existing(&args.path)?;
    let Target::Tag(tag) = &address.target else {
        return Err(work(format!(
            "artifact tag parsing failed: {} names a digest: a push needs a tag",
            address.shown
        )));
    };
    let mut annotations = annotations(&args.annotations)?;
    in_runtime(async {
        let registry = Registry::open(&address, &args.registry, connection.timeout)?;
        let created = match args.reproducible {
            true => Timestamp::default(),
            false => registry.env.clock.now(),
        };
        let created = created.rfc3339();
        for (key, value) in [
            (CREATED, &created),
            (SOURCE, &args.source),
            (REVISION, &args.revision),
        ] {
            annotations.insert(key.to_owned(), value.clone());
        }
        if args.output.is_none() {
            say::action(&format!("pushing artifact to {}", address.shown));
        }
        let packed = local::pack(&args.path, &args.content, args.links.resolve_symlinks)?;
        let failed = |error| work(format!("pushing artifact failed: {error}"));
        let artifact = NewArtifact::new(packed.into(), created, annotations).map_err(failed)?;
        let digest = registry
            .client
            .push(tag, &artifact, &registry.deadline)
            .await
            .map_err(failed)?;
        let whole = format!("{}@{digest}", address.name());
        match args.output {
            None => {
                say::success(&format!("artifact successfully pushed to {whole}"));
                Ok(())
            }
            Some(format) => print_data(
                &json!({
                    "url": format!("oci://{whole}"),
                    "repository": address.name(),
                    "tag": tag,
                    "digest": digest.to_string(),
                }),
                format,
            ),
        }
    })
}

fn annotations(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| match text.split('=').collect::<Vec<_>>()[..] {
        [key, value] => Ok((key.to_owned(), value.to_owned())),
        _ => Err(work(format!(
            "invalid annotation {text}, must be in the format key=value"
        ))),
    };
    given.iter().map(pair).collect()
}
