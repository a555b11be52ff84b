//! `everflow audit`: what would stop together, and what could not be mended then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use everflow_audit::{Finding, Model, Options, Severity, audit, picture, sarif};
use everflow_json::{Value, json};
use everflow_local::tree::read_objects;
use everflow_runtime::Error;
use everflow_runtime::client::{Paging, Resource, Selection};

use crate::exit::Failure;
use crate::flux::connection::{Connection, Session};
use crate::flux::say;
use crate::output::{DataFormat, print_data, print_text};

/// The largest file that is read.
const LARGEST_FILE: u64 = 64 << 20;
/// At most so many files of a directory are read.
const MOST_FILES: usize = 10_000;

/// What the rules look at.
const LOOKED_AT: &[Resource] = &[
    Resource::cluster("", "v1", "nodes", "Node"),
    Resource::cluster("", "v1", "namespaces", "Namespace"),
    Resource::cluster("", "v1", "persistentvolumes", "PersistentVolume"),
    Resource::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    Resource::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    Resource::namespaced("", "v1", "pods", "Pod"),
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource::namespaced("apps", "v1", "deployments", "Deployment"),
    Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet"),
    Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet"),
    Resource::namespaced(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
    Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease"),
];

/// `everflow audit`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Check manifests instead of a cluster: files, or directories (recursively); may be given several times
    #[arg(short, long, value_name = "PATH", conflicts_with = "path")]
    filename: Vec<PathBuf>,
    /// Check what a repository deploys, brought up on this machine as by `everflow up`
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The entry directory of the repository; required if several qualify
    #[arg(long, value_name = "DIR", requires = "path")]
    entry: Option<String>,
    /// Fetch nothing while bringing up the repository
    #[arg(long, requires = "path")]
    offline: bool,
    /// Print the findings as data instead
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    /// Write a diagram of the nodes and what they carry to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Exit with code 1 if there is an error or a warning
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Formats of the findings.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Indented JSON.
    Json,
    /// SARIF 2.1.0, for code hosts.
    Sarif,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (objects, options) = match (&args.path, args.filename.as_slice()) {
        (Some(path), _) => {
            let objects = crate::up::deployed(path, args.entry.as_deref(), args.offline)?;
            (objects, Options::default())
        }
        (None, []) => live(&args.connection)?,
        (None, paths) => (read(paths)?, Options::default()),
    };
    let model = Model::new(objects);
    let findings = audit(&model, &options);
    if let Some(file) = &args.svg {
        std::fs::write(file, picture(&model, &findings))
            .map_err(|error| Failure::Work(format!("{} (--svg): {error}", file.display())))?;
    }
    match args.output {
        None => print_text(&told(&findings))?,
        Some(Format::Sarif) => print_data(&sarif(&findings), DataFormat::Json)?,
        Some(Format::Json) => {
            let findings: Vec<Value> = findings.iter().map(Finding::to_value).collect();
            print_data(&json!({"findings": findings}), DataFormat::Json)?;
        }
    }
    let grave = findings.iter().any(|found| found.severity < Severity::Note);
    match args.exit_code && grave {
        true => Err(Failure::Differences),
        false => Ok(()),
    }
}

/// The findings for people.
fn told(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing critical stops together\n".to_owned();
    }
    let mut text = String::new();
    for found in findings {
        let (severity, rule) = (found.severity.word(), found.rule.code());
        text.push_str(&format!("{severity} {rule}: {}\n", found.message));
        match &found.fix {
            None => text.push_str(&format!("  {}\n", found.remedy)),
            Some(fix) => {
                text.push_str(&format!("  this mends it, in {}:\n", fix.place));
                for line in fix.text.lines() {
                    text.push_str(&format!("    {line}\n"));
                }
            }
        }
    }
    let count = |severity: Severity| {
        let of = findings.iter().filter(|found| found.severity == severity);
        let (count, word) = (of.count(), severity.word());
        format!("{count} {word}{}", if count == 1 { "" } else { "s" })
    };
    let all = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    text.push_str(&format!("{}\n", all.join(", ")));
    text
}

/// The objects in files.
fn read(paths: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, &mut files)?;
    }
    let mut objects = Vec::new();
    for file in files {
        let wrong = |why: String| Failure::Work(format!("{}: {why}", file.display()));
        let size = std::fs::metadata(&file)
            .map_err(|error| wrong(error.to_string()))?
            .len();
        if size > LARGEST_FILE {
            return Err(wrong(format!("it is larger than {LARGEST_FILE} bytes")));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
        objects.extend(read_objects(&text).map_err(wrong)?);
    }
    Ok(objects)
}

/// A file, or the manifests below a directory, in order.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Work(format!("{}: {why}", path.display()));
    let kind = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if kind.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        let mut entries: Vec<std::fs::DirEntry> =
            std::fs::read_dir(&directory)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            // Links are not followed: they may lead round in circles.
            let kind = entry.file_type()?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() && !name.starts_with('.') {
                waiting.push(entry.path());
            } else if kind.is_file()
                && (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"))
            {
                files.push(entry.path());
            }
        }
        if files.len() > MOST_FILES {
            return Err(wrong(format!(
                "there are more than {MOST_FILES} manifests below it"
            )));
        }
    }
    Ok(())
}

/// The objects of a cluster, and how long it took to answer.
fn live(connection: &Connection) -> Result<(Vec<Value>, Options), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let session = connection.open()?;
        let reading =
            everflow_env::within(&*session.clock, connection.timeout, read_live(&session));
        reading.await.unwrap_or_else(|_| {
            Err(Failure::Work(
                "the cluster was not read in time; --timeout gives more".to_owned(),
            ))
        })
    })
}

async fn read_live(session: &Session) -> Result<(Vec<Value>, Options), Failure> {
    let (client, all) = (&session.client, Selection::default());
    let mut objects = Vec::new();
    let mut latency = Duration::ZERO;
    for resource in LOOKED_AT {
        let begun = session.clock.elapsed();
        let one = Paging {
            limit: 1,
            ..Paging::default()
        };
        let first = client.list(resource, None, &all, &one).await;
        latency = latency.max(session.clock.elapsed() - begun);
        let listed = match first {
            Ok(first) if first.next.is_empty() => Ok(first),
            Ok(_) => client.list_all(resource, None, &all).await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(list) => objects.extend(list.items),
            Err(Error::Forbidden(refusal)) => {
                say::failure(&format!("{} are left out: {refusal}", resource.plural));
            }
            Err(error) => return Err(Failure::Work(error.to_string())),
        }
    }
    Ok((objects, Options { latency }))
}
