//! How much builds of Kustomizations may go over and use.

use everflow_env::ThreadOptions;
use everflow_kustomize::Limits;
use everflow_limits::{Budget, Stop};

/// How much one build may go over.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct BuildCounts {
    /// How many objects one build of a Kustomization may read and generate, counted each time their directory is
    /// included; the largest public repository we tried needs a tenth
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().objects)]
    pub max_build_objects: u64,
    /// How many files and directories one build of a Kustomization may read, counted each time; the largest public
    /// repository we tried needs a twentieth
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().files)]
    pub max_build_files: u64,
}

impl BuildCounts {
    /// The same for kustomize.
    pub fn limits(self) -> Limits {
        Limits {
            objects: self.max_build_objects,
            files: self.max_build_files,
        }
    }
}

/// How much one build may go over, and what it may use.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct BuildLimits {
    #[command(flatten)]
    pub counts: BuildCounts,
    /// How much memory one build, template or archive may use; by default three eighths of the available memory, at most
    /// 512 MiB
    #[arg(long, value_name = "BYTES")]
    pub max_work_memory: Option<u64>,
}

impl BuildLimits {
    /// What work on threads may use.
    pub fn threads(self) -> ThreadOptions {
        let mut threads = ThreadOptions::for_memory(everflow_env::memory::limit());
        if let Some(share) = self.max_work_memory {
            threads.share = share;
        }
        threads
    }

    /// What one build may use that nobody stops but by ending the program.
    pub fn budget(self) -> Budget {
        Budget::new(Stop::new(), self.threads().share)
    }
}
