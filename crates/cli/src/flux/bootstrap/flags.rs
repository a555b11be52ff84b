//! The flags that all ways to bootstrap have in common.

use std::path::PathBuf;

use everflow_time::Duration;

use super::components::ComponentOptions;
use super::{read_file, work};
use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::go_flags::{
    ecdsa_curve, go_bool, go_duration, key_algorithm, rsa_bits, safe_relative_path,
};
use everflow_git::{KeyKind, SigningKey};

/// What is installed, who commits, and how the cluster logs in.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// The branch
    #[arg(long, global = true, value_name = "NAME", default_value = "main")]
    pub branch: String,
    /// Accepted for compatibility: one program does the work of all controllers
    #[arg(
        long,
        global = true,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "source-controller,kustomize-controller,helm-controller,notification-controller"
    )]
    pub components: Vec<String>,
    /// Further controllers; image automation is not there
    #[arg(long, global = true, value_name = "LIST", value_delimiter = ',')]
    pub components_extra: Vec<String>,
    /// The version to install; only that of this program
    #[arg(
        short = 'v',
        long,
        global = true,
        value_name = "VERSION",
        default_value = ""
    )]
    pub version: String,
    /// The registry of the image
    #[arg(long, global = true, value_name = "HOST/PATH", default_value = "")]
    pub registry: String,
    /// USER:PASSWORD for the registry: a Secret of the name in --image-pull-secret is made of it
    #[arg(long, global = true, value_name = "USER:PASSWORD", default_value = "")]
    pub registry_creds: String,
    /// A Secret to pull the image with
    #[arg(long, global = true, value_name = "NAME", default_value = "")]
    pub image_pull_secret: String,
    /// A file or directory with the manifests to install
    #[arg(long, global = true, value_name = "PATH", hide = true)]
    pub manifests: Option<PathBuf>,
    /// Let only those in who must
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    pub network_policy: bool,
    /// Work on all namespaces
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set, value_parser = go_bool)]
    pub watch_all_namespaces: bool,
    /// The domain of the cluster
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "cluster.local"
    )]
    pub cluster_domain: String,
    /// Taints to tolerate
    #[arg(long, global = true, value_name = "KEYS", value_delimiter = ',')]
    pub toleration_keys: Vec<String>,
    /// How much is logged: debug, info or error
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info", value_parser = ["debug", "info", "error"])]
    pub log_level: String,
    /// The Secret that the cluster logs in with
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "flux-system"
    )]
    pub secret_name: String,
    /// Let the cluster log in with the token instead of a deploy key
    #[arg(long, global = true)]
    pub token_auth: bool,
    /// A file with the private SSH key; without it one is made
    #[arg(long, global = true, value_name = "FILE", default_value = "")]
    pub private_key_file: String,
    /// What key is made: rsa, ecdsa or ed25519
    #[arg(long, global = true, value_name = "ALGORITHM", default_value = "ecdsa", value_parser = key_algorithm)]
    pub ssh_key_algorithm: String,
    /// How long an RSA key is
    #[arg(long, global = true, value_name = "BITS", default_value = "2048", value_parser = rsa_bits)]
    pub ssh_rsa_bits: usize,
    /// The curve of an ECDSA key: p256, p384 or p521
    #[arg(long, global = true, value_name = "CURVE", default_value = "p384", value_parser = ecdsa_curve)]
    pub ssh_ecdsa_curve: String,
    /// The host for SSH, where it is another one, with its port
    #[arg(long, global = true, value_name = "HOST", default_value = "")]
    pub ssh_hostname: String,
    /// Which keys of the SSH server are taken
    #[arg(long, global = true, value_name = "LIST", value_delimiter = ',')]
    pub ssh_hostkey_algos: Vec<String>,
    /// A file with the certificates to trust
    #[arg(long, global = true, value_name = "FILE", default_value = "")]
    pub ca_file: String,
    /// Who commits
    #[arg(long, global = true, value_name = "NAME", default_value = "Flux")]
    pub author_name: String,
    /// The address of who commits
    #[arg(long, global = true, value_name = "EMAIL", default_value = "")]
    pub author_email: String,
    /// What is added to the messages of commits, as '[ci skip]'
    #[arg(long, global = true, value_name = "TEXT", default_value = "")]
    pub commit_message_appendix: String,
    /// A file with an SSH key that signs the commits
    #[arg(long, global = true, value_name = "FILE", default_value = "")]
    pub ssh_signing_key_file: String,
    /// The password of that key
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        default_value = "",
        alias = "ssh-signing-passphrase"
    )]
    pub ssh_signing_password: String,
    /// Sign with the key in --private-key-file
    #[arg(long, global = true)]
    pub ssh_signing_reuse_private_key: bool,
    /// Not supported: sign with --ssh-signing-key-file
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "FILE",
        default_value = ""
    )]
    pub gpg_key_ring: String,
    /// Not supported
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "TEXT",
        default_value = ""
    )]
    pub gpg_passphrase: String,
    /// Not supported
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "ID",
        default_value = ""
    )]
    pub gpg_key_id: String,
    /// With the content of submodules
    #[arg(long, global = true)]
    pub recurse_submodules: bool,
    /// Only these directories are deployed from
    #[arg(long, global = true, value_name = "DIR", value_delimiter = ',')]
    pub sparse_checkout: Vec<String>,
    /// Although Flux was installed in another way
    #[arg(long, global = true)]
    pub force: bool,
}

impl Common {
    /// What is installed.
    pub fn component_options(&self, connection: &Connection) -> ComponentOptions {
        ComponentOptions {
            namespace: connection.namespace.clone(),
            components: self.components.clone(),
            components_extra: self.components_extra.clone(),
            registry: self.registry.clone(),
            image_pull_secret: self.image_pull_secret.clone(),
            network_policy: self.network_policy,
            watch_all_namespaces: self.watch_all_namespaces,
            cluster_domain: self.cluster_domain.clone(),
            toleration_keys: self.toleration_keys.clone(),
            log_level: self.log_level.clone(),
            manifests: self.manifests.clone(),
        }
    }

    /// What cannot be done, told before anything else.
    pub fn check(&self) -> Result<(), Failure> {
        if !self.gpg_key_ring.is_empty() {
            return Err(work(
                "--gpg-key-ring: commits are signed with SSH keys only; give --ssh-signing-key-file, \
                 or leave the flag out",
            ));
        }
        let own = concat!("v", env!("CARGO_PKG_VERSION"));
        if !matches!(self.version.as_str(), "" | "latest") && self.version != own {
            return Err(work(format!(
                "--version {}: this program installs {own} only; take the program of the other version",
                self.version
            )));
        }
        let image = self
            .components_extra
            .iter()
            .find(|name| name.starts_with("image-") || *name == "source-watcher");
        if let Some(name) = image {
            return Err(work(format!(
                "--components-extra {name}: there is no such controller in this program yet; leave it out"
            )));
        }
        if !self.registry_creds.is_empty()
            && (self.image_pull_secret.is_empty() || !self.registry_creds.contains(':'))
        {
            return Err(work(
                "--registry-creds takes USER:PASSWORD and wants the name of the Secret in --image-pull-secret",
            ));
        }
        Ok(())
    }

    /// What key is made.
    pub fn key_kind(&self) -> KeyKind {
        let (algorithm, curve) = (&*self.ssh_key_algorithm, &*self.ssh_ecdsa_curve);
        match (algorithm, curve) {
            ("rsa", _) => KeyKind::Rsa(self.ssh_rsa_bits),
            ("ed25519", _) => KeyKind::Ed25519,
            (_, "p256") => KeyKind::P256,
            (_, "p521") => KeyKind::P521,
            _ => KeyKind::P384,
        }
    }

    /// The certificates to trust.
    pub fn ca(&self) -> Result<Option<String>, Failure> {
        match self.ca_file.as_str() {
            "" => Ok(None),
            file => read_file(file, "unable to read TLS CA file").map(Some),
        }
    }

    /// The key that signs commits. `password` is that of the private key.
    pub fn signing_key(&self, password: &str) -> Result<Option<SigningKey>, Failure> {
        let (file, password) = match self.ssh_signing_reuse_private_key {
            true if self.private_key_file.is_empty() => {
                return Err(work(
                    "--ssh-signing-reuse-private-key wants a key in --private-key-file",
                ));
            }
            true => (&self.private_key_file, password),
            false => (&self.ssh_signing_key_file, &*self.ssh_signing_password),
        };
        if file.is_empty() {
            return Ok(None);
        }
        let text = read_file(file, "failed to open the signing key")?;
        let key = SigningKey::read(&text, &password.to_owned().into());
        key.map(Some).map_err(work)
    }
}

/// Where in the repository the cluster is kept, and how often it is looked at.
#[derive(clap::Args, Debug)]
pub struct Place {
    /// The directory of this cluster in the repository
    #[arg(long, value_name = "DIR", default_value = "", value_parser = safe_relative_path)]
    pub path: String,
    /// How often the repository is asked for changes
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = go_duration)]
    pub interval: Duration,
}
