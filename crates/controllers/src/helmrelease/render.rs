//! A chart rendered with values, against the cluster it is for.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_env::run_budgeted;
use everflow_helm::chart::Chart;
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, Rendered};
use everflow_helm::values::Warnings;
use everflow_json::Map;
use everflow_limits::Budget;
use everflow_release::render::render;
use everflow_runtime::client::Client;
use everflow_sprig::Source;
use everflow_time::Timestamp;

use super::attempt::{Attempt, Halt};
use super::lookup::{Answers, Recorded, answer};

/// So often a chart is rendered anew because it looks up what follows from what it has looked up before.
const ROUNDS: usize = 32;

/// What is rendered.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) chart: Chart,
    pub(super) config: Map,
    pub(super) options: ReleaseOptions,
}

impl Attempt<'_> {
    /// Renders a chart; or says in Helm's words why it does not render.
    pub(super) async fn render(
        &self,
        client: &Client,
        draft: &Draft,
    ) -> Result<Result<Rendered, String>, Halt> {
        let (key, now) = self.chance();
        let mut answers: Answers = Arc::default();
        for _ in 0..ROUNDS {
            self.context.check()?;
            let lookup = Recorded::new(answers.clone());
            let (noted, draft, object) = (lookup.clone(), draft.clone(), self.object.clone());
            let templates = self.controller.templates.clone();
            let work = move |budget: &Budget| {
                let budget = Arc::new(budget.sibling());
                let sources = Sources::new(Keyed::new(&key, now))
                    .with_lookup(lookup)
                    .with_parsed(templates);
                let mut warnings = Warnings::default();
                let Draft {
                    chart,
                    config,
                    options,
                } = draft;
                let rendered = render(
                    chart,
                    &config,
                    &options,
                    &object,
                    sources,
                    &mut warnings,
                    &budget,
                );
                rendered.map_err(|error| error.to_string())
            };
            let rendered = run_budgeted(&*self.context.env.blocking, work).await;
            let rendered = rendered.unwrap_or_else(|| Err("rendering broke off".to_owned()));
            let open = noted.open();
            if open.is_empty() {
                return Ok(rendered);
            }
            let mut known: BTreeMap<_, _> = (*answers).clone();
            for question in open {
                let found = answer(client, &question).await?;
                known.insert(question, found);
            }
            answers = Arc::new(known);
        }
        let why = format!(
            "the chart looks up objects that follow from each other in more than {ROUNDS} steps"
        );
        Ok(Err(why))
    }

    /// What the random values of the chart follow from, and the moment that it sees.
    fn chance(&self) -> ([u8; 32], Timestamp) {
        if let Some(moment) = self.options().helm.rendered_as_of {
            let release = format!("{}/{}", self.namespace(), self.object.metadata.name);
            return (blake3::hash(release.as_bytes()).into(), moment);
        }
        let mut key = [0; 32];
        for part in key.chunks_mut(8) {
            part.copy_from_slice(&self.context.env.random.next().to_le_bytes());
        }
        (key, self.now())
    }
}

/// A clock that stands still, and random bytes that are the same each time the chart is rendered for one action.
struct Keyed {
    now: Timestamp,
    bytes: blake3::OutputReader,
}

impl Keyed {
    fn new(key: &[u8; 32], now: Timestamp) -> Self {
        Keyed {
            now,
            bytes: blake3::Hasher::new_keyed(key).finalize_xof(),
        }
    }
}

impl Source for Keyed {
    fn now(&mut self) -> (i64, u32) {
        (self.now.seconds, self.now.nanos)
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        self.bytes.fill(buffer);
    }
}
