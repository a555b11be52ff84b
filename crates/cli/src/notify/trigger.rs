//! `everflow trigger receiver`: calls a webhook as a service would.

use std::time::Duration;

use everflow_env::{Env, RealDisk};
use everflow_fetch::http::{Client, ClientOptions, Request};
use everflow_fetch::{Deadline, Url};
use everflow_notify::receiver::{signature_header, webhook_path};
use http::HeaderName;

use crate::exit::Failure;
use crate::flux::{duration, in_runtime, say};

/// `everflow trigger`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Call the webhook of a Receiver
    Receiver(ReceiverArgs),
}

/// `everflow trigger receiver`
#[derive(clap::Args, Debug)]
struct ReceiverArgs {
    /// The name of the Receiver
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The namespace of the Receiver
    #[arg(
        short,
        long,
        value_name = "NAME",
        env = "FLUX_SYSTEM_NAMESPACE",
        default_value = "flux-system"
    )]
    namespace: String,
    #[arg(
        long,
        help = "Where webhooks are taken, such as https://flux-webhook.example.com",
        value_name = "URL",
        default_value = ""
    )]
    url: String,
    /// The type of the Receiver: generic, generic-hmac or generic-oidc
    #[arg(long = "type", value_name = "TYPE", default_value = "generic")]
    kind: String,
    /// The token in the Secret of the Receiver
    #[arg(
        long,
        value_name = "TOKEN",
        default_value = "",
        hide_default_value = true
    )]
    token: String,
    /// The token of an OIDC issuer (generic-oidc)
    #[arg(
        long,
        value_name = "JWT",
        default_value = "",
        hide_default_value = true
    )]
    oidc_token: String,
    /// What to send
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
    /// How often to try again when the server is away
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    retries: u32,
    /// The pause between two tries
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    retry_delay: Duration,
    /// How long to wait for each answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

fn wrong(why: &str) -> Failure {
    Failure::Work(why.to_owned())
}

impl ReceiverArgs {
    fn request(&self) -> Result<Request, Failure> {
        let name = self
            .name
            .as_deref()
            .ok_or_else(|| wrong("receiver name is required"))?;
        if self.url.is_empty() {
            return Err(wrong("--url is required"));
        }
        let mut url = Url::parse(&self.url).map_err(|error| Failure::Work(error.to_string()))?;
        let needs_token = self.kind != "generic-oidc";
        if needs_token && self.token.is_empty() {
            return Err(wrong("--token is required"));
        }
        let token = if needs_token {
            self.token.as_bytes()
        } else {
            b""
        };
        let path = webhook_path(token, name, &self.namespace);
        url.path = format!("{}{path}", url.path.trim_end_matches('/'));
        let request = Request::post(&url, "application/json", self.payload.clone());
        match self.kind.as_str() {
            "generic" => Ok(request),
            "generic-hmac" => {
                let signature = signature_header(token, self.payload.as_bytes());
                Ok(request.with_header(HeaderName::from_static("x-signature"), &signature))
            }
            "generic-oidc" if self.oidc_token.is_empty() => Err(wrong("--oidc-token is required")),
            "generic-oidc" => {
                let bearer = format!("Bearer {}", self.oidc_token);
                Ok(request.with_header(http::header::AUTHORIZATION, &bearer))
            }
            _ => Err(wrong(
                "--type must be generic, generic-hmac or generic-oidc",
            )),
        }
    }

    async fn call(&self) -> Result<(), Failure> {
        let request = self.request()?;
        let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
        let client = Client::new(&env, ClientOptions::default());
        let client = client.map_err(|error| Failure::Work(error.to_string()))?;
        say::action(&format!("calling the webhook at {}", request.url.origin()));
        for tried in 0.. {
            let deadline = Deadline::after(&env.clock, self.timeout);
            let why = match client.send(request.clone(), &deadline).await {
                Ok(answer) if answer.status.is_success() => {
                    say::success("the webhook was taken");
                    return Ok(());
                }
                Ok(answer) if answer.status.is_client_error() && answer.status != 429 => {
                    return Err(Failure::Work(format!(
                        "the webhook was answered {}",
                        answer.status
                    )));
                }
                Ok(answer) => format!("the webhook was answered {}", answer.status),
                // The address is secret, and the error repeats it.
                Err(everflow_fetch::Error::Request { cause, .. }) => cause.to_string(),
                Err(error) => error.to_string(),
            };
            if tried >= self.retries {
                return Err(Failure::Work(why));
            }
            say::waiting(&format!("{why}; trying again"));
            env.clock.sleep(self.retry_delay).await;
        }
        Ok(())
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Verb::Receiver(args) = &args.verb;
    in_runtime(args.call())
}
