//! `everflow bootstrap git`

use everflow_fetch::http::{Auth, TlsOptions};
use everflow_fetch::{Secret, Url};
use everflow_git::{GitAuth, Opening, Remote, SshAgent, SshAuth};

use super::flags::Place;
use super::secret::{Access, known_hosts};
use super::steps::{Bootstrap, Target};
use super::{read_file, secret_word, work};
use crate::exit::Failure;

/// `everflow bootstrap git`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The address: https://…, ssh://… or, with --allow-insecure-http, http://…
    #[arg(long, value_name = "URL", default_value = "")]
    url: String,
    /// The user to log in as
    #[arg(short, long, value_name = "NAME", default_value = "git")]
    username: String,
    /// The password of the user or of the key; $GIT_PASSWORD when none is given
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    password: String,
    /// Send the password as a bearer token
    #[arg(long)]
    with_bearer_token: bool,
    /// Allow http:// although anyone on the network can read the password
    #[arg(long)]
    allow_insecure_http: bool,
    /// Do not ask whether the deploy key was added
    #[arg(short, long)]
    silent: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs the verb.
pub async fn run(args: &Args, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    if args.url.is_empty() {
        return Err(work(
            "url is required: say --url=ssh://… or --url=https://…",
        ));
    }
    let url = Url::parse(&args.url).map_err(work)?;
    match url.scheme.as_str() {
        "https" | "ssh" => {}
        "http" if args.allow_insecure_http => {}
        "http" => {
            return Err(work(
                "scheme http is insecure, pass --allow-insecure-http=true to allow it",
            ));
        }
        other => {
            return Err(work(format!(
                "scheme {other:?} is not supported, must be one of 'http', 'https', or 'ssh'"
            )));
        }
    }
    let common = bootstrap.common;
    let mut password = args.password.clone();
    if password.is_empty() {
        password = std::env::var("GIT_PASSWORD").unwrap_or_default();
    }
    if common.token_auth && password.is_empty() {
        password = secret_word("GIT_PASSWORD", "Please enter your Git repository password:")?;
    }
    let mut remote = Remote::new(url.without_credentials());
    remote.tls = tls(bootstrap)?;
    remote.auth = match url.scheme.as_str() {
        "ssh" => {
            remote.url.username = url.username.clone();
            ssh(args, &url, &password, bootstrap).await?
        }
        _ => http(&args.username, &password, args.with_bearer_token),
    };
    let target = Target {
        signing: common.signing_key(&password)?,
        url: sync_url(args, &url, bootstrap),
        access: access(args, &url, &password, bootstrap),
        remote,
        place: &args.place,
        silent: args.silent,
        repository: None,
    };
    bootstrap.run(&target).await
}

/// Whom to trust.
pub fn tls(bootstrap: &Bootstrap<'_>) -> Result<TlsOptions, Failure> {
    Ok(TlsOptions {
        ca: bootstrap.common.ca()?.map(String::into_bytes),
        ..TlsOptions::default()
    })
}

/// Who we are over HTTP; nobody without a password.
pub fn http(username: &str, password: &str, bearer: bool) -> GitAuth {
    let password = Secret::new(password.to_owned());
    match (password.reveal().is_empty(), bearer) {
        (true, _) => GitAuth::None,
        (false, true) => GitAuth::Http(Auth::Bearer(password)),
        (false, false) => GitAuth::Http(Auth::Basic {
            username: username.to_owned(),
            password,
        }),
    }
}

async fn ssh(
    args: &Args,
    url: &Url,
    password: &str,
    bootstrap: &Bootstrap<'_>,
) -> Result<GitAuth, Failure> {
    let common = bootstrap.common;
    let agent = match common.private_key_file.as_str() {
        "" => Some(ssh_agent()?),
        _ => None,
    };
    let hosts = known_hosts(bootstrap, &host(url)).await?.into_bytes();
    let auth = match agent {
        Some(agent) => SshAuth::by_agent(agent, hosts),
        None => {
            let key = read_file(&common.private_key_file, "failed to open private key file")?;
            let password = Some(password).filter(|word| !word.is_empty());
            let password = password.map(|word| Secret::new(word.to_owned()));
            SshAuth::new(Secret::new(key.into_bytes()), password, hosts)
        }
    };
    let mut auth = auth.map_err(work)?;
    auth.host_keys = common.ssh_hostkey_algos.clone();
    if url.username.is_none() {
        auth.username = args.username.clone();
    }
    Ok(GitAuth::Ssh(auth))
}

/// The agent of whoever runs this program.
#[cfg(unix)]
fn ssh_agent() -> Result<SshAgent, Failure> {
    let Some(socket) = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()) else {
        return Err(work(
            "to commit over SSH a key is needed: give a file with --private-key-file, or add the key to an SSH \
             agent (ssh-add), of which $SSH_AUTH_SOCK says where it is",
        ));
    };
    Ok(SshAgent::new(move || -> Opening {
        let socket = socket.clone();
        Box::pin(async move {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            Ok(Box::new(stream) as Box<dyn everflow_env::Stream>)
        })
    }))
}

#[cfg(not(unix))]
fn ssh_agent() -> Result<SshAgent, Failure> {
    Err(work(
        "to commit over SSH a key is needed: give a file with --private-key-file",
    ))
}

/// Host and port, the latter where it is not the usual one.
fn host(url: &Url) -> String {
    match url.port {
        Some(port) => format!("{}:{port}", url.host),
        None => url.host.clone(),
    }
}

/// The address for the cluster: over SSH, unless it logs in with a password.
fn sync_url(args: &Args, url: &Url, bootstrap: &Bootstrap<'_>) -> String {
    let mut url = url.without_credentials();
    if !bootstrap.common.token_auth {
        url.username = Some(args.username.clone());
        if url.scheme != "ssh" {
            url.scheme = "ssh".to_owned();
            url.port = None;
        }
        let (host, port) = ssh_host(&url, bootstrap);
        (url.host, url.port) = (host, port);
    }
    shown(&url)
}

/// The address with its user.
fn shown(url: &Url) -> String {
    let plain = url.without_credentials().to_string();
    match (&url.username, plain.split_once("://")) {
        (Some(user), Some((scheme, rest))) => format!("{scheme}://{user}@{rest}"),
        _ => plain,
    }
}

fn ssh_host(url: &Url, bootstrap: &Bootstrap<'_>) -> (String, Option<u16>) {
    match bootstrap.common.ssh_hostname.as_str() {
        "" => (url.host.clone(), url.port),
        given => match given.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().ok()),
            None => (given.to_owned(), None),
        },
    }
}

fn access(args: &Args, url: &Url, password: &str, bootstrap: &Bootstrap<'_>) -> Access {
    if bootstrap.common.token_auth {
        return Access::Password {
            username: args.username.clone(),
            password: password.to_owned(),
            bearer: args.with_bearer_token,
        };
    }
    let mut over = url.clone();
    if over.scheme != "ssh" {
        over.port = None;
    }
    (over.host, over.port) = ssh_host(&over, bootstrap);
    Access::Key {
        host: host(&over),
        // A password over HTTP is none of the key.
        password: match url.scheme.as_str() {
            "ssh" => password.to_owned(),
            _ => String::new(),
        },
    }
}
