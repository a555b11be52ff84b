//! The beginning of an action: what is asked for, what there is, and the record that is to be.

use everflow_api::helm::HelmRelease;
use everflow_api::object::Object;
use everflow_env::Place;
use everflow_helm::release::Release;
use everflow_helm::template::ReleaseOptions;
use everflow_json::Value;
use everflow_release::action::{ActionKind, Begin, Plan, Resume, Run, delete_interrupted};
use everflow_release::decide::{Decision, name_in_use};
use everflow_release::manifest::{objects, unnamed};
use everflow_release::record::mark::MadeFrom;
use everflow_release::record::{
    NewRecord, Status, StoredRecord, first_record, next_record, record_for_rollback,
};
use everflow_release::render::{common_metadata_digest, post_renderers_digest};
use everflow_release::state::GoOn;
use everflow_release::values::preserve;

use super::attempt::{Attempt, Halt};
use super::render::Draft;
use super::rounds::Work;
use super::scope::kinds;

/// An action that has begun, or why it cannot. Nothing is stored in that case.
#[derive(Debug)]
pub(super) enum ActionStart {
    Run(Box<Run>),
    Failed(String),
}

/// What an action starts from.
struct ActionBase {
    record: Release,
    in_place_of: Option<StoredRecord>,
    base: Option<StoredRecord>,
    replaced: Option<StoredRecord>,
    made_from: Option<MadeFrom>,
}

impl Attempt<'_> {
    /// What is asked for of an action.
    pub(super) fn plan(&self, work: &Work, decision: &Decision, kind: ActionKind) -> Plan {
        let spec = &self.object.spec;
        let storage = &work.records.storage;
        let base = || storage.base().map(|base| base.summary.clone());
        let last = storage
            .last()
            .ok()
            .flatten()
            .map(|last| last.summary.clone());
        match (kind, decision) {
            (ActionKind::Install, _) => Plan::install(spec),
            (ActionKind::Upgrade, _) => match base().or(last) {
                Some(before) => Plan::upgrade(spec, &before),
                None => Plan::install(spec),
            },
            (ActionKind::Rollback, Decision::Rollback { to }) => match storage.get(*to) {
                Some(target) => Plan::rollback(spec, &target.summary),
                None => Plan::uninstall(spec, kind),
            },
            (ActionKind::Rollback, _) => match last {
                Some(record) => Plan::rollback(spec, &record),
                None => Plan::uninstall(spec, kind),
            },
            (ActionKind::Test, _) => match last {
                Some(last) => Plan::test(spec, &last),
                None => Plan::uninstall(spec, kind),
            },
            (ActionKind::Uninstall | ActionKind::UninstallRemediation, _) => {
                Plan::uninstall(spec, kind)
            }
        }
    }

    /// Begins an action, or goes on with one.
    pub(super) async fn begin(
        &mut self,
        work: &mut Work,
        decision: &Decision,
        plan: Plan,
    ) -> Result<ActionStart, Halt> {
        match decision {
            Decision::GoOn {
                how: GoOn::Resume | GoOn::Abandon,
                ..
            } => return self.resume(work, plan).await,
            Decision::GoOn {
                how: GoOn::Again, ..
            } => return self.begin_again(work, plan).await,
            _ => {}
        }
        let anew = matches!(
            decision,
            Decision::GoOn {
                how: GoOn::Anew,
                ..
            }
        );
        let ground = match (plan.kind, decision) {
            (ActionKind::Install, _) => self.ground_of_install(work, &plan, anew).await?,
            (ActionKind::Upgrade, _) => self.ground_of_upgrade(work, &plan, anew).await?,
            (ActionKind::Rollback, Decision::Rollback { to }) => {
                self.ground_of_rollback(work, &plan, *to)
            }
            _ => newest(work),
        };
        match ground {
            Ok(ground) => self.start(work, plan, ground).await,
            Err(why) => Ok(ActionStart::Failed(why)),
        }
    }

    /// An uninstall that has failed is done once more.
    async fn begin_again(&mut self, work: &mut Work, plan: Plan) -> Result<ActionStart, Halt> {
        match newest(work) {
            Ok(ground) => self.start(work, plan, ground).await,
            Err(why) => Ok(ActionStart::Failed(why)),
        }
    }

    async fn start(
        &mut self,
        work: &mut Work,
        plan: Plan,
        mut ground: ActionBase,
    ) -> Result<ActionStart, Halt> {
        let last = work.records.storage.last().ok().flatten();
        let failed = last.filter(|last| last.summary.status == Status::Failed);
        if let Some(last) = failed.and_then(|last| work.records.whole(last.summary.version))
            && matches!(plan.kind, ActionKind::Install | ActionKind::Upgrade)
        {
            delete_interrupted(&mut ground.record.hooks, &last.release);
        }
        let before = ground
            .base
            .as_ref()
            .map_or("", |base| &base.release.manifest);
        let hooks = ground.record.hooks.iter();
        let mut texts: Vec<&str> = hooks.map(|hook| hook.hook.manifest.as_str()).collect();
        texts.extend([ground.record.manifest.as_str(), before]);
        let kinds = kinds(&work.target.client, &texts, work.records.budget()).await?;
        let version = ground.record.version;
        let begin = Begin {
            plan,
            storage_namespace: &work.release.storage_namespace,
            holder: self.holder(),
            deployed: self.deployed(work, version, ground.base.as_ref()),
            revisions: others(work, version),
            record: ground.record,
            in_place_of: ground.in_place_of,
            made_from: ground.made_from,
            base: ground.base,
            replaced: ground.replaced,
        };
        let is_new = matches!(begin.plan.kind, ActionKind::Install | ActionKind::Upgrade);
        Ok(match Run::begin(begin, &kinds, self.now()) {
            Ok(run) => match unnamed(run.record(), run.objects()).filter(|_| is_new) {
                Some(why) => ActionStart::Failed(why),
                None => ActionStart::Run(Box::new(run)),
            },
            Err(error) => ActionStart::Failed(error.to_string()),
        })
    }

    /// Goes on with what storage says is under way.
    pub(super) async fn resume(
        &mut self,
        work: &mut Work,
        plan: Plan,
    ) -> Result<ActionStart, Halt> {
        let last = work.records.storage.last().ok().flatten();
        let version = last.map(|last| last.summary.version).unwrap_or_default();
        let Some(mut stored) = work.records.whole(version) else {
            return Err(Halt::Again("the record has gone".to_owned()));
        };
        self.context.env.planted(Place::ResumedRecord, &mut stored);
        self.load_definitions(work).await?;
        let revisions = others(work, version);
        let base = match plan.kind {
            ActionKind::Upgrade | ActionKind::Rollback => Run::base_version(&stored, &revisions),
            _ => None,
        };
        let base = base.and_then(|version| work.records.whole(version));
        let before = base.as_ref().map_or("", |base| &base.release.manifest);
        let hooks = stored.release.hooks.iter();
        let mut texts: Vec<&str> = hooks.map(|hook| hook.hook.manifest.as_str()).collect();
        texts.extend([stored.release.manifest.as_str(), before]);
        let kinds = kinds(&work.target.client, &texts, work.records.budget()).await?;
        let replaced = match plan.kind == ActionKind::Install && plan.replace_release {
            true => replaced(work, version),
            false => None,
        };
        let resume = Resume {
            plan,
            storage_namespace: &work.release.storage_namespace,
            holder: self.holder(),
            deployed: self.deployed(work, version, base.as_ref()),
            revisions,
            stored,
            base,
            replaced,
        };
        Ok(match Run::resume(resume, &kinds, self.now()) {
            Ok(run) => ActionStart::Run(Box::new(run)),
            Err(error) => ActionStart::Failed(error.to_string()),
        })
    }

    async fn ground_of_install(
        &mut self,
        work: &mut Work,
        plan: &Plan,
        anew: bool,
    ) -> Result<Result<ActionBase, String>, Halt> {
        let in_place_of = self.in_place_of(work, anew);
        if !anew
            && let Some(why) = name_in_use(&work.records.storage, plan)
            && work.records.storage.next_version() > 1
        {
            return Ok(Err(why.to_owned()));
        }
        let version = match &in_place_of {
            Some(stored) => stored.release.version,
            None => work.records.storage.next_version(),
        };
        if let Err(why) = self.apply_definitions(work, plan).await? {
            return Ok(Err(why));
        }
        let draft = self
            .draft(work, 1, false, skips_schema(&self.object, false))
            .await?;
        let client = work.target.client.clone();
        let rendered = match self.render(&client, &draft).await? {
            Ok(rendered) => rendered,
            Err(why) => return Ok(Err(why)),
        };
        let record = first_record(NewRecord {
            name: &work.release.name,
            namespace: &work.release.namespace,
            version,
            rendered: &rendered,
            config: draft.config,
            server_side: plan.server_side,
            labels: Default::default(),
            now: self.now(),
        });
        let replaced = match plan.replace_release {
            true => replaced(work, version),
            false => None,
        };
        Ok(Ok(ActionBase {
            record,
            in_place_of,
            base: None,
            replaced,
            made_from: Some(self.made_from()),
        }))
    }

    async fn ground_of_upgrade(
        &mut self,
        work: &mut Work,
        plan: &Plan,
        anew: bool,
    ) -> Result<Result<ActionBase, String>, Halt> {
        let in_place_of = self.in_place_of(work, anew);
        let version = match &in_place_of {
            Some(stored) => stored.release.version,
            None => work.records.storage.next_version(),
        };
        let base = work.records.storage.base().map(|base| base.summary.version);
        let Some(base) = base.and_then(|version| work.records.whole(version)) else {
            let why = format!("\"{}\" has no deployed releases", work.release.name);
            return Ok(Err(why));
        };
        if let Err(why) = self.apply_definitions(work, plan).await? {
            return Ok(Err(why));
        }
        let mut draft = self
            .draft(work, version, true, skips_schema(&self.object, true))
            .await?;
        let upgrade = self.object.spec.upgrade.as_ref();
        if upgrade.is_some_and(|upgrade| upgrade.preserve_values) {
            let before = &base.release;
            let budget = work.records.budget();
            match preserve(&draft.config, &before.chart, &before.config, &budget) {
                Ok(preserved) => {
                    draft.config = preserved.config;
                    draft.chart.values = preserved.chart_values;
                }
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        let client = work.target.client.clone();
        let rendered = match self.render(&client, &draft).await? {
            Ok(rendered) => rendered,
            Err(why) => return Ok(Err(why)),
        };
        let new = NewRecord {
            name: &work.release.name,
            namespace: &work.release.namespace,
            version,
            rendered: &rendered,
            config: draft.config,
            server_side: plan.server_side,
            labels: base.release.labels.clone(),
            now: self.now(),
        };
        Ok(Ok(ActionBase {
            record: next_record(new, &base.release.info.first_deployed),
            in_place_of,
            base: Some(base),
            replaced: None,
            made_from: Some(self.made_from()),
        }))
    }

    fn ground_of_rollback(&self, work: &Work, plan: &Plan, to: i64) -> Result<ActionBase, String> {
        let storage = &work.records.storage;
        let last = storage
            .last()
            .ok()
            .flatten()
            .map(|last| last.summary.version);
        let newest = last.and_then(|version| work.records.whole(version));
        let (Some(target), Some(newest)) = (work.records.whole(to), newest) else {
            return Err(format!("release: no record of revision {to} can be read"));
        };
        let record = record_for_rollback(
            &target.release,
            storage.next_version(),
            &newest.release.info.first_deployed,
            plan.server_side,
            self.now(),
        );
        Ok(ActionBase {
            record,
            in_place_of: None,
            base: Some(newest),
            replaced: None,
            made_from: target.place.made_from,
        })
    }

    /// What a chart is rendered for and with.
    pub(super) async fn draft(
        &self,
        work: &Work,
        revision: i64,
        is_upgrade: bool,
        skip_schema_validation: bool,
    ) -> Result<Draft, Halt> {
        let (Some(loaded), Some(wanted)) = (&work.chart, &work.wanted) else {
            return Err(Halt::Again("there is no chart".to_owned()));
        };
        let mut chart = loaded.chart.clone();
        chart.metadata.version.clone_from(&wanted.chart_version);
        let capabilities = self
            .capabilities(&work.target, loaded.asks_for_versions)
            .await?;
        Ok(Draft {
            chart,
            config: wanted.values.clone(),
            options: ReleaseOptions {
                name: work.release.name.clone(),
                namespace: work.release.namespace.clone(),
                revision,
                is_upgrade,
                capabilities,
                skip_schema_validation,
                ..ReleaseOptions::default()
            },
        })
    }

    /// The objects of a stored revision, each with its namespace.
    pub(super) async fn objects_of(&self, work: &Work, version: i64) -> Result<Vec<Value>, Halt> {
        let Some(stored) = work.records.whole(version) else {
            return Ok(Vec::new());
        };
        let release = &stored.release;
        let budget = work.records.budget();
        let kinds = kinds(&work.target.client, &[&release.manifest], budget).await?;
        let found = objects(&release.manifest, &release.namespace, &kinds);
        found.map_err(|error| {
            crate::stop::Stop::failed(everflow_api::Reason::StateError, error.to_string()).into()
        })
    }

    fn made_from(&self) -> MadeFrom {
        let metadata = &self.object.metadata;
        MadeFrom {
            namespace: metadata.namespace().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone().unwrap_or_default(),
            post_renderers: post_renderers_digest(&self.object),
            common_metadata: common_metadata_digest(&self.object),
        }
    }

    fn in_place_of(&self, work: &Work, anew: bool) -> Option<StoredRecord> {
        let last = work.records.storage.last().ok().flatten()?;
        match anew {
            true => work.records.whole(last.summary.version),
            false => None,
        }
    }

    /// All revisions that are deployed, but for two.
    fn deployed(
        &self,
        work: &Work,
        version: i64,
        base: Option<&StoredRecord>,
    ) -> Vec<StoredRecord> {
        let base = base.map(|base| base.release.version);
        let is_other = |other: i64| other != version && Some(other) != base;
        let records = work.records.storage.records();
        let budget = work.records.budget();
        let mut found = Vec::new();
        for stored in records
            .filter(|stored| stored.summary.status == Status::Deployed)
            .filter(|stored| is_other(stored.summary.version))
        {
            let version = stored.summary.version;
            let Some(whole) = work.records.whole_within(version, &budget) else {
                continue;
            };
            // They are held together: what each has in its manifest stands for it.
            let takes = whole.release.manifest.len();
            if budget.charge(takes).is_err() {
                break;
            }
            found.push(whole);
        }
        found
    }
}

/// All revisions but one.
fn others(work: &Work, version: i64) -> Vec<(i64, Status)> {
    let all = work.records.storage.revisions().into_iter();
    all.filter(|(other, _)| *other != version).collect()
}

/// The record that an install takes the place of.
fn replaced(work: &Work, version: i64) -> Option<StoredRecord> {
    let mut records = work.records.storage.records();
    let last = records.rfind(|stored| stored.summary.version != version)?;
    let is_over = matches!(last.summary.status, Status::Uninstalled | Status::Failed);
    match is_over {
        true => work.records.whole(last.summary.version),
        false => None,
    }
}

/// Actions on the newest record.
fn newest(work: &Work) -> Result<ActionBase, String> {
    let last = work.records.storage.last().ok().flatten();
    let last = last.and_then(|last| work.records.whole(last.summary.version));
    let Some(stored) = last else {
        return Err(format!("release: {} not found", work.release.name));
    };
    Ok(ActionBase {
        record: stored.release.clone(),
        made_from: stored.place.made_from.clone(),
        in_place_of: Some(stored),
        base: None,
        replaced: None,
    })
}

fn skips_schema(object: &Object<HelmRelease>, is_upgrade: bool) -> bool {
    let spec = &object.spec;
    match is_upgrade {
        false => spec
            .install
            .as_ref()
            .is_some_and(|install| install.disable_schema_validation),
        true => spec
            .upgrade
            .as_ref()
            .is_some_and(|upgrade| upgrade.disable_schema_validation),
    }
}
