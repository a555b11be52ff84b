//! `everflow test`: whether a repository can be deployed, for CI.

use std::path::{Path, PathBuf};
use std::time::Instant;

use everflow_local::golden;
use everflow_local::references::Dangling;

use super::{Common, Progress, Scratch, Session};
use crate::exit::Failure;
use crate::output::print_text;

/// `everflow test`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Compare the rendered manifests with the files in this directory
    #[arg(long, value_name = "DIR")]
    golden: Option<PathBuf>,
    /// Write the rendered manifests to that directory instead of comparing
    #[arg(long, requires = "golden")]
    update_golden: bool,
}

/// Runs `everflow test`.
pub fn run(args: &Args) -> Result<(), Failure> {
    let progress = Progress::default();
    super::in_runtime(super::unless_interrupted(test(args, &progress), &progress))
}

async fn test(args: &Args, progress: &Progress) -> Result<(), Failure> {
    let begun = Instant::now();
    let scratch = Scratch::new()?;
    let mut session = Session::start(&args.common, &scratch, progress).await?;
    let ended = session.settle(args.common.timeout).await?;
    session.conclude(ended, begun.elapsed())?;
    let mut faults = Vec::new();
    let dangling = session.world.dangling().await;
    let dangling = dangling.map_err(|error| Failure::Work(error.to_string()))?;
    let quiet = args.common.output.is_some();
    for reference in &dangling {
        if !quiet {
            print_text(&format!("{}\n", told(reference)))?;
        }
        if reference.fatal {
            faults.push(format!(
                "{} refers to {}, which is not there",
                reference.from, reference.to
            ));
        }
    }
    if let Some(directory) = &args.golden {
        let rendered = session.world.rendered().await;
        let rendered = rendered.map_err(|error| Failure::Work(error.to_string()))?;
        faults.extend(compare(directory, &rendered, args.update_golden)?);
    }
    session.end(ended).await?;
    match faults.as_slice() {
        [] => Ok(()),
        faults => Err(Failure::Work(faults.join("\n"))),
    }
}

fn told(reference: &Dangling) -> String {
    let Dangling {
        from,
        field,
        to,
        fatal,
    } = reference;
    match fatal {
        true => format!("✗ {from}: {field} refers to {to}, which is not there"),
        false => format!("⚠ {from}: {field} refers to {to}, which the repository does not contain"),
    }
}

/// Compares rendered manifests with the files of a directory, or writes them there.
fn compare(
    directory: &Path,
    rendered: &[golden::Rendered],
    update: bool,
) -> Result<Vec<String>, Failure> {
    if update {
        std::fs::create_dir_all(directory)?;
    }
    let mut faults = Vec::new();
    for rendered in rendered {
        let file = directory.join(&rendered.file);
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        if before == rendered.text {
            continue;
        }
        match update {
            true => std::fs::write(&file, &rendered.text)?,
            false => faults.push(format!(
                "{} is not what {} renders to:\n{}",
                file.display(),
                rendered.kustomization,
                golden::difference(&before, &rendered.text)
            )),
        }
    }
    let names: Vec<&str> = rendered
        .iter()
        .map(|rendered| rendered.file.as_str())
        .collect();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".yaml") || names.contains(&name.as_str()) {
            continue;
        }
        let file = directory.join(&name);
        match update {
            true => std::fs::remove_file(&file)?,
            false => faults.push(format!("{}: no Kustomization renders it", file.display())),
        }
    }
    Ok(faults)
}
