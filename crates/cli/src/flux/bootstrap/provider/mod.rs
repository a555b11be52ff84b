//! Repositories that are made and given keys by the API of their service.

mod api;
mod repository;

use everflow_fetch::Url;
use everflow_git::Remote;
use everflow_json::Value;

use super::flags::Place;
use super::git::{http, tls};
use super::secret::Access;
use super::steps::{Bootstrap, Target};
use super::{secret_word, work};
use crate::exit::Failure;
use crate::flux::go_flags::go_bool;
use crate::flux::say;
use api::Api;
pub use repository::{Repository, Service};

/// What the repositories of all services have.
#[derive(clap::Args, Debug)]
pub struct Hosted {
    /// The user or organisation that the repository belongs to
    #[arg(long, value_name = "NAME", default_value = "")]
    owner: String,
    /// The name of the repository
    #[arg(long, value_name = "NAME", default_value = "")]
    repository: String,
    /// The owner is a user account
    #[arg(long)]
    personal: bool,
    /// Let the deploy key write
    #[arg(long)]
    read_write_key: bool,
    /// Update an existing repository to match the flags
    #[arg(long)]
    reconcile: bool,
    #[command(flatten)]
    place: Place,
}

/// `everflow bootstrap gitea`
#[derive(clap::Args, Debug)]
pub struct GiteaArgs {
    #[command(flatten)]
    hosted: Hosted,
    /// The host, prefixed with http:// if it has no TLS
    #[arg(long, value_name = "HOST", default_value = "gitea.com")]
    hostname: String,
    /// Teams that get access, as NAME or NAME:PERMISSION
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    team: Vec<String>,
    /// Make the repository private
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    private: bool,
}

/// `everflow bootstrap github`
#[derive(clap::Args, Debug)]
pub struct GithubArgs {
    #[command(flatten)]
    hosted: Hosted,
    /// The host
    #[arg(long, value_name = "HOST", default_value = "github.com")]
    hostname: String,
    /// Teams that get access, as NAME or NAME:PERMISSION
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    team: Vec<String>,
    /// Make the repository private
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    private: bool,
}

/// `everflow bootstrap gitlab`
#[derive(clap::Args, Debug)]
pub struct GitlabArgs {
    #[command(flatten)]
    hosted: Hosted,
    /// The host
    #[arg(long, value_name = "HOST", default_value = "gitlab.com")]
    hostname: String,
    /// Groups that get access, as NAME or NAME:PERMISSION
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    team: Vec<String>,
    /// The visibility of the repository: public, internal or private
    #[arg(long, value_name = "WORD", default_value = "private", value_parser = ["public", "internal", "private"])]
    visibility: String,
    /// Use --visibility
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    private: bool,
    /// Let the cluster authenticate with a deploy token of the project
    #[arg(long)]
    deploy_token_auth: bool,
}

/// `everflow bootstrap bitbucket-server`
#[derive(clap::Args, Debug)]
pub struct BitbucketArgs {
    #[command(flatten)]
    hosted: Hosted,
    /// The host
    #[arg(long, value_name = "HOST", default_value = "")]
    hostname: String,
    /// The user of the token
    #[arg(short, long, value_name = "NAME", default_value = "git")]
    username: String,
    /// Groups that get access, as NAME or NAME:PERMISSION
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// Make the repository private
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    private: bool,
}

/// What is asked for, whichever service it is.
struct Wanted<'a> {
    service: Service,
    hosted: &'a Hosted,
    hostname: &'a str,
    visibility: &'a str,
    teams: &'a [String],
    username: &'a str,
    deploy_token: bool,
}

impl<'a> Wanted<'a> {
    /// What all services ask for; the user is git.
    fn new(
        service: Service,
        hosted: &'a Hosted,
        hostname: &'a str,
        private: bool,
        teams: &'a [String],
    ) -> Self {
        Wanted {
            service,
            hosted,
            hostname,
            visibility: match private {
                true => "private",
                false => "public",
            },
            teams,
            username: "git",
            deploy_token: false,
        }
    }
}

pub async fn gitea(args: &GiteaArgs, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    let (hosted, hostname) = (&args.hosted, &args.hostname);
    let wanted = Wanted::new(Service::Gitea, hosted, hostname, args.private, &args.team);
    run(&wanted, bootstrap).await
}

pub async fn github(args: &GithubArgs, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    let (hosted, hostname) = (&args.hosted, &args.hostname);
    let wanted = Wanted::new(Service::Github, hosted, hostname, args.private, &args.team);
    run(&wanted, bootstrap).await
}

pub async fn gitlab(args: &GitlabArgs, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    let (hosted, hostname) = (&args.hosted, &args.hostname);
    let mut wanted = Wanted::new(Service::Gitlab, hosted, hostname, args.private, &args.team);
    if args.private {
        wanted.visibility = &args.visibility;
    }
    wanted.deploy_token = args.deploy_token_auth;
    if args.deploy_token_auth && bootstrap.common.token_auth {
        return Err(work(
            "--token-auth and --deploy-token-auth cannot be set both.",
        ));
    }
    run(&wanted, bootstrap).await
}

pub async fn bitbucket(args: &BitbucketArgs, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    if args.hostname.is_empty() {
        return Err(work("invalid hostname: say which server with --hostname"));
    }
    let (hosted, hostname) = (&args.hosted, &args.hostname);
    let mut wanted = Wanted::new(
        Service::Bitbucket,
        hosted,
        hostname,
        args.private,
        &args.group,
    );
    wanted.username = &args.username;
    run(&wanted, bootstrap).await
}

/// The variable that holds the token, and the name of the service.
fn token_of(service: Service) -> (&'static str, &'static str) {
    match service {
        Service::Gitea => ("GITEA_TOKEN", "Gitea"),
        Service::Github => ("GITHUB_TOKEN", "GitHub"),
        Service::Gitlab => ("GITLAB_TOKEN", "GitLab"),
        Service::Bitbucket => ("BITBUCKET_TOKEN", "Bitbucket"),
    }
}

/// The address of a host that may have a scheme before it.
fn site(hostname: &str) -> Result<Url, Failure> {
    let text = match hostname.contains("://") {
        true => hostname.to_owned(),
        false => format!("https://{hostname}"),
    };
    let mut url = Url::parse(&text).map_err(work)?;
    if !matches!(url.scheme.as_str(), "https" | "http") {
        return Err(work(format!(
            "--hostname {hostname}: give a host, or https://HOST"
        )));
    }
    url.path = url.path.trim_end_matches('/').to_owned();
    Ok(url)
}

fn api_of(service: Service, site: &Url) -> Url {
    let mut api = site.clone();
    let end = match service {
        Service::Gitea => "/api/v1",
        Service::Github if site.host == "github.com" => {
            api.host = "api.github.com".to_owned();
            ""
        }
        Service::Github => "/api/v3",
        Service::Gitlab => "/api/v4",
        Service::Bitbucket => "/rest",
    };
    api.path.push_str(end);
    api
}

/// The addresses to clone from: over HTTP and over SSH.
fn clone_urls(
    wanted: &Wanted<'_>,
    site: &Url,
    found: &Value,
    ssh_hostname: &str,
) -> (Url, String, String) {
    let (owner, name) = (&wanted.hosted.owner, &wanted.hosted.repository);
    let mut http = site.clone();
    let mut ssh_host = site.host.clone();
    let mut ssh_path = format!("{owner}/{name}");
    http.path = format!("{}/{owner}/{name}.git", site.path);
    if wanted.service == Service::Bitbucket {
        // Only the server knows the port for SSH, and the keys of projects.
        let links = found["links"]["clone"].as_array().into_iter().flatten();
        for link in links {
            let text = link["href"].as_str().unwrap_or_default();
            let Ok(url) = Url::parse(text) else { continue };
            match url.scheme.as_str() {
                "ssh" => {
                    ssh_host = match url.port {
                        Some(port) => format!("{}:{port}", url.host),
                        None => url.host.clone(),
                    };
                    ssh_path = url.path.trim_start_matches('/').to_owned();
                }
                _ => http.path = url.path,
            }
        }
    }
    if !ssh_hostname.is_empty() {
        ssh_host = ssh_hostname.to_owned();
    }
    let ssh = format!("ssh://git@{ssh_host}/{ssh_path}");
    (http, ssh, ssh_host)
}

async fn run(wanted: &Wanted<'_>, bootstrap: &Bootstrap<'_>) -> Result<(), Failure> {
    let hosted = wanted.hosted;
    for (flag, value) in [("owner", &hosted.owner), ("repository", &hosted.repository)] {
        if value.is_empty() {
            return Err(work(format!("{flag} is required: say --{flag}=NAME")));
        }
    }
    // Sub-groups may stand in the name of the repository.
    let whole = format!("{}/{}", hosted.owner, hosted.repository);
    let (owner, name) = whole.rsplit_once('/').unwrap_or(("", &whole));
    let (variable, service) = token_of(wanted.service);
    let question = format!("Please enter your {service} personal access token (PAT):");
    let token = secret_word(variable, &question)?;
    let site = site(wanted.hostname)?;
    let common = bootstrap.common;
    // A cluster that is not there is told before a repository is made.
    let session = bootstrap.connection.open()?;
    let versions = session.client.versions().await;
    versions.map_err(|error| work(session.told_of(&error)))?;
    let repository = Repository {
        api: Api::new(
            bootstrap,
            api_of(wanted.service, &site),
            &token,
            tls(bootstrap)?,
        )?,
        service: wanted.service,
        owner: owner.to_owned(),
        name: name.to_owned(),
        personal: hosted.personal,
        branch: common.branch.clone(),
        visibility: wanted.visibility.to_owned(),
        read_write_key: hosted.read_write_key,
    };
    say::action(&format!("connecting to {}", site.host));
    let found = repository.ensure(hosted.reconcile).await?;
    repository.share(wanted.teams).await?;
    let (http_url, ssh_url, ssh_host) = clone_urls(wanted, &site, &found, &common.ssh_hostname);
    let mut remote = Remote::new(http_url.clone());
    remote.tls = tls(bootstrap)?;
    remote.auth = http(wanted.username, &token, false);
    let over_http = http_url.to_string();
    let (url, access) = match (common.token_auth, wanted.deploy_token) {
        (true, _) => (over_http, password(wanted.username, &token)),
        (_, true) => (over_http, deploy_token(&repository, bootstrap).await?),
        _ => {
            let access = Access::Key {
                host: ssh_host,
                password: String::new(),
            };
            (ssh_url, access)
        }
    };
    let target = Target {
        remote,
        url,
        access,
        place: &hosted.place,
        silent: true,
        repository: Some(repository),
        signing: common.signing_key("")?,
    };
    bootstrap.run(&target).await
}

fn password(username: &str, password: &str) -> Access {
    Access::Password {
        username: username.to_owned(),
        password: password.to_owned(),
        bearer: false,
    }
}

async fn deploy_token(
    repository: &Repository,
    bootstrap: &Bootstrap<'_>,
) -> Result<Access, Failure> {
    say::action("checking to reconcile deploy token for source secret");
    let namespace = &bootstrap.connection.namespace;
    let name = format!("flux-{namespace}-{}", bootstrap.common.branch);
    Ok(match repository.deploy_token(&name).await? {
        Some((username, token)) => {
            say::success(&format!(
                "configured deploy token {name:?} for \"{repository}\""
            ));
            password(&username, &token)
        }
        None => {
            say::success("reconciled deploy token for source secret");
            Access::Kept { token: name }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_where_each_service_has_them() {
        let at = |service, host: &str| api_of(service, &site(host).unwrap()).to_string();
        assert_eq!(at(Service::Github, "github.com"), "https://api.github.com");
        assert_eq!(at(Service::Github, "ghe.io"), "https://ghe.io/api/v3");
        let gitea = at(Service::Gitea, "http://127.0.0.1:3000/");
        assert_eq!(gitea, "http://127.0.0.1:3000/api/v1");
        assert!(site("ftp://h").is_err());
    }
}
