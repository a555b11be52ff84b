//! `everflow kustomize build`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use everflow_kustomize::{
    BuiltObject, LoadRestriction, Options, Output, Plugins, Release, Reorder, build,
};

use crate::build_limits::BuildLimits;
use crate::disk_view::DiskView;
use crate::exit::Failure;
use crate::kustomize_helm::DiskCharts;
use crate::output;

/// Arguments of `everflow kustomize`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Print what a kustomization builds
    Build(BuildArgs),
}

#[derive(clap::Args, Debug)]
struct BuildArgs {
    /// The directory with the kustomization file
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Write to this file, or into this directory with one file for each object
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Which files a kustomization may read
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        default_value = "LoadRestrictionsRootOnly"
    )]
    load_restrictor: Restrictor,
    /// The order of the objects
    #[arg(long, value_enum, default_value = "legacy")]
    reorder: Order,
    /// Inflate helmCharts
    #[arg(long)]
    enable_helm: bool,
    /// Add the label app.kubernetes.io/managed-by to all objects
    #[arg(long)]
    enable_managedby_label: bool,
    #[command(flatten)]
    limits: BuildLimits,
    /// Not supported: functions in containers
    #[arg(long, hide = true)]
    as_current_user: bool,
    /// Not supported: plugins that are programs
    #[arg(long, hide = true)]
    enable_exec: bool,
    /// Not supported: plugins that are not built in
    #[arg(long, hide = true)]
    enable_alpha_plugins: bool,
    /// Not supported: network for functions in containers
    #[arg(long, hide = true)]
    network: bool,
    /// Not supported: mounts for functions in containers
    #[arg(long, hide = true)]
    mount: Vec<String>,
    /// Not supported: environment of functions in containers
    #[arg(short, long, hide = true)]
    env: Vec<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Restrictor {
    /// Only files in the directory of the kustomization or below
    #[value(name = "LoadRestrictionsRootOnly", alias = "rootOnly")]
    RootOnly,
    /// Any file
    #[value(name = "LoadRestrictionsNone", alias = "none")]
    None,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Order {
    /// Namespaces and other kinds that others need come first
    Legacy,
    /// As they were read
    None,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Verb::Build(args) = &args.verb;
    refuse_plugins(args)?;
    let options = Options {
        without_remote: false,
        load_restriction: match args.load_restrictor {
            Restrictor::RootOnly => LoadRestriction::RootOnly,
            Restrictor::None => LoadRestriction::None,
        },
        reorder: match args.reorder {
            Order::Legacy => Reorder::Legacy,
            Order::None => Reorder::None,
        },
        managed_by_label: args.enable_managedby_label,
        release: Release::V5_8,
        enable_helm: args.enable_helm,
        lenient: false,
        limits: args.limits.counts.limits(),
    };
    let budget = args.limits.budget();
    let directory = absolute(&args.directory)?;
    let failed = |error: everflow_kustomize::Error| Failure::Work(error.to_string());
    let view = DiskView::default();
    let plugins = Plugins {
        helm: Some(&DiskCharts),
        remote: None,
    };
    let output = build(&view, &directory, &options, plugins, &budget).map_err(failed)?;
    for warning in &output.warnings {
        // A closed standard error leaves nobody to warn.
        let _ = writeln!(std::io::stderr(), "{warning}");
    }
    let written = match &args.output {
        Some(path) if path.is_dir() => write_files(path, &output),
        Some(path) => {
            let text = output.to_yaml_within(&budget).map_err(failed)?;
            Ok(std::fs::write(path, text)?)
        }
        None => output::print_text(&output.to_yaml_within(&budget).map_err(failed)?),
    };
    // The process is about to end: taking thousands of objects apart would be time for nothing.
    std::mem::forget(output);
    written
}

fn refuse_plugins(args: &BuildArgs) -> Result<(), Failure> {
    let asked = [
        ("--as-current-user", args.as_current_user),
        ("--enable-exec", args.enable_exec),
        ("--enable-alpha-plugins", args.enable_alpha_plugins),
        ("--network", args.network),
        ("--mount", !args.mount.is_empty()),
        ("--env", !args.env.is_empty()),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag}: plugins that are programs or containers are not supported, only those built into kustomize; leave the flag out"
        ))),
    }
}

fn absolute(directory: &Path) -> Result<String, Failure> {
    let text = directory.to_string_lossy();
    if text.contains("://") || text.starts_with("github.com/") {
        return Ok(text.into_owned());
    }
    Ok(std::path::absolute(directory)?
        .to_string_lossy()
        .into_owned())
}

/// One file for each object, named by type and name, and by namespace if there are several.
fn write_files(directory: &Path, output: &Output) -> Result<(), Failure> {
    let namespace = |object: &BuiltObject| {
        (!object.id.cluster_scoped).then(|| object.id.effective_namespace().to_lowercase())
    };
    let namespaces: BTreeSet<String> = output.objects.iter().filter_map(namespace).collect();
    for object in &output.objects {
        let gvk = &object.id.gvk;
        let parts: Vec<&str> = [&gvk.group, &gvk.version, &gvk.kind, &object.id.name]
            .into_iter()
            .map(|part| part.as_str())
            .filter(|part| !part.is_empty())
            .collect();
        let mut name = parts.join("_").to_lowercase() + ".yaml";
        if namespaces.len() > 1
            && let Some(namespace) = namespace(object)
        {
            name = format!("{namespace}_{name}");
        }
        let text = object
            .to_yaml()
            .map_err(|error| Failure::Work(error.to_string()))?;
        std::fs::write(directory.join(name.replace('/', "_")), text)?;
    }
    Ok(())
}
