//! Which cluster a Kustomization applies to, and in whose name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_api::common::{KubeConfigReference, SecretKeyReference};
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_env::Env;
use everflow_json::{Value, json};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Impersonation};
use everflow_runtime::transport::{ClusterConfig, Hidden, HttpsTransport, Login};
use sha2::{Digest as _, Sha256};

use super::inputs::secret_bytes;
use super::stop::{Failure, Stop, Tell};
use crate::{Options, Setup, resources};

/// For how long a token of a service account is asked for, and when it is asked for anew.
const TOKEN: (Duration, Duration) = (Duration::from_secs(3_600), Duration::from_secs(2_400));

/// The cluster of a Kustomization.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) client: Client,
    /// Another cluster than ours: what is there is not watched.
    pub(super) remote: bool,
    /// Tells clusters and accounts apart.
    pub(super) identity: String,
}

/// Clients of other clusters, by what they were made from.
#[derive(Debug)]
pub(super) struct Targets {
    env: Env,
    remotes: Mutex<BTreeMap<[u8; 32], Client>>,
    tokens: Mutex<BTreeMap<String, (String, Duration)>>,
}

impl Targets {
    pub(super) fn new(setup: &Setup) -> Self {
        Targets {
            env: setup.env.clone(),
            remotes: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    /// The service account in whose name objects are applied; empty for our own.
    pub(super) fn account(object: &Object<Kustomization>, options: &Options) -> String {
        let named = object.spec.service_account_name.clone();
        let named = named.filter(|name| !name.is_empty());
        named.unwrap_or_else(|| options.runtime.default_service_account.clone())
    }

    /// The cluster and the name to use.
    pub(super) async fn of(
        &self,
        object: &Object<Kustomization>,
        own: &Client,
        options: &Options,
    ) -> Result<Target, Stop> {
        let namespace = object.metadata.namespace();
        let (mut client, remote, mut identity) = match &object.spec.kube_config {
            None => (own.clone(), false, String::new()),
            Some(reference) => {
                let config = self.config(reference, namespace, own, options).await;
                let config = config.map_err(|why| unusable(&why))?;
                let (client, identity) = self.remote(config).map_err(|why| unusable(&why))?;
                (client, true, identity)
            }
        };
        let account = Self::account(object, options);
        if !account.is_empty() {
            client = client.impersonating(Impersonation::service_account(namespace, &account));
            identity.push('@');
            identity.push_str(&account);
        }
        Ok(Target {
            client,
            remote,
            identity,
        })
    }

    fn remote(&self, config: ClusterConfig) -> Result<(Client, String), String> {
        let text = format!("{config:?}{:?}", secrets_of(&config));
        let key: [u8; 32] = Sha256::digest(text).into();
        let identity = config.url();
        let mut remotes = self.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = remotes.get(&key) {
            return Ok((client.clone(), identity));
        }
        let transport =
            HttpsTransport::new(&self.env, config).map_err(|error| error.to_string())?;
        let client = Client::new(Arc::new(transport), self.env.clock.clone());
        // Old kubeconfigs are not worth much memory.
        if remotes.len() >= 256 {
            remotes.clear();
        }
        remotes.insert(key, client.clone());
        Ok((client, identity))
    }

    async fn config(
        &self,
        reference: &KubeConfigReference,
        namespace: &str,
        own: &Client,
        options: &Options,
    ) -> Result<ClusterConfig, String> {
        match (&reference.secret_ref, &reference.config_map_ref) {
            (Some(secret), _) => from_secret(secret, namespace, own, options).await,
            (None, Some(map)) => self.config_of_map(&map.name, namespace, own, options).await,
            (None, None) => Err(
                "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"
                    .into(),
            ),
        }
    }

    async fn config_of_map(
        &self,
        name: &str,
        namespace: &str,
        own: &Client,
        options: &Options,
    ) -> Result<ClusterConfig, String> {
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
        let mut cluster = json!({"server": address});
        let authority = text("ca.crt");
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
        parse(config.to_string().as_bytes(), options)
    }

    /// A token of a service account of the Kustomization's namespace.
    async fn token(
        &self,
        namespace: &str,
        account: &str,
        audiences: &[String],
        own: &Client,
    ) -> Result<String, String> {
        let key = format!("{namespace}/{account}/{}", audiences.join(" "));
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
        tokens.insert(key, (token.clone(), now + TOKEN.1));
        Ok(token)
    }

    /// Whether the account to apply as, and the kubeconfig, are there: without them nothing can
    /// be deleted any more.
    pub(super) async fn gone(
        &self,
        object: &Object<Kustomization>,
        own: &Client,
        options: &Options,
    ) -> Result<bool, ClientError> {
        let account = Self::account(object, options);
        if account.is_empty() || object.spec.kube_config.is_some() {
            return Ok(false);
        }
        let at = At::new(object.metadata.namespace(), &account);
        match own.get_metadata(&resources::SERVICE_ACCOUNTS, at).await {
            Ok(_) => Ok(false),
            Err(ClientError::NotFound(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// What a configuration does not show of itself but differs by.
fn secrets_of(config: &ClusterConfig) -> String {
    let login = match &config.login {
        Login::Token(Hidden(token)) => token.clone(),
        _ => String::new(),
    };
    let key = config
        .certificate
        .as_ref()
        .map(|(_, Hidden(key))| key.clone());
    format!("{login}{key:?}")
}

fn unusable(why: &str) -> Stop {
    Failure::new(Reason::ReconciliationFailed, why)
        .telling(Tell::Text(format!("failed to build kube client: {why}")))
        .into()
}

async fn from_secret(
    reference: &SecretKeyReference,
    namespace: &str,
    own: &Client,
    options: &Options,
) -> Result<ClusterConfig, String> {
    let shown = format!("'{namespace}/{}'", reference.name);
    let at = At::new(namespace, &reference.name);
    let secret = own.get(&resources::SECRETS, at).await;
    let secret = secret.map_err(|error| {
        let remedy = match error {
            ClientError::NotFound(_) => {
                " (spec.kubeConfig names it: create it with the kubeconfig of the other cluster)"
            }
            _ => "",
        };
        format!("unable to read KubeConfig secret {shown} error: {error}{remedy}")
    })?;
    let data = secret_bytes(&secret);
    let named = reference.key.as_deref().filter(|key| !key.is_empty());
    let keys = match named {
        Some(key) => vec![key],
        None => vec!["value", "value.yaml"],
    };
    let found = keys.iter().find_map(|key| data.get(*key));
    let Some(text) = found else {
        let key = keys[0];
        return Err(format!(
            "KubeConfig secret {shown} does not contain a '{key}' key with a kubeconfig"
        ));
    };
    parse(text, options)
}

/// Reads a kubeconfig of someone else's: nothing in it may run programs or weaken the trust,
/// unless that is allowed.
fn parse(text: &[u8], options: &Options) -> Result<ClusterConfig, String> {
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
    Ok(config)
}
