//! Which cluster, and how to reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Clock, Env, RealDisk};
use everflow_runtime::Error;
use everflow_runtime::client::{Client, Impersonation};
use everflow_runtime::transport::{ClusterConfig, Hidden, HttpsTransport, Login};

use super::duration;
use super::kinds::Kind;
use crate::exit::Failure;

/// Which cluster.
#[derive(clap::Args, Debug, Clone)]
pub struct Connection {
    /// The kubeconfig; $KUBECONFIG and then ~/.kube/config when none is given
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the objects
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "FLUX_SYSTEM_NAMESPACE",
        default_value = "flux-system"
    )]
    pub namespace: String,
    /// Take the namespace of the kubeconfig's context, unless one is given; also $FLUX_NS_FOLLOWS_KUBE_CONTEXT
    #[arg(long, global = true, hide_short_help = true)]
    pub ns_follows_kube_context: bool,
    /// How long to wait
    #[arg(long, global = true, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// The address of the API server, instead of the kubeconfig's
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub server: Option<String>,
    /// A bearer token, instead of the kubeconfig's credentials
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    pub token: Option<String>,
    /// A file with the certificates to trust
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// A file with the client certificate
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub client_certificate: Option<PathBuf>,
    /// A file with the key of the client certificate
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Do not verify the server's certificate
    #[arg(long, global = true, hide_short_help = true)]
    pub insecure_skip_tls_verify: bool,
    /// The name to verify the server's certificate against
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// The user to impersonate
    #[arg(
        global = true,
        long = "as",
        value_name = "USER",
        hide_short_help = true
    )]
    pub user: Option<String>,
    /// The groups to impersonate
    #[arg(
        global = true,
        long = "as-group",
        value_name = "GROUP",
        hide_short_help = true
    )]
    pub groups: Vec<String>,
    /// The UID to impersonate
    #[arg(
        global = true,
        long = "as-uid",
        value_name = "UID",
        hide_short_help = true
    )]
    pub uid: Option<String>,
    /// Accepted for compatibility
    #[arg(long, global = true, hide = true)]
    pub verbose: bool,
    /// Accepted for compatibility: the API server's own answers set the pace
    #[arg(long, global = true, hide = true)]
    pub kube_api_qps: Option<f32>,
    /// Accepted for compatibility
    #[arg(long, global = true, hide = true)]
    pub kube_api_burst: Option<i64>,
    /// Accepted for compatibility: nothing is cached on disk
    #[arg(long, global = true, hide = true)]
    pub cache_dir: Option<PathBuf>,
    /// Accepted for compatibility
    #[arg(long, global = true, hide = true)]
    pub disable_compression: bool,
}

/// A cluster that can be asked.
pub struct Session {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    /// Where the cluster is.
    url: String,
}

impl Session {
    /// What is told of an error of a request for a kind.
    pub fn told(&self, kind: &Kind, error: &Error) -> String {
        match error {
            Error::Transport { .. } | Error::Unauthorized(_) => self.told_of(error),
            error => kind.told(error),
        }
    }

    /// What is told of an error, and what to do about it where the API server does not say: that nobody listens at the
    /// address, in flux's words.
    pub fn told_of(&self, error: &Error) -> String {
        match error {
            Error::Transport { source, .. } if source.why.contains("onnection refused") => {
                let url = &self.url;
                let (_, host) = url.split_once("://").unwrap_or(("", url));
                format!(
                    "failed to get server groups: Get \"{url}/api\": dial tcp {host}: connect: \
                     connection refused"
                )
            }
            Error::Unauthorized(_) => format!(
                "{error}: the API server does not take the credentials of this context, or they have expired; log in \
                 again, or choose others with --context or --kubeconfig"
            ),
            Error::Forbidden(_) => {
                format!("{error}; do this as somebody who may, as with the role cluster-admin")
            }
            error => error.to_string(),
        }
    }
}

impl Connection {
    /// A client of the cluster.
    pub fn open(&self) -> Result<Session, Failure> {
        let work = |error: everflow_runtime::Error| Failure::Work(error.to_string());
        let config = self.overridden(self.config()?)?;
        let url = config.url();
        let disk = RealDisk::new(&std::env::temp_dir())?;
        let env = Env::system(disk);
        let transport = HttpsTransport::new(&env, config).map_err(work)?;
        let clock = env.clock.clone();
        let mut client = Client::new(Arc::new(transport), clock.clone());
        if let Some(user) = &self.user {
            client = client.impersonating(Impersonation {
                user: user.clone(),
                uid: self.uid.clone().unwrap_or_default(),
                groups: self.groups.clone(),
                extra: Vec::new(),
            });
        }
        Ok(Session { client, clock, url })
    }

    /// What the command line says in place of the kubeconfig.
    fn overridden(&self, mut config: ClusterConfig) -> Result<ClusterConfig, Failure> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
        };
        if let Some(server) = &self.server {
            let other = ClusterConfig::at(server)
                .ok_or_else(|| Failure::Work(format!("--server {server:?} is not a URL")))?;
            config = ClusterConfig {
                tls: other.tls,
                host: other.host,
                port: other.port,
                prefix: other.prefix,
                ..config
            };
        }
        if let Some(token) = &self.token {
            config.login = Login::Token(Hidden(token.clone()));
        }
        if let Some(path) = &self.certificate_authority {
            config.authority = Some(read(path)?);
        }
        if let (Some(chain), Some(key)) = (&self.client_certificate, &self.client_key) {
            config.certificate = Some((read(chain)?, Hidden(read(key)?)));
        }
        config.insecure |= self.insecure_skip_tls_verify;
        if let Some(name) = &self.tls_server_name {
            config.server_name = Some(name.clone());
        }
        Ok(config)
    }

    /// Whether anything says which cluster is meant.
    pub fn is_configured(&self) -> bool {
        self.kubeconfig.is_some()
            || self.context.is_some()
            || self.server.is_some()
            || self.files().any(|path| path.is_file())
    }

    /// Where a kubeconfig is looked for when none is named.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let listed: Vec<PathBuf> = std::env::split_paths(&listed).collect();
        listed.into_iter().chain(home)
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
        if let Some(path) = self.files().find(|path| path.is_file()) {
            return ClusterConfig::from_file(&path, context).map_err(work);
        }
        if let Some(config) = self.server.as_deref().and_then(ClusterConfig::at) {
            return Ok(config);
        }
        ClusterConfig::in_cluster().map_err(|_| {
            Failure::Work(
                "there is no kubeconfig: give one with --kubeconfig or $KUBECONFIG".to_owned(),
            )
        })
    }
}
