//! A Provider and its Secrets, put together.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::Object;
use everflow_api::notification::{Provider, ProviderType};
use everflow_json::Value;
use everflow_yaml::sigs::typed::{Target, unmarshal};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::address::Address;
use crate::exchange::{Connection, Tls};
use crate::secret::parts;
use crate::url::{Url, pairs};
use crate::{Error, Mask, Secret, SecretData};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
const LONGEST_ADDRESS: usize = 2_048;

/// What became of a Secret that a Provider names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Lookup {
    /// None is named.
    #[default]
    None,
    /// It was read.
    Found(SecretData),
    /// It could not be read: the server's words.
    Failed(String),
}

/// The Secrets of a Provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Of `spec.secretRef`.
    pub credentials: Lookup,
    /// Of `spec.proxySecretRef`.
    pub proxy: Lookup,
    /// Of `spec.certSecretRef`.
    pub certificates: Lookup,
}

/// All that is needed to flow to a provider.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which service.
    pub(crate) kind: ProviderType,
    /// The name of the Provider.
    pub(crate) name: String,
    /// Its unique id.
    pub(crate) uid: String,
    pub(crate) address: Address,
    pub(crate) channel: String,
    pub(crate) username: String,
    pub(crate) password: Secret<String>,
    pub(crate) token: Secret<String>,
    pub(crate) headers: Secret<BTreeMap<String, String>>,
    pub(crate) service_account: String,
    pub(crate) secret: SecretData,
    pub(crate) proxy: Option<Address>,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Duration,
    /// Hides what is secret in the messages of foreign servers.
    pub(crate) mask: Mask,
}

/// The names of Secrets that a Provider names: credentials, proxy, certificates.
pub fn secret_names(provider: &Object<Provider>) -> [Option<&str>; 3] {
    let spec = &provider.spec;
    [
        &spec.secret_ref,
        &spec.proxy_secret_ref,
        &spec.cert_secret_ref,
    ]
    .map(|reference| reference.as_ref().map(|reference| reference.name.as_str()))
}

impl Settings {
    /// Puts a Provider and its Secrets together.
    ///
    /// # Errors
    /// When a Secret could not be read or holds what cannot be used.
    pub fn new(provider: &Object<Provider>, secrets: &Secrets) -> Result<Self, Error> {
        Self::read(provider, secrets).map_err(|why| Error::Settings {
            provider: provider.metadata.name.clone(),
            why,
        })
    }

    fn read(provider: &Object<Provider>, secrets: &Secrets) -> Result<Self, String> {
        let spec = &provider.spec;
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        let [credentials_name, proxy_name, certificates_name] = secret_names(provider);
        let find = |lookup, name: Option<&str>| {
            found(
                lookup,
                provider.metadata.namespace(),
                name.unwrap_or_default(),
            )
        };
        let mut settings = Settings {
            kind: spec.provider_type,
            name: provider.metadata.name.clone(),
            uid: given(&provider.metadata.uid),
            address: Address::open(given(&spec.address)),
            channel: given(&spec.channel),
            username: given(&spec.username),
            password: Secret::default(),
            token: Secret::default(),
            headers: Secret::default(),
            service_account: given(&spec.service_account_name),
            secret: SecretData::default(),
            proxy: spec.proxy.clone().map(Address::open),
            tls: None,
            timeout: spec
                .timeout
                .map_or(DEFAULT_TIMEOUT, |timeout| timeout.unsigned()),
            mask: Mask::default(),
        };
        if let Some(secret) = find(&secrets.credentials, credentials_name)? {
            settings.take_credentials(secret)?;
        }
        if let Some(secret) = find(&secrets.proxy, proxy_name)? {
            let proxy = proxy(secret).map_err(|why| format!("failed to get proxy URL: {why}"))?;
            settings.proxy = Some(proxy);
        }
        let certificates = find(&secrets.certificates, certificates_name)?;
        settings.tls = match certificates {
            Some(secret) => Some(tls(secret)?),
            None if is_git(settings.kind) => tls_beside(&settings.secret)?,
            None => None,
        };
        settings.mask = settings.secrets();
        Ok(settings)
    }

    fn take_credentials(&mut self, secret: &SecretData) -> Result<(), String> {
        if let Some(address) = secret.text("address") {
            if address.len() > LONGEST_ADDRESS {
                return Err(format!(
                    "invalid address in secret: address exceeds maximum length of {LONGEST_ADDRESS} bytes"
                ));
            }
            self.address = Address::secret(address.trim());
        }
        if let Some(proxy) = secret.text("proxy") {
            let proxy = proxy.trim();
            if Url::parse(proxy).is_err() {
                return Err(format!("invalid 'proxy' in secret '{}'", secret.name()));
            }
            self.proxy = Some(Address::secret(proxy));
        }
        if let Some(headers) = secret.bytes("headers") {
            self.headers = Secret::new(read_headers(headers)?);
        }
        if let Some(token) = secret.text("token") {
            self.token = Secret::new(token);
        }
        // Half of a pair is no pair.
        if let (Some(username), Some(password)) = (secret.text("username"), secret.text("password"))
        {
            self.username = username;
            self.password = Secret::new(password);
        }
        self.secret = secret.clone();
        Ok(())
    }

    /// What must not appear in messages.
    fn secrets(&self) -> Mask {
        // Shorter parts of an address are ordinary words.
        let is_long = |text: &String| text.len() >= 8;
        let mut values = vec![self.token.reveal().clone(), self.password.reveal().clone()];
        values.extend(self.headers.reveal().values().cloned());
        let files = ["creds", "nkey"].map(|key| self.secret.text(key));
        for file in files.into_iter().flatten() {
            values.extend(file.lines().map(str::to_owned).filter(is_long));
            values.push(file);
        }
        // An address may be several, divided by commas.
        for address in self.address.reveal().split(',') {
            let Ok(url) = Url::parse(address.trim()) else {
                if self.address.is_secret() {
                    values.extend(parts(address));
                }
                continue;
            };
            // A user without a password is a key, or a token.
            values.extend(
                url.user_and_password()
                    .map(|(user, password)| password.unwrap_or(user)),
            );
            if self.address.is_secret() {
                values.extend([url.path.clone(), url.escaped_path()]);
                values.extend(url.path.split('/').map(str::to_owned).filter(is_long));
                let query = url.query.unwrap_or_default();
                values.extend(
                    pairs(&query)
                        .into_iter()
                        .map(|(_, value)| value)
                        .filter(is_long),
                );
                values.push(query);
            }
        }
        // Keys of connection strings.
        values.extend(crate::provider::eventhub::shared_key(self.address.reveal()));
        let proxy = self.proxy.as_ref().map(|proxy| Url::parse(proxy.reveal()));
        if let Some(Ok(url)) = proxy
            && let Some((user, password)) = url.user_and_password()
        {
            let pair = format!("{user}:{}", password.as_deref().unwrap_or_default());
            values.push(STANDARD.encode(pair));
            values.push(password.unwrap_or(user));
        }
        Mask::new(values)
    }

    /// The token, or the password where there is none.
    pub(crate) fn token_or_password(&self) -> &str {
        match self.token.reveal().as_str() {
            "" => self.password.reveal(),
            token => token,
        }
    }

    /// How the provider is reached: not all services are reached through the proxy and with the certificates that
    /// are set, and changing that would cut off those who rely on it.
    pub(crate) fn connection(&self) -> Connection {
        use ProviderType::{
            AzureDevOps, Bitbucket, BitbucketServer, Discord, GitHub, GitHubDispatch,
            GitHubPullRequestComment, GitLab, GitLabMergeRequestComment, GoogleChat, Lark, Matrix,
            Nats, Sentry, Telegram,
        };
        let ignores_proxy = matches!(
            self.kind,
            AzureDevOps
                | Bitbucket
                | BitbucketServer
                | GitHub
                | GitHubDispatch
                | GitHubPullRequestComment
                | GitLab
                | GitLabMergeRequestComment
                | Lark
                | Matrix
                | Nats
                | Sentry
        );
        let ignores_tls = matches!(self.kind, Discord | GoogleChat | Lark | Telegram);
        Connection {
            proxy: self.proxy.clone().filter(|_| !ignores_proxy),
            tls: self.tls.clone().filter(|_| !ignores_tls),
            timeout: self.timeout,
        }
    }

    /// The address of a webhook.
    pub(crate) fn hook(&self, what: &str) -> Result<Url, String> {
        Url::parse_request_uri(self.address.reveal()).map_err(|cause| {
            let shown = &self.address;
            format!("invalid {what} URL {shown}: '{}'", self.parse_error(&cause))
        })
    }

    /// Go's words for an address that cannot be read.
    pub(crate) fn parse_error(&self, cause: &str) -> String {
        let shown = self.address.to_string();
        match self.address.is_secret() {
            true => {
                let hidden = Mask::of_parts(self.address.reveal()).apply(cause);
                format!("parse {shown:?}: {hidden}")
            }
            false => format!("parse {shown:?}: {cause}"),
        }
    }
}

fn found<'l>(
    lookup: &'l Lookup,
    namespace: &str,
    name: &str,
) -> Result<Option<&'l SecretData>, String> {
    match lookup {
        Lookup::None => Ok(None),
        Lookup::Found(secret) => Ok(Some(secret)),
        Lookup::Failed(why) => Err(format!("failed to get secret '{namespace}/{name}': {why}")),
    }
}

/// Whether a service keeps the status of commits.
pub(crate) fn is_git(kind: ProviderType) -> bool {
    use ProviderType::{AzureDevOps, Bitbucket, BitbucketServer, GitHub, GitLab, Gitea};
    matches!(
        kind,
        GitHub | GitLab | Gitea | BitbucketServer | Bitbucket | AzureDevOps
    )
}

fn read_headers(text: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let target = Target::Map(Box::new(Target::String));
    let read = unmarshal(text, &target).map_err(|error| {
        let hidden = Mask::of_parts(&String::from_utf8_lossy(text)).apply(&error.to_string());
        format!("failed to read headers from secret: {hidden}")
    })?;
    let entries = read.as_object().into_iter().flatten();
    let entries = entries.map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        (name.to_string(), value.to_owned())
    });
    Ok(entries.collect())
}

fn proxy(secret: &SecretData) -> Result<Address, String> {
    let name = secret.name();
    let wrong = |why: String| format!("secret '{name}': {why}");
    let Some(address) = secret.text("address") else {
        return Err(wrong("key 'address' not found".to_owned()));
    };
    if address.is_empty() {
        return Err(wrong("proxy address is empty".to_owned()));
    }
    if address.len() > LONGEST_ADDRESS {
        return Err(wrong(format!(
            "proxy URL exceeds maximum length of {LONGEST_ADDRESS} characters"
        )));
    }
    let mut url = Url::parse(&address).map_err(|cause| {
        let cause = Mask::of_parts(&address).apply(&cause);
        wrong(format!("failed to parse proxy address: {cause}"))
    })?;
    if !matches!(url.scheme.as_str(), "http" | "https" | "socks5") {
        return Err(wrong(format!(
            "proxy URL must use one of the supported schemes (http, https, socks5), got '{}'",
            url.scheme
        )));
    }
    if let Some(username) = secret.text("username") {
        url.set_user(&username, secret.text("password").as_deref());
    }
    Ok(Address::secret(url.text()))
}

fn tls(secret: &SecretData) -> Result<Tls, String> {
    read_tls(secret).map_err(|why| {
        let why = match why {
            TlsProblem::Missing(why) => format!("secret '{}' {why}", secret.name()),
            TlsProblem::Unreadable(why) => why.to_owned(),
        };
        format!("failed to get TLS config: {why}")
    })
}

/// The certificates that stand beside credentials, where there are any.
fn tls_beside(secret: &SecretData) -> Result<Option<Tls>, String> {
    match read_tls(secret) {
        Ok(tls) => Ok(Some(tls)),
        Err(TlsProblem::Missing(_)) => Ok(None),
        Err(TlsProblem::Unreadable(why)) => Err(format!("failed to get TLS config: {why}")),
    }
}

enum TlsProblem {
    Missing(&'static str),
    Unreadable(&'static str),
}

fn read_tls(secret: &SecretData) -> Result<Tls, TlsProblem> {
    use TlsProblem::{Missing, Unreadable};
    let content = |key, old_key| {
        let bytes = secret.bytes(key).or_else(|| secret.bytes(old_key));
        bytes.filter(|bytes| !bytes.is_empty())
    };
    let ca = content("ca.crt", "caFile");
    let client = match (
        content("tls.crt", "certFile"),
        content("tls.key", "keyFile"),
    ) {
        (Some(certificate), Some(key)) => {
            if !is_certificate(certificate) || PrivateKeyDer::from_pem_slice(key).is_err() {
                return Err(Unreadable("failed to parse TLS certificate and key"));
            }
            Some((certificate.to_vec(), Secret::new(key.to_vec())))
        }
        (Some(_), None) => {
            return Err(Missing("contains 'tls.crt' but missing 'tls.key'"));
        }
        (None, Some(_)) => {
            return Err(Missing("contains 'tls.key' but missing 'tls.crt'"));
        }
        (None, None) if ca.is_none() => {
            return Err(Missing(
                "must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'",
            ));
        }
        (None, None) => None,
    };
    if ca.is_some_and(|ca| !is_certificate(ca)) {
        return Err(Unreadable("failed to parse CA certificate"));
    }
    Ok(Tls {
        ca: ca.map(<[u8]>::to_vec),
        client,
    })
}

fn is_certificate(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem)
        .next()
        .is_some_and(|first| first.is_ok())
}

/// The Provider as expressions see it.
pub(crate) fn as_value(provider: &Object<Provider>) -> Value {
    provider.to_value()
}
