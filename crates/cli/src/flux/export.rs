//! `everflow export`

use everflow_api::helm::HelmRelease;
use everflow_api::kustomization::Kustomization;
use everflow_api::notification::{Alert, Provider, Receiver};
use everflow_api::source::{
    Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OCIRepository,
};
use everflow_api::wire::Wire as _;
use everflow_api::{Object, object};
use everflow_json::{Map, Value, json};
use everflow_runtime::client::{At, Resource, Selection};

use super::connection::{Connection, Session};
use super::kinds::{self, Kind};
use super::{each, in_runtime};
use crate::exit::Failure;
use crate::output::print_text;

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// What kubectl leaves behind and nobody wants in a file.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `everflow export`
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (source git, kustomization, …), and the names of objects
    #[arg(value_name = "KIND [NAME]...")]
    words: Vec<String>,
    /// All of the namespace
    #[arg(long)]
    all: bool,
    /// Include the Secrets that sources reference
    #[arg(long)]
    with_credentials: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, names) = kinds::choose_one("export", &args.words)?;
    if names.is_empty() && !args.all {
        return Err(Failure::Work("name is required".to_owned()));
    }
    in_runtime(async {
        let session = args.connection.open()?;
        let export = Export {
            session: &session,
            args,
            kind,
        };
        match args.all {
            true => export.all().await,
            false => each(names, |name| export.one(name)).await,
        }
    })
}

struct Export<'a> {
    session: &'a Session,
    args: &'a Args,
    kind: &'static Kind,
}

impl Export<'_> {
    async fn all(&self) -> Result<(), Failure> {
        let namespace = &self.args.connection.namespace;
        let list = self
            .session
            .client
            .list_all(&self.kind.resource, Some(namespace), &Selection::default())
            .await
            .map_err(|error| Failure::Work(self.session.told(self.kind, &error)))?;
        let mut items = list.items;
        if items.is_empty() {
            return Err(Failure::Work(format!(
                "no objects found in {namespace} namespace"
            )));
        }
        items.sort_by_cached_key(|object| At::of(object).name.to_owned());
        for object in &items {
            self.print(object).await?;
        }
        Ok(())
    }

    async fn one(&self, name: &str) -> Result<(), Failure> {
        let at = At::new(&self.args.connection.namespace, name);
        let object = self
            .session
            .client
            .get(&self.kind.resource, at)
            .await
            .map_err(|error| Failure::Work(self.session.told(self.kind, &error)))?;
        self.print(&object).await
    }

    async fn print(&self, object: &Value) -> Result<(), Failure> {
        print_document(&exported(self.kind, object))?;
        let secret = &object["spec"]["secretRef"]["name"];
        match secret.as_str() {
            Some(name) if self.args.with_credentials && self.kind.is_source() => {
                self.print_secret(At::of(object).namespace, name).await
            }
            _ => Ok(()),
        }
    }

    async fn print_secret(&self, namespace: &str, name: &str) -> Result<(), Failure> {
        let client = &self.session.client;
        let secret = client.get(&SECRETS, At::new(namespace, name)).await;
        let secret = secret.map_err(|error| {
            Failure::Work(format!("failed to retrieve secret {name}, error: {error}"))
        })?;
        let mut exported = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
        });
        for field in ["data", "type"] {
            if let Some(value) = secret.get(field) {
                exported[field] = value.clone();
            }
        }
        print_document(&exported)
    }
}

fn print_document(object: &Value) -> Result<(), Failure> {
    print_text(&format!("---\n{}", everflow_yaml::emit::sigs(object)))
}

/// An object as somebody would have written it: no status, and nothing that the server added.
fn exported(kind: &Kind, object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations"] {
        let mut value = object["metadata"][field].clone();
        if let Some(map) = value.as_object_mut() {
            map.remove(LAST_APPLIED);
        }
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            metadata.insert(field.into(), value);
        }
    }
    json!({
        "apiVersion": kind.resource.api_version(),
        "kind": kind.name(),
        "metadata": metadata,
        "spec": spec(kind, object),
    })
}

/// What is asked for in flux's spelling: `10m` is `10m0s`, and what is the default anyway is left out.
fn spec(kind: &Kind, object: &Value) -> Value {
    fn typed<K: object::Kind>(object: &Value) -> Option<Value> {
        Object::<K>::read_spec(object).ok()?.write(false)
    }
    let spelled = match kind.name() {
        "GitRepository" => typed::<GitRepository>(object),
        "OCIRepository" => typed::<OCIRepository>(object),
        "HelmRepository" => typed::<HelmRepository>(object),
        "HelmChart" => typed::<HelmChart>(object),
        "Bucket" => typed::<Bucket>(object),
        "ExternalArtifact" => typed::<ExternalArtifact>(object),
        "Kustomization" => typed::<Kustomization>(object),
        "HelmRelease" => typed::<HelmRelease>(object),
        "Alert" => typed::<Alert>(object),
        "Provider" => typed::<Provider>(object),
        "Receiver" => typed::<Receiver>(object),
        _ => None,
    };
    spelled.unwrap_or_else(|| object["spec"].clone())
}
