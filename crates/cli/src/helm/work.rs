//! What one render or examination may use.

use everflow_env::ThreadOptions;
use everflow_helm::manifests::MAX_OBJECTS;
use everflow_limits::{Budget, Stop};

/// Options that bound a chart.
#[derive(clap::Args, Debug)]
pub struct WorkFlags {
    /// How much memory the chart may use; by default three eighths of the limit of the control group or the machine, at
    /// most 512 MiB
    #[arg(long, value_name = "BYTES")]
    max_work_memory: Option<u64>,
    /// How many objects the chart may render to
    #[arg(long, value_name = "COUNT", default_value_t = MAX_OBJECTS)]
    pub max_build_objects: u64,
}

impl WorkFlags {
    /// A budget. Nothing stops the work but its end, or that of the process.
    pub fn budget(&self) -> Budget {
        match self.max_work_memory {
            Some(share) => Budget::new(Stop::new(), share),
            None => default_budget(),
        }
    }
}

/// As much as a controller gives a chart on this machine.
pub fn default_budget() -> Budget {
    let threads = ThreadOptions::for_memory(everflow_env::memory::limit());
    Budget::new(Stop::new(), threads.share)
}
