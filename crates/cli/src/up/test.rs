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
    let common = Common {
        strict: true,
        rendered_as_of: Some(super::SAME_MOMENT),
        ..args.common.clone()
    };
    let mut session = Session::start(&common, &scratch, progress).await?;
    let ended = session.settle(session.time_left()).await?;
    session.conclude(ended, begun.elapsed())?;
    let mut faults = Vec::new();
    let dangling = session.world.dangling().await;
    let dangling = dangling.map_err(|error| Failure::Work(error.to_string()))?;
    let quiet = args.common.output.is_some();
    let stands_in = |reference: &Dangling| args.common.placeholders && is_made_up(reference);
    let dangling = dangling.into_iter().filter(|it| !stands_in(it));
    for (reference, more) in grouped(dangling) {
        if !quiet {
            print_text(&format!("{}\n", told(&reference, more)))?;
        }
        if reference.fatal {
            let from = with_others(&reference.from, more);
            faults.push(format!(
                "{from} refers to {}, which is not there",
                reference.to
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

/// Whether a reference is to what placeholders stand for where they may.
fn is_made_up(reference: &Dangling) -> bool {
    reference.field.starts_with("spec.postBuild.substituteFrom")
        || reference.field.starts_with("spec.valuesFrom")
        || reference.field == "spec.decryption.secretRef"
}

/// References that say the same: of objects of one kind by one field to one object, or, where that may
/// be made by others, to objects of one kind. The first of each, and how many more there are.
fn grouped(all: impl Iterator<Item = Dangling>) -> Vec<(Dangling, usize)> {
    let kind = |subject: &str| subject.split('/').next().unwrap_or_default().to_owned();
    let alike = |one: &Dangling, two: &Dangling| {
        let field = |it: &Dangling| it.field.replace(|c: char| c.is_ascii_digit(), "");
        let same_object = match one.fatal {
            true => one.to == two.to,
            false => kind(&one.to) == kind(&two.to),
        };
        one.fatal == two.fatal
            && same_object
            && kind(&one.from) == kind(&two.from)
            && field(one) == field(two)
    };
    let mut groups: Vec<(Dangling, usize)> = Vec::new();
    for reference in all {
        match groups
            .iter_mut()
            .find(|(first, _)| alike(first, &reference))
        {
            Some((_, more)) => *more += 1,
            None => groups.push((reference, 0)),
        }
    }
    groups
}

fn with_others(from: &str, more: usize) -> String {
    match more {
        0 => from.to_owned(),
        more => format!("{from} and {more} more"),
    }
}

fn told(reference: &Dangling, more: usize) -> String {
    let Dangling {
        from,
        field,
        to,
        fatal,
    } = reference;
    let from = with_others(from, more);
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
                rendered.owner,
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
            false => faults.push(format!(
                "{}: no Kustomization or HelmRelease renders it",
                file.display()
            )),
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(from: &str, field: &str, to: &str, fatal: bool) -> Dangling {
        Dangling {
            from: from.into(),
            field: field.into(),
            to: to.into(),
            fatal,
        }
    }

    #[test]
    fn identical_dangling_references_are_printed_once() {
        let all = [
            reference("A/n/one", "spec.from[0]", "Secret/n/keys", true),
            reference("A/n/two", "spec.from[1]", "Secret/n/keys", true),
            reference("A/n/two", "spec.from[0]", "Secret/n/others", true),
            reference("B/n/one", "spec.target", "Deployment/n/one", false),
            reference("B/n/two", "spec.target", "Deployment/n/two", false),
        ];
        let lines: Vec<String> = grouped(all.into_iter())
            .iter()
            .map(|(reference, more)| told(reference, *more))
            .collect();
        assert_eq!(
            lines,
            [
                "✗ A/n/one and 1 more: spec.from[0] refers to Secret/n/keys, which is not there",
                "✗ A/n/two: spec.from[0] refers to Secret/n/others, which is not there",
                "⚠ B/n/one and 1 more: spec.target refers to Deployment/n/one, which the repository does not contain",
            ]
        );
    }

    #[test]
    fn placeholders_stand_for_variables_and_keys() {
        let of = |field: &str| is_made_up(&reference("A/n/a", field, "Secret/n/s", true));
        assert!(of("spec.postBuild.substituteFrom[1]") && of("spec.decryption.secretRef"));
        assert!(!of("spec.kubeConfig.secretRef"));
    }
}
