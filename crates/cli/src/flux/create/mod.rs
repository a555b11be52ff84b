//! `everflow create`

mod delivery;
mod helmrelease;
mod image;
mod kustomization;
mod notification;
mod secret;
mod source;
mod tenant;

use clap::Subcommand;
use everflow_json::{Map, Value, json};
use everflow_time::Duration;

use super::connection::Connection;
use super::go_flags::{Reference, go_duration};
use super::in_runtime;
use super::kinds::Kind;
use crate::exit::Failure;
use crate::output::print_text;
use secret::Credentials;

/// `everflow create`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    connection: Connection,
}

/// What all of them take.
#[derive(clap::Args, Debug, Clone)]
struct Common {
    /// Print the object instead of creating it
    #[arg(long, global = true)]
    export: bool,
    /// How often the object is reconciled
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m0s", value_parser = go_duration)]
    interval: Duration,
    /// Labels of the object
    #[arg(long, global = true, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<String>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create or update an Alert
    Alert(notification::AlertArgs),
    /// Create or update a Provider
    AlertProvider(notification::ProviderArgs),
    /// Create or update a HelmRelease
    #[command(visible_alias = "hr")]
    Helmrelease(helmrelease::Args),
    /// Create or update objects of image automation
    Image(image::Args),
    /// Create or update a Kustomization
    #[command(visible_alias = "ks")]
    Kustomization(kustomization::Args),
    /// Create or update a Receiver
    Receiver(notification::ReceiverArgs),
    /// Create or update Secrets
    Secret(secret::Args),
    /// Create or update sources
    Source(source::Args),
    /// Create or update the namespaces of a tenant, with a service account that deploys to them
    Tenant(tenant::Args),
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let creation = Creation {
        common: &args.common,
        connection: &args.connection,
    };
    match &args.what {
        None => Err(Failure::help("create")),
        Some(What::Alert(args)) => notification::alert(args, &creation),
        Some(What::AlertProvider(args)) => notification::provider(args, &creation),
        Some(What::Helmrelease(args)) => helmrelease::run(args, &creation),
        Some(What::Image(args)) => image::run(args, &creation),
        Some(What::Kustomization(args)) => kustomization::run(args, &creation),
        Some(What::Receiver(args)) => notification::receiver(args, &creation),
        Some(What::Secret(args)) => secret::run(args, &creation),
        Some(What::Source(args)) => source::run(args, &creation),
        Some(What::Tenant(args)) => tenant::run(args, &creation),
    }
}

/// What the command line says of whatever is created.
struct Creation<'a> {
    common: &'a Common,
    connection: &'a Connection,
}

impl Creation<'_> {
    fn namespace(&self) -> &str {
        &self.connection.namespace
    }

    fn interval(&self) -> String {
        self.common.interval.to_string()
    }

    /// An object with the metadata that was asked for.
    fn object(&self, kind: &Kind, name: &str, spec: Map) -> Result<Value, Failure> {
        let mut metadata = Map::new();
        metadata.insert("name".into(), json!(name));
        metadata.insert("namespace".into(), json!(self.namespace()));
        let labels = self.labels()?;
        if !labels.is_empty() {
            metadata.insert("labels".into(), Value::Object(labels));
        }
        Ok(json!({
            "apiVersion": kind.resource.api_version(),
            "kind": kind.name(),
            "metadata": metadata,
            "spec": spec,
        }))
    }

    fn labels(&self) -> Result<Map, Failure> {
        let mut labels = Map::new();
        for label in &self.common.label {
            let parts: Vec<&str> = label.split('=').collect();
            let [key, value] = parts[..] else {
                return Err(work(format!(
                    "invalid label format '{label}', must be key=value"
                )));
            };
            labels.insert(key.into(), json!(value));
        }
        Ok(labels)
    }

    /// Prints the object, or brings it to the cluster and waits for it.
    fn finish(&self, kind: &Kind, object: &Value) -> Result<(), Failure> {
        self.finish_with(kind, object, || Ok(Credentials::default()))
    }

    /// As [`Creation::finish`], with credentials that the object needs in the cluster.
    fn finish_with(
        &self,
        kind: &Kind,
        object: &Value,
        credentials: impl FnOnce() -> Result<Credentials, Failure>,
    ) -> Result<(), Failure> {
        match self.common.export {
            true => print_export(object),
            false => {
                let credentials = credentials()?;
                in_runtime(delivery::deliver(self, kind, object, credentials))
            }
        }
    }
}

fn work(text: impl Into<String>) -> Failure {
    Failure::Work(text.into())
}

/// The name of what is created: a label of DNS of more than one character.
fn named(name: &Option<String>) -> Result<&str, Failure> {
    let name = name.as_deref().ok_or_else(|| work("name is required"))?;
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (2..=63).contains(&name.len())
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    match is_valid {
        true => Ok(name),
        false => Err(work(format!(
            "name '{name}' is invalid, it should adhere to standard defined in RFC 1123, the name \
             can only contain alphanumeric characters or '-'"
        ))),
    }
}

fn print_export(object: &Value) -> Result<(), Failure> {
    print_text(&format!("---\n{}", everflow_yaml::emit::sigs(object)))
}

/// A spec in the making: what is empty is left out.
#[derive(Default)]
struct Spec(Map);

impl Spec {
    fn value(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.insert(field.into(), value.into());
        self
    }

    fn text(self, field: &str, text: &str) -> Self {
        match text.is_empty() {
            true => self,
            false => self.value(field, text),
        }
    }

    fn flag(self, field: &str, flag: bool) -> Self {
        match flag {
            true => self.value(field, true),
            false => self,
        }
    }

    fn duration(self, field: &str, duration: Duration) -> Self {
        match duration.0 > 0 {
            true => self.value(field, duration.to_string()),
            false => self,
        }
    }

    fn list(self, field: &str, list: &[String]) -> Self {
        match list.is_empty() {
            true => self,
            false => {
                let items = list.iter().map(|item| json!(item)).collect::<Vec<_>>();
                self.value(field, Value::Array(items))
            }
        }
    }

    /// A reference to an object of the same namespace, by its name.
    fn local(self, field: &str, name: &str) -> Self {
        match name.is_empty() {
            true => self,
            false => self.value(field, json!({"name": name})),
        }
    }

    fn object(self, field: &str, inner: Spec) -> Self {
        match inner.0.is_empty() {
            true => self,
            false => self.value(field, Value::Object(inner.0)),
        }
    }

    fn ignore(self, paths: &[String]) -> Self {
        self.text("ignore", &paths.join("\n"))
    }
}

impl Reference {
    fn spec(&self) -> Spec {
        Spec::default()
            .text("kind", &self.kind)
            .value("name", self.name.as_str())
            .text("namespace", &self.namespace)
    }
}

/// `dependsOn`, from `namespace/name` and `name`.
fn depends_on(words: &[String]) -> Vec<Value> {
    let entry = |word: &String| {
        let spec = match word.split_once('/') {
            Some((namespace, name)) => Spec::default()
                .text("namespace", namespace)
                .value("name", name),
            None => Spec::default().value("name", word.as_str()),
        };
        Value::Object(spec.0)
    };
    words.iter().map(entry).collect()
}

/// The scheme of a URL, as Go's parser finds it.
fn scheme(url: &str) -> Result<&str, String> {
    let end = url.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    match end {
        Some(0) if url.starts_with(':') => Err(format!("parse {url:?}: missing protocol scheme")),
        Some(end) if url[end..].starts_with(':') => Ok(&url[..end]),
        _ => Ok(""),
    }
}

/// What stands between the scheme and the path of a URL, without a user.
fn host(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or(("", ""));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// The content of a file; the text says what it is for.
fn read_file(path: &str, what: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        let reason = crate::helm::go_reason(&error);
        work(format!("{what}: open {path}: {reason}"))
    })?;
    String::from_utf8(bytes).map_err(|_| work(format!("{what}: {path} is not text")))
}
