//! Buckets that speak Amazon's S3 protocol: what is in them, and an archive of it.
//!
//! A [`BucketClient`] is for one bucket. [`index`](BucketClient::index) tells what is there and
//! so the revision; only when that is a new one, [`fetch`](BucketClient::fetch) downloads it.

pub(crate) mod answer;
mod endpoint;
mod index;
mod sign;
mod sts;
#[cfg(test)]
mod tests;
mod xml;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::http::{Method, StatusCode};
use everflow_env::Env;
use tokio::sync::OnceCell;

pub use index::{Fetched, Index};
pub use sts::Ldap;

use crate::http::{Client, ClientOptions, Limits, Proxy, Request, Response, TlsOptions};
use crate::{Deadline, Error, Secret};
use answer::RequestFailure;
use endpoint::Endpoint;

/// The reason of what goes wrong with a bucket.
const FAILED: &str = "BucketOperationFailed";
/// How long to wait before the second and the third try.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
const USUAL_REGION: &str = "us-east-1";
/// The largest page of a listing.
const LARGEST_PAGE: u64 = 32 << 20;

/// What signs requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The name of the key.
    pub access: String,
    /// The key.
    pub secret: Secret<String>,
    /// What keys that were given for a while come with.
    pub session: Option<Secret<String>>,
}

/// Who we are to a bucket.
#[derive(Debug, Clone, Default)]
pub enum BucketAuth {
    /// Nobody.
    #[default]
    Anonymous,
    /// Whoever has these keys.
    Keys(Keys),
    /// Whoever gets keys by a user and password from a directory.
    Ldap(Ldap),
}

impl BucketAuth {
    /// Reads the keys from a secret: `accesskey` and `secretkey`, which must both be there.
    pub fn from_secret(name: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, Error> {
        let (Some(access), Some(secret)) = (data.get("accesskey"), data.get("secretkey")) else {
            return Err(Error::Authentication(format!(
                "invalid '{name}' secret data: required fields 'accesskey' and 'secretkey'"
            )));
        };
        let text = |bytes: &[u8], field: &str| {
            String::from_utf8(bytes.to_vec()).map_err(|_| {
                Error::Authentication(format!(
                    "invalid '{name}' secret data: '{field}' is no text"
                ))
            })
        };
        let (access, secret) = (text(access, "accesskey")?, text(secret, "secretkey")?);
        Ok(match access.is_empty() || secret.is_empty() {
            true => BucketAuth::Anonymous,
            false => BucketAuth::Keys(Keys {
                access,
                secret: secret.into(),
                session: None,
            }),
        })
    }
}

/// The error for a way to a bucket that Flux knows and we do not know yet.
pub fn unsupported_provider(provider: &str) -> Error {
    let message = match provider {
        "aws" => {
            "the identity of workloads is not supported yet for provider 'aws': \
             give access keys by spec.secretRef"
        }
        "gcp" => {
            "provider 'gcp' is not supported yet: use provider 'generic' with endpoint \
             'storage.googleapis.com' and HMAC keys by spec.secretRef"
        }
        "azure" => "provider 'azure' is not supported yet",
        _ => "the bucket provider is not supported: use 'generic' or 'aws'",
    };
    Error::Unsupported {
        reason: "AuthenticationFailed",
        message: message.to_owned(),
    }
}

/// A bucket somewhere.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The server: host and port.
    pub endpoint: String,
    /// The name of the bucket.
    pub bucket: String,
    /// Where it is; asked for when empty.
    pub region: String,
    /// Only what begins with this.
    pub prefix: String,
    /// Speak plain HTTP.
    pub insecure: bool,
    /// Who we are.
    pub auth: BucketAuth,
    /// Whom to trust.
    pub tls: TlsOptions,
    /// A proxy in between.
    pub proxy: Option<Proxy>,
    /// Limits of requests; that of answers holds for one object.
    pub limits: Limits,
    /// Bytes of all objects together.
    pub total: u64,
    /// How many objects there may be.
    pub objects: usize,
}

impl Remote {
    /// A bucket without credentials, proxies or certificates, with the usual limits.
    pub fn new(endpoint: &str, bucket: &str) -> Self {
        Remote {
            endpoint: endpoint.to_owned(),
            bucket: bucket.to_owned(),
            region: String::new(),
            prefix: String::new(),
            insecure: false,
            auth: BucketAuth::Anonymous,
            tls: TlsOptions::default(),
            proxy: None,
            limits: Limits {
                body: 16 << 30,
                redirects: 0,
                ..Limits::default()
            },
            total: 16 << 30,
            objects: 1_000_000,
        }
    }
}

/// Fetches from one bucket.
#[derive(Debug)]
pub struct BucketClient {
    env: Env,
    remote: Remote,
    endpoint: Endpoint,
    http: Client,
    keys: OnceCell<Option<Keys>>,
    region: Mutex<String>,
}

impl BucketClient {
    /// A client for a bucket; an error when its endpoint, certificates or keys cannot be used.
    pub fn new(env: &Env, remote: Remote) -> Result<Self, Error> {
        let endpoint = Endpoint::new(&remote.endpoint, &remote.bucket, remote.insecure)?;
        let options = ClientOptions {
            tls: match remote.insecure {
                true => TlsOptions::default(),
                false => remote.tls.clone(),
            },
            proxy: remote.proxy.clone(),
            limits: remote.limits.clone(),
            user_agent: String::new(),
        };
        let region = match remote.region.as_str() {
            "" => endpoint.region().unwrap_or_default(),
            region => region.to_owned(),
        };
        Ok(BucketClient {
            env: env.clone(),
            http: Client::new(env, options)?,
            endpoint,
            keys: OnceCell::new(),
            region: Mutex::new(region),
            remote,
        })
    }

    async fn keys(&self, deadline: &Deadline) -> Result<Option<&Keys>, RequestFailure> {
        let keys = self
            .keys
            .get_or_try_init(|| async {
                match &self.remote.auth {
                    BucketAuth::Anonymous => Ok(None),
                    BucketAuth::Keys(keys) => Ok(Some(keys.clone())),
                    BucketAuth::Ldap(ldap) => {
                        let proxy = self.remote.proxy.clone();
                        sts::assume(&self.env, ldap, proxy, deadline)
                            .await
                            .map(Some)
                    }
                }
            })
            .await?;
        Ok(keys.as_ref())
    }

    fn region(&self) -> String {
        self.region
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_region(&self, region: &str) {
        *self.region.lock().unwrap_or_else(PoisonError::into_inner) = region.to_owned();
    }

    /// The region of the bucket, asked for once.
    async fn locate(&self, deadline: &Deadline) -> Result<(), RequestFailure> {
        if !self.region().is_empty() {
            return Ok(());
        }
        let request = Request::get(&self.endpoint.location());
        let asked = self.ask(request, USUAL_REGION, false, deadline).await;
        let region = match asked {
            Ok(response) => {
                let bytes = response.body.read_all(1 << 16).await?;
                let text = String::from_utf8_lossy(&bytes);
                let found = answer::element(&text, "LocationConstraint").ok_or_else(|| {
                    Error::Protocol("the answer is no location of a bucket".to_owned())
                })?;
                match found.as_str() {
                    "" => USUAL_REGION.to_owned(),
                    "EU" => "eu-west-1".to_owned(),
                    _ => found,
                }
            }
            // Who may not ask may still be allowed to read.
            Err(RequestFailure::Refused(refusal))
                if matches!(
                    refusal.code.as_str(),
                    "AccessDenied"
                        | "AuthorizationHeaderMalformed"
                        | "InvalidRegion"
                        | "NotImplemented"
                ) =>
            {
                match refusal.region.as_str() {
                    "" => USUAL_REGION.to_owned(),
                    region => region.to_owned(),
                }
            }
            Err(other) => return Err(other),
        };
        self.set_region(&region);
        Ok(())
    }

    /// Asks for the bucket or an object in it; what is no success is an error.
    async fn request(
        &self,
        method: Method,
        key: &str,
        query: Option<String>,
        deadline: &Deadline,
    ) -> Result<Response, RequestFailure> {
        self.locate(deadline).await?;
        let mut moved = false;
        loop {
            let region = self.region();
            let mut url = self.endpoint.address(key, &region);
            url.query.clone_from(&query);
            let request = Request::get(&url).with_method(method.clone());
            let asked = self.ask(request, &region, !key.is_empty(), deadline).await;
            match &asked {
                // The bucket is elsewhere, and the server says where.
                Err(RequestFailure::Refused(refusal))
                    if !moved
                        && self.remote.region.is_empty()
                        && !refusal.region.is_empty()
                        && refusal.region != region =>
                {
                    moved = true;
                    self.set_region(&refusal.region);
                }
                _ => return asked,
            }
        }
    }

    async fn ask(
        &self,
        request: Request,
        region: &str,
        object: bool,
        deadline: &Deadline,
    ) -> Result<Response, RequestFailure> {
        let keys = self.keys(deadline).await?;
        let mut pauses = PAUSES.iter();
        loop {
            let mut request = request.clone();
            request.compressed = false;
            if let Some(keys) = keys {
                sign::sign(&mut request, keys, region, self.env.clock.now())?;
            }
            let method = request.method.clone();
            let trouble = match self.http.send(request, deadline).await {
                Ok(response) if response.status == StatusCode::OK => return Ok(response),
                Ok(response) => {
                    RequestFailure::Refused(answer::refusal(&method, response, object).await)
                }
                Err(error) => RequestFailure::Failed(error),
            };
            match pauses.next() {
                Some(pause) if trouble.passes() && *pause < deadline.left() => {
                    self.env.clock.sleep(*pause).await;
                }
                _ => return Err(trouble),
            }
        }
    }
}

/// A key as listings show it; for servers of tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn escaped(key: &str) -> String {
    sign::escaped(key, true)
}
