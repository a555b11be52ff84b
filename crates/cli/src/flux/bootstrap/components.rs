//! What is installed. The one place that asks for the manifests of `everflow install`.

use std::path::{Path, PathBuf};

use super::work;
use crate::exit::Failure;

/// What the command line says about an installation.
#[derive(Debug, Clone)]
#[allow(dead_code)]
pub struct ComponentOptions {
    pub namespace: String,
    pub components: Vec<String>,
    pub components_extra: Vec<String>,
    pub registry: String,
    pub image_pull_secret: String,
    pub network_policy: bool,
    pub watch_all_namespaces: bool,
    pub cluster_domain: String,
    pub toleration_keys: Vec<String>,
    pub log_level: String,
    /// A file or directory to take the manifests from.
    pub manifests: Option<PathBuf>,
}

/// The manifests of an installation as YAML: definitions, rights, the Deployment and its Services.
pub fn components(options: &ComponentOptions) -> Result<String, Failure> {
    match &options.manifests {
        Some(path) => read(path),
        None => Err(work(
            "component manifest generation failed: this program does not bring the manifests of its own \
             installation yet; give them with --manifests FILE",
        )),
    }
}

/// A file, or all YAML files of a directory in the order of their names.
fn read(path: &Path) -> Result<String, Failure> {
    let told = |path: &Path, error: std::io::Error| {
        work(format!("--manifests: {}: {error}", path.display()))
    };
    if !path.is_dir() {
        return std::fs::read_to_string(path).map_err(|error| told(path, error));
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| told(path, error))? {
        let file = entry.map_err(|error| told(path, error))?.path();
        if file
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml")
        {
            files.push(file);
        }
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        let one = std::fs::read_to_string(&file).map_err(|error| told(&file, error))?;
        text.push_str(&format!("---\n{}\n", one.trim_end()));
    }
    Ok(text)
}
