//! The registry that a verb speaks to.

use std::path::PathBuf;
use std::time::Duration;

use everflow_env::{Env, RealDisk};
use everflow_fetch::oci::{
    DockerConfig, OciClient, RegistryAuth, Remote, Repository, SCHEME, Target,
};
use everflow_fetch::{Deadline, Error};

use super::work;
use crate::exit::Failure;
use crate::flux::go_flags::oci_provider;
use crate::flux::say;

/// How to log in.
#[derive(clap::Args, Debug)]
pub struct RegistryFlags {
    #[arg(
        long,
        help = "Credentials, as USER[:PASSWORD]; by default those in docker's configuration",
        value_name = "CREDENTIALS",
        default_value = "",
        hide_default_value = true
    )]
    pub creds: String,
    /// The identity provider: generic
    #[arg(long, value_name = "PROVIDER", default_value = "generic", value_parser = oci_provider)]
    pub provider: String,
    /// Allow plain HTTP to the registry
    #[arg(long)]
    pub insecure_registry: bool,
}

/// An artifact by its address.
pub struct Address {
    /// `oci://registry/path`
    pub repository: String,
    /// `registry/path`, with tag or digest as given.
    pub shown: String,
    /// The tag, where none is given `latest`, or the digest.
    pub target: Target,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let Some(shown) = text.strip_prefix(SCHEME) else {
            return Err(work("URL must be in format 'oci://<domain>/<org>/<repo>'"));
        };
        let (name, target) = split(shown);
        let repository = format!("{SCHEME}{name}");
        Repository::parse(&repository).map_err(|_| {
            work(format!(
                "'{text}' invalid URL: could not parse reference: {shown}"
            ))
        })?;
        Ok(Address {
            repository,
            shown: shown.to_owned(),
            target,
        })
    }

    /// The name without tag and digest.
    pub fn name(&self) -> &str {
        self.repository.strip_prefix(SCHEME).unwrap_or_default()
    }
}

fn split(shown: &str) -> (&str, Target) {
    if let Some((name, digest)) = shown.split_once('@') {
        return (name, Target::Digest(digest.to_owned()));
    }
    match shown.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Target::Tag(tag.to_owned())),
        _ => (shown, Target::Tag("latest".to_owned())),
    }
}

/// A registry that can be asked.
pub struct Registry {
    pub client: OciClient,
    pub deadline: Deadline,
    pub env: Env,
}

impl Registry {
    pub fn open(
        address: &Address,
        flags: &RegistryFlags,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        if flags.provider != "generic" {
            return Err(work(format!(
                "identities of {} are not there: log in with docker, or give --creds",
                flags.provider
            )));
        }
        let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
        let mut remote = Remote::new(&address.repository);
        remote.insecure = flags.insecure_registry;
        remote.auth = match flags.creds.as_str() {
            "" => from_docker(&address.repository)?,
            creds => {
                say::action("logging in to registry with credentials");
                let (username, password) = creds.split_once(':').unwrap_or((creds, ""));
                RegistryAuth::Login {
                    username: username.to_owned(),
                    password: password.into(),
                }
            }
        };
        let client = OciClient::new(&env, remote).map_err(failed)?;
        let deadline = Deadline::after(&env.clock, timeout);
        Ok(Registry {
            client,
            deadline,
            env,
        })
    }
}

pub fn failed(error: Error) -> Failure {
    work(error.to_string())
}

/// What docker's configuration of this user says of a registry.
fn from_docker(repository: &str) -> Result<RegistryAuth, Failure> {
    let given = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker"));
    let Some(directory) = given.or_else(home) else {
        return Ok(RegistryAuth::Anonymous);
    };
    let file = directory.join("config.json");
    let Ok(bytes) = std::fs::read(&file) else {
        return Ok(RegistryAuth::Anonymous);
    };
    let mut config = DockerConfig::new();
    config
        .add(&bytes)
        .map_err(|error| work(format!("{}: {error}", file.display())))?;
    let repository = Repository::parse(repository).map_err(failed)?;
    Ok(config.auth_for(&repository))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_digests_are_split_off() {
        for (text, name, target) in [
            (
                "oci://h:5000/a/b",
                "h:5000/a/b",
                Target::Tag("latest".to_owned()),
            ),
            (
                "oci://h:5000/a/b:v1",
                "h:5000/a/b",
                Target::Tag("v1".to_owned()),
            ),
            (
                "oci://h/a/b@sha256:ab",
                "h/a/b",
                Target::Digest("sha256:ab".to_owned()),
            ),
        ] {
            let address = Address::parse(text);
            let Ok(address) = address else {
                assert_eq!(name, "h/a/b");
                continue;
            };
            assert_eq!(
                (address.name(), address.target.as_str()),
                (name, target.as_str())
            );
        }
        assert!(Address::parse("https://h/a").is_err());
        assert!(Address::parse("oci://h.example/x").is_err());
    }
}
