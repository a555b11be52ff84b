//! `everflow create source`

use clap::Subcommand;
use everflow_json::{Value, json};
use everflow_time::Duration;

use super::secret::{self, Credentials, KeyFlags};
use super::{Creation, Spec, host, named, read_file, scheme, work};
use crate::exit::Failure;
use crate::flux::go_flags::{
    Reference, bucket_provider, chart_source, git_provider, go_duration, oci_provider,
    verify_provider,
};
use crate::flux::{kinds, say};

/// `everflow create source`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// How long fetching may take
    #[arg(long, global = true, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
    fetch_timeout: Duration,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create or update a Bucket
    Bucket(BucketArgs),
    /// Create or update a HelmChart
    Chart(ChartArgs),
    /// Create or update a GitRepository
    Git(Box<GitArgs>),
    /// Create or update a HelmRepository
    Helm(HelmArgs),
    /// Create or update an OCIRepository
    Oci(OciArgs),
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    let timeout = args.fetch_timeout;
    match &args.what {
        None => Err(Failure::help("create source")),
        Some(What::Bucket(args)) => bucket(args, timeout, creation),
        Some(What::Chart(args)) => chart(args, creation),
        Some(What::Git(args)) => git(args, timeout, creation),
        Some(What::Helm(args)) => helm(args, timeout, creation),
        Some(What::Oci(args)) => oci(args, timeout, creation),
    }
}

/// `everflow create source git`
#[derive(clap::Args, Debug)]
struct GitArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The address: https://…, http://… or ssh://…
    #[arg(long, value_name = "URL", default_value = "")]
    url: String,
    /// The branch
    #[arg(long, value_name = "NAME", default_value = "")]
    branch: String,
    /// The tag
    #[arg(long, value_name = "NAME", default_value = "")]
    tag: String,
    /// The version range to select tags by
    #[arg(long, value_name = "RANGE", default_value = "")]
    tag_semver: String,
    /// The commit
    #[arg(long, value_name = "SHA", default_value = "")]
    commit: String,
    /// The full name of the reference
    #[arg(long, value_name = "REF", default_value = "")]
    ref_name: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
    #[command(flatten)]
    key: KeyFlags,
    /// An existing Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// A Secret with the address of a proxy
    #[arg(long, value_name = "NAME", default_value = "")]
    proxy_secret_ref: String,
    /// The identity provider: generic, github, aws or azure
    #[arg(long, value_name = "PROVIDER", value_parser = git_provider)]
    provider: Option<String>,
    /// A file with the certificates to trust
    #[arg(long, value_name = "FILE", default_value = "")]
    ca_file: String,
    /// Include submodules
    #[arg(long)]
    recurse_submodules: bool,
    /// Do not ask whether the deploy key was added
    #[arg(short, long)]
    silent: bool,
    /// Paths to exclude, in .sourceignore syntax
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore_paths: Vec<String>,
    /// The directories to check out
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    sparse_checkout_paths: Vec<String>,
}

fn git(args: &GitArgs, timeout: Duration, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.url.is_empty() {
        return Err(work("url is required"));
    }
    let scheme = scheme(&args.url).map_err(|why| work(format!("git URL parse failed: {why}")))?;
    if !["ssh", "http", "https"].contains(&scheme) {
        return Err(work(format!(
            "git URL scheme '{scheme}' not supported, can be: ssh, http and https"
        )));
    }
    let reference = git_reference(args);
    if reference.0.is_empty() {
        return Err(work(
            "a Git ref is required, use one of the following: --branch, --tag, --commit, \
             --ref-name or --tag-semver",
        ));
    }
    if !args.ca_file.is_empty() && scheme == "ssh" {
        return Err(work(
            "specifying a CA file is not supported for Git over SSH",
        ));
    }
    let spec = Spec::default()
        .value("interval", creation.interval())
        .text("url", &args.url)
        .flag("recurseSubmodules", args.recurse_submodules)
        .object("ref", reference)
        .ignore(&args.ignore_paths)
        .list("sparseCheckout", &args.sparse_checkout_paths)
        .duration("timeout", timeout)
        .local("secretRef", &args.secret_ref)
        .local("proxySecretRef", &args.proxy_secret_ref)
        .text("provider", args.provider.as_deref().unwrap_or_default());
    let kind = kinds::required("GitRepository")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish_with(kind, &object, || {
        git_credentials(args, scheme, name, creation)
    })
}

fn git_reference(args: &GitArgs) -> Spec {
    let reference = Spec::default();
    if !args.commit.is_empty() {
        return reference
            .text("commit", &args.commit)
            .text("branch", &args.branch);
    }
    for (field, value) in [
        ("name", &args.ref_name),
        ("semver", &args.tag_semver),
        ("tag", &args.tag),
    ] {
        if !value.is_empty() {
            return reference.text(field, value);
        }
    }
    reference.text("branch", &args.branch)
}

fn git_credentials(
    args: &GitArgs,
    scheme: &str,
    name: &str,
    creation: &Creation<'_>,
) -> Result<Credentials, Failure> {
    let mut credentials = Credentials {
        what: "applying secret with repository credentials",
        confirm: !args.silent,
        ..Credentials::default()
    };
    if !args.secret_ref.is_empty() {
        return Ok(credentials);
    }
    let mut data = Spec::default();
    match scheme {
        "ssh" => {
            data = secret::ssh_data(&args.key, &args.password, host(&args.url), creation)?;
        }
        scheme => {
            if scheme == "http" {
                let text = "insecure configuration: credentials configured for an HTTP URL";
                credentials.warning = Some(text);
            }
            if !args.ca_file.is_empty() {
                data = data.text(
                    "ca.crt",
                    &read_file(&args.ca_file, "unable to read TLS CA file")?,
                );
            }
            if !args.username.is_empty() && !args.password.is_empty() {
                data = data
                    .text("username", &args.username)
                    .text("password", &args.password);
            }
        }
    }
    if !data.0.is_empty() {
        credentials.secret = Some(secret::object(creation, name, "", data)?);
    }
    Ok(credentials)
}

/// `everflow create source helm`
#[derive(clap::Args, Debug)]
struct HelmArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The address: https://…, http://… or oci://…
    #[arg(long, value_name = "URL", default_value = "")]
    url: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "")]
    username: String,
    /// The password of the user
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
    /// A file with the client certificate
    #[arg(long, value_name = "FILE", default_value = "")]
    cert_file: String,
    /// A file with the key of the client certificate
    #[arg(long, value_name = "FILE", default_value = "")]
    key_file: String,
    /// A file with the certificates to trust
    #[arg(long, value_name = "FILE", default_value = "")]
    ca_file: String,
    /// An existing Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// The identity provider for oci://: generic, aws, azure or gcp
    #[arg(long, value_name = "PROVIDER", default_value = "")]
    oci_provider: String,
    /// Send the credentials to other hosts that the index names
    #[arg(long)]
    pass_credentials: bool,
}

fn helm(args: &HelmArgs, timeout: Duration, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.url.is_empty() {
        return Err(work("url is required"));
    }
    let scheme = scheme(&args.url).map_err(|why| work(format!("url parse failed: {why}")))?;
    if !["http", "https", "oci"].contains(&scheme) {
        return Err(work(format!(
            "url scheme '{scheme}' not supported, can be: http, https and oci"
        )));
    }
    if host(&args.url).is_empty() {
        return Err(work("url host is required"));
    }
    let mut spec = Spec::default()
        .value("interval", creation.interval())
        .text("url", &args.url)
        .duration("timeout", timeout);
    if scheme == "oci" {
        spec = spec
            .text("type", "oci")
            .text("provider", &args.oci_provider);
    }
    if !args.secret_ref.is_empty() {
        spec = spec
            .local("secretRef", &args.secret_ref)
            .flag("passCredentials", args.pass_credentials);
    }
    let kind = kinds::required("HelmRepository")?;
    let mut object = creation.object(kind, name, spec.0)?;
    let secret = match args.secret_ref.is_empty() && !creation.common.export {
        true => helm_secret(args, name, creation)?,
        false => None,
    };
    if secret.is_some() && args.pass_credentials {
        object["spec"]["passCredentials"] = true.into();
    }
    creation.finish_with(kind, &object, || {
        Ok(Credentials {
            what: "applying secret with repository credentials",
            secret,
            ..Credentials::default()
        })
    })
}

fn helm_secret(
    args: &HelmArgs,
    name: &str,
    creation: &Creation<'_>,
) -> Result<Option<Value>, Failure> {
    let pair = !args.cert_file.is_empty() && !args.key_file.is_empty();
    let files = secret::TlsFiles {
        ca: &args.ca_file,
        cert: if pair { &args.cert_file } else { "" },
        key: if pair { &args.key_file } else { "" },
    };
    let (kind, data) = secret::helm_data(&args.username, &args.password, files)?;
    match data.0.is_empty() {
        true => Ok(None),
        false => secret::object(creation, &format!("helm-{name}"), kind, data).map(Some),
    }
}

/// How content is verified.
#[derive(clap::Args, Debug)]
struct VerifyFlags {
    /// How content is verified: cosign or notation
    #[arg(long, value_name = "PROVIDER", value_parser = verify_provider)]
    verify_provider: Option<String>,
    /// The Secret with the keys for that
    #[arg(long, value_name = "NAME", default_value = "")]
    verify_secret_ref: String,
    /// The issuer of the identity that signs
    #[arg(long, value_name = "REGEX", default_value = "")]
    verify_issuer: String,
    /// The identity that signs
    #[arg(long, value_name = "REGEX", default_value = "")]
    verify_subject: String,
}

impl VerifyFlags {
    fn spec(&self) -> Result<Spec, Failure> {
        let identity = !self.verify_issuer.is_empty() || !self.verify_subject.is_empty();
        let Some(provider) = &self.verify_provider else {
            let what = match (self.verify_secret_ref.is_empty(), identity) {
                (false, _) => "a secret",
                (true, true) => "OIDC issuer/subject",
                (true, false) => return Ok(Spec::default()),
            };
            return Err(work(format!(
                "a verification provider must be specified when {what} is specified"
            )));
        };
        let spec = Spec::default()
            .text("provider", provider)
            .local("secretRef", &self.verify_secret_ref);
        Ok(match identity {
            false => spec,
            true => spec.value(
                "matchOIDCIdentity",
                json!([{"issuer": self.verify_issuer, "subject": self.verify_subject}]),
            ),
        })
    }
}

/// `everflow create source oci`
#[derive(clap::Args, Debug)]
struct OciArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The address: oci://…
    #[arg(long, value_name = "URL", default_value = "")]
    url: String,
    /// The tag
    #[arg(long, value_name = "NAME", default_value = "")]
    tag: String,
    /// The version range to select tags by
    #[arg(long, value_name = "RANGE", default_value = "")]
    tag_semver: String,
    /// The digest
    #[arg(long, value_name = "DIGEST", default_value = "")]
    digest: String,
    /// The layer and how to use it: MEDIA-TYPE:extract or MEDIA-TYPE:copy
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    layer_selector: String,
    /// The identity provider: generic, aws, azure or gcp
    #[arg(long, value_name = "PROVIDER", default_value = "generic", value_parser = oci_provider)]
    provider: String,
    /// The Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// The service account with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    service_account: String,
    /// The Secret with certificates
    #[arg(long, value_name = "NAME", default_value = "")]
    cert_ref: String,
    /// The Secret with the address of a proxy
    #[arg(long, value_name = "NAME", default_value = "")]
    proxy_secret_ref: String,
    #[command(flatten)]
    verify: VerifyFlags,
    /// Paths to exclude, in .sourceignore syntax
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore_paths: Vec<String>,
    /// Allow plain HTTP to the registry
    #[arg(long)]
    insecure: bool,
}

fn oci(args: &OciArgs, timeout: Duration, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.url.is_empty() {
        return Err(work("url is required"));
    }
    let reference = Spec::default()
        .text("digest", &args.digest)
        .text("semver", &args.tag_semver)
        .text("tag", &args.tag);
    if reference.0.is_empty() {
        return Err(work("--tag, --tag-semver or --digest is required"));
    }
    let spec = Spec::default()
        .value("interval", creation.interval())
        .text("url", &args.url)
        .text("provider", &args.provider)
        .flag("insecure", args.insecure)
        .object("ref", reference)
        .object("layerSelector", layer_selector(&args.layer_selector)?)
        .ignore(&args.ignore_paths)
        .duration("timeout", timeout)
        .text("serviceAccountName", &args.service_account)
        .local("secretRef", &args.secret_ref)
        .local("proxySecretRef", &args.proxy_secret_ref)
        .local("certSecretRef", &args.cert_ref)
        .object("verify", args.verify.spec()?);
    let kind = kinds::required("OCIRepository")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

fn layer_selector(text: &str) -> Result<Spec, Failure> {
    let invalid = |why: &str| work(format!("invalid --layer-selector {text:?}: {why}"));
    if text.is_empty() {
        return Ok(Spec::default());
    }
    match text.split_once(':') {
        Some((media_type, operation)) if !media_type.is_empty() && !operation.is_empty() => {
            if !["extract", "copy"].contains(&operation) {
                return Err(invalid("operation must be \"extract\" or \"copy\""));
            }
            Ok(Spec::default()
                .text("mediaType", media_type)
                .text("operation", operation))
        }
        _ => Err(invalid("must be in the format '<media-type>:<operation>'")),
    }
}

/// `everflow create source bucket`
#[derive(clap::Args, Debug)]
struct BucketArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The name of the bucket
    #[arg(long, value_name = "NAME", default_value = "")]
    bucket_name: String,
    /// The address of the server
    #[arg(long, value_name = "HOST", default_value = "")]
    endpoint: String,
    /// The type of the server: generic, aws, azure or gcp
    #[arg(long, value_name = "PROVIDER", default_value = "generic", value_parser = bucket_provider)]
    provider: String,
    /// The access key
    #[arg(long, value_name = "TEXT", default_value = "")]
    access_key: String,
    /// The secret key
    #[arg(long, value_name = "TEXT", default_value = "")]
    secret_key: String,
    /// The region
    #[arg(long, value_name = "NAME", default_value = "")]
    region: String,
    /// Allow plain HTTP to the server
    #[arg(long)]
    insecure: bool,
    /// An existing Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// A Secret with the address of a proxy
    #[arg(long, value_name = "NAME", default_value = "")]
    proxy_secret_ref: String,
    /// Paths to exclude, in .sourceignore syntax
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    ignore_paths: Vec<String>,
}

fn bucket(args: &BucketArgs, timeout: Duration, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.bucket_name.is_empty() {
        return Err(work("bucket-name is required"));
    }
    if args.endpoint.is_empty() {
        return Err(work("endpoint is required"));
    }
    let spec = Spec::default()
        .value("interval", creation.interval())
        .text("bucketName", &args.bucket_name)
        .text("endpoint", &args.endpoint)
        .text("provider", &args.provider)
        .text("region", &args.region)
        .flag("insecure", args.insecure)
        .ignore(&args.ignore_paths)
        .duration("timeout", timeout)
        .local("secretRef", &args.secret_ref)
        .local("proxySecretRef", &args.proxy_secret_ref);
    let kind = kinds::required("Bucket")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish_with(kind, &object, || {
        let given = !args.access_key.is_empty() && !args.secret_key.is_empty();
        let secret = match args.secret_ref.is_empty() && given {
            false => None,
            true => {
                let data = Spec::default()
                    .text("accesskey", &args.access_key)
                    .text("secretkey", &args.secret_key);
                let name = format!("bucket-{name}");
                Some(secret::object(creation, &name, "", data)?)
            }
        };
        Ok(Credentials {
            what: "applying secret with the bucket credentials",
            secret,
            ..Credentials::default()
        })
    })
}

/// `everflow create source chart`
#[derive(clap::Args, Debug)]
struct ChartArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The source: KIND/NAME
    #[arg(long, value_name = "SOURCE", value_parser = chart_source)]
    source: Option<Reference>,
    /// The name of the chart, or its directory in the source
    #[arg(long, value_name = "CHART", default_value = "")]
    chart: String,
    /// The version of the chart, or a range of versions
    #[arg(long, value_name = "VERSION", default_value = "")]
    chart_version: String,
    /// What counts as a new chart: ChartVersion or Revision
    #[arg(long, value_name = "STRATEGY", default_value = "ChartVersion")]
    reconcile_strategy: String,
    #[command(flatten)]
    verify: VerifyFlags,
}

fn chart(args: &ChartArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    let Some(source) = &args.source else {
        return Err(work("chart source is required"));
    };
    if args.chart.is_empty() {
        return Err(work("chart name or path is required"));
    }
    say::generation("generating HelmChart source");
    let reference = Spec::default()
        .text("kind", &source.kind)
        .text("name", &source.name);
    let spec = Spec::default()
        .value("interval", creation.interval())
        .text("chart", &args.chart)
        .text("version", &args.chart_version)
        .text("reconcileStrategy", &args.reconcile_strategy)
        .object("sourceRef", reference)
        .object("verify", args.verify.spec()?);
    let kind = kinds::required("HelmChart")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}
