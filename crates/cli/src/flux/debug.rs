//! `everflow debug`: what the controllers work with, as data.

use std::collections::BTreeMap;

use clap::Subcommand;
use everflow_api::common::ConfigKind;
use everflow_api::helm::HelmRelease;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_json::{Value, json};
use everflow_limits::Budget;
use everflow_release::values::{compose, referenced};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource};
use everflow_yaml::emit;

use super::connection::{Connection, Session};
use super::{in_runtime, kinds};
use crate::exit::Failure;
use crate::output::print_text;

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// Where the documentation of statuses is, as flux prints it.
const DOCUMENTATION: &str = "https://fluxcd.io/flux/components";

/// `everflow debug`
#[derive(clap::Args, Debug)]
#[command(arg_required_else_help = false)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

/// What to look into.
#[derive(Subcommand, Debug)]
enum What {
    /// Print the final values, the status or the history of a HelmRelease; values include those from Secrets
    #[command(visible_alias = "hr")]
    Helmrelease(ReleaseArgs),
    /// Print the final variables, the status or the history of a Kustomization; variables include those from Secrets
    #[command(visible_alias = "ks")]
    Kustomization(KustomizationArgs),
}

/// `everflow debug helmrelease`
#[derive(clap::Args, Debug)]
struct ReleaseArgs {
    /// The name of the HelmRelease
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The values that the chart is rendered with
    #[arg(long)]
    show_values: bool,
    #[command(flatten)]
    common: Common,
}

/// `everflow debug kustomization`
#[derive(clap::Args, Debug)]
struct KustomizationArgs {
    /// The name of the Kustomization
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The variables that are put in after the build
    #[arg(long)]
    show_vars: bool,
    #[command(flatten)]
    common: Common,
}

/// What both kinds have.
#[derive(clap::Args, Debug)]
struct Common {
    /// The status
    #[arg(long)]
    show_status: bool,
    /// The history of the status
    #[arg(long)]
    show_history: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What to print of an object.
enum Show {
    /// What it is made with: values or variables.
    Inputs,
    Status,
    History,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, word, name, common, inputs) = match &args.what {
        None => return Err(Failure::help("debug")),
        Some(What::Helmrelease(args)) => {
            let inputs = ("--show-values", args.show_values);
            (
                "HelmRelease",
                "helmrelease",
                &args.name,
                &args.common,
                inputs,
            )
        }
        Some(What::Kustomization(args)) => {
            let inputs = ("--show-vars", args.show_vars);
            (
                "Kustomization",
                "kustomization",
                &args.name,
                &args.common,
                inputs,
            )
        }
    };
    let Some(name) = name else {
        return Err(Failure::Work(format!("{word} name is required")));
    };
    let show = show(common, inputs)?;
    in_runtime(async {
        let session = common.connection.open()?;
        let object = read(&session, kind, &common.connection.namespace, name).await?;
        let text = match show {
            Show::Status => status(&object),
            Show::History => history(&object),
            Show::Inputs if kind == "HelmRelease" => values(&session, &object).await?,
            Show::Inputs => variables(&session, &object).await?,
        };
        print_text(&text)
    })
}

fn show(common: &Common, (flag, inputs): (&str, bool)) -> Result<Show, Failure> {
    match (common.show_status, inputs, common.show_history) {
        (true, false, false) => Ok(Show::Status),
        (false, true, false) => Ok(Show::Inputs),
        (false, false, true) => Ok(Show::History),
        _ => Err(Failure::Work(format!(
            "exactly one of --show-status, {flag}, or --show-history must be set"
        ))),
    }
}

async fn read(
    session: &Session,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Value, Failure> {
    let kind = kinds::named(kind).ok_or_else(|| Failure::Work(format!("unknown kind {kind}")))?;
    let at = At::new(namespace, name);
    let object = session.client.get(&kind.resource, at).await;
    let mut object = object.map_err(|error| Failure::Work(session.told(kind, &error)))?;
    object["kind"] = json!(kind.name());
    // Flux prints the time of a deletion that was not.
    let history = object.pointer_mut("/status/history");
    if let Some(history) = history.and_then(Value::as_array_mut)
        && kind.name() == "HelmRelease"
    {
        for snapshot in history.iter_mut().filter_map(Value::as_object_mut) {
            snapshot.entry("deleted").or_insert(Value::Null);
        }
    }
    Ok(object)
}

/// The page about a kind.
fn page(object: &Value) -> &'static str {
    match object["kind"] == "HelmRelease" {
        true => "helm/helmreleases",
        false => "kustomize/kustomizations",
    }
}

fn status(object: &Value) -> String {
    let anchor = match object["kind"] == "HelmRelease" {
        true => "helmrelease-status",
        false => "kustomization-status",
    };
    let page = page(object);
    let status = emit::sigs(&object["status"]);
    format!("# Status documentation: {DOCUMENTATION}/{page}/#{anchor}\n{status}")
}

fn history(object: &Value) -> String {
    let page = page(object);
    let history = emit::sigs(&object["status"]["history"]);
    format!("# History documentation: {DOCUMENTATION}/{page}/#history\n{history}")
}

async fn values(session: &Session, object: &Value) -> Result<String, Failure> {
    let object: Object<HelmRelease> =
        Object::read(object).map_err(|error| Failure::Work(error.to_string()))?;
    let (namespace, spec) = (object.metadata.namespace(), &object.spec);
    let mut holders: BTreeMap<(ConfigKind, String), Value> = BTreeMap::new();
    for (kind, name) in referenced(&spec.values_from) {
        let resource = match kind {
            ConfigKind::ConfigMap => CONFIG_MAPS,
            ConfigKind::Secret => SECRETS,
        };
        match session
            .client
            .get(&resource, At::new(namespace, name))
            .await
        {
            Ok(holder) => {
                holders.insert((kind, name.to_owned()), holder);
            }
            // Whether it must be there is judged with the reference.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(Failure::Work(error.to_string())),
        }
    }
    let holder = |kind, name: &str| holders.get(&(kind, name.to_owned()));
    let values = compose(
        namespace,
        &spec.values_from,
        spec.values.as_ref(),
        holder,
        &Budget::unlimited(),
    );
    let values = values.map_err(|error| Failure::Work(error.to_string()))?;
    Ok(emit::sigs(&Value::Object(values)))
}

async fn variables(session: &Session, object: &Value) -> Result<String, Failure> {
    let object: Object<Kustomization> =
        Object::read(object).map_err(|error| Failure::Work(error.to_string()))?;
    let Some(after) = &object.spec.post_build else {
        let message = "no post build substitutions found";
        return Err(Failure::Work(message.to_owned()));
    };
    let variables = everflow_controllers::variables(&object, &session.client).await;
    let mut variables = variables.map_err(Failure::Work)?;
    // Lines are joined, as when they are put in.
    let own = after.substitute.iter();
    variables.extend(own.map(|(name, value)| (name.clone(), value.replace('\n', ""))));
    let lines = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"));
    Ok(lines.collect())
}
