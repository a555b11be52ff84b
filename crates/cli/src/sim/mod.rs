//! `everflow sim`: faults on purpose.

mod repository;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Subcommand;
use everflow_sim::search::{Bad, Plans, Ready, Tally, search};
use everflow_sim::shrink::shrink;
use everflow_sim::{Plan, Scenario, Settings, story};

use crate::args::span;
use crate::exit::Failure;
use crate::output::print_text;

/// How many seeds are run when nothing is said.
const SEEDS: &str = "0..1000";

/// The verb's options.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run scenarios under many different faults, and look for what goes wrong for good
    Run(Run),
    /// Run one seed again
    Replay(Replay),
    /// Print the scenarios that come with the program
    List,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Which seeds, as FROM..TO
    #[arg(long, default_value = SEEDS)]
    seeds: String,
    #[command(flatten)]
    what: What,
    /// Stop after this time; seeds that lead to new states are followed up until then
    #[arg(long, value_parser = span)]
    time_budget: Option<Duration>,
    /// Crash at every effect and delay every message instead of trying seeds
    #[arg(long)]
    systematic: bool,
    /// How many runs at once
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

#[derive(Debug, clap::Args)]
struct Replay {
    /// The seed
    #[arg(required_unless_present = "plan")]
    seed: Option<u64>,
    #[command(flatten)]
    what: What,
    /// A plan, as a run has printed it
    #[arg(long, conflicts_with = "seed")]
    plan: Option<String>,
    /// Print everything that happens
    #[arg(long)]
    trace: bool,
}

#[derive(Debug, clap::Args)]
struct What {
    /// The name of a scenario, or a file with one; all that come with the program when left out
    #[arg(long, conflicts_with = "path")]
    scenario: Vec<String>,
    /// A repository: does it converge whatever goes wrong?
    #[arg(long)]
    path: Option<PathBuf>,
    /// The directory of the repository that the cluster begins with
    #[arg(long, requires = "path")]
    entry: Option<String>,
    /// Within which time after the last fault a repository must have converged
    #[arg(long, value_parser = span, default_value = "15m", requires = "path")]
    within: Duration,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Run(run) => look_for_trouble(run),
        Verb::Replay(replay) => again(replay),
        Verb::List => list(),
    }
}

fn failed(error: &everflow_sim::Error) -> Failure {
    match error {
        everflow_sim::Error::Scenario { .. } | everflow_sim::Error::NoScenario { .. } => {
            Failure::Usage(error.to_string())
        }
        error => Failure::Work(error.to_string()),
    }
}

impl What {
    fn ready(&self) -> Result<Vec<Ready>, Failure> {
        if let Some(path) = &self.path {
            let (scenario, settings) =
                repository::scenario(path, self.entry.as_deref(), self.within)?;
            return Ok(vec![
                Ready::new(scenario, settings).map_err(|error| failed(&error))?,
            ]);
        }
        let scenarios = match self.scenario.is_empty() {
            true => Scenario::all(),
            false => self
                .scenario
                .iter()
                .map(|name| Scenario::find(name))
                .collect(),
        };
        let scenarios: Vec<Scenario> = scenarios.map_err(|error| failed(&error))?;
        let ready = scenarios
            .into_iter()
            .map(|scenario| Ready::new(scenario, Settings::default()));
        ready
            .collect::<Result<_, _>>()
            .map_err(|error| failed(&error))
    }

    /// The options that say the same again.
    fn again(&self, ready: &Ready) -> String {
        match &self.path {
            Some(path) => {
                let entry = self.entry.as_ref().map(|entry| format!(" --entry {entry}"));
                format!("--path {}{}", path.display(), entry.unwrap_or_default())
            }
            None => {
                let file = self.scenario.iter().find(|name| name.ends_with(".yaml"));
                format!("--scenario {}", file.unwrap_or(&ready.scenario.name))
            }
        }
    }
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, Failure> {
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let from = if from.is_empty() {
            0
        } else {
            from.parse().ok()?
        };
        Some(from..to.parse().ok()?)
    });
    parsed.ok_or_else(|| Failure::Usage(format!("--seeds {text}: write FROM..TO, such as {SEEDS}")))
}

fn look_for_trouble(run: &Run) -> Result<(), Failure> {
    let seeds = seeds(&run.seeds)?;
    let ready = run.what.ready()?;
    let started = Instant::now();
    let in_time = |_: &Tally| {
        run.time_budget
            .is_none_or(|budget| started.elapsed() < budget)
    };
    let first = match run.systematic {
        true => Plans::Systematic,
        false => Plans::Seeds(seeds.clone()),
    };
    let (mut tally, mut bad) =
        search(&ready, &first, run.jobs, &in_time).map_err(|error| failed(&error))?;
    if run.time_budget.is_some() && bad.is_none() && in_time(&tally) {
        // There is time left: what led to new states is followed up.
        let guided = Plans::Guided(seeds.end);
        let (more, worse) =
            search(&ready, &guided, run.jobs, &in_time).map_err(|error| failed(&error))?;
        tally.runs += more.runs;
        tally.attempts += more.attempts;
        tally.simulated += more.simulated;
        tally.states.extend(more.states);
        for (class, count) in more.hits {
            *tally.hits.entry(class).or_default() += count;
        }
        tally.slowest = tally.slowest.max(more.slowest);
        bad = worse;
    }
    print_text(&summary(&tally, ready.len(), started.elapsed()))?;
    match bad {
        None => Ok(()),
        Some(bad) => tell(run, &ready[bad.scenario], &bad),
    }
}

fn summary(tally: &Tally, scenarios: usize, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(0.001);
    let mut text = format!(
        "{} runs of {scenarios} scenarios in {seconds:.1}s: {:.0} runs/s, {} reconciles ({:.0}/s), {} states, {:.1}h simulated\n",
        tally.runs,
        tally.runs as f64 / seconds,
        tally.attempts,
        tally.attempts as f64 / seconds,
        tally.states.len(),
        tally.simulated.as_secs_f64() / 3_600.0,
    );
    text.push_str(&format!(
        "slowest recovery after the last fault: {:.0}s\n",
        tally.slowest.as_secs_f64()
    ));
    let hits: Vec<String> = tally
        .hits
        .iter()
        .map(|(class, count)| format!("{class} {count}"))
        .collect();
    if !hits.is_empty() {
        text.push_str(&format!("faults that had an effect: {}\n", hits.join(", ")));
    }
    text
}

/// Makes a finding short, tells its story and fails.
fn tell(run: &Run, ready: &Ready, bad: &Bad) -> Result<(), Failure> {
    let fails = |plan: &Plan| {
        ready.run(plan).is_ok_and(|outcome| {
            outcome
                .findings
                .first()
                .is_some_and(|first| first.oracle == bad.finding.oracle)
        })
    };
    let short = shrink(&bad.plan, fails);
    let outcome = ready.run_traced(&short).map_err(|error| failed(&error))?;
    let mut text = format!("\n{}", story(&ready.scenario, &short, &outcome));
    let what = run.what.again(ready);
    text.push_str("\nSee it again:\n");
    if let Some(seed) = bad.seed {
        text.push_str(&format!("  everflow sim replay {seed} {what} --trace\n"));
    }
    let plan = serde_json::to_string(&short).unwrap_or_default();
    text.push_str(&format!("  everflow sim replay {what} --plan '{plan}'\n"));
    print_text(&text)?;
    Err(Failure::Work(format!(
        "{}: {} ({})",
        ready.scenario.name, bad.finding.text, bad.finding.oracle
    )))
}

fn again(replay: &Replay) -> Result<(), Failure> {
    let ready = replay.what.ready()?;
    let seed = replay.seed.unwrap_or_default();
    let at = usize::try_from(seed % (ready.len() as u64).max(1)).unwrap_or_default();
    let Some(ready) = ready.get(at) else {
        return Err(Failure::Usage("there is no scenario".to_owned()));
    };
    let plan = match &replay.plan {
        None => ready.plan(seed),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Failure::Usage(format!("--plan: {error}")))?,
    };
    let outcome = ready.run_traced(&plan).map_err(|error| failed(&error))?;
    let mut text = String::new();
    if replay.trace {
        for line in &outcome.history {
            text.push_str(line);
            text.push('\n');
        }
    }
    match outcome.findings.first() {
        None => {
            for fault in &plan.faults {
                text.push_str(&format!("- {fault}\n"));
            }
            text.push_str(&format!(
                "{}: all is well {:.0}s after the last fault; {} reconciles\n",
                ready.scenario.name,
                outcome.stats.healed_after.as_secs_f64(),
                outcome.stats.attempts
            ));
            print_text(&text)?;
            Ok(())
        }
        Some(first) => {
            text.push_str(&story(&ready.scenario, &plan, &outcome));
            print_text(&text)?;
            Err(Failure::Work(format!("{}: {}", first.oracle, first.text)))
        }
    }
}

fn list() -> Result<(), Failure> {
    let mut text = String::new();
    for scenario in Scenario::all().map_err(|error| failed(&error))? {
        let from = match scenario.from.is_empty() {
            true => String::new(),
            false => format!(" ({})", scenario.from.join(", ")),
        };
        text.push_str(&format!(
            "{}\n    {}{from}\n",
            scenario.name, scenario.about
        ));
    }
    print_text(&text)?;
    Ok(())
}
