//! What is installed: the manifests of `everflow install`, or those of a file.

use std::path::{Path, PathBuf};

use everflow_install::{Component, Options};

use super::work;
use crate::exit::Failure;

/// What the command line says about an installation.
#[derive(Debug, Clone)]
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

impl ComponentOptions {
    /// The same as options of the installation.
    pub fn install_options(&self) -> Result<Options, everflow_install::Error> {
        let names = self.components.iter().chain(&self.components_extra);
        let mut options = Options {
            namespace: self.namespace.clone(),
            components: Component::parse_all(names)?,
            image_pull_secret: self.image_pull_secret.clone(),
            network_policies: self.network_policy,
            watch_all_namespaces: self.watch_all_namespaces,
            cluster_domain: self.cluster_domain.clone(),
            toleration_keys: self.toleration_keys.clone(),
            log_level: self.log_level.clone(),
            ..Options::default()
        };
        if !self.registry.is_empty() {
            self.registry
                .trim_end_matches('/')
                .clone_into(&mut options.registry);
        }
        Ok(options)
    }
}

/// The manifests of an installation as YAML: definitions, rights, the Deployment and its Services.
pub fn components(options: &ComponentOptions) -> Result<String, Failure> {
    if let Some(path) = &options.manifests {
        return read(path);
    }
    let failed = |error| work(format!("component manifest generation failed: {error}"));
    let made = options.install_options().map_err(failed)?;
    let objects = everflow_install::manifests(&made).map_err(failed)?;
    Ok(everflow_install::to_yaml(&objects))
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
