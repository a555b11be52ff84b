//! `everflow tag artifact`

use super::remote::{Address, Registry, RegistryFlags};
use super::work;
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, say};

/// `everflow tag artifact`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The artifact: oci://REGISTRY/REPOSITORY:TAG
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The tags to give to it
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tag: Vec<String>,
    #[command(flatten)]
    registry: RegistryFlags,
}

pub fn run(args: &Args, connection: &Connection) -> Result<(), Failure> {
    let Some(url) = &args.url else {
        return Err(work("artifact name is required"));
    };
    if args.tag.is_empty() {
        return Err(work("--tag is required"));
    }
    let address = Address::parse(url)?;
    in_runtime(async {
        let registry = Registry::open(&address, &args.registry, connection.timeout)?;
        say::action("tagging artifact");
        for tag in &args.tag {
            registry
                .client
                .tag(&address.target, tag, &registry.deadline)
                .await
                .map_err(|error| work(format!("tagging artifact failed: {error}")))?;
            say::success(&format!("artifact tagged as {}:{tag}", address.name()));
        }
        Ok(())
    })
}
