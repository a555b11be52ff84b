//! `everflow notify test`

use everflow_dispatch::resources::PROVIDERS;
use everflow_dispatch::try_provider;
use everflow_env::{Env, RealDisk};
use everflow_notify::Event;
use everflow_notify::event::{ERROR, INFO, ObjectReference};
use everflow_runtime::client::At;

use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::{in_runtime, say};

/// `everflow notify test`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name of the Provider
    #[arg(value_name = "PROVIDER")]
    name: String,
    /// What to say
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "This is a test of everflow."
    )]
    message: String,
    /// Send it as an error
    #[arg(long)]
    error: bool,
    /// The commit whose status is set, where the service keeps statuses
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,
    /// The number of the pull or merge request to comment on, where the service comments
    #[arg(long, value_name = "NUMBER")]
    change_request: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    fn event(&self, env: &Env) -> Event {
        let mut event = Event {
            involved: ObjectReference {
                kind: "Kustomization".to_owned(),
                namespace: self.connection.namespace.clone(),
                name: "everflow-notify-test".to_owned(),
                api_version: "kustomize.toolkit.fluxcd.io/v1".to_owned(),
                ..ObjectReference::default()
            },
            severity: if self.error { ERROR } else { INFO }.to_owned(),
            timestamp: Some(env.clock.now().truncated()),
            message: self.message.clone(),
            reason: "Test".to_owned(),
            reporting_controller: "kustomize-controller".to_owned(),
            ..Event::default()
        };
        let mut set = |key: &str, value: String| {
            let key = format!("event.toolkit.fluxcd.io/{key}");
            event.metadata.insert(key, value);
        };
        if let Some(commit) = &self.commit {
            set("commit", format!("sha1:{commit}"));
        }
        if let Some(number) = &self.change_request {
            set("change_request", number.clone());
        }
        event
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.connection.open()?;
        let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
        let (namespace, name) = (&args.connection.namespace, &args.name);
        let found = session
            .client
            .get(&PROVIDERS, At::new(namespace, name))
            .await;
        let provider = found.map_err(|error| Failure::Work(error.to_string()))?;
        let kind = provider["spec"]["type"].as_str().unwrap_or_default();
        say::action(&format!(
            "sending a message to {kind} by Provider {namespace}/{name}"
        ));
        let trial = try_provider(&env, &session.client, &provider, &args.event(&env)).await;
        for request in &trial.requests {
            say::waiting(request);
        }
        match trial.result {
            Ok(what) => {
                say::success(what);
                Ok(())
            }
            Err(why) => Err(Failure::Work(why)),
        }
    })
}
