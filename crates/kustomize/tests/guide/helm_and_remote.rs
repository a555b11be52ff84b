//! What leaves the view: charts and other machines.

use std::sync::Arc;

use everflow_kustomize::{
    HelmChart, HelmCharts, HelmGlobals, Options, Plugins, ReadFile, RemoteFiles, RepoUrl, build,
};
use everflow_limits::Budget;

use crate::{MAP, fails, view};

#[test]
fn remote_resources_are_refused_by_default() {
    for path in [
        "https://example.com/x.yaml",
        "github.com/org/repo/dir?ref=v1",
    ] {
        fails(
            &[("kustomization.yaml", &format!("resources: ['{path}']\n"))],
            "remote resources are disabled",
        );
    }
}

struct Internet;

impl RemoteFiles for Internet {
    fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        assert_eq!(url, "https://example.com/x.yaml");
        Ok(MAP.as_bytes().to_vec())
    }

    fn repository(&self, url: &RepoUrl) -> Result<String, String> {
        assert_eq!(url.clone_url, "https://github.com/org/repo");
        Ok("/clone".to_owned())
    }
}

#[test]
fn remote_resources_come_through_a_trait() {
    let view = view(&[
        (
            "kustomization.yaml",
            "resources: ['https://example.com/x.yaml', 'github.com/org/repo/dir']\n",
        ),
        (
            "clone/dir/kustomization.yaml",
            "namePrefix: r-\nresources: [m.yaml]\n",
        ),
        ("clone/dir/m.yaml", MAP),
    ]);
    let plugins = Plugins {
        remote: Some(&Internet),
        ..Plugins::default()
    };
    let output = build(
        &view,
        "/app",
        &Options::default(),
        plugins,
        &Budget::unlimited(),
    )
    .unwrap();
    let names: Vec<&str> = output.objects.iter().map(|o| o.id.name.as_str()).collect();
    assert_eq!(names, ["r-settings", "settings"]);
}

struct Helm;

impl HelmCharts for Helm {
    fn inflate(
        &self,
        chart: &HelmChart,
        globals: &HelmGlobals,
        root: &str,
        read: ReadFile<'_>,
    ) -> Result<Vec<u8>, String> {
        assert_eq!((root, globals.chart_home.as_str()), ("/app", "mine"));
        let values: Arc<[u8]> = read(&chart.values_file)?;
        assert_eq!(&values[..], b"a: 1\n");
        Ok(MAP.replace("settings", &chart.release_name).into_bytes())
    }
}

#[test]
fn charts_are_inflated_by_the_helm_engine() {
    let files = [
        (
            "kustomization.yaml",
            "helmGlobals: {chartHome: mine}\nhelmCharts: [{name: c, releaseName: r, valuesFile: v.yaml}]\nnamespace: ignored\n",
        ),
        ("v.yaml", "a: 1\n"),
    ];
    fails(&files, "must specify --enable-helm");
    let options = Options {
        enable_helm: true,
        ..Options::default()
    };
    assert!(
        crate::built_with(&files, &options)
            .unwrap_err()
            .contains("this build has no Helm engine")
    );
    let plugins = Plugins {
        helm: Some(&Helm),
        ..Plugins::default()
    };
    let output = build(
        &view(&files),
        "/app",
        &options,
        plugins,
        &Budget::unlimited(),
    )
    .unwrap();
    // Charts know their namespace, so the kustomization's does not go over it.
    assert_eq!(output.to_yaml().unwrap(), MAP.replace("settings", "r"));
}
