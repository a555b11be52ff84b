//! `everflow release`: a cluster that was adopted given back to Flux.

use super::adopt::{installation, restore, resume_operator, start_controllers, stop_engine};
use super::bootstrap::until_deployed;
use super::connection::Connection;
use super::{in_runtime, say};
use crate::exit::Failure;

/// `everflow release`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.connection.open()?;
        say::action("looking for Flux");
        let installs = installation(&session).await?;
        let mut controllers = installs.iter().flat_map(|install| &install.controllers);
        if !controllers.any(|one| one.noted.is_some()) {
            return Err(Failure::Work(
                "no controller of Flux was stopped by everflow adopt: there is nothing to give back to".to_owned(),
            ));
        }
        say::action("stopping everflow");
        for name in stop_engine(&session).await? {
            say::success(&format!("{name} is stopped"));
        }
        for name in restore(&session).await? {
            say::success(&format!("{name} is as it was"));
        }
        say::action("starting Flux's controllers");
        let mut started = Vec::new();
        for install in &installs {
            started.extend(start_controllers(&session, install).await?);
        }
        until_deployed(&session, &started, args.connection.timeout).await?;
        for name in resume_operator(&session).await? {
            say::success(&format!("FluxInstance {name} is reconciled again"));
        }
        say::success("the cluster is Flux's again");
        Ok(())
    })
}
