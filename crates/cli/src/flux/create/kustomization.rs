//! `everflow create kustomization`

use everflow_json::{Value, json};
use everflow_time::Duration;

use super::{Creation, Spec, depends_on, named, work};
use crate::exit::Failure;
use crate::flux::go_flags::{
    Reference, decryption_provider, go_duration, kustomization_source, safe_relative_path,
};
use crate::flux::kinds;

/// What can be waited for by name.
const CHECKED: [&str; 4] = ["Deployment", "DaemonSet", "StatefulSet", "HelmRelease"];

/// `everflow create kustomization`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The source: [KIND/]NAME[.NAMESPACE]; a GitRepository if no kind is given
    #[arg(long, value_name = "SOURCE", value_parser = kustomization_source)]
    source: Option<Reference>,
    /// The directory in the source
    #[arg(long, value_name = "PATH", default_value = "./", value_parser = safe_relative_path)]
    path: String,
    /// Delete what the source no longer contains
    #[arg(long)]
    prune: bool,
    /// Wait until everything applied is healthy
    #[arg(long)]
    wait: bool,
    /// Wait until this object is healthy: KIND/NAME.NAMESPACE
    #[arg(long, value_name = "OBJECT", value_delimiter = ',')]
    health_check: Vec<String>,
    /// How long to wait for health checks
    #[arg(long, value_name = "DURATION", default_value = "2m0s", value_parser = go_duration)]
    health_check_timeout: Duration,
    /// Has no effect
    #[arg(long, hide = true, default_value = "")]
    validation: String,
    /// Objects that must be ready first: [NAMESPACE/]NAME
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    depends_on: Vec<String>,
    /// The service account to apply as
    #[arg(long, value_name = "NAME", default_value = "")]
    service_account: String,
    /// How encrypted files are decrypted: sops
    #[arg(long, value_name = "PROVIDER", value_parser = decryption_provider)]
    decryption_provider: Option<String>,
    /// The Secret with the keys for that
    #[arg(long, value_name = "NAME", default_value = "")]
    decryption_secret: String,
    /// The namespace of all objects
    #[arg(long, value_name = "NAME", default_value = "")]
    target_namespace: String,
    /// The Secret with the kubeconfig of another cluster
    #[arg(long, value_name = "NAME", default_value = "")]
    kubeconfig_secret_ref: String,
    /// The retry interval after a failure
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
    retry_interval: Duration,
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let Some(source) = &args.source else {
        return Err(work("source is required"));
    };
    if !args.validation.is_empty() {
        crate::flux::say::plain(
            "Flag --validation has been deprecated, this arg is no longer used, all resources are \
             validated using server-side apply dry-run",
        );
    }
    let checks = health_checks(&args.health_check)?;
    let mut spec = Spec::default()
        .value("interval", creation.interval())
        .value("path", args.path.as_str())
        .value("prune", args.prune)
        .object("sourceRef", source.spec())
        .flag("wait", args.wait)
        .text("serviceAccountName", &args.service_account)
        .text("targetNamespace", &args.target_namespace)
        .duration("retryInterval", args.retry_interval);
    if !args.depends_on.is_empty() {
        spec = spec.value("dependsOn", depends_on(&args.depends_on));
    }
    if !args.kubeconfig_secret_ref.is_empty() {
        let secret = json!({"secretRef": {"name": args.kubeconfig_secret_ref}});
        spec = spec.value("kubeConfig", secret);
    }
    if args.wait || !checks.is_empty() {
        spec = spec.duration("timeout", args.health_check_timeout);
    }
    if !checks.is_empty() {
        spec = spec.value("healthChecks", checks);
    }
    if let Some(provider) = &args.decryption_provider {
        let decryption = Spec::default()
            .text("provider", provider)
            .local("secretRef", &args.decryption_secret);
        spec = spec.object("decryption", decryption);
    }
    let kind = kinds::required("Kustomization")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

fn health_checks(words: &[String]) -> Result<Vec<Value>, Failure> {
    let form = "must be in the format 'kind/name.namespace'";
    let check = |word: &String| {
        let parts: Vec<&str> = word.split('/').collect();
        let [kind, rest] = parts[..] else {
            let list = parts.join(" ");
            return Err(work(format!(
                "invalid health check '{word}' {form} [{list}]"
            )));
        };
        if !CHECKED.contains(&kind) {
            return Err(work(format!(
                "invalid health check kind '{kind}' can be HelmRelease, Deployment, DaemonSet or \
                 StatefulSet"
            )));
        }
        let parts: Vec<&str> = rest.split('.').collect();
        let [name, namespace] = parts[..] else {
            return Err(work(format!("invalid health check '{word}' {form}")));
        };
        let mut spec = Spec::default()
            .text("kind", kind)
            .text("name", name)
            .text("namespace", namespace);
        if kind == "HelmRelease" {
            spec = spec.text("apiVersion", "helm.toolkit.fluxcd.io/v2");
        }
        Ok(Value::Object(spec.0))
    };
    words.iter().map(check).collect()
}
