//! What a caller decides about a build.

use std::sync::Arc;

use crate::kustomization::{HelmChart, HelmGlobals};
use crate::remote::RepoUrl;

/// Which kustomize to behave like where versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Release {
    /// kustomize 5.8.
    #[default]
    V5_8,
    /// What comes after 5.8: `labels` leave volume claim templates alone unless asked, digests of
    /// images may use any algorithm, and replacements inside text know all options.
    Next,
}

/// Which files a kustomization may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadRestriction {
    /// Only files in its own directory or below (`--load-restrictor=LoadRestrictionsRootOnly`).
    #[default]
    RootOnly,
    /// Any file of the view (`--load-restrictor=LoadRestrictionsNone`).
    None,
}

/// The order of the result, unless the kustomization has `sortOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reorder {
    /// Namespaces and other kinds that others need come first (`--reorder=legacy`).
    #[default]
    Legacy,
    /// As they were read (`--reorder=none`).
    None,
}

/// How much a build may go over. Time and memory are bounded by its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How many objects are read and generated, counted each time that their directory is included.
    pub objects: u64,
    /// How many files are read and directories entered, each time.
    pub files: u64,
}

/// The option that sets [`Limits::objects`].
pub const OBJECTS_FLAG: &str = "--max-build-objects";
/// The option that sets [`Limits::files`].
pub const FILES_FLAG: &str = "--max-build-files";

impl Default for Limits {
    fn default() -> Self {
        Limits {
            objects: 50_000,
            files: 50_000,
        }
    }
}

/// The settings of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Which files may be read.
    pub load_restriction: LoadRestriction,
    /// How the result is ordered.
    pub reorder: Reorder,
    /// Adds `app.kubernetes.io/managed-by` to every object.
    pub managed_by_label: bool,
    /// Which kustomize to behave like.
    pub release: Release,
    /// Whether `helmCharts` may be used (`--enable-helm`).
    pub enable_helm: bool,
    /// Unknown fields of the outermost kustomization are left out instead of refused.
    pub lenient: bool,
    /// Goes on without resources and components that are on other machines, and with a note in the
    /// place of such files, for those who have no network.
    pub without_remote: bool,
    /// How much it may go over.
    pub limits: Limits,
}

/// What a build may use beside files.
#[derive(Clone, Copy, Default)]
pub struct Plugins<'a> {
    /// Inflates charts; without it `helmCharts` is an error.
    pub helm: Option<&'a dyn HelmCharts>,
    /// Fetches what is not in the view; without it remote resources are errors.
    pub remote: Option<&'a dyn RemoteFiles>,
}

/// Gives the content of a file within the restrictions of a build.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Arc<[u8]>, String>;

/// Inflates charts. The Helm engine implements this.
pub trait HelmCharts {
    /// Prints the manifests of a chart as YAML.
    ///
    /// `root` is the directory of the kustomization; paths in `chart` and `globals` are relative to
    /// it. `read` gives files within the restrictions of the build.
    fn inflate(
        &self,
        chart: &HelmChart,
        globals: &HelmGlobals,
        root: &str,
        read: ReadFile<'_>,
    ) -> Result<Vec<u8>, String>;
}

/// Fetches what is on other machines.
pub trait RemoteFiles {
    /// The content at an `http` or `https` URL.
    fn get(&self, url: &str) -> Result<Vec<u8>, String>;

    /// Fetches a repository into the view and returns the directory where it is there.
    fn repository(&self, url: &RepoUrl) -> Result<String, String>;
}
