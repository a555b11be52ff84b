//! What it costs to release one chart many times; `bench/helmreleases.sh` runs it.
//!
//! `helmreleases KUBECONFIG DIR SERVER_PIDS COUNT PROGRAM [ARGUMENTS...]`, on a new API server with the Deployment
//! controllers each time; several programs are separated by `--`.
//!
//! DIR is a new directory for the charts and logs, SERVER_PIDS are those of the API server and its storage, separated by
//! commas.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../tests/common/charts.rs"]
mod charts;
#[allow(dead_code)]
#[path = "../kustomizations/figures.rs"]
mod figures;
mod payload;
mod world;

use std::path::Path;
use std::time::Duration;

use figures::{Usage, peak_memory};
use world::World;

/// Anything that goes wrong ends the run.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The interval while the engine is watched doing nothing.
const IDLE_INTERVAL: &str = "1m";

/// A number of seconds from the environment.
fn seconds(name: &str, default: u64) -> Result<Duration, Failure> {
    let seconds = match std::env::var(name) {
        Ok(seconds) => seconds.parse()?,
        Err(_) => default,
    };
    Ok(Duration::from_secs(seconds))
}

const USAGE: &str = "usage: helmreleases KUBECONFIG DIR SERVER_PIDS COUNT PROGRAM...";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, directory, servers, count, programs @ ..] = words.as_slice() else {
        return Err(USAGE.into());
    };
    let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
    let count: usize = count.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let world = World::new(kubeconfig, Path::new(directory), servers, count)?;
        measure(&world, programs).await
    })
}

async fn measure(world: &World, programs: &[String]) -> Result<(), Failure> {
    let count = world.count as f64;
    // Ends a peer that would take hours; what it had done by then is told.
    let longest = seconds("LONGEST", 3_600)?;
    world.prepare().await?;
    let begun = world.until_quiet(&[]).await?;
    world.apply_raw().await?;
    // What the controllers of Kubernetes ask for because of such objects.
    let others = world.until_quiet(&[]).await?.since(&begun);
    world.declare("1h").await?;
    world.until_quiet(&[]).await?;
    let engines = world.start(programs)?;
    let pids: Vec<String> = engines.iter().map(world::Engine::pid).collect();
    let mut before = Usage::of(world, &pids).await?;
    // All that they used so far is part of it.
    before.engine = 0.0;
    for (what, versions) in [
        ("new", ["1.0.0"].as_slice()),
        ("new chart version", &["1.0.0", "1.1.0"]),
    ] {
        if let [.., version] = versions
            && *version != "1.0.0"
        {
            before = Usage::of(world, &pids).await?;
            world.publish(versions).await?;
        }
        let version = versions.last().copied().unwrap_or_default();
        let ready = world.until_all_have(version, longest).await;
        let used = Usage::of(world, &pids).await?.since(&before);
        println!(
            "{what}: {}, {:.1} s, engine {:.1} s of CPU, API server and etcd {:.1} s",
            match &ready {
                Ok(()) => format!("all {count} HelmReleases ready"),
                Err(why) => why.to_string(),
            },
            used.wall,
            used.engine,
            used.server
        );
        // Events are told in their own time.
        let all = world.until_quiet(&pids).await?.since(&before);
        let all = if what == "new" {
            all.without(others.asked())
        } else {
            all
        };
        println!("{what}: {}", all.requests_each(count));
        println!("{what}: Events so far: {}", world.events().await?);
        println!(
            "{what}: engine {:.1} s of CPU until quiet, peak memory {:.1} MB",
            all.engine,
            peak_memory(&pids)?
        );
        ready?;
    }
    world.declare(IDLE_INTERVAL).await?;
    let before = world.until_quiet(&pids).await?;
    tokio::time::sleep(seconds("IDLE", 75)?).await;
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
