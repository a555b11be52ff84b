//! `everflow helm lint`.

use std::fs;
use std::path::{Path, PathBuf};

use everflow_helm::chart::ChartFile;
use everflow_helm::chart::archive;
use everflow_helm::lint::{LintInput, Message, Severity, lint};
use everflow_helm::objects::KubeVersion;
use everflow_helm::render::Sources;
use everflow_helm::values::Warnings;
use everflow_json::Map;

use super::chart_source::{directory_files, go_reason, print_warnings};
use super::source::SystemSource;
use super::stack::{Attempt, with_enough_stack};
use super::values::ValueFlags;
use super::work::WorkFlags;
use crate::exit::Failure;
use crate::output::print_text;

/// Arguments of `everflow helm lint`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The charts: directories or archives
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    values: ValueFlags,
    /// The namespace that templates see
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// The Kubernetes version that templates see
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Do not validate the values against values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,
    /// Fail on warnings
    #[arg(long)]
    strict: bool,
    /// Print only warnings and errors
    #[arg(long)]
    quiet: bool,
    /// Also check the charts under charts/
    #[arg(long)]
    with_subcharts: bool,
    #[command(flatten)]
    work: WorkFlags,
}

/// Examines and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let kube_version = match &args.kube_version {
        Some(version) => Some(KubeVersion::parse(version).map_err(|error| {
            Failure::Work(format!("invalid kube version '{version}': {error}"))
        })?),
        None => None,
    };
    let mut paths = args.paths.clone();
    if args.with_subcharts {
        for path in &args.paths {
            add_subcharts(&path.join("charts"), &mut paths);
        }
    }
    let budget = args.work.budget();
    let values = args.values.merge(&budget)?;
    let mut text = String::new();
    let (mut failed, mut noteworthy) = (0, 0);
    for path in &paths {
        let outcome = examine(args, path, &values, kube_version.as_ref())?;
        let worst = match &outcome {
            Ok(messages) => messages.iter().map(|message| message.severity).max(),
            Err(_) => Some(Severity::Error),
        };
        let tolerated = match args.strict {
            true => Severity::Info,
            false => Severity::Warning,
        };
        failed += usize::from(worst > Some(tolerated));
        noteworthy += usize::from(worst > Some(Severity::Info));
        if args.quiet && worst <= Some(Severity::Info) {
            continue;
        }
        text.push_str(&format!("==> Linting {}\n", path.display()));
        match outcome {
            Err(reason) => text.push_str(&format!("Error {reason}\n")),
            Ok(messages) => messages
                .iter()
                .filter(|message| !args.quiet || message.severity > Severity::Info)
                .for_each(|message| text.push_str(&format!("{message}\n"))),
        }
        text.push('\n');
    }
    let summary = format!("{} chart(s) linted, {failed} chart(s) failed", paths.len());
    if failed > 0 {
        print_text(&text)?;
        return Err(Failure::Work(summary));
    }
    if !args.quiet || noteworthy > 0 {
        text.push_str(&format!("{summary}\n"));
    }
    print_text(&text)
}

/// Charts in `directory` and below.
fn add_subcharts(directory: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "Chart.yaml" {
            paths.push(directory.to_path_buf());
        } else if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
            paths.push(path.clone());
        }
        if path.is_dir() {
            add_subcharts(&path, paths);
        }
    }
}

/// The findings about one chart, or why there are none.
fn examine(
    args: &Args,
    path: &Path,
    values: &Map,
    kube_version: Option<&KubeVersion>,
) -> Result<Result<Vec<Message>, String>, Failure> {
    let mut warnings = Warnings::default();
    let directory = std::path::absolute(path)?;
    let found = match chart_files(path, &directory, &mut warnings) {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let budget = args.work.budget();
    let (messages, more) = with_enough_stack(|limits| {
        let mut warnings = Warnings::default();
        let input = LintInput {
            files: &found.files,
            main_files: &found.main_files,
            directory: &directory.to_string_lossy(),
            has_templates: found.has_templates,
            values,
            namespace: &args.namespace,
            kube_version,
            skip_schema_validation: args.skip_schema_validation,
            limits,
            budget: &budget,
        };
        let messages = lint(&input, &mut Sources::new(SystemSource), &mut warnings);
        Attempt {
            is_too_deep: messages
                .iter()
                .any(|message| message.text.contains("exceeded maximum template depth")),
            result: (messages, warnings),
        }
    })?;
    print_warnings(&more);
    Ok(Ok(messages))
}

/// What is on disk of a chart.
struct Found {
    files: Vec<ChartFile>,
    main_files: Vec<ChartFile>,
    has_templates: bool,
}

fn chart_files(path: &Path, directory: &Path, warnings: &mut Warnings) -> Result<Found, String> {
    let name = path.to_string_lossy();
    if name.ends_with(".tgz") || name.ends_with(".tar.gz") {
        let bytes = fs::read(path).map_err(|error| {
            format!("unable to open tarball: open {name}: {}", go_reason(&error))
        })?;
        let files = archive::unpack(&bytes)
            .map_err(|error| format!("unable to extract tarball: {error}"))?;
        return Ok(Found {
            has_templates: files.iter().any(|file| file.name.starts_with("templates/")),
            main_files: files.clone(),
            files,
        });
    }
    let chart_file = path.join("Chart.yaml");
    fs::metadata(&chart_file).map_err(|error| {
        format!(
            "unable to check Chart.yaml file in chart: stat {}: {}",
            chart_file.display(),
            go_reason(&error)
        )
    })?;
    let main_files = ["Chart.yaml", "values.yaml", "values.schema.json"]
        .iter()
        .filter_map(|name| Some(ChartFile::new(*name, fs::read(directory.join(name)).ok()?)))
        .collect();
    Ok(Found {
        files: directory_files(directory, warnings).map_err(|failure| failure.to_string())?,
        main_files,
        has_templates: directory.join("templates").is_dir(),
    })
}
