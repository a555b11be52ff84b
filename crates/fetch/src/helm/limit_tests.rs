//! Charts of trees and repositories that take more than they should.

use std::sync::Arc;
use std::time::Duration;

use everflow_env::disk::write_whole;
use everflow_env::{BoxFuture, Env, MemoryDialer};
use everflow_limits::Exceeded;

use super::*;

/// No repositories.
#[derive(Debug)]
struct Nowhere;

impl Repositories for Nowhere {
    fn at<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn ChartSource>, Error>> {
        Box::pin(async move { Err(Error::Url(format!("there is no {url}"))) })
    }
}

fn tree(files: &[(&str, &str)]) -> Env {
    let env = Env::simulated(1, MemoryDialer::new());
    for (path, text) in files {
        write_whole(&*env.disk, &format!("tmp/tree/{path}"), text.as_bytes()).unwrap();
    }
    env
}

async fn build(env: &Env, limits: HelmLimits) -> Result<Build, Error> {
    let chart = LocalChart {
        root: "tmp/tree".to_owned(),
        path: "app".to_owned(),
    };
    let options = BuildOptions {
        limits,
        ..BuildOptions::default()
    };
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    build_local(env, chart, &Nowhere, options, &deadline).await
}

const LIB: &str = "name: lib\nversion: 1.0.0\n";

#[tokio::test(start_paused = true)]
async fn chart_and_the_dependencies_added_to_it_share_their_limits() {
    let dependencies: String = (0..20)
        .map(|n| {
            format!("- {{name: lib, version: 1.x, repository: 'file://../lib', alias: l{n}}}\n")
        })
        .collect();
    let chart = format!("name: app\nversion: 1.0.0\napiVersion: v2\ndependencies:\n{dependencies}");
    let text = "x".repeat(10_000);
    let env = tree(&[
        ("app/Chart.yaml", &chart),
        ("lib/Chart.yaml", LIB),
        ("lib/text", &text),
    ]);
    let limits = HelmLimits {
        unpacked: 250_000,
        ..HelmLimits::default()
    };
    assert_eq!(build(&env, limits).await.unwrap().resolved_dependencies, 20);
    let limits = HelmLimits {
        unpacked: 150_000,
        ..limits
    };
    let error = build(&env, limits).await.unwrap_err();
    let words = "decompressed chart is larger than the maximum size 150000: \"text\" is too much; make the \
                 chart smaller, or raise --helm-chart-max-unpacked-size";
    assert!(error.to_string().ends_with(words), "{error}");
    assert_eq!(error.reason(), "DependencyBuildError");
    assert!(matches!(
        error.exceeded(),
        Some(Exceeded::Count { limit: 150_000, .. })
    ));
    assert!(!error.is_transient());
    let limits = HelmLimits {
        files: 30,
        ..HelmLimits::default()
    };
    let error = build(&env, limits).await.unwrap_err().to_string();
    assert!(
        error.contains("chart contains more than 30 files"),
        "{error}"
    );
    assert!(error.contains("--helm-chart-max-files"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn directories_of_a_chart_nest_a_hundred_levels_deep() {
    let deep = |levels: usize| format!("app/{}x", "d/".repeat(levels));
    let env = tree(&[("app/Chart.yaml", LIB), (&deep(100), "")]);
    build(&env, HelmLimits::default()).await.unwrap();
    let env = tree(&[("app/Chart.yaml", LIB), (&deep(101), "")]);
    let error = build(&env, HelmLimits::default()).await.unwrap_err();
    let words = "directories of a chart nested deeper than 100 levels";
    assert!(error.to_string().ends_with(words), "{error}");
}
