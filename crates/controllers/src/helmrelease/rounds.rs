//! Decisions, carried out one after the other until nothing is left to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_api::Reason;
use everflow_api::helm::{DriftDetectionMode, latest};
use everflow_apply::ObjectId;
use everflow_apply::health::custom::CustomChecks;
use everflow_apply::inventory::Entry;
use everflow_env::Place;
use everflow_json::Value;
use everflow_release::action::{ActionKind, Outcome, Run, Step, StepResult, abandon};
use everflow_release::decide::{self, Decision, Defaults, Then, decide, drift_mode};
use everflow_release::manifest::inventory;
use everflow_release::names::ReleaseTarget;
use everflow_release::record::{Summary, is_observed, manifest_digest};
use everflow_release::state::{Claim, Facts, GoOn, State, Wanted, determine};
use everflow_release::status::{self, Ended, Notice};
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_time::Timestamp;

use super::attempt::{Attempt, Halt};
use super::begin::ActionStart;
use super::chart::LoadedChart;
use super::drift::Drifts;
use super::guard::Allowed;
use super::storage::Records;
use crate::stop::{EventText, Failure, Stop};
use crate::target::Target;

/// What an attempt works with.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) target: Target,
    pub(super) release: ReleaseTarget,
    /// None where only what is there is uninstalled.
    pub(super) chart: Option<Arc<LoadedChart>>,
    pub(super) wanted: Option<Wanted>,
    pub(super) claims: Vec<Claim>,
    pub(super) records: Records,
    pub(super) checks: CustomChecks,
    /// How objects were after this attempt has written them.
    pub(super) lives: BTreeMap<ObjectId, Value>,
    /// What is waited for, and until when at the latest.
    pub(super) open: Vec<Entry>,
    pub(super) deadline: Option<Timestamp>,
    /// What was done, a line for each step.
    pub(super) log: Vec<String>,
    /// The definitions of the chart, for the inventory.
    pub(super) definitions: Vec<Value>,
    pub(super) drifts: Option<Drifts>,
    force: bool,
    rounds: decide::Attempt,
    rendered: Option<String>,
}

impl Work {
    #[expect(clippy::too_many_arguments)]
    pub(super) fn new(
        attempt: &Attempt<'_>,
        target: Target,
        release: ReleaseTarget,
        chart: Arc<LoadedChart>,
        wanted: Wanted,
        claims: Vec<Claim>,
        records: Records,
        checks: CustomChecks,
    ) -> Self {
        Work {
            chart: Some(chart),
            wanted: Some(wanted),
            claims,
            force: attempt.requests.force || attempt.is_slow_retry(),
            ..Work::bare(target, release, records, checks)
        }
    }

    /// To uninstall what is there.
    pub(super) fn bare(
        target: Target,
        release: ReleaseTarget,
        records: Records,
        checks: CustomChecks,
    ) -> Self {
        Work {
            target,
            release,
            chart: None,
            wanted: None,
            claims: Vec::new(),
            records,
            checks,
            lives: BTreeMap::new(),
            open: Vec::new(),
            deadline: None,
            log: Vec::new(),
            definitions: Vec::new(),
            drifts: None,
            force: false,
            rounds: decide::Attempt::default(),
            rendered: None,
        }
    }
}

/// What became of a decision.
enum After {
    /// How the attempt goes on or ends.
    Then(Then),
    /// It ends so.
    Report(Box<Report>),
}

impl Attempt<'_> {
    pub(super) fn defaults(&self) -> Defaults {
        Defaults {
            retry_on_failure: self.options().gates.default_to_retry_on_failure,
        }
    }

    /// Finds out how the release stands and does what is to be done, until nothing is.
    pub(super) async fn carry_through(&mut self, mut work: Work) -> Result<Report, Halt> {
        loop {
            self.context.check()?;
            let mut state = self.determine(&work, false)?;
            if matches!(state, State::InSync { is_observed: true }) && self.looks_for_drift(&work) {
                work.drifts = Some(self.find_drifts(&work).await?);
                let has_drifted = work.drifts.as_ref().is_some_and(Drifts::is_any);
                state = self.determine(&work, has_drifted)?;
            }
            let storage = &work.records.storage;
            let mut decision = decide(state, &self.object, storage, work.force, self.defaults());
            self.context.env.planted(Place::Decision, &mut decision);
            if let Err(then) = work.rounds.may(&decision, &self.object, self.defaults()) {
                return Ok(self.end(then, &work).await);
            }
            match self.carry_out(&mut work, decision).await? {
                After::Then(Then::GoOn) => {}
                After::Then(then) => return Ok(self.end(then, &work).await),
                After::Report(report) => return Ok(*report),
            }
        }
    }

    fn determine(&self, work: &Work, has_drifted: bool) -> Result<State, Halt> {
        let (me, take_over) = (self.holder(), self.take_over());
        let Some(wanted) = &work.wanted else {
            return Err(Halt::Again("nothing is asked for".to_owned()));
        };
        let budget = work.records.budget();
        let facts = Facts {
            object: &self.object,
            storage: &work.records.storage,
            wanted,
            claims: &work.claims,
            rendered: work.rendered.as_deref(),
            has_drifted,
            me: &me,
            take_over: &take_over,
            now: self.now(),
            budget: &budget,
        };
        determine(&facts)
            .map_err(|error| Stop::failed(Reason::StateError, error.to_string()).into())
    }

    fn looks_for_drift(&self, work: &Work) -> bool {
        work.drifts.is_none() && drift_mode(&self.object) != DriftDetectionMode::Disabled
    }

    async fn carry_out(&mut self, work: &mut Work, decision: Decision) -> Result<After, Halt> {
        let now = self.now();
        match &decision {
            Decision::Settle { adopt } => {
                if *adopt {
                    self.adopt(work).await?;
                    return Ok(After::Then(Then::GoOn));
                }
                let defaults = self.defaults();
                status::settle(&mut self.object, defaults, now);
                Ok(After::Then(Then::Settled))
            }
            Decision::Render => {
                work.rendered = Some(self.render_as_stored(work).await?);
                Ok(After::Then(Then::GoOn))
            }
            Decision::Observe => {
                self.observe_failure(work);
                Ok(After::Then(Then::GoOn))
            }
            Decision::Wait { message, until } => {
                status::mark_waiting(&mut self.object, message, now);
                Ok(After::Report(Box::new(self.wait_for_other(*until))))
            }
            Decision::Refuse { reason, message } => {
                let failure = Failure::new(*reason, message.clone());
                Err(failure.telling(EventText::Once).into())
            }
            Decision::Stall { reason, message } => {
                let advice = self.advice(*reason);
                status::stall(&mut self.object, *reason, message, advice.as_deref(), now);
                self.object.status.observed_generation = self.object.metadata.generation;
                Ok(After::Report(Box::new(self.stalled().await)))
            }
            Decision::CorrectDrift => {
                let then = self.correct_drift(work).await?;
                work.rounds
                    .did(&decision, true, &self.object, self.defaults());
                Ok(After::Then(then))
            }
            Decision::ReportDrift => {
                self.tell_drift(work, false);
                status_of_drift(&mut self.object);
                Ok(After::Then(Then::Settled))
            }
            Decision::GoOn {
                how: GoOn::Abandon,
                action,
                ..
            } => {
                self.abandon(work, *action).await?;
                let then = work
                    .rounds
                    .did(&decision, true, &self.object, self.defaults());
                Ok(After::Then(then))
            }
            _ => self.act(work, &decision).await,
        }
    }

    /// An action: begun, or gone on with.
    async fn act(&mut self, work: &mut Work, decision: &Decision) -> Result<After, Halt> {
        if let Allowed::NotNow(report) = self.guarded(work, decision) {
            return Ok(After::Report(report));
        }
        let kind = match decision {
            Decision::Install => ActionKind::Install,
            Decision::Upgrade { .. } => ActionKind::Upgrade,
            Decision::Test => ActionKind::Test,
            Decision::Rollback { .. } => ActionKind::Rollback,
            Decision::UninstallRemediation => ActionKind::UninstallRemediation,
            Decision::GoOn { action, .. } => *action,
            _ => return Ok(After::Then(Then::GoOn)),
        };
        if let Decision::Upgrade {
            clears_history: true,
            ..
        } = decision
        {
            self.object.status.history.clear();
        }
        self.tell_taken_over(work, decision);
        let plan = self.plan(work, decision, kind);
        let now = self.now();
        status::start_action(&mut self.object, kind, plan.timeout, now);
        let outcome = match self.begin(work, decision, plan).await? {
            ActionStart::Run(mut run) => {
                let outcome = self.drive(work, &mut run).await?;
                self.note_end(work, decision, Some(&run), kind, &outcome);
                outcome
            }
            ActionStart::Failed(message) => {
                // A template may print what it fails about.
                let message = self.concealed.hide(&message);
                let outcome = Outcome::Failed {
                    message,
                    stored: false,
                };
                self.note_end(work, decision, None, kind, &outcome);
                outcome
            }
        };
        self.forget_wait();
        let stored = !matches!(outcome, Outcome::Failed { stored: false, .. });
        if work.rounds_release(decision) {
            work.force = false;
        }
        let then = work
            .rounds
            .did(decision, stored, &self.object, self.defaults());
        Ok(After::Then(then))
    }

    /// Carries the steps of an action out, until it is over or something has to be waited for.
    pub(super) async fn drive(&mut self, work: &mut Work, run: &mut Run) -> Result<Outcome, Halt> {
        let mut pending = false;
        loop {
            let step = run.step();
            if let Step::Over(outcome) = step {
                return Ok(outcome);
            }
            let waits = matches!(
                step,
                Step::DeleteHook(_)
                    | Step::AwaitHook(_)
                    | Step::AwaitHealth(_)
                    | Step::AwaitDeletion(_)
            );
            if waits && pending {
                return Err(Halt::Wait(Box::new(self.wait(work).await)));
            }
            self.context.check()?;
            let result = self.effect(work, run, &step).await?;
            if waits {
                pending = result == StepResult::Pending;
            }
            run.done(result, self.now());
        }
    }

    /// Brings the status to what is true after an action.
    pub(super) fn note_end(
        &mut self,
        work: &Work,
        decision: &Decision,
        run: Option<&Run>,
        action: ActionKind,
        outcome: &Outcome,
    ) {
        let now = self.now();
        let own = run.map(|run| Summary::of(run.record()));
        let stored = !matches!(outcome, Outcome::Failed { stored: false, .. });
        let mut written: Vec<&Summary> = Vec::new();
        if stored {
            written.extend(own.as_ref());
            let version = own.as_ref().map(|own| own.version);
            let others = self.changed_on_the_way(work, version);
            written.extend(&others);
            // A failed upgrade or rollback tells of the revision that it started from, too.
            let is_failed = *outcome != Outcome::Succeeded;
            let base = run.and_then(Run::base).filter(|_| is_failed);
            let base = base.and_then(|base| work.records.storage.get(base.version));
            let is_new = |base: &&Summary| others.iter().all(|other| other.version != base.version);
            written.extend(base.map(|base| &base.summary).filter(is_new));
        }
        let target = match decision {
            Decision::Rollback { to } => Some(*to),
            _ => own
                .as_ref()
                .map(|own| own.info.rollback_revision)
                .filter(|to| *to > 0),
        };
        let target = target.and_then(|version| work.records.storage.get(version));
        let began = own
            .as_ref()
            .and_then(|own| Timestamp::parse(&own.info.last_deployed));
        let began = began.unwrap_or(now).min(now);
        let wanted = work.wanted.as_ref();
        let none = String::new();
        let chart = wanted.map_or((none.as_str(), none.as_str()), |wanted| {
            (wanted.chart_name.as_str(), wanted.chart_version.as_str())
        });
        let app_version = work.chart.as_ref().map(|chart| chart.app_version());
        let ended = Ended {
            action,
            outcome,
            written: &written,
            chart,
            app_version: app_version.as_deref().unwrap_or_default(),
            config_digest: wanted.map_or(none.as_str(), |wanted| wanted.config_digest.as_str()),
            target: target.map(|target| &target.summary),
            inventory: run.map(|run| inventory(run.objects(), &work.definitions)),
            duration: now.since(began),
            log: &work.log,
            defaults: self.defaults(),
        };
        let notices = status::ended(&mut self.object, &ended, now);
        self.tell_all(notices);
    }

    /// The records that are not as the status remembers them any more.
    fn changed_on_the_way<'w>(&self, work: &'w Work, but: Option<i64>) -> Vec<&'w Summary> {
        let history = &self.object.status.history;
        let changed = |summary: &&Summary| {
            let mut known = history.iter();
            let known = known.find(|known| known.version == summary.version);
            known.is_some_and(|known| !is_observed(known, summary))
        };
        let records = work.records.storage.records();
        let others = records.filter(|stored| Some(stored.summary.version) != but);
        others
            .map(|stored| &stored.summary)
            .filter(changed)
            .collect()
    }

    /// Takes a failed revision into the status that it does not know of yet.
    fn observe_failure(&mut self, work: &Work) {
        let Ok(Some(last)) = work.records.storage.last() else {
            return;
        };
        let summary = &last.summary;
        let is_install =
            summary.version == 1 || summary.info.first_deployed == summary.info.last_deployed;
        let action = match (summary.info.rollback_revision > 0, is_install) {
            (true, _) => ActionKind::Rollback,
            (false, true) => ActionKind::Install,
            (false, false) => ActionKind::Upgrade,
        };
        let text = &summary.info.description;
        let why = text
            .split_once("\" failed: ")
            .map_or(text.as_str(), |(_, why)| why);
        let outcome = Outcome::Failed {
            message: why.to_owned(),
            stored: true,
        };
        let to = summary.info.rollback_revision;
        let target = work.records.storage.get(to).map(|target| &target.summary);
        let ended = Ended {
            action,
            outcome: &outcome,
            written: &[summary],
            chart: (&summary.chart_name, &summary.chart_version),
            app_version: &summary.app_version,
            config_digest: &summary.config_digest,
            target,
            inventory: None,
            duration: everflow_time::Duration::default(),
            log: &[],
            defaults: self.defaults(),
        };
        let kept = self.object.status.inventory.clone();
        let now = self.now();
        let notices = status::ended(&mut self.object, &ended, now);
        if self.object.status.inventory.is_none() {
            self.object.status.inventory = kept;
        }
        self.tell_all(notices);
    }

    /// Tells the status of a release that is what is asked for and that it does not know.
    async fn adopt(&mut self, work: &mut Work) -> Result<(), Halt> {
        let was = latest(&self.object.status.history).map(|known| known.full_name());
        status::adopt_history(&mut self.object, &work.records.storage);
        let version = work.records.storage.last().ok().flatten();
        let Some(version) = version.map(|last| last.summary.version) else {
            return Ok(());
        };
        self.load_definitions(work).await?;
        let objects = self.objects_of(work, version).await?;
        self.object.status.inventory = Some(inventory(&objects, &work.definitions));
        self.note_recovery("status", was.as_deref().unwrap_or("no history"));
        Ok(())
    }

    async fn abandon(&mut self, work: &mut Work, action: ActionKind) -> Result<(), Halt> {
        let version = work.records.storage.last().ok().flatten();
        let version = version.map(|last| last.summary.version).unwrap_or_default();
        let Some(stored) = work.records.whole(version) else {
            return Err(Halt::Again("the record has gone".to_owned()));
        };
        let (write, expected) = abandon(&stored, &work.release.storage_namespace);
        self.write_record(work, &write, &expected).await?;
        let summary = Summary::of(&write.release);
        let now = self.now();
        let notice = status::abandoned(&mut self.object, &summary, action, now);
        self.tell_all(vec![notice]);
        self.forget_wait();
        Ok(())
    }

    fn tell_taken_over(&mut self, work: &Work, decision: &Decision) {
        let Decision::GoOn {
            from: Some((by, proof)),
            ..
        } = decision
        else {
            return;
        };
        if let Ok(Some(last)) = work.records.storage.last() {
            let notice = status::taken_over(&last.summary, by, proof);
            self.tell_all(vec![notice]);
            self.note_recovery("action", by);
        }
    }

    /// The digest of the manifest that the chart comes to for the newest record.
    async fn render_as_stored(&mut self, work: &mut Work) -> Result<String, Halt> {
        let Ok(Some(last)) = work.records.storage.last() else {
            return Ok(String::new());
        };
        let version = last.summary.version;
        let is_upgrade = version > 1 && last.summary.info.description != "Install complete";
        let draft = self.draft(work, version, is_upgrade, false).await?;
        let rendered = self.render(&work.target.client.clone(), &draft).await?;
        Ok(rendered.map_or_else(
            |_| String::new(),
            |rendered| manifest_digest(&rendered.manifest),
        ))
    }

    pub(super) fn tell_all(&mut self, notices: Vec<Notice>) {
        self.events.extend(notices.iter().map(super::report::event));
    }

    /// Another is at work: it is looked again when it can have ended.
    fn wait_for_other(&mut self, until: Option<Timestamp>) -> Report {
        const LOOK: std::time::Duration = std::time::Duration::from_secs(15);
        let left = until.map(|until| until.since(self.now()).unsigned());
        let span = left.unwrap_or(LOOK).min(LOOK);
        let next = Next::When {
            changes: self.wakes(),
            no_later_than: span.max(std::time::Duration::from_millis(500)),
        };
        self.watch_inputs();
        self.take_report(next, Verdict::Waiting)
    }
}

impl Work {
    fn rounds_release(&self, decision: &Decision) -> bool {
        decision.action_type() == Some(decide::ActionType::Release)
    }
}

/// An attempt that only tells of drift ends as one that went well.
fn status_of_drift(object: &mut everflow_api::object::Object<everflow_api::helm::HelmRelease>) {
    use everflow_api::condition;
    use everflow_api::names::condition::RECONCILING;
    condition::remove(&mut object.status.conditions, RECONCILING);
}
