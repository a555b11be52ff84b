//! `everflow list artifacts`

use everflow_fetch::oci::Target;
use everflow_semver::{Constraint, Version};
use regex::Regex;

use super::remote::{Address, Registry, RegistryFlags, failed};
use super::work;
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, table};
use crate::output::print_text;

/// `everflow list artifacts`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The repository: oci://REGISTRY/REPOSITORY
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Only tags that are versions of this range
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "",
        hide_default_value = true
    )]
    filter_semver: String,
    /// Only tags that match
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true
    )]
    filter_regex: String,
    #[command(flatten)]
    registry: RegistryFlags,
}

pub fn run(args: &Args, connection: &Connection) -> Result<(), Failure> {
    let Some(url) = &args.url else {
        return Err(work("artifact repository URL is required"));
    };
    let address = Address::parse(url)?;
    in_runtime(async {
        let registry = Registry::open(&address, &args.registry, connection.timeout)?;
        let tags = registry
            .client
            .tags(&registry.deadline)
            .await
            .map_err(failed)?;
        let mut rows = Vec::new();
        for tag in chosen(args, tags)? {
            let target = Target::Tag(tag.clone());
            let manifest = registry.client.manifest(&target, &registry.deadline);
            let manifest = manifest.await.map_err(failed)?;
            let said = |key: &str| manifest.annotations.get(key).cloned().unwrap_or_default();
            rows.push(vec![
                format!("{}:{tag}", address.name()),
                manifest.digest.to_string(),
                said("org.opencontainers.image.source"),
                said("org.opencontainers.image.revision"),
            ]);
        }
        let header = ["ARTIFACT", "DIGEST", "SOURCE", "REVISION"];
        print_text(&table::render(Some(&header), &rows))
    })
}

fn chosen(args: &Args, tags: Vec<String>) -> Result<Vec<String>, Failure> {
    // Signatures have tags of their own, which are no artifacts.
    let is_signature = |tag: &str| tag.starts_with("sha256-") && tag.ends_with(".sig");
    let mut tags: Vec<String> = tags.into_iter().filter(|tag| !is_signature(tag)).collect();
    tags.sort_unstable();
    if !args.filter_regex.is_empty() {
        let pattern = Regex::new(&args.filter_regex)
            .map_err(|error| work(format!("--filter-regex: {error}")))?;
        tags.retain(|tag| pattern.is_match(tag));
    }
    if args.filter_semver.is_empty() {
        return Ok(tags);
    }
    let range = Constraint::parse(&args.filter_semver)
        .map_err(|error| work(format!("--filter-semver: {error}")))?;
    let mut versions: Vec<Version> = tags
        .iter()
        .filter_map(|tag| Version::parse(tag).ok())
        .filter(|version| range.check(version))
        .collect();
    versions.sort_by(|one, two| two.cmp_precedence(one));
    Ok(versions
        .iter()
        .map(|version| version.original().to_owned())
        .collect())
}
