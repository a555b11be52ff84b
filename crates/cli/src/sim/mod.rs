//! `everflow sim`: faults on purpose.

mod repository;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;
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
    /// Run scenarios under many different faults, and look for what does not recover
    Run(Run),
    /// Run one seed again
    Replay(Replay),
    /// List the built-in scenarios
    List,
    /// Print the file of a built-in scenario, as a template for your own
    Show {
        /// Its name
        name: String,
    },
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
    /// Continue after a finding and list all of them; the first is printed in full
    #[arg(long)]
    keep_going: bool,
    /// The number of parallel runs
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=512))]
    jobs: u16,
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
    /// The name of a scenario, or a file with one; by default, all built-in scenarios
    #[arg(long, conflicts_with = "path")]
    scenario: Vec<String>,
    /// A repository: does it converge under all faults?
    #[arg(long)]
    path: Option<PathBuf>,
    #[command(flatten)]
    repository: repository::Flags,
    /// How long after the last fault a repository may take to converge
    #[arg(long, value_parser = span, default_value = "15m", requires = "path")]
    within: Duration,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Run(run) => look_for_trouble(run),
        Verb::Replay(replay) => again(replay),
        Verb::List => list(),
        Verb::Show { name } => print_text(Scenario::text(name).map_err(|error| failed(&error))?),
    }
}

fn failed(error: &everflow_sim::Error) -> Failure {
    match error {
        everflow_sim::Error::Scenario { .. }
        | everflow_sim::Error::NoScenario { .. }
        | everflow_sim::Error::Read { .. } => Failure::Usage(error.to_string()),
        error => Failure::Work(error.to_string()),
    }
}

impl What {
    /// What was chosen, and how each is run.
    fn scenarios(&self) -> Result<Vec<(Scenario, Settings)>, Failure> {
        if let Some(path) = &self.path {
            let chosen = repository::scenario(path, &self.repository, self.within)?;
            return Ok(vec![chosen]);
        }
        let scenarios = match self.scenario.is_empty() {
            true => Scenario::all(),
            false => self
                .scenario
                .iter()
                .map(|name| Scenario::find(name))
                .collect(),
        };
        let scenarios = scenarios.map_err(|error| failed(&error))?;
        let settings = Settings {
            trees: true,
            ..Settings::default()
        };
        let scenarios = scenarios.into_iter();
        Ok(scenarios
            .map(|scenario| (scenario, settings.clone()))
            .collect())
    }

    fn ready(&self) -> Result<Vec<Ready>, Failure> {
        let scenarios = self.scenarios()?.into_iter();
        scenarios
            .map(|(scenario, settings)| Ready::new(scenario, settings))
            .collect::<Result<_, _>>()
            .map_err(|error| failed(&error))
    }

    /// The options that choose the same scenario again, which is the one at a place of the list.
    fn again(&self, at: usize, ready: &Ready) -> String {
        let Some(path) = &self.path else {
            let named = self.scenario.get(at).unwrap_or(&ready.scenario.name);
            return format!("--scenario {named}");
        };
        let within = everflow_time::Duration::from(self.within);
        format!(
            "--path {}{} --within {within}",
            path.display(),
            self.repository.words()
        )
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
    match parsed {
        None => Err(Failure::Usage(format!(
            "--seeds {text}: write FROM..TO, such as {SEEDS}"
        ))),
        Some(seeds) if seeds.is_empty() => Err(Failure::Usage(format!(
            "--seeds {text}: there is no seed in it; TO must be greater than FROM"
        ))),
        Some(seeds) => Ok(seeds),
    }
}

/// Says now and then on a terminal how far it is.
struct Progress {
    told: Mutex<Instant>,
    shown: bool,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(5);

    fn new() -> Self {
        Progress {
            told: Mutex::new(Instant::now()),
            shown: std::io::stderr().is_terminal(),
        }
    }

    fn tell(&self, tally: &Tally) {
        let Ok(mut told) = self.told.lock() else {
            return;
        };
        if self.shown && told.elapsed() >= Self::EVERY {
            *told = Instant::now();
            let (runs, states) = (tally.runs, tally.states.len());
            let _ = writeln!(std::io::stderr(), "{runs} runs, {states} states");
        }
    }
}

fn look_for_trouble(run: &Run) -> Result<(), Failure> {
    let seeds = seeds(&run.seeds)?;
    let jobs = usize::from(run.jobs);
    let ready = run.what.ready()?;
    for one in &ready {
        print_text(&repository::not_coming_up(&one.calm.failing))?;
    }
    let started = Instant::now();
    let progress = Progress::new();
    let in_time = |tally: &Tally| {
        progress.tell(tally);
        run.time_budget
            .is_none_or(|budget| started.elapsed() < budget)
    };
    let first = match run.systematic {
        true => Plans::Systematic,
        false => Plans::Seeds(seeds.clone()),
    };
    let most = match run.keep_going {
        true => usize::MAX,
        false => 1,
    };
    let (mut tally, mut bad) =
        search(&ready, &first, jobs, most, &in_time).map_err(|error| failed(&error))?;
    if run.time_budget.is_some() && bad.len() < most && in_time(&tally) {
        // There is time left: what led to new states is followed up.
        let guided = Plans::Guided(seeds.end);
        let (more, worse) =
            search(&ready, &guided, jobs, most, &in_time).map_err(|error| failed(&error))?;
        tally.runs += more.runs;
        tally.attempts += more.attempts;
        tally.simulated += more.simulated;
        tally.states.extend(more.states);
        for (class, count) in more.hits {
            *tally.hits.entry(class).or_default() += count;
        }
        tally.slowest = tally.slowest.max(more.slowest);
        bad.extend(worse);
    }
    print_text(&summary(&tally, ready.len(), started.elapsed()))?;
    let Some(first) = bad.first() else {
        return Ok(());
    };
    if run.keep_going {
        print_text(&findings(&ready, &bad))?;
    }
    tell(&run.what, &ready[first.scenario], first)
}

fn summary(tally: &Tally, scenarios: usize, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(0.001);
    let mut text = format!(
        "{} runs of {} in {seconds:.1}s: {:.0} runs/s, {} reconciles ({:.0}/s), {} states, {:.1}h simulated\n",
        tally.runs,
        match scenarios {
            1 => "1 scenario".to_owned(),
            count => format!("{count} scenarios"),
        },
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

/// One line for each finding.
fn findings(ready: &[Ready], all: &[Bad]) -> String {
    let mut text = format!("{} findings\n", all.len());
    for bad in all {
        let seed = bad.seed.map_or("-".to_owned(), |seed| seed.to_string());
        let first = bad.finding.text.lines().next().unwrap_or_default();
        let short: String = first.chars().take(240).collect();
        text.push_str(&format!(
            "  {seed} {}: {}: {short}\n",
            ready[bad.scenario].scenario.name, bad.finding.oracle
        ));
    }
    text
}

/// Makes a finding short, tells its story and fails.
fn tell(what: &What, ready: &Ready, bad: &Bad) -> Result<(), Failure> {
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
    let what = what.again(bad.scenario, ready);
    text.push_str("\nSee it again:\n");
    if let Some(seed) = bad.seed {
        text.push_str(&format!("  everflow sim replay {seed} {what} --trace\n"));
    }
    let plan = everflow_json::to_string(&short).unwrap_or_default();
    text.push_str(&format!("  everflow sim replay {what} --plan '{plan}'\n"));
    print_text(&text)?;
    Err(Failure::Work(format!(
        "{}: {} ({})",
        ready.scenario.name, bad.finding.text, bad.finding.oracle
    )))
}

fn again(replay: &Replay) -> Result<(), Failure> {
    let mut scenarios = replay.what.scenarios()?;
    let seed = replay.seed.unwrap_or_default();
    if replay.plan.is_some() && scenarios.len() > 1 {
        let text = "--plan: say which --scenario it is for, as the run has printed it";
        return Err(Failure::Usage(text.to_owned()));
    }
    let at = usize::try_from(seed % (scenarios.len() as u64).max(1)).unwrap_or_default();
    let (scenario, settings) = scenarios.swap_remove(at);
    let ready = Ready::new(scenario, settings).map_err(|error| failed(&error))?;
    let plan = match &replay.plan {
        None => ready.plan(seed),
        Some(text) => everflow_json::from_str(text)
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
