//! `everflow version`.

use everflow_json::json;

use crate::exit::Failure;
use crate::output::{self, DataFormat};

/// Arguments of `everflow version`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print as data instead of text
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
}

/// The Flux release whose kinds and behaviour this build follows.
const FLUX_COMPATIBILITY: &str = "2.9";
/// The Kubernetes release whose kinds this build carries.
const KUBERNETES: &str = "1.36";

/// Prints the version.
pub fn run(args: &Args) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match args.output {
        None => output::print_text(&format!(
            "everflow v{version} (Flux {FLUX_COMPATIBILITY}, Kubernetes {KUBERNETES})\n"
        )),
        Some(format) => output::print_data(
            &json!({
                "everflow": format!("v{version}"),
                "flux": FLUX_COMPATIBILITY,
                "kubernetes": KUBERNETES,
            }),
            format,
        ),
    }
}
