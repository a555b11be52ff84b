//! Waits that hold no worker: objects, hooks and ends are looked at, and watched until the next look.

use std::collections::BTreeSet;
use std::time::Duration;

use everflow_api::helm::WaitStrategyName;
use everflow_api::inventory::ObjectId;
use everflow_apply::effects::{causes, run_concurrently};
use everflow_apply::health::{Assessment, Health};
use everflow_apply::inventory::Entry;
use everflow_env::{BoxFuture, within};
use everflow_json::Value;
use everflow_release::action::legacy_wait::{Readiness, readiness};
use everflow_release::action::{Await, StepResult, Wait};
use everflow_release::status::messages::{deletion_timed_out, wait_failed_early, wait_timed_out};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Next, Report, Verdict};

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use super::steps::{place, refusal};

/// How often objects are looked at that cannot be watched, and those that can.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// When objects are looked at for the second time; then after thrice the span each time.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// When so few objects that were applied just now are looked at again before others have their turn: most controllers
/// have seen what is small by then, and it takes no second attempt.
const SOON: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(200)];
const FEW: usize = 4;
/// Kinds whose objects are as asked for when they were once.
const STEADY: [(&str, &str); 10] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];
/// So many objects are looked into for the cause of a failure, and for so long.
const LOOKED_INTO: (usize, Duration) = (5, Duration::from_secs(10));

impl Attempt<'_> {
    /// Whether objects are as asked for.
    pub(super) async fn await_health(
        &self,
        work: &mut Work,
        wait: &Await,
    ) -> Result<StepResult, Halt> {
        let now = self.now();
        let is_fresh = !work.lives.is_empty();
        // A failure that was noted in this attempt is to be written first.
        let has_failed_before = self.object.status.failures != self.before.failures;
        let steady = self.steady(is_fresh);
        let is_open = |object: &&Value| !steady.contains(&ObjectId::of(object));
        let asked = wait.objects.iter().filter(is_open).collect();
        let mut open = self.not_yet(work, wait, asked).await?;
        // The next look is at the server.
        work.lives.clear();
        for pause in SOON.into_iter().filter(|_| is_fresh && !has_failed_before) {
            let has_failed = |(_, found): &(&Value, Assessment)| found.health == Health::Failed;
            if open.is_empty() || open.len() > FEW || open.iter().any(has_failed) {
                break;
            }
            self.context.env.clock.sleep(pause).await;
            self.context.check()?;
            let asked = open.into_iter().map(|(object, _)| object).collect();
            open = self.not_yet(work, wait, asked).await?;
        }
        let entry = |(object, found): (&Value, Assessment)| (Entry::of(object), found);
        let open = open.into_iter().map(entry).collect();
        self.standing(work, wait, open, now).await
    }

    /// Those of some objects that are not as asked for.
    async fn not_yet<'o>(
        &self,
        work: &Work,
        wait: &Await,
        objects: Vec<&'o Value>,
    ) -> Result<Vec<(&'o Value, Assessment)>, Halt> {
        let mut tasks: Vec<BoxFuture<'_, Result<Assessment, Halt>>> = Vec::new();
        for object in &objects {
            tasks.push(Box::pin(self.health(work, object, wait.what)));
        }
        let looked = run_concurrently(tasks).await;
        let mut open = Vec::new();
        let mut steady = Vec::new();
        for (object, assessed) in objects.into_iter().zip(looked) {
            let (assessed, id) = (assessed?, ObjectId::of(object));
            if assessed.health != Health::Current {
                open.push((object, assessed));
            } else if is_steady(&id) && !work.checks.has(&id.group, &id.kind) {
                steady.push(id);
            }
        }
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        moment.steady.extend(steady);
        Ok(open)
    }

    /// Objects that were there before and have nothing more to become; none of those that were applied just now.
    fn steady(&self, is_fresh: bool) -> BTreeSet<ObjectId> {
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        if is_fresh {
            moment.steady.clear();
        }
        moment.steady.clone()
    }

    async fn health(&self, work: &Work, object: &Value, what: Wait) -> Result<Assessment, Halt> {
        let id = ObjectId::of(object);
        let found = match work.lives.get(&id) {
            Some(live) => Some(live.clone()),
            None => self.live(work, object).await?,
        };
        let Some(live) = found else {
            return Ok(missing());
        };
        if self.waits_as_helm_3() {
            return Ok(as_helm_3(&live, what));
        }
        let assessed = work.checks.assess(&live, self.now());
        let is_job = (id.group.as_str(), id.kind.as_str()) == ("batch", "Job");
        let runs = live["status"]["startTime"].is_string();
        if is_job && what == Wait::Objects && assessed.health == Health::InProgress && runs {
            return Ok(current());
        }
        Ok(assessed)
    }

    fn waits_as_helm_3(&self) -> bool {
        let strategy = self.object.spec.wait_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.name == WaitStrategyName::Legacy)
    }

    async fn live(&self, work: &Work, object: &Value) -> Result<Option<Value>, Halt> {
        let (resource, at) = match place(work, object).await? {
            Ok(place) => place,
            Err(_) => return Ok(None),
        };
        match work.target.client.get(&resource, at).await {
            Ok(live) => Ok(Some(live)),
            Err(ClientError::NotFound(_)) => Ok(None),
            Err(error) => Err(Halt::unanswered(error)),
        }
    }

    /// Whether the Jobs and Pods of a hook have ended.
    pub(super) async fn await_hook(
        &self,
        work: &mut Work,
        wait: &Await,
    ) -> Result<StepResult, Halt> {
        let now = self.now();
        let mut open = Vec::new();
        for object in &wait.objects {
            let id = ObjectId::of(object);
            let runs = matches!(
                (id.group.as_str(), id.kind.as_str()),
                ("batch", "Job") | ("", "Pod")
            );
            let has_expression = work.checks.has(&id.group, &id.kind);
            if !runs && !has_expression {
                continue;
            }
            let live = match work.lives.remove(&id) {
                Some(live) => Some(live),
                None => self.live(work, object).await?,
            };
            let vanishes = object["spec"].get("ttlSecondsAfterFinished").is_some();
            let assessed = match live {
                None if vanishes => continue,
                None => missing(),
                Some(live) if id.kind == "Pod" && !has_expression => {
                    of_pod(&live, self.options().kustomize.alone)
                }
                Some(live) => work.checks.assess(&live, now),
            };
            if assessed.health != Health::Current {
                open.push((Entry::of(object), assessed));
            }
        }
        self.standing(work, wait, open, now).await
    }

    /// What follows from what is not as asked for yet.
    async fn standing(
        &self,
        work: &mut Work,
        wait: &Await,
        open: Vec<(Entry, Assessment)>,
        now: everflow_time::Timestamp,
    ) -> Result<StepResult, Halt> {
        if open.is_empty() {
            return Ok(StepResult::Done);
        }
        let failed = open
            .iter()
            .filter(|(_, found)| found.health == Health::Failed);
        let failed: Vec<&(Entry, Assessment)> = failed.collect();
        let fast = !self.options().gates.disable_fail_fast_behavior;
        let all_failed = failed.len() == open.len();
        if !failed.is_empty() && (fast || all_failed) {
            let why = wait_failed_early(&named(&failed));
            return Ok(StepResult::Failed(
                self.with_causes(work, why, &failed).await,
            ));
        }
        if now >= wait.deadline() {
            let all: Vec<&(Entry, Assessment)> = open.iter().collect();
            let why = wait_timed_out(&named(&all));
            return Ok(StepResult::Failed(self.with_causes(work, why, &all).await));
        }
        work.open = open.into_iter().map(|(entry, _)| entry).collect();
        work.deadline = Some(wait.deadline());
        Ok(StepResult::Pending)
    }

    /// A failure with what is known of its causes, a line for each object.
    async fn with_causes(
        &self,
        work: &Work,
        mut why: String,
        open: &[&(Entry, Assessment)],
    ) -> String {
        let clock = &*self.context.env.clock;
        let until = clock.elapsed() + LOOKED_INTO.1;
        for (entry, assessed) in open.iter().take(LOOKED_INTO.0) {
            let mut parts = match assessed.health {
                Health::NotFound => continue,
                _ if assessed.message.is_empty() => Vec::new(),
                _ => vec![assessed.message.clone()],
            };
            let left = until.saturating_sub(clock.elapsed());
            let found = within(clock, left, causes(&work.target.client, entry)).await;
            parts.extend(found.into_iter().flatten());
            if !parts.is_empty() {
                let line = format!("\n{}: {}", entry.id.subject(), parts.join("; "));
                why.push_str(&line);
            }
        }
        why
    }

    /// Whether objects that were deleted have gone.
    pub(super) async fn await_deletion(
        &self,
        work: &mut Work,
        wait: &Await,
    ) -> Result<StepResult, Halt> {
        let mut left = Vec::new();
        for object in &wait.objects {
            let (resource, at) = match place(work, object).await? {
                Ok(place) => place,
                Err(_) => continue,
            };
            match work.target.client.get_metadata(&resource, at).await {
                Ok(live) if is_going(&live) => left.push(Entry::of(object)),
                // What was not deleted, because it is not the release's, is not waited for.
                Ok(_) | Err(ClientError::NotFound(_)) => {}
                Err(error) => return Err(Halt::unanswered(error)),
            }
        }
        if left.is_empty() {
            return Ok(StepResult::Done);
        }
        if self.now() >= wait.deadline() {
            let ids: Vec<ObjectId> = left.into_iter().map(|entry| entry.id).collect();
            return Ok(StepResult::Failed(deletion_timed_out(&ids)));
        }
        work.open = left;
        work.deadline = Some(wait.deadline());
        Ok(StepResult::Pending)
    }

    /// Deletes what a hook created, and looks whether it has gone.
    pub(super) async fn delete_hook(
        &self,
        work: &mut Work,
        wait: &Await,
    ) -> Result<StepResult, Halt> {
        let mut left = Vec::new();
        let mut late = Vec::new();
        for object in &wait.objects {
            let (resource, at) = match place(work, object).await? {
                Ok(place) => place,
                Err(_) => continue,
            };
            let client = &work.target.client;
            let live = match client.get_metadata(&resource, at).await {
                Ok(live) => live,
                Err(ClientError::NotFound(_)) => continue,
                Err(error) => return Err(Halt::unanswered(error)),
            };
            if is_going(&live) {
                let since = live["metadata"]["deletionTimestamp"].as_str();
                let since = since.and_then(everflow_time::Timestamp::parse);
                let end = since.map(|since| since + wait.timeout.unsigned());
                if end.is_some_and(|end| end <= self.now()) {
                    late.push(ObjectId::of(object));
                }
                left.push(Entry::of(object));
                continue;
            }
            let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
            let mut options = everflow_runtime::client::DeleteOptions::uid(uid);
            options.propagation = "Background";
            match client.delete(&resource, at, &options).await {
                Ok(answer) if is_going(&answer) => left.push(Entry::of(object)),
                Ok(_) | Err(ClientError::NotFound(_)) => {}
                Err(error) => return Ok(StepResult::Failed(refusal(error)?.to_string())),
            }
        }
        if !late.is_empty() {
            return Ok(StepResult::Failed(deletion_timed_out(&late)));
        }
        if left.is_empty() {
            return Ok(StepResult::Done);
        }
        work.open = left;
        work.deadline = None;
        Ok(StepResult::Pending)
    }

    /// Lets others work until something that is waited for changes.
    pub(super) async fn wait(&mut self, work: &Work) -> Report {
        let view = self.live_view(&work.target);
        let mut keep = self.watch_inputs();
        let mut changes = view.watch(&work.open, &mut keep).await;
        let watched = !work.target.remote && changes.len() >= work.open.len();
        changes.extend(self.wakes());
        self.context.release_watches(&keep);
        let ids = work.open.iter().map(|entry| entry.id.clone());
        self.memory(&work.target).await_changes(ids);
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        let longest = if watched { LOOK.1 } else { LOOK.0 };
        let look = longest.min(SECOND_LOOK * 3_u32.pow(moment.looks.min(5)));
        moment.looks = moment.looks.saturating_add(1);
        drop(moments);
        let left = work.deadline.map(|end| end.since(self.now()).unsigned());
        let span = left.map_or(look, |left| look.min(left));
        let next = Next::When {
            changes,
            no_later_than: span.max(Duration::from_millis(50)),
        };
        self.take_report(next, Verdict::Waiting)
    }

    /// Nothing is waited for any more.
    pub(super) fn forget_wait(&self) {
        let mut moments = self.controller.moments();
        if let Some(moment) = moments.get_mut(&self.context.key) {
            moment.looks = 0;
            moment.steady.clear();
            moment.definitions = None;
        }
    }
}

fn named<'a>(open: &[&'a (Entry, Assessment)]) -> Vec<(ObjectId, &'a str)> {
    let one = |(entry, assessed): &&'a (Entry, Assessment)| {
        let health = match assessed.health {
            Health::InProgress => "InProgress",
            Health::Failed => "Failed",
            Health::Current => "Current",
            Health::Terminating => "Terminating",
            Health::NotFound => "NotFound",
            Health::Unknown => "Unknown",
        };
        (entry.id.clone(), health)
    };
    open.iter().map(one).collect()
}

fn is_steady(id: &ObjectId) -> bool {
    STEADY.contains(&(id.group.as_str(), id.kind.as_str()))
}

fn as_helm_3(live: &Value, what: Wait) -> Assessment {
    let (health, message) = match readiness(live, what == Wait::Jobs) {
        Readiness::Ready => (Health::Current, String::new()),
        Readiness::Waiting(why) => (Health::InProgress, why),
        Readiness::Failed(why) => (Health::Failed, why),
    };
    Assessment {
        health,
        message,
        ..current()
    }
}

fn is_going(live: &Value) -> bool {
    live["metadata"]["deletionTimestamp"].is_string()
}

fn missing() -> Assessment {
    Assessment {
        health: Health::NotFound,
        reason: String::new(),
        message: "Resource not found".to_owned(),
    }
}

fn current() -> Assessment {
    Assessment {
        health: Health::Current,
        reason: String::new(),
        message: String::new(),
    }
}

/// A Pod that is a hook is done when it has ended; where nothing runs in it, when it has started.
fn of_pod(live: &Value, alone: bool) -> Assessment {
    let health = match live["status"]["phase"].as_str() {
        Some("Succeeded") => Health::Current,
        Some("Running") if alone => Health::Current,
        Some("Failed") => Health::Failed,
        _ => Health::InProgress,
    };
    Assessment {
        health,
        ..current()
    }
}
