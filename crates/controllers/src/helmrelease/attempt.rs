//! One attempt of a HelmRelease.

use std::borrow::Cow;
use std::sync::Arc;

use everflow_api::Reason;
use everflow_api::condition::Reconciled as _;
use everflow_api::helm::{
    HelmRelease, HelmReleaseSpec, HelmReleaseStatus, PostRenderStrategy, WaitStrategy,
    WaitStrategyName,
};
use everflow_api::object::Object;
use everflow_apply::effects::AppliedCache;
use everflow_apply::health::custom::CustomChecks;
use everflow_env::Place;
use everflow_json::Value;
use everflow_release::chart_version;
use everflow_release::names::{ReleaseTarget, moved};
use everflow_release::record::mark::Holder;
use everflow_release::remedy::{Requests, take_requests};
use everflow_release::state::{TakeOver, Wanted};
use everflow_release::status::{self, Attempted};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::Concealed;
use everflow_runtime::events::Event;
use everflow_time::Timestamp;

use super::HelmReleaseController;
use super::chart::LoadedChart;
use super::rounds::Work;
use super::source::Source;
use crate::Options;
use crate::skeleton::{Held, SUSPENDED, health_checks, hold, silent};
use crate::stop::{EventText, Failure, Misconfigured, Stop};
use crate::target::{Target, Wanted as WantedTarget};
use crate::watching::LiveView;

/// An attempt that is under way. The status of `object` is the one in the making.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) controller: &'a HelmReleaseController,
    pub(super) context: &'a Context,
    /// The object as last seen, our own writes included.
    pub(super) value: Cow<'a, Value>,
    pub(super) object: Object<HelmRelease>,
    /// The status that it began with.
    pub(super) before: HelmReleaseStatus,
    pub(super) events: Vec<Event>,
    /// What people ask for by annotations.
    pub(super) requests: Requests,
    /// What Secrets have brought to the values: it is not told again.
    pub(super) concealed: Arc<Concealed>,
}

/// How an attempt stops before it has a result.
#[derive(Debug)]
pub(super) enum Halt {
    /// Something has to be there or be right first, or there is no point in going on.
    Stop(Stop),
    /// Something is waited for: the report says so.
    Wait(Box<Report>),
    /// Another has written what was to be written, or it is not known whether the server did what it was asked:
    /// what is true is read anew.
    Again(String),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Halt::Stop(stop)
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Halt::Stop(failure.into())
    }
}

impl From<Interrupted> for Halt {
    fn from(why: Interrupted) -> Self {
        Halt::Stop(why.into())
    }
}

impl Halt {
    /// What a failed request to the API server means for an action: nothing is known of what it did.
    pub(super) fn unanswered(error: ClientError) -> Self {
        match error {
            ClientError::Fenced { .. } => Halt::Stop(Stop::Interrupted(Interrupted::NotLeading)),
            error => Halt::Again(error.to_string()),
        }
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        controller: &'a HelmReleaseController,
        context: &'a Context,
        value: &'a Value,
        mut object: Object<HelmRelease>,
    ) -> Self {
        if controller.options.gates.use_helm_3_defaults {
            with_helm_3_defaults(&mut object.spec);
        }
        Attempt {
            controller,
            context,
            value: Cow::Borrowed(value),
            before: object.status.clone(),
            object,
            events: Vec::new(),
            requests: Requests::default(),
            concealed: Arc::default(),
        }
    }

    pub(super) fn options(&self) -> &'a Options {
        &self.controller.options
    }

    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        self.context.env.clock.now()
    }

    pub(super) fn namespace(&self) -> &str {
        self.object.metadata.namespace()
    }

    /// The process that acts, in its time of leadership.
    pub(super) fn holder(&self) -> Holder {
        let epoch = self.context.epoch.as_ref();
        Holder {
            identity: self.controller.identity(&self.context.env).to_owned(),
            lease: epoch.map(|epoch| epoch.lease().to_owned()),
            epoch: epoch.map_or(0, everflow_runtime::lease::Epoch::number),
        }
    }

    /// When actions of others may be taken up.
    pub(super) fn take_over(&self) -> TakeOver {
        let options = &self.options().helm;
        let mut rules = TakeOver {
            enabled: options.stuck_release_recovery,
            patience: Some(options.foreign_patience.into()),
            flux_stopped: None,
            alone: self.context.epoch.is_none(),
        };
        self.context.env.planted(Place::TakeOver, &mut rules);
        rules
    }

    /// What the object says of its target.
    pub(super) fn wanted_target(&self) -> WantedTarget<'_> {
        WantedTarget {
            namespace: self.object.metadata.namespace(),
            account: self.object.spec.service_account_name.as_deref(),
            kube_config: self.object.spec.kube_config.as_ref(),
        }
    }

    /// The cluster to release to, and in whose name.
    pub(super) async fn target(&self) -> Result<Target, Stop> {
        let targets = &self.controller.targets;
        let wanted = self.wanted_target();
        let found = targets.of(wanted, &self.context.client, self.options());
        found.await.map_err(|unusable| {
            Failure::new(Reason::RESTClientError, unusable.of_release())
                .telling(EventText::Nothing)
                .into()
        })
    }

    /// What watches tell of the objects of a target.
    pub(super) fn live_view(&self, target: &Target) -> LiveView<'a> {
        LiveView {
            context: self.context,
            caches: &self.controller.caches,
            local: !target.remote,
        }
    }

    pub(super) fn memory(&self, target: &Target) -> Arc<AppliedCache> {
        let metadata = &self.object.metadata;
        let caches = &self.controller.caches;
        caches.of(metadata.namespace(), &metadata.name, target.identity)
    }

    pub(super) async fn run(mut self) -> Result<Report, Interrupted> {
        if self.object.metadata.is_deleted() {
            return self.finalize().await;
        }
        match hold(self.context, &self.value).await? {
            Held::Now(stored) => self.value = Cow::Owned(stored),
            Held::Already => {}
            Held::Ends(report) => return Ok(report),
        }
        if self.object.spec.suspend {
            return Ok(self.suspended());
        }
        if let Some(moment) = self.controller.moments().get_mut(&self.context.key) {
            self.events = std::mem::take(&mut moment.news);
        }
        self.requests = take_requests(&mut self.object);
        let request = self.object.metadata.requested_at().map(str::to_owned);
        self.object.status.handle_request(request.as_deref());
        let outcome = self.reconcile().await;
        match outcome {
            Ok(report) => Ok(report),
            Err(Halt::Wait(mut report)) => {
                let news = std::mem::take(&mut self.events);
                match report.status {
                    Some(_) => drop(report.events.splice(0..0, news)),
                    None => self.keep_news(news),
                }
                Ok(*report)
            }
            Err(Halt::Again(why)) => Ok(self.once_more(&why)),
            Err(Halt::Stop(Stop::Interrupted(why))) => Err(why),
            Err(Halt::Stop(Stop::Failed(failure))) => Ok(self.fail(*failure)),
            Err(Halt::Stop(Stop::Gone | Stop::Unsettled { .. })) => {
                Ok(silent(Next::retry("Gone"), Verdict::Success))
            }
        }
    }

    /// Keeps news for the next attempt.
    fn keep_news(&self, news: Vec<Event>) {
        let mut moments = self.controller.moments();
        let moment = moments.entry(self.context.key.clone()).or_default();
        moment.news.extend(news);
    }

    /// A suspended object is left alone; only its generation is noted.
    fn suspended(mut self) -> Report {
        self.controller.moments().remove(&self.context.key);
        self.context.release_watches(&[]);
        let generation = self.object.metadata.generation;
        self.object.status.observe(generation);
        self.report(Next::At(SUSPENDED), Verdict::Success)
    }

    async fn reconcile(&mut self) -> Result<Report, Halt> {
        let checks = self.checks()?;
        self.sync_chart_object().await?;
        super::depends::check(&self.value, &self.object, self.context, self.options()).await?;
        let source = self.source().await?;
        let (values, concealed) = self.values().await?;
        let chart = self.load(&source).await?;
        let tracks = !self.options().gates.disable_chart_digest_tracking;
        let (version, oci_digest) = version(&chart, &source, tracks)?;
        let mut target = self.target().await?;
        self.concealed = Arc::new(concealed);
        target.client = target.client.concealing(self.concealed.clone());
        if let Some(moved) = moved(&self.object, chart.name()) {
            return self.move_away(moved, &target, &checks).await;
        }
        let wanted = Wanted::new(&self.object, chart.name(), &version, values);
        let release = ReleaseTarget::of(&self.object);
        let attempted = Attempted {
            chart_version: &version,
            oci_digest: oci_digest.as_deref(),
            config_digest: &wanted.config_digest,
            reset: self.requests.reset,
        };
        status::note_attempt(&mut self.object, &attempted, &release.storage_namespace);
        let records = self.records(&target, &release).await?;
        let claims = self
            .controller
            .claims
            .of(self.context, &release, &self.object);
        let work = Work::new(
            self, target, release, chart, wanted, claims, records, checks,
        );
        self.carry_through(work).await
    }

    /// The expressions for the health of objects.
    pub(super) fn checks(&self) -> Result<CustomChecks, Stop> {
        let checks = health_checks(&self.object.spec.health_check_exprs, self.options());
        checks.map_err(configuration)
    }
}

/// What of the spec cannot be right; the event has it without the words that the status begins with.
pub(super) fn configuration(wrong: Misconfigured) -> Stop {
    let text = EventText::Text(wrong.0.clone());
    Failure::from(wrong).telling(text).into()
}

/// Says what is not said in a spec as Helm 3 did it.
fn with_helm_3_defaults(spec: &mut HelmReleaseSpec) {
    let install = spec.install.get_or_insert_default();
    install.server_side_apply.get_or_insert(false);
    spec.post_render_strategy
        .get_or_insert(PostRenderStrategy::NoHooks);
    spec.wait_strategy.get_or_insert(WaitStrategy {
        name: WaitStrategyName::Legacy,
        ..WaitStrategy::default()
    });
}

/// The version of a chart; one from a source that can move is known by the digest of the artifact, too.
fn version(
    chart: &LoadedChart,
    source: &Source,
    tracks: bool,
) -> Result<(String, Option<String>), Stop> {
    let plain = chart.chart.metadata.version.clone();
    if !source.tracks_digest || !tracks {
        return Ok((plain, None));
    }
    match chart_version::tracked(&plain, &source.artifact.revision) {
        Ok(tracked) => Ok((tracked.version, Some(tracked.digest))),
        Err(error) => Err(Failure::new(Reason::ChartMutateError, error.to_string())
            .telling(EventText::Nothing)
            .into()),
    }
}
