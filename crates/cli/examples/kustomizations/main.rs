//! What it costs to deliver many Kustomizations; `bench/kustomizations.sh` runs it.
//!
//! `kustomizations KUBECONFIG DIR SERVER_PIDS COUNT FIGURES WHAT`, on a new API server each time. WHAT is
//!
//! - `raw`: their objects applied by a bare client;
//! - `least`: the same with what each Kustomization needs besides;
//! - `engine PROGRAM [ARGUMENTS...]`: by a program; several are separated by `--`.
//!
//! DIR is a new directory for the repository, SERVER_PIDS are those of the API server and its storage,
//! separated by commas. FIGURES is a file: what the first two took is kept in it for the third.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod figures;
mod payload;
#[path = "../../../git/tests/support/mod.rs"]
mod support;
mod world;

use std::path::Path;
use std::time::{Duration, Instant};

use figures::{Measure, Usage, peak_memory};
use world::World;

/// Anything that goes wrong ends the run.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The interval while the engine is watched doing nothing.
const IDLE_INTERVAL: &str = "1m";

/// How long the engine is watched doing nothing: `IDLE` seconds, else a little more than an interval.
fn idle() -> Result<Duration, Failure> {
    let seconds = match std::env::var("IDLE") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 75,
    };
    Ok(Duration::from_secs(seconds))
}

const USAGE: &str =
    "usage: kustomizations KUBECONFIG DIR SERVER_PIDS COUNT FIGURES raw|least|engine PROGRAM...";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [
        kubeconfig,
        directory,
        servers,
        count,
        figures,
        what,
        programs @ ..,
    ] = words.as_slice()
    else {
        return Err(USAGE.into());
    };
    let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
    let count: usize = count.parse()?;
    let figures = Path::new(figures);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let world = World::new(kubeconfig, Path::new(directory), servers, count).await?;
        match what.as_str() {
            "raw" => raw(&world, figures).await,
            "least" => least(&world, figures).await,
            "engine" => engine(&world, programs, &Measure::read(figures)?).await,
            _ => Err(USAGE.into()),
        }
    })
}

async fn raw(world: &World, figures: &Path) -> Result<(), Failure> {
    let namespaces = world.prepare().await?;
    let begun = world.until_quiet(&[]).await?;
    let raw = world.apply_raw(&begun).await?;
    world.until_all_observed().await?;
    let observed = Usage::of(world, &[]).await?.since(&begun);
    println!(
        "raw: {} applies, 20 at once: {:.1} s, API server and etcd {:.1} s of CPU; all Deployments observed after {:.1} s, {:.1} s of CPU; the namespaces took {:.1} s before",
        world.count * 4,
        raw.wall,
        raw.server,
        observed.wall,
        observed.server,
        namespaces.as_secs_f64()
    );
    // What the controllers of Kubernetes ask for because of these objects.
    let others = world.until_quiet(&[]).await?.since(&begun);
    Measure::of_raw(&raw, namespaces, &others).write(figures)
}

async fn least(world: &World, figures: &Path) -> Result<(), Failure> {
    world.prepare().await?;
    world.declare_least().await?;
    let begun = world.until_quiet(&[]).await?;
    world.apply_least().await?;
    let least = Usage::of(world, &[]).await?.since(&begun);
    let mut measure = Measure::read(figures)?;
    measure.least = least.wall;
    println!(
        "least: the same and what each Kustomization needs besides (finalizer, inventory, status, Event), by the same client: {:.1} s ({:.2} times raw), API server and etcd {:.1} s of CPU",
        least.wall,
        least.wall / measure.raw,
        least.server
    );
    measure.write(figures)
}

async fn engine(world: &World, programs: &[String], measure: &Measure) -> Result<(), Failure> {
    let count = world.count as f64;
    world.prepare().await?;
    world.declare().await?;
    world.until_quiet(&[]).await?;
    let engines = world.start(programs)?;
    let pids: Vec<String> = engines.iter().map(world::Engine::pid).collect();
    let mut before = Usage::of(world, &pids).await?;
    // All that they used so far is part of it.
    before.engine = 0.0;
    let begun = Instant::now();
    world.until_all_have(&world.revision()?, begun).await?;
    let new = Usage::of(world, &pids).await?.since(&before);
    println!(
        "new: all {count} Kustomizations ready after {:.1} s ({:.2} times raw, {:.2} times raw with the namespaces, {:.2} times the least), engine {:.1} s of CPU, API server and etcd {:.1} s",
        new.wall,
        new.wall / measure.raw,
        new.wall / (measure.raw + measure.namespaces),
        new.wall / measure.least,
        new.engine,
        new.server
    );
    // Events are told in their own time.
    let settled = world.until_quiet(&pids).await?;
    let all = settled.since(&before).without(&measure.others);
    println!("new: {}", all.requests_each(count));
    println!("new: peak memory {:.1} MB", peak_memory(&pids)?);

    for (what, commit) in [
        ("one object of each changed", payload::Commit::Changed),
        ("nothing changed", payload::Commit::Nothing),
    ] {
        let before = Usage::of(world, &pids).await?;
        let begun = Instant::now();
        world.commit(commit)?;
        world.request("commit").await?;
        world.until_all_have(&world.revision()?, begun).await?;
        let used = Usage::of(world, &pids).await?.since(&before);
        println!(
            "{what}: {:.1} s, engine {:.1} s of CPU, API server and etcd {:.1} s",
            used.wall, used.engine, used.server
        );
        let mut all = world.until_quiet(&pids).await?.since(&before);
        if commit == payload::Commit::Changed {
            all = all.without(&measure.others);
        }
        println!("{what}: {}", all.requests_each(count));
    }
    world.set_interval(IDLE_INTERVAL).await?;
    let before = world.until_quiet(&pids).await?;
    tokio::time::sleep(idle()?).await;
    let idle = Usage::of(world, &pids).await?.since(&before);
    println!(
        "idle with an interval of {IDLE_INTERVAL}: engine {:.2} s of CPU in {:.0} s, {}",
        idle.engine,
        idle.wall,
        idle.requests()
    );
    println!("peak memory {:.1} MB", peak_memory(&pids)?);
    Ok(())
}
