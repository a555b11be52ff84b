//! Where a cluster is and how to log in: kubeconfig files and the inside of a pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_connect::Proxy;
use everflow_json::Value;

use super::endpoint::Endpoint;
use crate::error::Error;

/// Where the files of a pod's service account are.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Something that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden<T>(pub T);

impl<T> std::fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A program that gives credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecPlugin {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables for it.
    pub variables: BTreeMap<String, String>,
    /// The version of its answers.
    pub api_version: String,
}

/// How the caller shows who it is, beside a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Not at all.
    None,
    /// By a token.
    Token(Hidden<String>),
    /// By the token in a file, which may change at any time.
    TokenFile(PathBuf),
    /// By name and password.
    Basic(String, Hidden<String>),
    /// By what a program says.
    Exec(ExecPlugin),
}

/// A certificate of the caller, and its key.
pub type ClientCertificate = (Vec<u8>, Hidden<Vec<u8>>);

/// A cluster and how to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands before every path, without a slash at its end.
    pub prefix: String,
    /// The certificates to trust (PEM); the system's when there are none.
    pub authority: Option<Vec<u8>>,
    /// Whether the server's certificate is not checked.
    pub insecure: bool,
    /// The name that the server's certificate must have, when it is another than the host's.
    pub server_name: Option<String>,
    /// A proxy to go through.
    pub proxy: Option<Proxy>,
    /// The caller's certificate.
    pub certificate: Option<ClientCertificate>,
    /// How to log in.
    pub login: Login,
    /// The namespace of the context.
    pub namespace: String,
    /// In whose name requests are made, if the kubeconfig says so.
    pub impersonate: Option<crate::client::Impersonation>,
}

impl ClusterConfig {
    /// What a pod finds.
    pub fn in_cluster() -> Result<Self, Error> {
        let read = |name: &str| std::env::var(name).unwrap_or_default();
        let (host, port) = (
            read("KUBERNETES_SERVICE_HOST"),
            read("KUBERNETES_SERVICE_PORT"),
        );
        Self::in_pod(&host, &port, Path::new(SERVICE_ACCOUNT))
    }

    /// As [`ClusterConfig::in_cluster`], with everything given.
    pub fn in_pod(host: &str, port: &str, files: &Path) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Config {
            path: "in-cluster configuration".into(),
            why: why.to_owned(),
        };
        if host.is_empty() {
            return Err(wrong(
                "KUBERNETES_SERVICE_HOST is not set: run in a pod, or give --kubeconfig or $KUBECONFIG",
            ));
        }
        let port = port
            .parse()
            .map_err(|_| wrong("KUBERNETES_SERVICE_PORT is not a port"))?;
        let namespace = std::fs::read_to_string(files.join("namespace"));
        Ok(ClusterConfig {
            tls: true,
            host: host.to_owned(),
            port,
            prefix: String::new(),
            authority: Some(read_file(&files.join("ca.crt"))?),
            insecure: false,
            server_name: None,
            proxy: None,
            certificate: None,
            login: Login::TokenFile(files.join("token")),
            namespace: namespace
                .unwrap_or_else(|_| "default".into())
                .trim()
                .to_owned(),
            impersonate: None,
        })
    }

    /// Reads a kubeconfig file. Without a context, its current one.
    pub fn from_file(path: &Path, context: Option<&str>) -> Result<Self, Error> {
        let text = read_file(path)?;
        let base = path.parent().unwrap_or(Path::new("."));
        Self::from_text(&text, context, &path.display().to_string(), Some(base))
    }

    /// Reads a kubeconfig. `name` is what messages call it; files it names are read relative to
    /// `base`, or refused when there is none.
    pub fn from_text(
        text: &[u8],
        context: Option<&str>,
        name: &str,
        base: Option<&Path>,
    ) -> Result<Self, Error> {
        let wrong = |why: String| Error::Config {
            path: name.to_owned(),
            why,
        };
        let config = everflow_yaml::sigs::yaml_to_json(text)
            .map_err(|error| wrong(format!("it is not YAML: {}", error.without_values())))?;
        let config: Value = config;
        let reader = Reader { name, base };
        let context_name = match context {
            Some(context) => context,
            None => text_of(&config, "current-context")
                .ok_or_else(|| wrong("it has no current-context: name one".into()))?,
        };
        let context = find(&config, "contexts", "context", context_name)
            .ok_or_else(|| wrong(format!("it has no context {context_name:?}")))?;
        let cluster_name = text_of(context, "cluster").unwrap_or_default();
        let cluster = find(&config, "clusters", "cluster", cluster_name)
            .ok_or_else(|| wrong(format!("it has no cluster {cluster_name:?}")))?;
        let user_name = text_of(context, "user").unwrap_or_default();
        let nobody = Value::Null;
        let user = match user_name {
            "" => &nobody,
            _ => find(&config, "users", "user", user_name)
                .ok_or_else(|| wrong(format!("it has no user {user_name:?}")))?,
        };
        let server = text_of(cluster, "server")
            .ok_or_else(|| wrong(format!("cluster {cluster_name:?} has no server")))?;
        let (tls, host, port, prefix) = split_url(server).ok_or_else(|| {
            wrong(format!(
                "the server of cluster {cluster_name:?} is not a URL"
            ))
        })?;
        let chain = reader.data_or_file(user, "client-certificate")?;
        let key = reader.data_or_file(user, "client-key")?;
        Ok(ClusterConfig {
            tls,
            host,
            port,
            prefix,
            authority: reader.data_or_file(cluster, "certificate-authority")?,
            insecure: cluster["insecure-skip-tls-verify"] == true,
            server_name: text_of(cluster, "tls-server-name").map(str::to_owned),
            proxy: reader.proxy(cluster)?,
            certificate: chain.zip(key.map(Hidden)),
            login: reader.login(user)?,
            namespace: text_of(context, "namespace")
                .unwrap_or("default")
                .to_owned(),
            impersonate: impersonation(user),
        })
    }

    /// The cluster at an address that was given without a kubeconfig.
    pub fn at(server: &str) -> Option<Self> {
        let (tls, host, port, prefix) = split_url(server)?;
        Some(ClusterConfig {
            tls,
            host,
            port,
            prefix,
            authority: None,
            insecure: false,
            server_name: None,
            proxy: None,
            certificate: None,
            login: Login::None,
            namespace: "default".to_owned(),
            impersonate: None,
        })
    }

    /// The address.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            tls: self.tls,
            host: self.host.clone(),
            port: self.port,
            prefix: self.prefix.clone(),
        }
    }

    /// The address, for messages.
    pub fn url(&self) -> String {
        self.endpoint().to_string()
    }

    /// Whether the servers' own addresses, as the cluster tells them, can be used beside the
    /// configured one: only where a server proves by its certificate that it belongs to the
    /// cluster, and where the configured address is a server's and no gateway's with paths and
    /// credentials of its own.
    pub fn can_learn(&self) -> bool {
        self.tls && !self.insecure && self.authority.is_some() && self.prefix.is_empty()
    }
}

fn text_of<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

fn find<'v>(config: &'v Value, list: &str, field: &str, name: &str) -> Option<&'v Value> {
    let entries = config.get(list)?.as_array()?;
    let entry = entries.iter().find(|entry| entry["name"] == name)?;
    entry.get(field)
}

fn impersonation(user: &Value) -> Option<crate::client::Impersonation> {
    let name = text_of(user, "as")?;
    let groups = user["as-groups"].as_array().into_iter().flatten();
    Some(crate::client::Impersonation {
        user: name.to_owned(),
        uid: text_of(user, "as-uid").unwrap_or_default().to_owned(),
        groups: groups
            .filter_map(|group| group.as_str().map(str::to_owned))
            .collect(),
        extra: Vec::new(),
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::Config {
        path: path.display().to_string(),
        why: format!("it cannot be read: {error}"),
    })
}

/// Scheme, host, port and path of a server's address.
fn split_url(text: &str) -> Option<(bool, String, u16, String)> {
    let Endpoint {
        tls,
        host,
        port,
        prefix,
    } = Endpoint::parse(text)?;
    Some((tls, host, port, prefix))
}

struct Reader<'a> {
    name: &'a str,
    base: Option<&'a Path>,
}

impl Reader<'_> {
    fn wrong(&self, why: String) -> Error {
        Error::Config {
            path: self.name.to_owned(),
            why,
        }
    }

    fn file(&self, field: &str, path: &str) -> Result<PathBuf, Error> {
        match self.base {
            Some(base) => Ok(base.join(path)),
            None => Err(self.wrong(format!(
                "{field} names a file: put the data itself into {field}-data"
            ))),
        }
    }

    fn data_or_file(&self, value: &Value, field: &str) -> Result<Option<Vec<u8>>, Error> {
        if let Some(data) = text_of(value, &format!("{field}-data")) {
            let bytes = STANDARD.decode(data.split_whitespace().collect::<String>());
            return bytes
                .map(Some)
                .map_err(|_| self.wrong(format!("{field}-data is not base64")));
        }
        match text_of(value, field) {
            Some(path) => read_file(&self.file(field, path)?).map(Some),
            None => Ok(None),
        }
    }

    fn proxy(&self, cluster: &Value) -> Result<Option<Proxy>, Error> {
        let Some(address) = text_of(cluster, "proxy-url") else {
            return Ok(None);
        };
        let proxy = Proxy::new(address, None);
        let proxy = proxy.map_err(|error| self.wrong(format!("proxy-url: {error}")))?;
        match proxy.url.host.is_empty() {
            true => Err(self.wrong("proxy-url has no host".into())),
            false => Ok(Some(proxy)),
        }
    }

    fn login(&self, user: &Value) -> Result<Login, Error> {
        if let Some(token) = text_of(user, "token") {
            return Ok(Login::Token(Hidden(token.to_owned())));
        }
        if let Some(path) = text_of(user, "tokenFile") {
            return Ok(Login::TokenFile(self.file("tokenFile", path)?));
        }
        if let Some(name) = text_of(user, "username") {
            let password = text_of(user, "password").unwrap_or_default().to_owned();
            return Ok(Login::Basic(name.to_owned(), Hidden(password)));
        }
        if let Some(exec) = user.get("exec").filter(|exec| exec.is_object()) {
            return self.exec(exec);
        }
        if user.get("auth-provider").is_some_and(Value::is_object) {
            let why = "auth-provider is gone from Kubernetes since 1.26: use an exec plugin";
            return Err(self.wrong(why.into()));
        }
        Ok(Login::None)
    }

    fn exec(&self, exec: &Value) -> Result<Login, Error> {
        let command = text_of(exec, "command")
            .ok_or_else(|| self.wrong("the exec plugin has no command".into()))?;
        // A bare name is searched for, a path is relative to the kubeconfig.
        let command = match (command.contains('/'), self.base) {
            (true, Some(base)) => base.join(command),
            _ => PathBuf::from(command),
        };
        let texts = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        let variables = exec["env"].as_array().into_iter().flatten();
        Ok(Login::Exec(ExecPlugin {
            command,
            arguments: texts(&exec["args"]),
            variables: variables
                .filter_map(|entry| {
                    let name = entry["name"].as_str()?.to_owned();
                    Some((name, entry["value"].as_str()?.to_owned()))
                })
                .collect(),
            api_version: text_of(exec, "apiVersion")
                .unwrap_or("client.authentication.k8s.io/v1")
                .to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: main
clusters:
- name: c
  cluster: {server: "https://[fd00::1]:6443/k8s/", certificate-authority-data: Y2E=, proxy-url: "http://proxy:3128"}
- name: plain
  cluster: {server: "http://localhost:8080"}
contexts:
- name: main
  context: {cluster: c, user: u, namespace: apps}
- name: bare
  context: {cluster: plain}
- name: lost
  context: {cluster: nowhere}
- name: plugin
  context: {cluster: plain, user: p}
users:
- name: u
  user: {token: geheim, as: jane, as-groups: [devs]}
- name: p
  user:
    exec: {command: ./login, args: [a], env: [{name: X, value: "1"}], apiVersion: client.authentication.k8s.io/v1}
"#;

    fn read(context: Option<&str>) -> Result<ClusterConfig, Error> {
        ClusterConfig::from_text(CONFIG.as_bytes(), context, "kubeconfig", None)
    }

    #[test]
    fn kubeconfigs_are_read() {
        let config = read(None).unwrap();
        assert_eq!(config.url(), "https://[fd00::1]:6443/k8s");
        assert_eq!(
            (config.authority.as_deref(), config.namespace.as_str()),
            (Some(&b"ca"[..]), "apps")
        );
        assert_eq!(config.login, Login::Token(Hidden("geheim".into())));
        let proxy = config.proxy.as_ref().unwrap();
        assert_eq!(
            (proxy.url.scheme.as_str(), proxy.url.authority().as_str()),
            ("http", "proxy:3128")
        );
        assert_eq!(config.impersonate.as_ref().unwrap().groups, ["devs"]);
        assert!(!format!("{config:?}").contains("geheim"));
        let bare = read(Some("bare")).unwrap();
        assert_eq!(
            (bare.url(), bare.login, bare.tls),
            ("http://localhost:8080".into(), Login::None, false)
        );
        let Login::Exec(plugin) = read(Some("plugin")).unwrap().login else {
            panic!()
        };
        assert_eq!(
            (plugin.arguments, plugin.variables["X"].as_str()),
            (vec!["a".to_owned()], "1")
        );
    }

    #[test]
    fn proxies_of_every_kind_are_read_and_their_passwords_are_not_shown() {
        let with = |address: &str| {
            let text = CONFIG.replace("http://proxy:3128", address);
            ClusterConfig::from_text(text.as_bytes(), None, "kubeconfig", None)
        };
        for (address, port) in [
            ("http://me:geheim@proxy:3128", 3128),
            ("https://me:geheim@proxy", 443),
            ("socks5://me:geheim@proxy", 1080),
            ("socks5h://me:geheim@proxy:9", 9),
        ] {
            let config = with(address).unwrap();
            let proxy = config.proxy.as_ref().unwrap();
            assert_eq!(proxy.url.port_or_default(), port, "{address}");
            let (name, word) = proxy.credentials.as_ref().unwrap();
            assert_eq!((name.as_str(), word.reveal().as_str()), ("me", "geheim"));
            assert!(!format!("{config:?}").contains("geheim"), "{config:?}");
        }
        for (address, why) in [
            (
                "ftp://me:geheim@proxy",
                "invalid proxy scheme \"ftp\": use http, https or socks5",
            ),
            ("socks5://me:geheim@", "proxy-url has no host"),
            ("http://me:geheim@proxy:x", "invalid port after host"),
            ("me:geheim@proxy:3128", "missing protocol scheme"),
        ] {
            let error = with(address).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(!error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn kubeconfig_errors_name_the_problem() {
        let text = |context| read(Some(context)).unwrap_err().to_string();
        assert_eq!(text("none"), r#"kubeconfig: it has no context "none""#);
        assert_eq!(text("lost"), r#"kubeconfig: it has no cluster "nowhere""#);
        let parse = |config: &str| {
            let read = ClusterConfig::from_text(config.as_bytes(), None, "kubeconfig", None);
            read.unwrap_err().to_string()
        };
        assert!(parse("{").starts_with("kubeconfig: it is not YAML: "));
        assert_eq!(
            parse("a: b"),
            "kubeconfig: it has no current-context: name one"
        );
        let files = CONFIG.replace(
            "certificate-authority-data: Y2E=",
            "certificate-authority: ca.crt",
        );
        assert_eq!(
            parse(&files),
            "kubeconfig: certificate-authority names a file: put the data itself into certificate-authority-data"
        );
        let broken = CONFIG.replace("Y2E=", "Y2E!");
        assert_eq!(
            parse(&broken),
            "kubeconfig: certificate-authority-data is not base64"
        );
        let missing = ClusterConfig::in_pod("", "", Path::new("/nowhere")).unwrap_err();
        assert!(missing.to_string().contains("give --kubeconfig"));
    }
}
