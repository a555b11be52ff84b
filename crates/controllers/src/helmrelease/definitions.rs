//! Custom resource definitions of a chart, applied by policy before anything else.

use std::time::Duration;

use everflow_api::names::manager;
use everflow_apply::health::{Health, assess};
use everflow_env::run_budgeted;
use everflow_json::Value;
use everflow_release::action::{DefinitionMode, Plan};
use everflow_release::manifest::definitions;
use everflow_release::render::with_dependencies;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Next, Verdict};
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::attempt::{Attempt, Halt};
use super::rounds::Work;
use super::steps::refusal;

const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// How long a worker waits until definitions are served, how often it looks, and how long that may take in all.
const MOMENT: (Duration, Duration, Duration) = (
    Duration::from_secs(2),
    Duration::from_millis(250),
    Duration::from_secs(60),
);

impl Attempt<'_> {
    /// Finds the definitions of the chart.
    pub(super) async fn load_definitions(&self, work: &mut Work) -> Result<(), Halt> {
        if work.chart.is_some() && work.wanted.is_some() {
            // What cannot be read is told when it is to be applied.
            let found = self.definitions_of(work).await;
            work.definitions = found.ok().flatten().unwrap_or_default();
        }
        Ok(())
    }

    /// The definitions of the chart; none where the dependencies cannot be chosen, or why they cannot be read.
    async fn definitions_of(&self, work: &Work) -> Result<Option<Vec<Value>>, String> {
        let (Some(loaded), Some(wanted)) = (&work.chart, &work.wanted) else {
            return Ok(None);
        };
        let (chart, values) = (loaded.chart.clone(), wanted.values.clone());
        let (namespace, name) = (
            self.namespace().to_owned(),
            self.object.metadata.name.clone(),
        );
        let found = run_budgeted(&*self.context.env.blocking, move |budget| {
            // What is wrong with the values is told by rendering.
            let Ok(chart) = with_dependencies(chart, &values, budget) else {
                return Ok(None);
            };
            let found = definitions(&chart, &namespace, &name, budget);
            let found = found.map_err(|error| error.to_string())?;
            Ok(Some(found.objects))
        });
        let broken = || Err("reading the definitions of the chart broke off".to_owned());
        found.await.unwrap_or_else(broken)
    }

    /// Applies the definitions of the chart as the policy says, and waits until they are served.
    pub(super) async fn apply_definitions(
        &self,
        work: &mut Work,
        plan: &Plan,
    ) -> Result<Result<(), String>, Halt> {
        let Some(loaded) = &work.chart else {
            return Ok(Ok(()));
        };
        if loaded.chart.crds().is_empty() {
            return Ok(Ok(()));
        }
        match self.definitions_of(work).await {
            Ok(Some(found)) => work.definitions = found,
            Ok(None) => return Ok(Ok(())),
            Err(why) => return Ok(Err(why)),
        }
        let Some(mode) = plan.definitions else {
            return Ok(Ok(()));
        };
        let mut applied = Vec::new();
        for definition in &work.definitions {
            match self.apply_definition(work, definition, mode).await? {
                Ok(live) => applied.push(live),
                Err(why) => {
                    let why = format!("failed to apply CustomResourceDefinitions: {why}");
                    return Ok(Err(why));
                }
            }
        }
        self.await_definitions(work, applied).await
    }

    async fn apply_definition(
        &self,
        work: &Work,
        definition: &Value,
        mode: DefinitionMode,
    ) -> Result<Result<Value, String>, Halt> {
        let client = &work.target.client;
        let at = At::of(definition);
        let by = WriteOptions::by(manager::HELM);
        let name = at.name;
        let failed = |what: &str, error: ClientError| -> Result<Result<Value, String>, Halt> {
            let why = refusal(error)?;
            Ok(Err(format!(
                "failed to {what} CustomResourceDefinition {name}: {why}"
            )))
        };
        if mode == DefinitionMode::Merge {
            let patch = Patch::Apply(definition.clone());
            return match client.patch(&DEFINITIONS, at, &patch, &by.force()).await {
                Ok(live) => Ok(Ok(live)),
                Err(error) => failed("apply", error),
            };
        }
        match client.get(&DEFINITIONS, at).await {
            Ok(live) if mode == DefinitionMode::Create => Ok(Ok(live)),
            Ok(live) => {
                let mut wanted = definition.clone();
                wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
                match client.update(&DEFINITIONS, at, &wanted, &by).await {
                    Ok(live) => Ok(Ok(live)),
                    Err(error) => failed("replace", error),
                }
            }
            Err(ClientError::NotFound(_)) => {
                match client.create(&DEFINITIONS, "", definition, &by).await {
                    Ok(live) => Ok(Ok(live)),
                    Err(error) => failed("create", error),
                }
            }
            Err(error) => failed("read", error),
        }
    }

    async fn await_definitions(
        &self,
        work: &Work,
        mut open: Vec<Value>,
    ) -> Result<Result<(), String>, Halt> {
        let clock = self.context.env.clock.clone();
        let started = clock.elapsed();
        let since = {
            let mut moments = self.controller.moments();
            let moment = moments.entry(self.context.key.clone()).or_default();
            *moment.definitions.get_or_insert(started)
        };
        let client = &work.target.client;
        for live in &open {
            for version in served(live) {
                client.forget_version(&version);
            }
        }
        loop {
            open.retain(|live| assess(live, self.now()).health != Health::Current);
            if open.is_empty() {
                if let Some(moment) = self.controller.moments().get_mut(&self.context.key) {
                    moment.definitions = None;
                }
                return Ok(Ok(()));
            }
            let now = clock.elapsed();
            if now.saturating_sub(since) >= MOMENT.2 {
                let names: Vec<&str> = open.iter().map(|live| At::of(live).name).collect();
                let names = names.join(", ");
                return Ok(Err(format!(
                    "failed to apply CustomResourceDefinitions: {names} not established within 60s"
                )));
            }
            if now.saturating_sub(started) >= MOMENT.0 {
                let next = Next::At(Duration::from_secs(1));
                let report = crate::skeleton::silent(next, Verdict::Waiting);
                return Err(Halt::Wait(Box::new(report)));
            }
            self.context.check()?;
            clock.sleep(MOMENT.1).await;
            for live in &mut open {
                let name = At::of(live).name.to_owned();
                match client.get(&DEFINITIONS, At::new("", &name)).await {
                    Ok(found) => *live = found,
                    Err(error) => return Err(Halt::Again(error.to_string())),
                }
            }
        }
    }
}

/// The versions that a definition brings.
fn served(definition: &Value) -> Vec<String> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array();
    let names = versions.into_iter().flatten();
    names
        .filter_map(|version| version["name"].as_str())
        .map(|version| format!("{group}/{version}"))
        .collect()
}
