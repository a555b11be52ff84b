//! `everflow create alert`, `alert-provider` and `receiver`

use everflow_json::{Value, json};

use super::{Creation, Spec, named, work};
use crate::exit::Failure;
use crate::flux::go_flags::{Reference, receiver_type};
use crate::flux::kinds;

/// `everflow create alert`
#[derive(clap::Args, Debug)]
pub struct AlertArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The Provider that messages go to
    #[arg(long, value_name = "NAME", default_value = "")]
    provider_ref: String,
    /// The severity of events: info or error
    #[arg(long, value_name = "SEVERITY", default_value = "")]
    event_severity: String,
    /// The objects to watch: KIND/NAME[.NAMESPACE]; * for all
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    event_source: Vec<String>,
}

pub fn alert(args: &AlertArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.provider_ref.is_empty() {
        return Err(work("provider ref is required"));
    }
    let sources = references(&args.event_source, Reference::parse)?;
    if sources.is_empty() {
        return Err(work("at least one event source is required"));
    }
    let spec = Spec::default()
        .local("providerRef", &args.provider_ref)
        .text("eventSeverity", &args.event_severity)
        .value("eventSources", sources);
    let kind = kinds::required("Alert")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

fn references(words: &[String], parse: fn(&str) -> Reference) -> Result<Vec<Value>, Failure> {
    let entry = |word: &String| {
        let reference = parse(word);
        match reference.kind.is_empty() {
            true => Err(work(format!(
                "invalid event source '{word}', must be in format <kind>/<name>"
            ))),
            false => Ok(Value::Object(reference.spec().0)),
        }
    };
    words.iter().map(entry).collect()
}

/// `everflow create alert-provider`
#[derive(clap::Args, Debug)]
pub struct ProviderArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The type: slack, msteams, generic, …
    #[arg(long = "type", value_name = "TYPE", default_value = "")]
    kind: String,
    /// The channel that messages go to
    #[arg(long, value_name = "NAME", default_value = "")]
    channel: String,
    /// The name under which messages are sent
    #[arg(long, value_name = "NAME", default_value = "")]
    username: String,
    /// The address that messages go to
    #[arg(long, value_name = "URL", default_value = "")]
    address: String,
    /// The Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
}

pub fn provider(args: &ProviderArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.kind.is_empty() {
        return Err(work("Provider type is required"));
    }
    let spec = Spec::default()
        .text("type", &args.kind)
        .text("channel", &args.channel)
        .text("username", &args.username)
        .text("address", &args.address)
        .local("secretRef", &args.secret_ref);
    let kind = kinds::required("Provider")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

/// `everflow create receiver`
#[derive(clap::Args, Debug)]
pub struct ReceiverArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The type: generic, generic-hmac, github, gitlab, …
    #[arg(long = "type", value_name = "TYPE", value_parser = receiver_type)]
    kind: Option<String>,
    /// The Secret with the token
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// The events to accept, by the sender's names
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    event: Vec<String>,
    /// What is reconciled: KIND/NAME
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    resource: Vec<String>,
}

pub fn receiver(args: &ReceiverArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let Some(receiver_type) = &args.kind else {
        return Err(work("Receiver type is required"));
    };
    if args.secret_ref.is_empty() {
        return Err(work("secret ref is required"));
    }
    let resources = references(&args.resource, Reference::without_namespace)?;
    if resources.is_empty() {
        return Err(work("atleast one resource is required"));
    }
    let spec = Spec::default()
        .text("type", receiver_type)
        .list("events", &args.event)
        .value("resources", resources)
        .value("secretRef", json!({"name": args.secret_ref}));
    let kind = kinds::required("Receiver")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}
