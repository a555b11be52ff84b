//! Renders a chart archive many times in one process: `bench_render ARCHIVE COUNT`.
//!
//! Prints the seconds per render, the chart loaded and its templates parsed before. `bench/helm.sh`
//! compares them with the whole process of the real helm.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use everflow_helm::chart::load_archive;
use everflow_helm::parsed::TemplateCache;
use everflow_helm::render::Sources;
use everflow_helm::template::{ReleaseOptions, print, template};
use everflow_helm::values::Warnings;
use everflow_limits::{Budget, Stop};
use everflow_sprig::FixedSource;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let archive = std::fs::read(arguments.next().ok_or("which archive?")?)?;
    let count: u32 = arguments.next().ok_or("how often?")?.parse()?;
    let mut warnings = Warnings::default();
    let chart = load_archive(&archive, &mut warnings)?;
    let options = ReleaseOptions::default();
    let cache = Arc::new(TemplateCache::new(4));
    let mut sources = Sources::new(FixedSource::new(0, 0, 1)).with_parsed(cache);
    let values = everflow_json::Map::new();
    let mut render = || -> Result<usize, Box<dyn Error>> {
        let rendered = template(
            chart.clone(),
            &values,
            &options,
            &mut sources,
            &mut warnings,
            &Budget::new(Stop::new(), 512 << 20),
        )?;
        Ok(print(&rendered, true, true, &[])?.len())
    };
    render()?;
    let start = Instant::now();
    for _ in 0..count {
        std::hint::black_box(render()?);
    }
    println!("{:.6}", start.elapsed().as_secs_f64() / f64::from(count));
    Ok(())
}
