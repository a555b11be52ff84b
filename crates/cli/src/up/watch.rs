//! Staying after everything is up: what changes on disk is deployed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_local::picture::SOURCES;
use everflow_local::tree::File;

use super::notifications::Notifications;
use super::{Session, diff, told_to_stop};
use crate::exit::Failure;
use crate::output::print_text;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Stays until interrupted.
pub async fn stay(
    session: &mut Session,
    follow: bool,
    kubeconfig: Option<&Path>,
    mut notifications: Option<Notifications>,
) -> Result<(), Failure> {
    let serving = match kubeconfig {
        Some(file) => Some({
            let world = &session.world;
            crate::cluster::open(world.server(), world.token(), file).await?
        }),
        None => None,
    };
    if let (Some(file), None) = (kubeconfig, session.options.output) {
        print_text(&format!(
            "kubectl --kubeconfig {} get all -A\n",
            file.display()
        ))?;
    }
    // Data for other programs stays alone.
    let speaks = session.options.output.is_none();
    if speaks {
        print_text(match follow {
            true => "watching for changes; ^C ends\n",
            false => "^C ends\n",
        })?;
    }
    let mut known = fingerprint(session)?;
    let stopped = told_to_stop();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            stopped = &mut stopped => {
                stopped?;
                break;
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        if !follow {
            continue;
        }
        // Directories come and go while somebody moves them about.
        let Ok(now) = fingerprint(session) else {
            continue;
        };
        if now != known {
            if speaks {
                print_text(&format!("► {}\n", changes(&known, &now)))?;
            }
            known = now;
            let progress = session.progress.clone();
            tokio::select! {
                done = redeploy(session, notifications.as_mut()) => done?,
                stopped = &mut stopped => {
                    stopped?;
                    return Err(Failure::Interrupted(progress.told()));
                }
            }
        }
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    Ok(())
}

/// What there is on disk, roughly: names, sizes, times.
type Fingerprint = Vec<(String, u64, SystemTime)>;

fn fingerprint(session: &Session) -> Result<Fingerprint, Failure> {
    let files = session.opened.tree.files();
    let files = files.map_err(|error| Failure::Work(error.to_string()))?;
    let line = |file: File| (file.path, file.size, file.modified);
    Ok(files.into_iter().map(line).collect())
}

fn changes(before: &Fingerprint, now: &Fingerprint) -> String {
    let changed: Vec<&str> = now
        .iter()
        .filter(|file| !before.contains(file))
        .map(|(path, ..)| path.as_str())
        .chain(
            before
                .iter()
                .filter(|(path, ..)| !now.iter().any(|(other, ..)| other == path))
                .map(|(path, ..)| path.as_str()),
        )
        .collect();
    match changed.as_slice() {
        [] => "files changed".to_owned(),
        [one] => format!("{one} changed"),
        [one, rest @ ..] => format!("{one} and {} more changed", rest.len()),
    }
}

async fn redeploy(
    session: &mut Session,
    notifications: Option<&mut Notifications>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let before = manifests(session).await?;
    let sources = session.picture.sources.iter().map(|node| node.id.clone());
    let sources: Vec<_> = sources
        .filter(|id| SOURCES.contains(&id.kind.as_str()))
        .collect();
    let asked = session.world.request(&sources).await;
    asked.map_err(|error| Failure::Work(error.to_string()))?;
    // The sources take a moment to have the new revision.
    tokio::time::sleep(LOOK).await;
    let patience = session.options.timeout;
    let ended = session.settle(patience).await?;
    if session.options.output.is_none() {
        let changes = diff::changes(before, manifests(session).await?);
        print_text(&diff::text(&changes))?;
    }
    session.conclude(ended, begun.elapsed())?;
    match notifications {
        Some(notifications) => notifications.show(&session.world).await,
        None => Ok(()),
    }
}

async fn manifests(session: &Session) -> Result<BTreeMap<ObjectId, Value>, Failure> {
    let manifests = session.world.manifests().await;
    let manifests = manifests.map(|manifests| manifests.all);
    manifests.map_err(|error| Failure::Work(error.to_string()))
}
