//! The chart of a HelmRelease, from the artifact of its source.

use std::io::Read;
use std::sync::Arc;

use everflow_api::common::Artifact;
use everflow_helm::chart::{Chart, ChartFile, ChartLoader};
use everflow_helm::values::Warnings;
use everflow_limits::Budget;

use super::attempt::Attempt;
use super::source::Source;
use crate::Options;
use crate::artifact::Unpacked;
use crate::stop::Stop;

/// A chart that was loaded.
#[derive(Debug)]
pub(super) struct LoadedChart {
    pub(super) chart: Chart,
    size: usize,
    /// Whether its templates look at what the cluster serves.
    pub(super) asks_for_versions: bool,
}

impl LoadedChart {
    pub(super) fn name(&self) -> &str {
        self.chart.name()
    }

    pub(super) fn app_version(&self) -> String {
        self.chart.metadata.app_version.clone()
    }
}

impl Unpacked for LoadedChart {
    fn unpack(
        packed: &mut dyn Read,
        _: &Artifact,
        options: &Options,
        budget: &Budget,
    ) -> Result<Self, (String, bool)> {
        let limits = options.helm_limits();
        let mut bytes = Vec::new();
        let most = limits.chart.saturating_add(1);
        let read = packed.take(most).read_to_end(&mut bytes);
        read.map_err(|error| (format!("failed to read the chart: {error}"), true))?;
        if bytes.len() as u64 > limits.chart {
            let most = limits.chart;
            let why = format!("the chart is larger than {most} bytes (--helm-chart-max-size)");
            return Err((why, false));
        }
        budget
            .charge(bytes.len())
            .map_err(|exceeded| (exceeded.to_string(), exceeded.is_transient()))?;
        let mut loader = ChartLoader::new(limits.of_chart(), budget);
        let loaded = loader.archive(&bytes, &mut Warnings::default());
        let chart = loaded.map_err(|error| {
            let transient = error.exceeded().is_some_and(|limit| limit.is_transient());
            (format!("failed to load chart: {error}"), transient)
        })?;
        Ok(LoadedChart {
            size: weight(&chart),
            asks_for_versions: mentions(&chart, b"APIVersions"),
            chart,
        })
    }

    fn size(&self) -> usize {
        self.size
    }
}

fn weight(chart: &Chart) -> usize {
    let files = chart.templates.iter().chain(&chart.files);
    let own: usize = files.map(|file: &ChartFile| file.data.len() + 128).sum();
    own + chart.dependencies.iter().map(weight).sum::<usize>() + 4_096
}

/// Whether a text stands in a template of the chart or of one in it.
fn mentions(chart: &Chart, text: &[u8]) -> bool {
    let stands_in = |file: &ChartFile| file.data.windows(text.len()).any(|window| window == text);
    chart.templates.iter().any(stands_in)
        || chart.dependencies.iter().any(|inner| mentions(inner, text))
}

impl Attempt<'_> {
    /// The chart that the source has.
    pub(super) async fn load(&self, source: &Source) -> Result<Arc<LoadedChart>, Stop> {
        let context = self.context;
        let current = || source.name.artifact(context);
        let charts = &self.controller.charts;
        let loaded = charts.get(&source.artifact, self.options(), &current).await;
        self.context.check()?;
        loaded.map_err(|missing| missing.stop(self.options()))
    }
}
