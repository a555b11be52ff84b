//! What a kustomization can do, one small tree at a time.
#![allow(clippy::unwrap_used)]

mod components;
mod finds;
mod generators;
mod helm_and_remote;
mod limits;
mod loading;
mod metadata;
mod names;
mod patches;
mod plugins;
mod replacements;
mod settings;
mod sharing;

use everflow_kustomize::{MemoryView, Options, Plugins, build};
use everflow_limits::Budget;

/// Builds `/app` of a tree; file names are relative to `/`, and a name without a directory is in
/// `/app`.
pub fn built(files: &[(&str, &str)]) -> Result<String, String> {
    built_with(files, &Options::default())
}

pub fn built_with(files: &[(&str, &str)], options: &Options) -> Result<String, String> {
    build(
        &view(files),
        "/app",
        options,
        Plugins::default(),
        &Budget::unlimited(),
    )
    .and_then(|output| output.to_yaml())
    .map_err(|error| error.to_string())
}

pub fn view(files: &[(&str, &str)]) -> MemoryView {
    files
        .iter()
        .map(|(path, text)| {
            let path = if path.contains('/') {
                format!("/{path}")
            } else {
                format!("/app/{path}")
            };
            (path, text.as_bytes())
        })
        .collect()
}

/// A tree that must build.
#[track_caller]
pub fn builds(files: &[(&str, &str)], wanted: &str) {
    assert_eq!(built(files).as_deref(), Ok(wanted));
}

/// A tree that must not build, and what the message has to say.
#[track_caller]
pub fn fails(files: &[(&str, &str)], wanted: &str) {
    let error = built(files).unwrap_err();
    assert!(error.contains(wanted), "{error}");
}

pub const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n";
pub const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    spec:
      containers:
      - image: nginx:1
        name: web
";
