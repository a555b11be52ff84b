//! `everflow create secret`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use everflow_env::{Env, RealDisk};
use everflow_fetch::Deadline;
use everflow_git::{KeyKind, KeyPair, scan_host_key};
use everflow_json::{Map, Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Resource, WriteOptions};

use super::{Creation, Spec, host, named, print_export, read_file, scheme, work};
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::go_flags::{ecdsa_curve, key_algorithm, receiver_type, rsa_bits};
use crate::flux::suspend::MANAGER;
use crate::flux::{confirm, in_runtime, say};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const BASIC: &str = "kubernetes.io/basic-auth";
const OPAQUE: &str = "Opaque";
const WEBHOOK: &str = "notification.toolkit.fluxcd.io/webhook";

/// `everflow create secret`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create or update a Secret for Git: a user, a token or an SSH key
    Git(GitArgs),
    /// Create or update a Secret with the key of a GitHub App
    Githubapp(GithubAppArgs),
    /// Create or update a Secret for Helm repositories
    Helm(HelmArgs),
    /// Create or update a Secret with the trust configuration of notation
    Notation(NotationArgs),
    /// Create or update a Secret for OCI registries
    Oci(OciArgs),
    /// Create or update a Secret with the address of a proxy
    Proxy(ProxyArgs),
    /// Create or update a Secret with the token of a Receiver
    Receiver(ReceiverArgs),
    /// Create or update a Secret with certificates
    Tls(TlsArgs),
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    match &args.what {
        None => Err(Failure::help("create secret")),
        Some(What::Git(args)) => git(args, creation),
        Some(What::Githubapp(args)) => github_app(args, creation),
        Some(What::Helm(args)) => helm(args, creation),
        Some(What::Notation(args)) => notation(args, creation),
        Some(What::Oci(args)) => oci(args, creation),
        Some(What::Proxy(args)) => proxy(args, creation),
        Some(What::Receiver(args)) => receiver(args, creation),
        Some(What::Tls(args)) => tls(args, creation),
    }
}

/// What an object needs in the cluster before it.
#[derive(Default)]
pub struct Credentials {
    /// What is told of applying them.
    pub what: &'static str,
    pub warning: Option<&'static str>,
    pub secret: Option<Value>,
    /// Whether it is asked if a key in them was added to the server.
    pub confirm: bool,
}

/// Brings credentials to the cluster; the name of their Secret.
pub async fn apply_credentials(
    session: &Session,
    credentials: Credentials,
) -> Result<Option<String>, Failure> {
    if let Some(warning) = credentials.warning {
        say::warning(warning);
    }
    let Some(secret) = &credentials.secret else {
        return Ok(None);
    };
    if let Some(hosts) = secret["stringData"]["known_hosts"].as_str() {
        say::success(&format!("collected public key from SSH server:\n{hosts}"));
    }
    if let Some(key) = secret["stringData"]["identity.pub"].as_str() {
        say::generation(&format!("deploy key: {key}"));
        if credentials.confirm {
            confirm::ask("Have you added the deploy key to your repository")?;
        }
    }
    say::action(credentials.what);
    apply(session, secret).await?;
    say::success("authentication configured");
    Ok(Some(At::of(secret).name.to_owned()))
}

/// A Secret with the metadata that was asked for.
pub fn object(
    creation: &Creation<'_>,
    name: &str,
    kind: &str,
    data: Spec,
) -> Result<Value, Failure> {
    let mut metadata = Map::new();
    metadata.insert("name".into(), json!(name));
    metadata.insert("namespace".into(), json!(creation.namespace()));
    let labels = creation.labels()?;
    if !labels.is_empty() {
        metadata.insert("labels".into(), Value::Object(labels));
    }
    let whole = Spec::default()
        .text("apiVersion", "v1")
        .text("kind", "Secret")
        .value("metadata", Value::Object(metadata))
        .object("stringData", data)
        .text("type", kind);
    Ok(Value::Object(whole.0))
}

/// Creates the Secret, or gives the one that is there its content.
async fn apply(session: &Session, secret: &Value) -> Result<(), Failure> {
    let failed = |error: Error| work(error.to_string());
    let at = At::of(secret);
    let by = WriteOptions::by(MANAGER);
    let client = &session.client;
    match client.get(&SECRETS, at).await {
        Ok(mut existing) => {
            let fields = existing.as_object_mut().ok_or_else(|| work("no object"))?;
            // What is written as text is added to what is there, so that must go.
            fields.remove("data");
            fields.insert("stringData".into(), secret["stringData"].clone());
            if let Some(kind) = secret.get("type") {
                fields.insert("type".into(), kind.clone());
            }
            let written = client.update(&SECRETS, at, &existing, &by).await;
            written.map(drop).map_err(failed)
        }
        Err(Error::NotFound(_)) => {
            let written = client.create(&SECRETS, at.namespace, secret, &by).await;
            written.map(drop).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Prints the Secret, or brings it to the cluster.
fn finish(creation: &Creation<'_>, what: &str, secret: &Value) -> Result<(), Failure> {
    if creation.common.export {
        return print_export(secret);
    }
    in_runtime(async {
        if let Some(key) = secret["stringData"]["identity.pub"].as_str() {
            say::generation(&format!("deploy key: {key}"));
        }
        let session = creation.connection.open()?;
        apply(&session, secret).await?;
        let At {
            namespace, name, ..
        } = At::of(secret);
        say::action(&format!(
            "{what} secret '{name}' created in '{namespace}' namespace"
        ));
        Ok(())
    })
}

/// The SSH key, given or made.
#[derive(clap::Args, Debug)]
pub struct KeyFlags {
    /// A file with the private SSH key; generated by default
    #[arg(long, value_name = "FILE", default_value = "")]
    private_key_file: String,
    /// The type of a generated key: rsa, ecdsa or ed25519
    #[arg(long, value_name = "ALGORITHM", default_value = "ecdsa", value_parser = key_algorithm)]
    ssh_key_algorithm: String,
    /// The size of an RSA key
    #[arg(long, value_name = "BITS", default_value = "2048", value_parser = rsa_bits)]
    ssh_rsa_bits: usize,
    /// The curve of an ECDSA key: p256, p384 or p521
    #[arg(long, value_name = "CURVE", default_value = "p384", value_parser = ecdsa_curve)]
    ssh_ecdsa_curve: String,
}

/// The key, and the key that the server shows.
pub fn ssh_data(
    flags: &KeyFlags,
    password: &str,
    host: &str,
    creation: &Creation<'_>,
) -> Result<Spec, Failure> {
    let failed = |error: everflow_git::Error| work(error.to_string());
    let pair = match flags.private_key_file.as_str() {
        "" => KeyPair::generate(flags.kind(), &mut |bytes| {
            // Without randomness nothing secret can be made.
            if getrandom::fill(bytes).is_err() {
                std::process::abort();
            }
        }),
        file => KeyPair::read(
            &read_file(file, "failed to open private key file")?,
            password,
        ),
    };
    let pair = pair.map_err(failed)?;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (
            name,
            port.parse().map_err(|_| work(format!("{host}: no port")))?,
        ),
        None => (host, 22),
    };
    let mut hosts = String::new();
    in_runtime(async {
        let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
        let deadline = Deadline::after(&env.clock, creation.connection.timeout);
        hosts = scan_host_key(&env, name, port, &deadline)
            .await
            .map_err(|error| {
                work(format!(
                    "SSH key scan for host '{host}' failed, error: {error}"
                ))
            })?;
        Ok(())
    })?;
    Ok(Spec::default()
        .text("identity", pair.identity.reveal())
        .text("identity.pub", &pair.public)
        .text("known_hosts", &hosts)
        .text("password", password))
}

impl KeyFlags {
    fn kind(&self) -> KeyKind {
        match (
            self.ssh_key_algorithm.as_str(),
            self.ssh_ecdsa_curve.as_str(),
        ) {
            ("rsa", _) => KeyKind::Rsa(self.ssh_rsa_bits),
            ("ed25519", _) => KeyKind::Ed25519,
            (_, "p256") => KeyKind::P256,
            (_, "p521") => KeyKind::P521,
            _ => KeyKind::P384,
        }
    }
}

/// `everflow create secret git`
#[derive(clap::Args, Debug)]
struct GitArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The address: https://…, http://… or ssh://…
    #[arg(long, value_name = "URL", default_value = "")]
    url: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user, or of the key
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
    /// A token instead of user and password
    #[arg(long, value_name = "TEXT", default_value = "")]
    bearer_token: String,
    /// A file with the certificates to trust
    #[arg(long, value_name = "FILE", default_value = "", alias = "ca-file")]
    ca_crt_file: String,
    #[command(flatten)]
    key: KeyFlags,
}

fn git(args: &GitArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.url.is_empty() {
        return Err(work("url is required"));
    }
    let scheme = scheme(&args.url).map_err(|why| work(format!("git URL parse failed: {why}")))?;
    let data = match scheme {
        "ssh" => ssh_data(&args.key, &args.password, host(&args.url), creation)?,
        "http" | "https" => {
            let basic = !args.username.is_empty() && !args.password.is_empty();
            if !basic && args.bearer_token.is_empty() {
                return Err(work(
                    "for Git over HTTP/S the username and password, or a bearer token is required",
                ));
            }
            if basic && !args.bearer_token.is_empty() {
                return Err(work(
                    "user credentials and bearer token cannot be used together",
                ));
            }
            Spec::default()
                .text("username", &args.username)
                .text("password", &args.password)
                .text("bearerToken", &args.bearer_token)
                .text("ca.crt", &ca(&args.ca_crt_file)?)
        }
        _ => {
            return Err(work(format!(
                "git URL scheme '{scheme}' not supported, can be: ssh, http and https"
            )));
        }
    };
    finish(creation, "git", &object(creation, name, "", data)?)
}

fn ca(file: &str) -> Result<String, Failure> {
    match file {
        "" => Ok(String::new()),
        file => read_file(file, "unable to read TLS CA file"),
    }
}

/// `everflow create secret githubapp`
#[derive(clap::Args, Debug)]
struct GithubAppArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The id of the app
    #[arg(long, value_name = "ID", default_value = "")]
    app_id: String,
    /// The organisation or user that has installed it
    #[arg(long, value_name = "NAME", default_value = "")]
    app_installation_owner: String,
    /// The id of the installation
    #[arg(long, value_name = "ID", default_value = "")]
    app_installation_id: String,
    /// A file with the private key of the app
    #[arg(long, value_name = "FILE", default_value = "")]
    app_private_key: String,
    /// The address of the API, for GitHub Enterprise
    #[arg(long, value_name = "URL", default_value = "")]
    app_base_url: String,
}

fn github_app(args: &GithubAppArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let key = read_file(&args.app_private_key, "unable to read private key file")?;
    if args.app_id.is_empty() {
        return Err(work("app ID is required (--app-id)"));
    }
    let data = Spec::default()
        .text("githubAppID", &args.app_id)
        .text("githubAppInstallationOwner", &args.app_installation_owner)
        .text("githubAppInstallationID", &args.app_installation_id)
        .text("githubAppPrivateKey", &key)
        .text("githubAppBaseURL", &args.app_base_url);
    let secret = object(creation, name, OPAQUE, data)?;
    finish(creation, "githubapp", &secret)
}

/// Files with certificates; empty for none.
pub struct TlsFiles<'f> {
    pub ca: &'f str,
    pub cert: &'f str,
    pub key: &'f str,
}

impl TlsFiles<'_> {
    /// Their content, which must make sense together.
    fn data(&self) -> Result<Spec, Failure> {
        let read = |file: &str, what: &str| match file {
            "" => Ok(String::new()),
            file => read_file(file, what),
        };
        let ca = ca(self.ca)?;
        let cert = read(self.cert, "failed to read cert file")?;
        let key = read(self.key, "failed to read key file")?;
        if !cert.is_empty() || !key.is_empty() {
            let lacks =
                |text: &str, what: &str| !text.contains("-----BEGIN") || !text.contains(what);
            for (text, what, place) in [
                (&cert, "CERTIFICATE-----", "certificate"),
                (&key, "PRIVATE KEY-----", "key"),
            ] {
                if lacks(text, what) {
                    return Err(work(format!(
                        "invalid TLS certificate and key pair: tls: failed to find any PEM data in \
                         {place} input"
                    )));
                }
            }
        }
        Ok(Spec::default()
            .text("ca.crt", &ca)
            .text("tls.crt", &cert)
            .text("tls.key", &key))
    }

    fn type_of(&self) -> &'static str {
        match self.cert.is_empty() && self.key.is_empty() {
            true => OPAQUE,
            false => "kubernetes.io/tls",
        }
    }
}

/// The type and content of a Secret for a Helm repository: a certificate, a user, or certificates to trust.
pub fn helm_data(
    username: &str,
    password: &str,
    files: TlsFiles<'_>,
) -> Result<(&'static str, Spec), Failure> {
    let user = !username.is_empty() || !password.is_empty();
    let certificate = !files.cert.is_empty() || !files.key.is_empty();
    let data = files.data()?;
    match (certificate, user, files.ca.is_empty()) {
        (true, _, _) | (false, false, false) => Ok((files.type_of(), data)),
        (false, true, _) => {
            for (value, what) in [(username, "username"), (password, "password")] {
                if value.is_empty() {
                    return Err(work(format!("{what} is required")));
                }
            }
            let data = data.text("username", username).text("password", password);
            Ok((BASIC, data))
        }
        (false, false, true) => Ok(("", data)),
    }
}

/// `everflow create secret helm`
#[derive(clap::Args, Debug)]
struct HelmArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
    #[command(flatten)]
    files: TlsFlags,
}

#[derive(clap::Args, Debug)]
struct TlsFlags {
    /// A file with the client certificate
    #[arg(long, value_name = "FILE", default_value = "", alias = "cert-file")]
    tls_crt_file: String,
    /// A file with the key of the client certificate
    #[arg(long, value_name = "FILE", default_value = "", alias = "key-file")]
    tls_key_file: String,
    /// A file with the certificates to trust
    #[arg(long, value_name = "FILE", default_value = "", alias = "ca-file")]
    ca_crt_file: String,
}

impl TlsFlags {
    fn files(&self) -> TlsFiles<'_> {
        TlsFiles {
            ca: &self.ca_crt_file,
            cert: &self.tls_crt_file,
            key: &self.tls_key_file,
        }
    }
}

fn helm(args: &HelmArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let (kind, data) = helm_data(&args.username, &args.password, args.files.files())?;
    finish(creation, "helm", &object(creation, name, kind, data)?)
}

/// `everflow create secret tls`
#[derive(clap::Args, Debug)]
struct TlsArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    files: TlsFlags,
}

fn tls(args: &TlsArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let files = args.files.files();
    let data = files.data()?;
    if data.0.is_empty() {
        return Err(work("no CA certificate or client certificate pair found"));
    }
    finish(
        creation,
        "tls",
        &object(creation, name, files.type_of(), data)?,
    )
}

/// `everflow create secret notation`
#[derive(clap::Args, Debug)]
struct NotationArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Files with the certificates to trust, ending in .crt or .pem
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    ca_cert_file: Vec<String>,
    /// A file with the trust policy
    #[arg(long, value_name = "FILE", default_value = "")]
    trust_policy_file: String,
}

fn notation(args: &NotationArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.ca_cert_file.is_empty() {
        return Err(work("--ca-cert-file is required"));
    }
    if args.trust_policy_file.is_empty() {
        return Err(work("--trust-policy-file is required"));
    }
    let file = &args.trust_policy_file;
    let policy = read_file(file, "unable to read trust policy file")?;
    let parsed: Value = everflow_json::from_str(&policy)
        .map_err(|why| work(format!("failed to unmarshal trust policy {file}: {why}")))?;
    if parsed["version"].as_str().is_none() || !parsed["trustPolicies"].is_array() {
        return Err(work(
            "invalid trust policy: it needs version and trustPolicies",
        ));
    }
    let mut data = Spec::default().text("trustpolicy.json", &policy);
    for file in &args.ca_cert_file {
        let base = file.rsplit('/').next().unwrap_or(file);
        if !base.ends_with(".crt") && !base.ends_with(".pem") {
            return Err(work(format!("{base} must end with either .crt or .pem")));
        }
        data = data.text(base, &read_file(file, "unable to read TLS CA file")?);
    }
    let secret = object(creation, name, "", data)?;
    finish(creation, "notation configuration", &secret)
}

/// `everflow create secret oci`
#[derive(clap::Args, Debug)]
struct OciArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The registry
    #[arg(long, value_name = "HOST", default_value = "")]
    url: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
}

fn oci(args: &OciArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    for (value, flag) in [
        (&args.url, "--url"),
        (&args.username, "--username"),
        (&args.password, "--password"),
    ] {
        if value.is_empty() {
            return Err(work(format!("{flag} is required")));
        }
    }
    let auth = STANDARD.encode(format!("{}:{}", args.username, args.password));
    let quoted = |text: &str| Value::from(text).to_string();
    // In the order of docker's own file.
    let config = format!(
        "{{\n  \"auths\": {{\n    {}: {{\n      \"username\": {},\n      \"password\": {},\n      \
         \"auth\": {}\n    }}\n  }}\n}}",
        quoted(&args.url),
        quoted(&args.username),
        quoted(&args.password),
        quoted(&auth),
    );
    let data = Spec::default().text(".dockerconfigjson", &config);
    let kind = "kubernetes.io/dockerconfigjson";
    finish(creation, "oci", &object(creation, name, kind, data)?)
}

/// `everflow create secret proxy`
#[derive(clap::Args, Debug)]
struct ProxyArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The address of the proxy
    #[arg(long, value_name = "URL", default_value = "")]
    address: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
}

fn proxy(args: &ProxyArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.address.is_empty() {
        return Err(work("address is required"));
    }
    let data = Spec::default()
        .text("address", &args.address)
        .text("username", &args.username)
        .text("password", &args.password);
    finish(creation, "proxy", &object(creation, name, OPAQUE, data)?)
}

/// `everflow create secret receiver`
#[derive(clap::Args, Debug)]
struct ReceiverArgs {
    /// The name of the Secret
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The type of the Receiver
    #[arg(long = "type", value_name = "TYPE", value_parser = receiver_type)]
    kind: Option<String>,
    /// The token; without it one is made
    #[arg(long, value_name = "TEXT", default_value = "")]
    token: String,
    /// The host of the webhook
    #[arg(long, value_name = "HOST", default_value = "")]
    hostname: String,
    /// The service account that Google signs with, for type gcr
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    email_claim: String,
    /// The audience that Google signs for, for type gcr
    #[arg(long, value_name = "AUDIENCE", default_value = "")]
    audience_claim: String,
}

fn receiver(args: &ReceiverArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let Some(kind) = &args.kind else {
        return Err(work("--type is required"));
    };
    if args.hostname.is_empty() {
        return Err(work("--hostname is required"));
    }
    if kind == "gcr" && args.email_claim.is_empty() {
        return Err(work("--email-claim is required for gcr receiver type"));
    }
    let token = match args.token.as_str() {
        "" => random_token()?,
        token => token.to_owned(),
    };
    let namespace = creation.namespace();
    let seed = format!("{token}{name}{namespace}");
    let digest = everflow_fetch::archive::digest_of(Default::default(), seed.as_bytes());
    let url = format!("https://{}/hook/{}", args.hostname, digest.hex());
    let mut data = Spec::default().text("token", &token);
    if kind == "gcr" {
        let audience = match args.audience_claim.as_str() {
            "" => &url,
            audience => audience,
        };
        data = data
            .text("email", &args.email_claim)
            .text("audience", audience);
    }
    let mut secret = object(creation, name, "", data)?;
    secret["metadata"]["annotations"] = json!({WEBHOOK: url});
    finish(creation, "receiver", &secret)
}

fn random_token() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| work(format!("failed to generate random token: {error}")))?;
    Ok(everflow_fetch::archive::digest::hex(&bytes))
}
