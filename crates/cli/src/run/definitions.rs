//! The definitions of Flux's kinds: printed, and missed where a cluster does not have them.

use everflow_api::crd::{KINDS, definition};
use everflow_controllers::ControllerKind;
use everflow_controllers::resources::EXTERNAL_ARTIFACTS;
use everflow_dispatch::resources::{ALERTS, PROVIDERS};
use everflow_runtime::Error;
use everflow_runtime::client::{Client, Resource};
use everflow_runtime::log::Logger;

use crate::exit::Failure;
use crate::output::print_text;

/// `everflow crds`
#[derive(clap::Args, Debug)]
pub struct CrdsArgs {
    /// Only these kinds, separated by commas; all of Flux's by default
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub only: Vec<String>,
}

/// Prints the definitions as YAML, for `kubectl apply --server-side -f -`.
pub fn print(args: &CrdsArgs) -> Result<(), Failure> {
    let wanted = |kind: &str, plural: &str| {
        args.only.is_empty()
            || args.only.iter().any(|name| {
                name.trim().eq_ignore_ascii_case(kind) || name.trim().eq_ignore_ascii_case(plural)
            })
    };
    for name in &args.only {
        let known = |info: &everflow_api::describe::KindInfo| {
            name.trim().eq_ignore_ascii_case(info.kind)
                || name.trim().eq_ignore_ascii_case(info.plural)
        };
        if !KINDS.iter().any(|info| known(info)) {
            let all: Vec<&str> = KINDS.iter().map(|info| info.kind).collect();
            let known = all.join(", ");
            return Err(Failure::Usage(format!(
                "--only: Flux has no kind '{name}'; it has {known}"
            )));
        }
    }
    let mut text = String::new();
    for info in KINDS.iter().filter(|info| wanted(info.kind, info.plural)) {
        text.push_str("---\n");
        text.push_str(&everflow_yaml::emit::sigs(&definition(info)));
    }
    print_text(&text)
}

/// Says which kinds the cluster does not know. The controllers wait for them.
pub(super) async fn look(client: Client, kinds: Vec<ControllerKind>, log: Logger) {
    let mut missing = Vec::new();
    let mut needed: Vec<Resource> = kinds.iter().map(|kind| kind.resource()).collect();
    if kinds.contains(&ControllerKind::Kustomization) {
        needed.push(EXTERNAL_ARTIFACTS);
    }
    if kinds.contains(&ControllerKind::Receiver) {
        needed.extend([ALERTS, PROVIDERS]);
    }
    for resource in needed {
        let version = resource.api_version();
        match client.resource(&version, &resource.kind).await {
            Ok(_) => {}
            Err(Error::NoKind { .. }) => missing.push(format!("{} ({version})", resource.kind)),
            // The watches tell of a server that does not answer.
            Err(_) => return,
        }
    }
    if !missing.is_empty() {
        let what = format!("the cluster does not have the kinds {}", missing.join(", "));
        let remedy = "install them with: everflow crds | kubectl apply --server-side -f -; \
                      until then the controllers wait for them";
        log.error(&what, remedy);
    }
}
