//! Whom a Git repository is asked as, and by which way.

use everflow_api::Reason;
use everflow_api::names::condition as types;
use everflow_api::source::{GitProvider, GitRepository};
use everflow_fetch::http::{Auth, Client, ClientOptions, TlsOptions};
use everflow_fetch::{Deadline, Secret, Url, shown};
use everflow_git::{GitAuth, GithubApp, Remote, SshAuth};
use everflow_runtime::attempt::Context;

use super::Git;
use crate::fingerprint::Parts;
use crate::source::draft::Draft;
use crate::source::outcome::Failure;
use crate::source::secrets::SecretData;
use crate::{Fingerprint, Options};

const UNAUTHENTICATED: &str = "AuthenticationFailed";
const NO_APP: &str =
    "secretRef with github app data must be specified when provider is set to github";

/// How a remote is asked.
pub(super) struct Way {
    pub(super) remote: Remote,
    /// Who asks: the namespace, all that its Secrets hold, the proxy.
    pub(super) requester: Fingerprint,
    /// Which of the tokens that are kept it is asked with, if one.
    pub(super) token: Option<Fingerprint>,
}

impl Git {
    /// Reads the Secrets and works out the remote.
    pub(super) async fn remote(
        &self,
        draft: &mut Draft<GitRepository>,
        context: &Context,
        deadline: &Deadline,
    ) -> Result<Way, Failure> {
        let gathered = self.gather(draft, context, deadline).await;
        gathered.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))
    }

    async fn gather(
        &self,
        draft: &Draft<GitRepository>,
        context: &Context,
        deadline: &Deadline,
    ) -> Result<Way, Failure> {
        let (spec, namespace) = (&draft.object.spec, draft.namespace());
        let client = &context.client;
        let proxy = match &spec.proxy_secret_ref {
            None => None,
            Some(reference) => {
                let secret = SecretData::get(client, namespace, &reference.name).await;
                let proxy = secret
                    .map_err(|unread| unread.to_string())
                    .and_then(|secret| Ok((secret.proxy()?, secret.fingerprint())));
                Some(proxy.map_err(|why| {
                    let message = format!("failed to configure proxy options: {why}");
                    Failure::passing(UNAUTHENTICATED, message)
                })?)
            }
        };
        let (proxy, by_proxy) = proxy.unzip();
        let url = Url::parse(&spec.url).map_err(|error| {
            let message = format!("failed to parse url '{}': {error}", shown(&spec.url));
            Failure::stalling(Reason::URLInvalid.as_str(), message)
        })?;
        let secret = match &spec.secret_ref {
            None => None,
            Some(reference) => {
                let secret = SecretData::get(client, namespace, &reference.name).await;
                Some(secret.map_err(|unread| {
                    let prefix = format!("failed to get secret '{namespace}/{}': ", reference.name);
                    let message = format!("{prefix}{prefix}{}", unread.told());
                    Failure::passing(UNAUTHENTICATED, message)
                })?)
            }
        };
        let provider = spec.provider.unwrap_or(GitProvider::Generic);
        let service_account = spec.service_account_name.is_some();
        let requester = requester(
            namespace,
            secret.as_ref().map(SecretData::fingerprint),
            by_proxy,
            provider,
            spec.service_account_name.as_deref(),
        );
        let mut remote = decide(
            &self.options,
            url,
            secret.as_ref(),
            provider,
            service_account,
        )?;
        remote.proxy = proxy;
        let mut token = None;
        if provider == GitProvider::GitHub {
            let app = secret.as_ref().and_then(github_app);
            let app = app.ok_or_else(|| {
                Failure::passing(Reason::InvalidProviderConfiguration.as_str(), NO_APP)
            })?;
            let auth = self
                .github_token(requester, &app, &remote, context, deadline)
                .await?;
            remote.auth = GitAuth::Http(auth);
            token = Some(requester);
        }
        Ok(Way {
            remote,
            requester,
            token,
        })
    }

    /// The token of an app: one that is still good, or a new one.
    async fn github_token(
        &self,
        id: Fingerprint,
        app: &GithubApp,
        remote: &Remote,
        context: &Context,
        deadline: &Deadline,
    ) -> Result<Auth, Failure> {
        let clock = &context.env.clock;
        if let Some(token) = self.tokens.get(&id, clock.elapsed()) {
            return Ok(token.auth());
        }
        let failed = |error: everflow_fetch::Error| {
            let message = format!("failed to configure authentication options: {error}");
            Failure::passing(UNAUTHENTICATED, message)
        };
        let options = ClientOptions {
            tls: remote.tls.clone(),
            proxy: remote.proxy.clone(),
            ..ClientOptions::default()
        };
        let client = Client::new(&context.env, options).map_err(failed)?;
        let now = clock.now();
        let token = app.token(&client, now.seconds, deadline).await;
        let token = token.map_err(failed)?;
        self.tokens.keep(id, &token, now, clock.elapsed());
        Ok(token.auth())
    }
}

/// Tells those who ask apart: the namespace, all that the Secrets of credentials and proxy hold, the provider
/// and its account.
fn requester(
    namespace: &str,
    secret: Option<Fingerprint>,
    proxy: Option<Fingerprint>,
    provider: GitProvider,
    service_account: Option<&str>,
) -> Fingerprint {
    Parts::of("GitRepository")
        .and(namespace)
        .maybe(secret)
        .maybe(proxy)
        .and(provider.as_str())
        .maybe(service_account)
        .done()
}

fn github_app(secret: &SecretData) -> Option<GithubApp> {
    let text = |key: &str| Some(secret.text(key)).filter(|text| !text.is_empty());
    Some(GithubApp {
        app_id: text("githubAppID")?,
        private_key: Secret::new(secret.bytes("githubAppPrivateKey")?.to_vec()),
        installation_id: text("githubAppInstallationID"),
        installation_owner: text("githubAppInstallationOwner"),
        base_url: text("githubAppBaseURL"),
    })
}

/// The remote that spec and Secret stand for. Pure.
fn decide(
    options: &Options,
    url: Url,
    secret: Option<&SecretData>,
    provider: GitProvider,
    service_account: bool,
) -> Result<Remote, Failure> {
    let unauthenticated = |why: String| {
        let message = format!("failed to configure authentication options: {why}");
        Failure::passing(UNAUTHENTICATED, message)
    };
    let scheme = url.scheme.clone();
    let text = |key: &str| secret.map(|secret| secret.text(key)).unwrap_or_default();
    let bytes = |key: &str| {
        secret
            .and_then(|secret| secret.bytes(key))
            .map(<[u8]>::to_vec)
    };
    let mut remote = Remote::new(url);
    if scheme == "ssh" {
        let identity = Secret::new(bytes("identity").unwrap_or_default());
        let password = bytes("password").map(|_| Secret::new(text("password")));
        let known_hosts = bytes("known_hosts").unwrap_or_default();
        let mut auth = SshAuth::new(identity, password, known_hosts).map_err(|error| {
            encrypted(secret, error.to_string())
                .unwrap_or_else(|| unauthenticated(error.to_string()))
        })?;
        auth.key_exchanges = options.ssh_kex_algos.clone();
        auth.host_keys = options.ssh_hostkey_algos.clone();
        remote.auth = GitAuth::Ssh(auth);
    } else {
        remote.tls = TlsOptions {
            ca: bytes("ca.crt").or_else(|| bytes("caFile")),
            client: bytes("tls.crt").zip(bytes("tls.key").map(Secret::new)),
            ..TlsOptions::default()
        };
        if secret.is_some_and(|secret| secret.has("bearerToken")) {
            remote.auth = GitAuth::Http(Auth::Bearer(text("bearerToken").into()));
        } else {
            let (username, password) = (text("username"), text("password"));
            let has_user = !username.is_empty() || remote.url.username.is_some();
            if !password.is_empty() && !has_user {
                return Err(unauthenticated(format!(
                    "invalid '{scheme}' auth option: 'password' requires 'username' to be set"
                )));
            }
            if !username.is_empty() {
                let password = password.into();
                remote.auth = GitAuth::Http(Auth::Basic { username, password });
            }
        }
    }
    by_provider(options, provider, secret, service_account)?;
    Ok(remote)
}

fn encrypted(secret: Option<&SecretData>, why: String) -> Option<Failure> {
    let locked = why.contains("protected by a passphrase");
    let secret = secret.filter(|secret| locked && !secret.has("password"))?;
    let name = secret.name();
    let message = format!(
        "SSH identity key is encrypted but no 'password' field was provided in the secret '{name}'"
    );
    Some(Failure::passing(UNAUTHENTICATED, message))
}

/// What the provider asks for beside that.
fn by_provider(
    options: &Options,
    provider: GitProvider,
    secret: Option<&SecretData>,
    service_account: bool,
) -> Result<(), Failure> {
    let invalid = Reason::InvalidProviderConfiguration.as_str();
    match provider {
        GitProvider::Aws | GitProvider::Azure => {
            if service_account && !options.gates.object_level_workload_identity {
                return Err(Failure::stalling(
                    Reason::FeatureGateDisabled.as_str(),
                    "to use spec.serviceAccountName for provider authentication please enable the \
                     ObjectLevelWorkloadIdentity feature gate in the controller",
                ));
            }
            let message = format!(
                "the provider '{}' is not supported yet: use the provider 'generic' with a \
                 secretRef",
                provider.as_str()
            );
            Err(Failure::stalling(invalid, message))
        }
        GitProvider::GitHub if secret.is_none() => Err(Failure::stalling(invalid, NO_APP)),
        GitProvider::GitHub => Ok(()),
        GitProvider::Generic => match secret.filter(|secret| secret.bytes("githubAppID").is_some())
        {
            None => Ok(()),
            Some(secret) => Err(Failure::passing(
                invalid,
                format!(
                    "secretRef '{}' has github app data but provider is not set to github",
                    secret.name()
                ),
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_requesters_differ_by_namespace_secret_proxy_and_account() {
        let content = |text: &str| Some(Parts::of("Secret").and(text).done());
        let generic = GitProvider::Generic;
        let all = [
            requester("a", None, None, generic, None),
            requester("b", None, None, generic, None),
            requester("a", content("x"), None, generic, None),
            requester("a", content("y"), None, generic, None),
            requester("a", None, content("x"), generic, None),
            requester("a", None, None, GitProvider::GitHub, None),
            requester("a", None, None, generic, Some("sa")),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[2], requester("a", content("x"), None, generic, None));
    }
}
