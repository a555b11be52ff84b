//! Helm repositories: their indexes, and the charts in them.
//!
//! An index is downloaded to the temporary area, read piece by piece and written as Flux stores
//! it; choosing a version reads the stored index as far as the chart's name. Charts are small and
//! are held in memory.

mod address;
mod build;
mod cache;
#[cfg(test)]
mod corpus_tests;
mod draft;
mod index;
#[cfg(test)]
mod limit_tests;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use everflow_env::Env;
use everflow_helm::chart::ChartLimits;

pub use address::{check_dependency_url, normalize_url, resolve_chart_url};
pub use build::{Build, BuildOptions, ChartArchive, Reason, build_remote};
pub use cache::IndexCache;
pub use index::{FetchedIndex, LoadedIndex, versions_in};
pub use source::{
    ChartSource, ChartVerifier, Chosen, HttpCharts, OciCharts, Pulled, Repositories, Verified,
};
pub use tree::{LocalChart, build_local};

use crate::archive::Limit;
use crate::http::{Auth, Client, ClientOptions, Limits, Proxy, Request, Response, TlsOptions};
use crate::{Deadline, Error, Url};

/// What indexes and charts may weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelmLimits {
    /// Bytes of an index, as it comes.
    pub index: u64,
    /// Bytes of a packed chart.
    pub chart: u64,
    /// Bytes of one file of a chart.
    pub file: u64,
    /// Bytes of all files of a chart and the charts in it together.
    pub unpacked: u64,
    /// Files of a chart and the charts in it together.
    pub files: u64,
}

impl HelmLimits {
    /// What a chart may hold with all charts in it.
    pub fn of_chart(&self) -> ChartLimits {
        ChartLimits {
            unpacked: Limit::new(self.unpacked, "--helm-chart-max-unpacked-size"),
            files: Limit::new(self.files, "--helm-chart-max-files"),
        }
    }
}

impl Default for HelmLimits {
    /// Flux's and helm's: 50 MiB, 10 MiB, 5 MiB, 100 MiB unpacked; and 20,000 files.
    fn default() -> Self {
        HelmLimits {
            index: 50 << 20,
            chart: 10 << 20,
            file: 5 << 20,
            unpacked: 100 << 20,
            files: 20_000,
        }
    }
}

/// A chart repository behind HTTP.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Where it is; `index.yaml` lies below.
    pub url: Url,
    /// Who we are: a user with a password. Used when neither is empty.
    pub auth: Option<Auth>,
    /// Whether other servers that the index names get the credentials too.
    pub pass_credentials: bool,
    /// Whom to trust, and our certificate.
    pub tls: TlsOptions,
    /// A proxy in between.
    pub proxy: Option<Proxy>,
    /// How long and how large answers may get.
    pub limits: Limits,
    /// What indexes and charts may weigh.
    pub helm: HelmLimits,
}

impl Repository {
    /// A repository without credentials or certificates, with the usual limits.
    pub fn new(url: Url) -> Self {
        Repository {
            url,
            auth: None,
            pass_credentials: false,
            tls: TlsOptions::default(),
            proxy: None,
            limits: Limits::default(),
            helm: HelmLimits::default(),
        }
    }
}

/// Fetches from one repository.
#[derive(Debug, Clone)]
pub struct HelmClient {
    env: Env,
    repository: Arc<Repository>,
    http: Arc<Client>,
}

impl HelmClient {
    /// A client for a repository; an error when its certificates or keys cannot be used.
    pub fn new(env: &Env, repository: Repository) -> Result<Self, Error> {
        let options = ClientOptions {
            tls: repository.tls.clone(),
            proxy: repository.proxy.clone(),
            limits: repository.limits.clone(),
            user_agent: String::new(),
        };
        Ok(HelmClient {
            env: env.clone(),
            http: Arc::new(Client::new(env, options)?),
            repository: Arc::new(repository),
        })
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The credentials that an address may see: only the repository's own server, by scheme, name
    /// and port, unless they are for all.
    pub(crate) fn auth_for(&self, url: &Url) -> Option<Auth> {
        let own = &self.repository.url;
        if !self.repository.pass_credentials && !own.same_origin(url) {
            return None;
        }
        self.repository.auth.clone().filter(|auth| match auth {
            Auth::Basic { username, password } => {
                !username.is_empty() && !password.reveal().is_empty()
            }
            Auth::Bearer(_) => true,
        })
    }

    /// A GET that must be answered with 200. Messages are Flux's.
    async fn get(
        &self,
        url: &Url,
        compressed: bool,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let mut request = Request::get(url).with_auth(self.auth_for(url));
        request.compressed = compressed;
        let response = self.http.send(request, deadline).await;
        let response = response.map_err(|error| match error {
            Error::Request { verb, url, cause } if matches!(*cause, Error::Deadline(_)) => {
                let cause = " (Client.Timeout exceeded while awaiting headers)";
                Error::Request {
                    verb,
                    url,
                    cause: Box::new(Error::Deadline(cause)),
                }
            }
            other => other,
        })?;
        if response.status.as_u16() == 200 {
            return Ok(response);
        }
        Err(Error::Protocol(format!(
            "failed to fetch {} : {}",
            url.without_credentials(),
            response.status
        )))
    }
}

/// A failed step with Flux's reason and words.
fn failed(reason: &'static str, message: impl Into<String>) -> Error {
    Error::Source {
        reason,
        message: message.into(),
    }
}
