//! HelmReleases that go, and releases whose name or place has changed: what is there is uninstalled.

use std::time::Duration;

use everflow_api::Reason;
use everflow_api::helm::latest;
use everflow_apply::health::custom::CustomChecks;
use everflow_release::action::{ActionKind, Outcome, Plan};
use everflow_release::decide::Decision;
use everflow_release::names::{Moved, ReleaseTarget};
use everflow_release::record::{Status, StoredSummary};
use everflow_release::state::{Hold, hold, made_for};
use everflow_release::status;
use everflow_runtime::attempt::{Interrupted, Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};

use super::attempt::{Attempt, Halt};
use super::begin::ActionStart;
use super::rounds::Work;
use crate::skeleton::{SUSPENDED, is_held, let_go, silent};
use crate::stop::{EventText, Failure, Stop};
use crate::target::Target;

/// What became of an uninstall.
enum Uninstalled {
    /// There is nothing left of the release, or it is not ours.
    Done,
    /// It has failed.
    Failed,
}

impl Attempt<'_> {
    /// Uninstalls the release, if that is asked for, and removes the finalizer.
    pub(super) async fn finalize(mut self) -> Result<Report, Interrupted> {
        if !is_held(&self.object.metadata) {
            return Ok(silent(Next::At(SUSPENDED), Verdict::Success));
        }
        if !self.object.spec.suspend {
            match self.uninstall_all().await {
                Ok(Uninstalled::Done) => {}
                Ok(Uninstalled::Failed) => {
                    let next = Next::retry("UninstallFailed");
                    return Ok(self.report(next, Verdict::Failure));
                }
                Err(Halt::Wait(mut report)) => {
                    report.events.splice(0..0, std::mem::take(&mut self.events));
                    return Ok(*report);
                }
                Err(Halt::Again(why)) => return Ok(self.once_more(&why)),
                Err(Halt::Stop(Stop::Interrupted(why))) => return Err(why),
                Err(Halt::Stop(Stop::Failed(failure))) => return Ok(self.fail(*failure)),
                Err(Halt::Stop(_)) => return Ok(silent(Next::retry("Gone"), Verdict::Waiting)),
            }
        }
        self.let_go().await
    }

    async fn uninstall_all(&mut self) -> Result<Uninstalled, Halt> {
        let uninstalled = match self.released().await? {
            Some((target, release)) => {
                self.uninstall(target, release, CustomChecks::default())
                    .await?
            }
            None => Uninstalled::Done,
        };
        if let Uninstalled::Done = uninstalled {
            self.sync_chart_object().await?;
        }
        Ok(uninstalled)
    }

    /// What was released, and where; none when there is nothing to uninstall, or nobody to do it as.
    async fn released(&mut self) -> Result<Option<(Target, ReleaseTarget)>, Halt> {
        let status = &self.object.status;
        let Some(storage) = status.storage_namespace.clone() else {
            return Ok(None);
        };
        let release = match latest(&status.history) {
            Some(last) => ReleaseTarget::of_snapshot(last, &storage),
            None => ReleaseTarget {
                storage_namespace: storage,
                ..ReleaseTarget::of(&self.object)
            },
        };
        let (own, options) = (self.context.client.clone(), self.options());
        let targets = &self.controller.targets;
        let gone = targets.gone(self.wanted_target(), &own, options).await;
        if gone.map_err(Halt::unanswered)? {
            self.tell_skipped("the ServiceAccount to act as is gone");
            return Ok(None);
        }
        match self.target().await {
            Ok(target) => Ok(Some((target, release))),
            Err(Stop::Failed(failure)) if failure.message.contains("not found") => {
                self.tell_skipped(&failure.message);
                Ok(None)
            }
            Err(stop) => Err(stop.into()),
        }
    }

    fn tell_skipped(&mut self, why: &str) {
        let message = format!("the release is left as it is: {why}");
        let reason = Reason::UninstallFailed.as_str();
        self.events
            .push(Event::new(Severity::Error, reason, message));
    }

    /// Uninstalls a release, if it is ours.
    async fn uninstall(
        &mut self,
        target: Target,
        release: ReleaseTarget,
        checks: CustomChecks,
    ) -> Result<Uninstalled, Halt> {
        let records = self.records(&target, &release).await?;
        let last = match records.storage.last() {
            Ok(last) => last.cloned(),
            Err(_) => {
                let message = format!(
                    "Could not determine release state: the newest record of release \"{}\" in namespace {} cannot \
                     be read; restore it from a backup, or delete it to go on without",
                    release.name, release.storage_namespace
                );
                let failure = Failure::new(Reason::StateError, message);
                return Err(failure.telling(EventText::Once).into());
            }
        };
        let Some(last) = last.filter(|last| self.is_ours(last)) else {
            return Ok(Uninstalled::Done);
        };
        let keeps = self.object.spec.uninstall.as_ref();
        let keeps = keeps.is_some_and(|uninstall| uninstall.keep_history);
        if last.summary.status == Status::Uninstalled {
            let now = self.now();
            status::uninstalled_by_other(&mut self.object, keeps, now);
            return Ok(Uninstalled::Done);
        }
        let known = latest(&self.object.status.history).map(|known| known.version);
        if known != Some(last.summary.version) {
            // What is told of is in the history.
            status::adopt_history(&mut self.object, &records.storage);
        }
        let mut work = Work::bare(target, release, records, checks);
        let decision = self.uninstall_decision(&last)?;
        let plan = Plan::uninstall(&self.object.spec, ActionKind::Uninstall);
        let now = self.now();
        status::start_action(&mut self.object, plan.kind, plan.timeout, now);
        let begun = match &decision {
            Decision::GoOn { .. } => self.resume(&mut work, plan).await?,
            _ => self.begin(&mut work, &decision, plan).await?,
        };
        let outcome = match begun {
            ActionStart::Failed(message) => Outcome::Failed {
                message,
                stored: false,
            },
            ActionStart::Run(mut run) => {
                let outcome = self.drive(&mut work, &mut run).await?;
                let kind = ActionKind::Uninstall;
                self.note_end(&work, &decision, Some(&run), kind, &outcome);
                outcome
            }
        };
        self.forget_wait();
        match outcome {
            Outcome::Succeeded => Ok(Uninstalled::Done),
            Outcome::Failed { .. } => Ok(Uninstalled::Failed),
        }
    }

    /// Whether a release was made for this object. One that nobody notes who it was made for counts when the
    /// status knows of it.
    fn is_ours(&self, last: &StoredSummary) -> bool {
        let own = (self.namespace(), self.object.metadata.name.as_str());
        match made_for(last) {
            Some(owner) => owner == own,
            None => !self.object.status.history.is_empty(),
        }
    }

    /// Whether an uninstall is begun or gone on with.
    fn uninstall_decision(&mut self, last: &StoredSummary) -> Result<Decision, Halt> {
        use everflow_release::record::mark::Stage;
        use everflow_release::state::GoOn;
        let is_under_way = last.summary.status.is_in_progress();
        let stage = last.place.progress.as_ref().map(|progress| progress.stage);
        if !is_under_way || stage == Some(Stage::Failed) {
            return Ok(Decision::UninstallRemediation);
        }
        let (me, rules) = (self.holder(), self.take_over());
        let from = match hold(&last.place, &me, &rules, self.now()) {
            Hold::Own => None,
            Hold::Abandoned { by, proof } => Some((by, proof)),
            Hold::Busy { by, .. } => {
                let message = format!(
                    "another operation is in progress: {by} is at work on release {}/{}",
                    last.summary.namespace, last.summary.name
                );
                let now = self.now();
                status::mark_waiting(&mut self.object, &message, now);
                let next = Next::At(Duration::from_secs(5));
                let report = self.take_report(next, Verdict::Waiting);
                return Err(Halt::Wait(Box::new(report)));
            }
        };
        // What was being installed or upgraded is uninstalled from where it stands.
        Ok(match last.summary.status {
            Status::Uninstalling => Decision::GoOn {
                action: ActionKind::Uninstall,
                how: GoOn::Resume,
                from,
            },
            _ => Decision::UninstallRemediation,
        })
    }

    /// Uninstalls a release whose name or place is another by now; then it is installed anew.
    pub(super) async fn move_away(
        &mut self,
        moved: Moved,
        target: &Target,
        checks: &CustomChecks,
    ) -> Result<Report, Halt> {
        let status = &self.object.status;
        let storage = status.storage_namespace.clone().unwrap_or_default();
        let Some(last) = latest(&status.history) else {
            return Err(Halt::Again("the history has gone".to_owned()));
        };
        let release = ReleaseTarget::of_snapshot(last, &storage);
        let fields = [("changed", moved.as_str())];
        self.context
            .log
            .info("uninstalling the former release", &fields);
        let done = self
            .uninstall(target.clone(), release, checks.clone())
            .await?;
        match done {
            Uninstalled::Done => {
                let status = &mut self.object.status;
                status.history.clear();
                status.failures = 0;
                status.install_failures = 0;
                status.upgrade_failures = 0;
                status.storage_namespace = None;
                Ok(self.take_report(Next::At(Duration::ZERO), Verdict::Waiting))
            }
            Uninstalled::Failed => {
                let next = Next::retry("UninstallFailed");
                Ok(self.take_report(next, Verdict::Failure))
            }
        }
    }

    async fn let_go(self) -> Result<Report, Interrupted> {
        self.controller.moments().remove(&self.context.key);
        let metadata = &self.object.metadata;
        let caches = &self.controller.caches;
        caches.forget(metadata.namespace(), &metadata.name);
        let_go(self.context, &self.value, self.events).await
    }
}
