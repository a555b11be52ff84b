//! Carries actions out, with crashes where they are wanted.

use everflow_release::action::{ActionKind, Outcome, Plan, Resume, Run, Step};
use everflow_release::record::mark::{Holder, Stage};
use everflow_release::record::{Status, StoredRecord};

use crate::model::{Cluster, Dropped};

/// A process that dies at a step: before the step is carried out, or after it and before anyone knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    pub step: usize,
    pub before: bool,
}

/// An action: how it begins, and what is asked for when it is taken up again.
pub struct Action {
    pub plan: Plan,
    pub begin: fn(&Cluster, &Plan, Holder) -> Run,
}

pub fn scope(_: &str, kind: &str) -> Option<bool> {
    Some(!matches!(kind, "Namespace" | "CustomResourceDefinition"))
}

pub fn holder(epoch: u64) -> Holder {
    Holder {
        identity: format!("engine-{epoch}"),
        lease: Some("flux-system/leader".into()),
        epoch,
    }
}

/// What became of an action, and how many steps all processes together took.
pub struct Report {
    /// None when the last process died before it could tell.
    pub outcome: Option<Outcome>,
    pub steps: usize,
}

/// Carries an action out. Each crash ends a process, and another one goes on from storage.
pub fn carry_out(cluster: &mut Cluster, action: &Action, crashes: &[Crash]) -> Report {
    let mut crashes = crashes.iter();
    let mut steps = 0;
    let at_first = cluster.lasting()["secrets"].clone();
    for epoch in 1.. {
        let now = cluster.tick();
        let mut run = match in_progress(cluster) {
            Some(stored) => resume(cluster, action, stored, holder(epoch), now),
            None if cluster.lasting()["secrets"] != at_first => {
                return Report {
                    outcome: None,
                    steps,
                };
            }
            None => (action.begin)(cluster, &action.plan, holder(epoch)),
        };
        let crash = crashes.next();
        let mut own_steps = 0;
        loop {
            let step = run.step();
            if let Step::Over(outcome) = step {
                return Report {
                    outcome: Some(outcome),
                    steps,
                };
            }
            let dies = |before: bool| {
                crash.is_some_and(|crash| crash.step == own_steps && crash.before == before)
            };
            if dies(true) {
                break;
            }
            let result = cluster
                .carry_out(&step)
                .unwrap_or_else(|_| panic!("dropped at {step:?}"));
            steps += 1;
            if dies(false) {
                break;
            }
            own_steps += 1;
            assert!(own_steps < 200, "no end: {step:?}");
            let now = cluster.tick();
            run.done(result, now);
            // What is at hand does not depend on how often it is asked for.
            assert_eq!(run.step(), run.step());
        }
        assert!(epoch < 20, "no end");
    }
    unreachable!()
}

/// The record that an action is in the middle of.
pub fn in_progress(cluster: &Cluster) -> Option<StoredRecord> {
    let last = cluster.records().pop()?;
    let status = Status::of(&last.release.info.status);
    let stage = last.place.progress.as_ref().map(|progress| progress.stage);
    let is_at_work = status.is_in_progress() || stage.is_some();
    (is_at_work && stage != Some(Stage::Failed)).then_some(last)
}

pub fn resume(
    cluster: &Cluster,
    action: &Action,
    stored: StoredRecord,
    holder: Holder,
    now: everflow_time::Timestamp,
) -> Run {
    let version = stored.release.version;
    let revisions = cluster.revisions_but(version);
    let kind = Run::action_of(&stored).unwrap();
    let is_deployed = |other: &StoredRecord| other.release.info.status == "deployed";
    let others = || {
        cluster
            .records()
            .into_iter()
            .filter(|other| other.release.version != version)
    };
    let base_version = match kind {
        ActionKind::Upgrade | ActionKind::Rollback => Run::base_version(&stored, &revisions),
        _ => None,
    };
    let base = others().find(|other| Some(other.release.version) == base_version);
    let deployed = others()
        .filter(is_deployed)
        .filter(|other| Some(other.release.version) != base_version)
        .collect();
    let replaced = others()
        .filter(|_| kind == ActionKind::Install && action.plan.replace_release)
        .rfind(|other| matches!(other.release.info.status.as_str(), "uninstalled" | "failed"));
    let resume = Resume {
        plan: action.plan.clone(),
        stored,
        storage_namespace: "store",
        holder,
        base,
        deployed,
        revisions,
        replaced,
    };
    Run::resume(resume, &scope, now).unwrap()
}

/// Whether a process that was thought dead is kept from writing.
pub fn is_fenced(cluster: &mut Cluster, old: &Run) -> bool {
    let step = old.step();
    let writes = matches!(step, Step::WriteRecord { .. } | Step::NoteProgress { .. });
    assert!(writes, "a step that writes is wanted, not {step:?}");
    cluster.carry_out(&step) == Err(Dropped)
}
