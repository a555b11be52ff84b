//! Which cluster, and how to reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Clock, Env, RealDisk};
use everflow_runtime::client::Client;
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};

use super::duration;
use crate::exit::Failure;

/// Which cluster.
#[derive(clap::Args, Debug, Clone)]
pub struct Connection {
    /// The kubeconfig; $KUBECONFIG and then ~/.kube/config when none is given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the objects
    #[arg(
        short,
        long,
        value_name = "NAME",
        env = "FLUX_SYSTEM_NAMESPACE",
        default_value = "flux-system"
    )]
    pub namespace: String,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    pub verbose: bool,
}

/// A cluster that can be asked.
pub struct Session {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
}

impl Connection {
    /// A client of the cluster.
    pub fn open(&self) -> Result<Session, Failure> {
        let work = |error: everflow_runtime::Error| Failure::Work(error.to_string());
        let config = self.config()?;
        let disk = RealDisk::new(&std::env::temp_dir())?;
        let env = Env::system(disk);
        let transport = HttpsTransport::new(&env, config).map_err(work)?;
        let clock = env.clock.clone();
        Ok(Session {
            client: Client::new(Arc::new(transport), clock.clone()),
            clock,
        })
    }

    fn config(&self) -> Result<ClusterConfig, Failure> {
        let context = self.context.as_deref();
        let work = |error: everflow_runtime::Error| match (&error, context) {
            (everflow_runtime::Error::Config { why, .. }, Some(context))
                if why.contains("no context") =>
            {
                Failure::Work(format!("context {context:?} does not exist"))
            }
            _ => Failure::Work(error.to_string()),
        };
        if let Some(path) = &self.kubeconfig {
            if !path.exists() {
                let path = path.display();
                return Err(Failure::Work(format!(
                    "stat {path}: no such file or directory"
                )));
            }
            return ClusterConfig::from_file(path, context).map_err(work);
        }
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let candidates = std::env::split_paths(&listed).chain(home);
        if let Some(path) = candidates.into_iter().find(|path| path.is_file()) {
            return ClusterConfig::from_file(&path, context).map_err(work);
        }
        ClusterConfig::in_cluster().map_err(|_| {
            Failure::Work(
                "there is no kubeconfig: give one with --kubeconfig or $KUBECONFIG".to_owned(),
            )
        })
    }
}
