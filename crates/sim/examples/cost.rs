//! What runs of each scenario cost, on one core: `cost RUNS [SCENARIO...]`.
//!
//! `NO_QUIET=1` leaves the quiet hours out, `TREES=1` hands objects over without text.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use everflow_sim::plan::RequestClass;
use everflow_sim::search::Ready;
use everflow_sim::{Error, Outcome, Scenario, Settings};

/// What was counted in some runs.
#[derive(Default)]
struct Cost {
    took: Duration,
    attempts: u64,
    requests: u64,
    leases: u64,
    events: u64,
    simulated: Duration,
}

impl Cost {
    fn add(&mut self, outcome: &Outcome, took: Duration) {
        let stats = &outcome.stats;
        let asked = |kinds: &[RequestClass]| -> u64 {
            let counted = stats.requests.iter();
            let counted = counted.filter(|((_, asked), _)| kinds.contains(asked));
            counted.map(|(_, count)| count).sum()
        };
        let all = stats.events.iter().filter(|((_, kind), _)| kind.is_empty());
        self.took += took;
        self.attempts += stats.attempts;
        self.requests += asked(&[RequestClass::Any, RequestClass::Watch]);
        self.leases += asked(&[RequestClass::Lease]);
        self.events += all.map(|(_, count)| count).sum::<u64>();
        self.simulated += stats.simulated;
    }

    fn rate(&self) -> f64 {
        self.attempts as f64 / self.took.as_secs_f64()
    }
}

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let runs = words.next().and_then(|text| text.parse().ok());
    let runs: u64 = runs.unwrap_or(10);
    let names: Vec<String> = words.collect();
    let scenarios = match names.is_empty() {
        true => Scenario::all()?,
        false => {
            let found = names.iter().map(|name| Scenario::find(name));
            found.collect::<Result<_, _>>()?
        }
    };
    let settings = Settings {
        no_quiet: std::env::var_os("NO_QUIET").is_some(),
        trees: std::env::var_os("TREES").is_some(),
        ..Settings::default()
    };
    let count = scenarios.len() as u64;
    let mut total = Cost::default();
    for (at, scenario) in scenarios.into_iter().enumerate() {
        let ready = Ready::new(scenario, settings.clone())?;
        let mut cost = Cost::default();
        for run in 0..runs {
            let plan = ready.plan(run * count + at as u64);
            let begun = Instant::now();
            let outcome = ready.run(&plan)?;
            cost.add(&outcome, begun.elapsed());
        }
        let each = |sum: u64| sum / runs;
        println!(
            "{:32} {:6.1} ms, {} reconciles, {} requests, {} of leases, {} events, {} s simulated; {:.0} reconciles/s",
            ready.scenario.name,
            cost.took.as_secs_f64() * 1e3 / runs as f64,
            each(cost.attempts),
            each(cost.requests),
            each(cost.leases),
            each(cost.events),
            each(cost.simulated.as_secs()),
            cost.rate(),
        );
        total.took += cost.took;
        total.attempts += cost.attempts;
    }
    println!(
        "{} reconciles in {:.1} s: {:.0}/s",
        total.attempts,
        total.took.as_secs_f64(),
        total.rate()
    );
    Ok(())
}
