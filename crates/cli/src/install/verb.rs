//! `everflow install`

use everflow_install::{Component, Options, manifests, to_yaml};
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource, Selection, meta_text};

use super::apply::Installer;
use super::options::Flags;
use super::{instance, parts, secret};
use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::{confirm, in_runtime, say};
use crate::output::print_text;

pub(super) const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
pub(super) const DEPLOYMENTS: Resource =
    Resource::namespaced("apps", "v1", "deployments", "Deployment");

/// `everflow install`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Print the manifests instead of applying them
    #[arg(long)]
    export: bool,
    /// Install the FluxInstance in this file; of the other flags, only those for the image, the replicas and
    /// --spread-from apply
    #[arg(long, value_name = "FILE")]
    instance: Option<String>,
    /// Overwrite objects managed by another tool, and install next to running Flux controllers
    #[arg(long)]
    force: bool,
    /// Credentials of the registry, stored in the Secret of --image-pull-secret
    #[arg(long, value_name = "USER:PASSWORD", default_value = "")]
    registry_creds: String,
    /// Accepted by flux only
    #[arg(long, hide = true, value_name = "DIR", default_value = "")]
    manifests: String,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    if !args.manifests.is_empty() {
        let text = "--manifests: the manifests are in this program; change them with flags, or with kustomize \
                    after --export";
        return Err(Failure::Work(text.to_owned()));
    }
    let failed = |error: everflow_install::Error| Failure::Work(error.to_string());
    let options = args
        .flags
        .options(&args.connection.namespace)
        .map_err(failed)?;
    let (mut objects, options) = match &args.instance {
        None => (manifests(&options).map_err(failed)?, options),
        Some(file) => {
            let built = instance::from_file(file, &options)?;
            (built.objects, built.options)
        }
    };
    let secret = secret::pull_secret(&options, &args.registry_creds)?;
    if args.export {
        objects.extend(secret);
        return print_text(&to_yaml(&objects));
    }
    let (definitions, mut rest): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object["kind"] == "CustomResourceDefinition");
    if let Some(secret) = secret {
        // After the namespace, before the pods.
        rest.insert(1.min(rest.len()), secret);
    }
    in_runtime(async {
        let session = args.connection.open()?;
        say::generation("generating manifests");
        say::success("manifests build completed");
        if !args.force {
            foreign(&session, &options).await?;
        }
        let namespace = &options.namespace;
        say::action(&format!("installing components in {namespace} namespace"));
        let installer = Installer::new(&session, args.connection.timeout);
        installer.rehearse(&definitions).await?;
        installer.rehearse(&rest).await?;
        installer.apply(&definitions).await?;
        installer.established(&definitions).await?;
        installer.apply(&rest).await?;
        parts::delete_leftovers(&session, namespace, &rest).await?;
        say::waiting("verifying installation");
        installer.ready(&rest).await?;
        say::success("install finished");
        Ok(())
    })
}

/// Asks before what another tool installed is written over, and refuses to run beside Flux's own controllers.
async fn foreign(session: &Session, options: &Options) -> Result<(), Failure> {
    let failed = |error: &Error| Failure::Work(session.told_of(error));
    let name = "gitrepositories.source.toolkit.fluxcd.io";
    match session.client.get(&DEFINITIONS, At::new("", name)).await {
        Ok(definition) => confirm_override(&definition)?,
        Err(Error::NotFound(_)) => {}
        Err(error) => return Err(failed(&error)),
    }
    let selection = Selection::labelled(everflow_install::PART_OF_FLUX);
    let list = session
        .client
        .list_all(&DEPLOYMENTS, None, &selection)
        .await
        .map_err(|error| failed(&error))?;
    let is_flux = |object: &&Value| {
        let runs = object["spec"]["replicas"].as_i64() != Some(0);
        let name = meta_text(object, "name");
        runs && Component::ALL
            .iter()
            .any(|component| component.name() == name)
    };
    let running: Vec<String> = list
        .items
        .iter()
        .filter(is_flux)
        .map(|object| {
            format!(
                "{}/{}",
                meta_text(object, "namespace"),
                meta_text(object, "name")
            )
        })
        .collect();
    let Some(first) = running.first() else {
        return Ok(());
    };
    let namespace = first.split('/').next().unwrap_or(&options.namespace);
    Err(Failure::Work(format!(
        "Flux's own controllers run: {}. Two engines would work on the same objects: stop Flux's with\n  kubectl -n \
         {namespace} scale deployment -l {} --replicas=0\nfirst, or install beside them with --force",
        running.join(", "),
        everflow_install::PART_OF_FLUX,
    )))
}

/// Another tool would put its own back.
fn confirm_override(definition: &Value) -> Result<(), Failure> {
    let label = |name: &str| definition["metadata"]["labels"][name].as_str();
    let manager = label("app.kubernetes.io/managed-by").filter(|name| *name != "flux");
    let Some(manager) = manager else {
        return Ok(());
    };
    let version = label("app.kubernetes.io/version").unwrap_or("unknown");
    say::warning(&format!(
        "Flux {version} has been installed on this cluster with {manager}!"
    ));
    confirm::ask(&format!(
        "Are you sure you want to override the {manager} installation"
    ))
}
