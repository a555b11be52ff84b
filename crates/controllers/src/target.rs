//! Which cluster a Kustomization or a HelmRelease is applied to, and in whose name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::common::{KubeConfigReference, SecretKeyReference};
use everflow_env::Env;
use everflow_json::{Value, json};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Impersonation};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport, Login};

use crate::configs::secret_bytes;
use crate::fingerprint::{Fingerprint, Parts};
use crate::{Options, RemoteClusters, Setup, resources};

/// For how long a token of a service account is asked for, and when it is asked for anew.
const TOKEN: (Duration, Duration) = (Duration::from_secs(3_600), Duration::from_secs(2_400));
/// So many clients of other clusters, and so many tokens, are kept: old kubeconfigs are not worth much
/// memory.
const KEPT: usize = 256;

/// What an object says of its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The namespace of the object.
    pub(crate) namespace: &'a str,
    /// The service account that it names.
    pub(crate) account: Option<&'a str>,
    /// The cluster that it names.
    pub(crate) kube_config: Option<&'a KubeConfigReference>,
}

impl Wanted<'_> {
    /// The service account in whose name objects are applied; empty for our own.
    pub(crate) fn account(&self, options: &Options) -> String {
        let named = self.account.filter(|name| !name.is_empty());
        named.map_or_else(
            || options.runtime.default_service_account.clone(),
            str::to_owned,
        )
    }
}

/// Why a kubeconfig cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// Its Secret cannot be read.
    Secret {
        /// The Secret, in quotes.
        shown: String,
        /// Why.
        why: String,
        /// What to do, in parentheses; or nothing.
        remedy: &'static str,
    },
    /// Its Secret has no kubeconfig.
    Key {
        /// The Secret, in quotes.
        shown: String,
        /// The key that was asked for.
        key: Option<String>,
    },
    /// Something else.
    Other(String),
}

impl Unusable {
    /// In the words that Flux has for Kustomizations.
    pub(crate) fn of_kustomization(&self) -> String {
        match self {
            Unusable::Secret { shown, why, remedy } => {
                format!("unable to read KubeConfig secret {shown} error: {why}{remedy}")
            }
            Unusable::Key { shown, key } => {
                let key = key.as_deref().unwrap_or("value");
                format!(
                    "KubeConfig secret {shown} does not contain a '{key}' key with a kubeconfig"
                )
            }
            Unusable::Other(why) => why.clone(),
        }
    }

    /// In the words that Flux has for HelmReleases.
    pub(crate) fn of_release(&self) -> String {
        match self {
            Unusable::Secret { shown, why, remedy } => {
                format!("could not get KubeConfig secret {shown}: {why}{remedy}")
            }
            Unusable::Key { shown, key } => {
                let keys = match key {
                    Some(key) => format!("'{key}' key"),
                    None => "'value' or 'value.yaml' key".to_owned(),
                };
                format!("KubeConfig secret {shown} does not contain a {keys} with data")
            }
            Unusable::Other(why) => why.clone(),
        }
    }
}

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Unusable::Other(why)
    }
}

/// The cluster of an object.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
    /// Another cluster than ours: what is there is not watched.
    pub(crate) remote: bool,
    /// Requests are made in the name of a service account, which may read less than the engine does.
    pub(crate) impersonates: bool,
    /// Tells clusters and accounts apart: who has other credentials is somebody else.
    pub(crate) identity: Fingerprint,
}

/// Clients of other clusters, by namespace and the whole text of the kubeconfig they were made from; and
/// tokens, by namespace, account and audiences.
#[derive(Debug)]
pub(crate) struct Targets {
    env: Env,
    remotes: Mutex<BTreeMap<Fingerprint, Client>>,
    tokens: Mutex<BTreeMap<Fingerprint, (String, Duration)>>,
}

/// A kubeconfig that was read.
struct Kubeconfig {
    config: ClusterConfig,
    /// Of the namespace and all of its text: whoever has another text gets another client.
    text: Fingerprint,
    /// Of that which stays the same when a token is renewed.
    identity: Fingerprint,
}

impl Targets {
    pub(crate) fn new(setup: &Setup) -> Self {
        Targets {
            env: setup.env.clone(),
            remotes: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    /// The cluster and the name to use.
    pub(crate) async fn of(
        &self,
        wanted: Wanted<'_>,
        own: &Client,
        options: &Options,
    ) -> Result<Target, Unusable> {
        let namespace = wanted.namespace;
        let (mut client, remote, identity) = match wanted.kube_config {
            None => (own.clone(), false, Parts::of("this cluster")),
            Some(reference) => {
                let read = self.config(reference, namespace, own, options).await?;
                let identity = Parts::of("another cluster").and(read.identity);
                (self.remote(read)?, true, identity)
            }
        };
        let account = wanted.account(options);
        if !account.is_empty() {
            client = client.impersonating(Impersonation::service_account(namespace, &account));
        }
        Ok(Target {
            client,
            remote,
            impersonates: !account.is_empty(),
            identity: identity.and(namespace).and(account).done(),
        })
    }

    fn remote(&self, read: Kubeconfig) -> Result<Client, String> {
        let mut remotes = self.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = remotes.get(&read.text) {
            return Ok(client.clone());
        }
        let transport =
            HttpsTransport::new(&self.env, read.config).map_err(|error| error.to_string())?;
        let client = Client::new(Arc::new(transport), self.env.clock.clone());
        let client = client.of_a_stranger(self.env.blocking.memory());
        if remotes.len() >= KEPT {
            remotes.clear();
        }
        remotes.insert(read.text, client.clone());
        Ok(client)
    }

    async fn config(
        &self,
        reference: &KubeConfigReference,
        namespace: &str,
        own: &Client,
        options: &Options,
    ) -> Result<Kubeconfig, Unusable> {
        allowed(reference, namespace, options)?;
        match (&reference.secret_ref, &reference.config_map_ref) {
            (Some(secret), _) => from_secret(secret, namespace, own, options).await,
            (None, Some(map)) => {
                let read = self.config_of_map(&map.name, namespace, own, options).await;
                Ok(read?)
            }
            (None, None) => Err(Unusable::Other(
                "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"
                    .into(),
            )),
        }
    }

    async fn config_of_map(
        &self,
        name: &str,
        namespace: &str,
        own: &Client,
        options: &Options,
    ) -> Result<Kubeconfig, String> {
        let at = At::new(namespace, name);
        let map = own
            .get(&resources::CONFIG_MAPS, at)
            .await
            .map_err(|error| {
                format!("unable to read KubeConfig ConfigMap '{namespace}/{name}' error: {error}")
            })?;
        let shown = format!("ConfigMap '{namespace}/{name}'");
        let text = |key: &str| map["data"][key].as_str().unwrap_or_default().to_owned();
        match text("provider").as_str() {
            "generic" => {}
            "aws" | "azure" | "gcp" => {
                return Err(format!(
                    "{shown}: the provider {:?} is not supported yet; use provider: generic or a kubeconfig in a Secret",
                    text("provider")
                ));
            }
            "" => return Err(format!("{shown} has no provider: set data.provider")),
            other => return Err(format!("{shown}: unsupported provider: {other}")),
        }
        let address = text("address");
        if address.is_empty() {
            return Err(format!("{shown} has no address: set data.address"));
        }
        let account = match text("serviceAccountName") {
            named if !named.is_empty() => named,
            _ => options.runtime.default_kubeconfig_service_account.clone(),
        };
        if account.is_empty() {
            return Err(format!(
                "{shown} has no serviceAccountName: set data.serviceAccountName"
            ));
        }
        let audiences = match text("audiences") {
            listed if !listed.is_empty() => {
                let read: Result<Vec<String>, _> = everflow_json::from_value(
                    everflow_yaml::sigs::yaml_to_json(listed.as_bytes())
                        .map_err(|error| format!("{shown}: audiences: {error}"))?,
                );
                read.map_err(|error| format!("{shown}: audiences: {error}"))?
            }
            _ => vec![address.clone()],
        };
        let token = self.token(namespace, &account, &audiences, own).await?;
        let authority = text("ca.crt");
        let identity = Parts::of("ConfigMap").and(namespace).and(name);
        let identity = identity.and(&address).and(&authority).and(&account);
        let identity = audiences.iter().fold(identity, Parts::and).done();
        let mut cluster = json!({"server": address});
        if !authority.is_empty() {
            use base64::Engine as _;
            let encoded = base64::engine::general_purpose::STANDARD.encode(authority);
            cluster["certificate-authority-data"] = encoded.into();
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "default",
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "clusters": [{"name": "default", "cluster": cluster}],
            "users": [{"name": "default", "user": {"token": token}}],
        });
        let read = parse(config.to_string().as_bytes(), namespace, options)?;
        Ok(Kubeconfig { identity, ..read })
    }

    /// A token of a service account of the object's namespace.
    async fn token(
        &self,
        namespace: &str,
        account: &str,
        audiences: &[String],
        own: &Client,
    ) -> Result<String, String> {
        let key = Parts::of("token").and(namespace).and(account);
        let key = audiences.iter().fold(key, Parts::and).done();
        let now = self.env.clock.elapsed();
        {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((token, until)) = tokens.get(&key)
                && now < *until
            {
                return Ok(token.clone());
            }
        }
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "expirationSeconds": TOKEN.0.as_secs()},
        });
        let mut at = At::new(namespace, account);
        at.subresource = "token";
        let path = resources::SERVICE_ACCOUNTS.object_path(&at);
        let body = Some(("application/json", &body));
        let answer: Value = own
            .ask(http::Method::POST, &path, "application/json", body)
            .await
            .map_err(|error| {
                format!("failed to get a token of ServiceAccount '{namespace}/{account}': {error}")
            })?;
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        let token = token.ok_or("the server gave no token")?.to_owned();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= KEPT {
            tokens.retain(|_, (_, until)| now < *until);
        }
        if tokens.len() >= KEPT {
            tokens.clear();
        }
        tokens.insert(key, (token.clone(), now + TOKEN.1));
        Ok(token)
    }

    /// Whether the account to apply as, and the kubeconfig, are there: without them nothing can
    /// be deleted any more.
    pub(crate) async fn gone(
        &self,
        wanted: Wanted<'_>,
        own: &Client,
        options: &Options,
    ) -> Result<bool, ClientError> {
        let account = wanted.account(options);
        if account.is_empty() || wanted.kube_config.is_some() {
            return Ok(false);
        }
        let at = At::new(wanted.namespace, &account);
        match own.get_metadata(&resources::SERVICE_ACCOUNTS, at).await {
            Ok(_) => Ok(false),
            Err(ClientError::NotFound(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether a kubeconfig may be looked at. Whether a Secret is one of those that count shows when it is
/// read.
fn allowed(
    reference: &KubeConfigReference,
    namespace: &str,
    options: &Options,
) -> Result<(), String> {
    let secret = reference.secret_ref.as_ref();
    match (&options.kustomize.remote_clusters, secret) {
        (RemoteClusters::Allowed, _) | (RemoteClusters::OnlyFrom(_), Some(_)) => Ok(()),
        (RemoteClusters::Refused, Some(secret)) => Err(format!(
            "spec.kubeConfig names another cluster, and nothing is applied to one with --offline: run \
             without --offline and give the Secret '{namespace}/{}' by --with FILE to deploy there",
            secret.name
        )),
        (RemoteClusters::Refused | RemoteClusters::OnlyFrom(_), None) => Err(
            "spec.kubeConfig names another cluster, and from here nothing is applied to one that a \
             ConfigMap names: write its kubeconfig into a Secret, name that in \
             spec.kubeConfig.secretRef and give it by --with FILE to deploy there"
                .to_owned(),
        ),
    }
}

/// Whether a Secret is one of those whose kubeconfigs count: what a repository brings, plain or encrypted,
/// does not, even under the name of one that was given.
fn given(secret: &Value, shown: &str, options: &Options) -> Result<(), String> {
    let RemoteClusters::OnlyFrom(known) = &options.kustomize.remote_clusters else {
        return Ok(());
    };
    if known.contains(&Fingerprint::of_secret(secret)) {
        return Ok(());
    }
    Err(format!(
        "spec.kubeConfig names another cluster, and from here nothing is applied to one unless its \
         kubeconfig was given by hand: the Secret {shown} with this content was not; give it by --with \
         FILE to deploy there"
    ))
}

async fn from_secret(
    reference: &SecretKeyReference,
    namespace: &str,
    own: &Client,
    options: &Options,
) -> Result<Kubeconfig, Unusable> {
    let shown = format!("'{namespace}/{}'", reference.name);
    let at = At::new(namespace, &reference.name);
    let secret = own.get(&resources::SECRETS, at).await;
    let secret = secret.map_err(|error| Unusable::Secret {
        shown: shown.clone(),
        remedy: match error {
            ClientError::NotFound(_) => {
                " (spec.kubeConfig names it: create it with the kubeconfig of the other cluster)"
            }
            _ => "",
        },
        why: error.to_string(),
    })?;
    given(&secret, &shown, options)?;
    let data = secret_bytes(&secret);
    let named = reference.key.as_deref().filter(|key| !key.is_empty());
    let keys = match named {
        Some(key) => vec![key],
        None => vec!["value", "value.yaml"],
    };
    let found = keys.iter().find_map(|key| data.get(*key));
    let Some(text) = found else {
        return Err(Unusable::Key {
            shown,
            key: named.map(str::to_owned),
        });
    };
    Ok(parse(text, namespace, options)?)
}

/// Reads a kubeconfig of someone else's: nothing in it may run programs or weaken the trust,
/// unless that is allowed.
fn parse(text: &[u8], namespace: &str, options: &Options) -> Result<Kubeconfig, String> {
    let read = ClusterConfig::from_text(text, None, "kubeconfig", None);
    let mut config = read.map_err(|error| {
        let text = error.to_string();
        let bare = text.strip_prefix("kubeconfig: it is not YAML: ");
        bare.map_or(text.clone(), str::to_owned)
    })?;
    if !options.kustomize.insecure_kubeconfig_tls {
        config.insecure = false;
    }
    if !options.kustomize.insecure_kubeconfig_exec && matches!(config.login, Login::Exec(_)) {
        config.login = Login::None;
    }
    let text = Parts::of("kubeconfig").and(namespace).and(text).done();
    Ok(Kubeconfig {
        config,
        identity: text,
        text,
    })
}

#[cfg(test)]
mod tests {
    use everflow_env::MemoryDialer;

    use super::*;

    fn text(password: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'https://remote.example'}}}}], \
             users: [{{name: u, user: {{username: alice, password: {password}}}}}]}}"
        )
    }

    #[test]
    fn clients_of_remote_clusters_differ_by_namespace_and_kubeconfig() {
        let targets = Targets {
            env: Env::simulated(1, MemoryDialer::new()),
            remotes: Mutex::default(),
            tokens: Mutex::default(),
        };
        let options = Options::default();
        let ask = |namespace: &str, password: &str| {
            let read = parse(text(password).as_bytes(), namespace, &options).unwrap();
            let identity = read.identity;
            targets.remote(read).unwrap();
            (identity, targets.remotes.lock().unwrap().len())
        };
        let (own, count) = ask("a", "right");
        assert_eq!(count, 1);
        assert_eq!(ask("a", "right"), (own, 1));
        let (wrong, count) = ask("a", "WRONG");
        assert_eq!(count, 2);
        let (stranger, count) = ask("b", "right");
        assert_eq!(count, 3);
        assert!(own != wrong && own != stranger && wrong != stranger);
    }

    #[test]
    fn kubeconfigs_of_tenants_run_no_program_and_read_no_file() {
        let with = |cluster: &str, user: &str| {
            let text = format!(
                "{{apiVersion: v1, kind: Config, current-context: c, \
                 contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
                 clusters: [{{name: c, cluster: {{server: 'https://remote.example'{cluster}}}}}], \
                 users: [{{name: u, user: {{{user}}}}}]}}"
            );
            parse(text.as_bytes(), "a", &Options::default())
        };
        let read = with(
            "",
            "exec: {command: /bin/sh, args: [-c, id], apiVersion: x}",
        )
        .unwrap();
        assert!(matches!(read.config.login, Login::None));
        let read = with(", insecure-skip-tls-verify: true", "token: t").unwrap();
        assert!(!read.config.insecure);
        for (cluster, user) in [
            ("", "tokenFile: /var/run/secrets/token"),
            ("", "client-certificate: /a.pem, client-key: /b.pem"),
            (", certificate-authority: /etc/shadow", "token: t"),
            ("", "auth-provider: {name: gcp}"),
        ] {
            assert!(with(cluster, user).is_err(), "{cluster} {user}");
        }
    }
}
