//! A small OCI registry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_env::{MemoryDialer, Stream};
use everflow_json::json;

use super::{Fault, Faults, Reply, Seen, accept, converse_with};
use crate::archive::{Algorithm, digest_of};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What to push.
#[derive(Debug, Clone)]
pub struct Push {
    /// Media type and content of each layer.
    pub layers: Vec<(String, Vec<u8>)>,
    /// The configuration.
    pub config: String,
    /// What kind of configuration it is.
    pub config_media_type: String,
    /// In the order in which they are written.
    pub annotations: Vec<(String, String)>,
}

impl Default for Push {
    /// No layers, the configuration of Flux.
    fn default() -> Self {
        Push {
            layers: Vec::new(),
            config: "{}".to_owned(),
            config_media_type: "application/vnd.cncf.flux.config.v1+json".to_owned(),
            annotations: Vec::new(),
        }
    }
}

impl Push {
    /// One layer of Flux's kind.
    pub fn content(packed: Vec<u8>) -> Self {
        Push {
            layers: vec![(
                "application/vnd.cncf.flux.content.v1.tar+gzip".to_owned(),
                packed,
            )],
            ..Push::default()
        }
    }
}

#[derive(Debug, Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By repository and digest: media type and content.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    /// By repository: tags with digests, in order of their names.
    tags: BTreeMap<String, BTreeMap<String, String>>,
    seen: Vec<String>,
    page: usize,
    /// The token that is asked for, and where one gets it.
    token: Option<(String, String)>,
}

/// A registry in the same process. Repositories below `private/` ask for user `user` with password
/// `pass`. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    state: Arc<Mutex<State>>,
    faults: Arc<Faults>,
}

impl Registry {
    /// Nothing in it.
    pub fn new() -> Self {
        Registry::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers plain HTTP at a host and port in memory.
    pub fn listen(&self, dialer: &MemoryDialer, host: &str, port: u16) {
        let own = self.clone();
        accept(dialer, host, port, move |stream| {
            let own = own.clone();
            async move { own.serve(stream).await }
        });
    }

    /// Answers HTTPS at a host and port in memory.
    pub fn listen_tls(
        &self,
        dialer: &MemoryDialer,
        host: &str,
        port: u16,
        config: Arc<rustls::ServerConfig>,
    ) {
        let own = self.clone();
        let acceptor = tokio_rustls::TlsAcceptor::from(config);
        accept(dialer, host, port, move |stream| {
            let (own, acceptor) = (own.clone(), acceptor.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    own.serve(stream).await;
                }
            }
        });
    }

    /// Answers on one connection.
    pub async fn serve(&self, stream: impl Stream) {
        converse_with(stream, |seen| {
            let reply = self.answer(seen);
            self.faults.apply(seen, reply)
        })
        .await;
    }

    /// Pushes an artifact; gives the digest of its manifest.
    pub fn push(&self, repository: &str, tags: &[&str], push: &Push) -> String {
        let piece = |kind: &str, content: &[u8]| {
            let digest = self.put_blob(content);
            format!(
                r#"{{"mediaType":{},"size":{},"digest":"{digest}"}}"#,
                json!(kind),
                content.len()
            )
        };
        let config = piece(&push.config_media_type, push.config.as_bytes());
        let layers: Vec<String> = push
            .layers
            .iter()
            .map(|(kind, content)| piece(kind, content))
            .collect();
        let mut manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{config},"layers":[{}]"#,
            layers.join(",")
        );
        if !push.annotations.is_empty() {
            let pair =
                |(name, value): &(String, String)| format!("{}:{}", json!(name), json!(value));
            let pairs: Vec<String> = push.annotations.iter().map(pair).collect();
            manifest.push_str(&format!(r#","annotations":{{{}}}"#, pairs.join(",")));
        }
        manifest.push('}');
        self.put_manifest(repository, tags, MANIFEST, manifest.as_bytes())
    }

    /// Stores a blob; gives its digest.
    pub fn put_blob(&self, content: &[u8]) -> String {
        let digest = digest_of(Algorithm::Sha256, content).to_string();
        self.with(|state| state.blobs.insert(digest.clone(), content.to_vec()));
        digest
    }

    /// Stores a manifest of any kind under its digest and some tags; gives the digest.
    pub fn put_manifest(
        &self,
        repository: &str,
        tags: &[&str],
        media_type: &str,
        content: &[u8],
    ) -> String {
        let digest = digest_of(Algorithm::Sha256, content).to_string();
        self.with(|state| {
            let key = (repository.to_owned(), digest.clone());
            let value = (media_type.to_owned(), content.to_vec());
            state.manifests.insert(key, value);
            let own = state.tags.entry(repository.to_owned()).or_default();
            for tag in tags {
                own.insert((*tag).to_owned(), digest.clone());
            }
        });
        digest
    }

    /// Makes tags point to what another points to.
    pub fn retag(&self, repository: &str, tags: &[&str], of: &str) {
        self.with(|state| {
            let Some(own) = state.tags.get_mut(repository) else {
                return;
            };
            if let Some(digest) = own.get(of).cloned() {
                for tag in tags {
                    own.insert((*tag).to_owned(), digest.clone());
                }
            }
        });
    }

    /// At most so many tags in one page.
    pub fn set_page(&self, size: usize) {
        self.with(|state| state.page = size);
    }

    /// Asks for a bearer token, which a server at `realm` gives; this registry gives `token` at
    /// `/token` to those who know the password, and `token` at once to `anonymous` ones.
    pub fn require_token(&self, realm: &str, token: &str) {
        self.with(|state| state.token = Some((realm.to_owned(), token.to_owned())));
    }

    /// Requests whose first line holds `part` go wrong from now on.
    pub fn fault(&self, part: &str, fault: Fault) {
        self.faults.add(part, fault, false);
    }

    /// The next request whose first line holds `part` goes wrong.
    pub fn fault_once(&self, part: &str, fault: Fault) {
        self.faults.add(part, fault, true);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.faults.clear();
    }

    /// The requests so far, as `GET /v2/ Basic …`.
    pub fn seen(&self) -> Vec<String> {
        self.with(|state| state.seen.clone())
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let line = seen.line().to_owned();
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let authorization = seen.header("authorization").unwrap_or_default().to_owned();
        let method = line.split(' ').next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        self.with(|state| {
            state.seen.push(
                format!("{method} {target} {authorization}")
                    .trim_end()
                    .to_owned(),
            );
            if path == "/token" {
                return state.give_token(&authorization, seen);
            }
            if let Some((realm, token)) = &state.token
                && authorization != format!("Bearer {token}")
            {
                let demand = format!(r#"Bearer realm="{realm}",service="test""#);
                return refuse(401, "UNAUTHORIZED", "authentication required")
                    .with("WWW-Authenticate", &demand);
            }
            if path == "/v2/" {
                return Reply::new(200, "{}");
            }
            let login = format!("Basic {}", STANDARD.encode("user:pass"));
            if path.starts_with("/v2/private/") && authorization != login {
                return refuse(401, "UNAUTHORIZED", "authentication required")
                    .with("WWW-Authenticate", r#"Basic realm="registry""#);
            }
            match method {
                "POST" | "PUT" => state.take(path, query, seen),
                _ => state.content(path, query),
            }
        })
    }
}

fn refuse(status: u16, code: &str, message: &str) -> Reply {
    let body = json!({"errors": [{"code": code, "message": message}]});
    Reply::new(status, body.to_string()).with("Content-Type", "application/json")
}

impl State {
    fn give_token(&self, authorization: &str, seen: &Seen) -> Reply {
        let Some((_, token)) = &self.token else {
            return refuse(404, "UNSUPPORTED", "no tokens here");
        };
        let login = format!("Basic {}", STANDARD.encode("user:pass"));
        let form = String::from_utf8_lossy(&seen.body);
        let known = authorization == login
            || form.contains("refresh_token=identity")
            || (authorization.is_empty() && token == "anonymous");
        match known {
            true => Reply::new(200, json!({ "token": token }).to_string()),
            false => refuse(401, "UNAUTHORIZED", "incorrect username or password"),
        }
    }

    /// Uploads: a place for content, the content at that place, and manifests.
    fn take(&mut self, path: &str, query: &str, seen: &Seen) -> Reply {
        let rest = path.strip_prefix("/v2/").unwrap_or_default().to_owned();
        if let Some((repository, "")) = rest.rsplit_once("/blobs/uploads/") {
            let place = format!("/v2/{repository}/blobs/uploads/1?state=x");
            return Reply::new(202, "").with("Location", &place);
        }
        if let Some((_, _)) = rest.rsplit_once("/blobs/uploads/") {
            let digest = digest_of(Algorithm::Sha256, &seen.body).to_string();
            let wanted = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("digest="));
            if wanted.map(|text| text.replace("%3A", ":")) != Some(digest.clone()) {
                return refuse(400, "DIGEST_INVALID", "the content is another");
            }
            self.blobs.insert(digest, seen.body.clone());
            return Reply::new(201, "");
        }
        if let Some((repository, tag)) = rest.rsplit_once("/manifests/") {
            let digest = digest_of(Algorithm::Sha256, &seen.body).to_string();
            let kind = seen.header("content-type").unwrap_or_default().to_owned();
            let key = (repository.to_owned(), digest.clone());
            self.manifests.insert(key, (kind, seen.body.clone()));
            let tags = self.tags.entry(repository.to_owned()).or_default();
            tags.insert(tag.to_owned(), digest);
            return Reply::new(201, "");
        }
        refuse(404, "UNSUPPORTED", "Unknown path")
    }

    fn content(&self, path: &str, query: &str) -> Reply {
        let rest = path.strip_prefix("/v2/").unwrap_or_default();
        if let Some(repository) = rest.strip_suffix("/tags/list") {
            return self.list(repository, query);
        }
        if let Some((repository, digest)) = rest.rsplit_once("/blobs/") {
            let _ = repository;
            return match self.blobs.get(digest) {
                Some(content) => Reply::new(200, content.clone())
                    .with("Content-Type", "application/octet-stream"),
                None => refuse(404, "BLOB_UNKNOWN", "Unknown blob"),
            };
        }
        if let Some((repository, name)) = rest.rsplit_once("/manifests/") {
            let Some(tags) = self.tags.get(repository) else {
                return refuse(404, "NAME_UNKNOWN", "Unknown name");
            };
            let digest = tags.get(name).cloned().unwrap_or_else(|| name.to_owned());
            let key = (repository.to_owned(), digest.clone());
            return match self.manifests.get(&key) {
                Some((kind, content)) => Reply::new(200, content.clone())
                    .with("Content-Type", kind)
                    .with("Docker-Content-Digest", &digest),
                None => refuse(404, "MANIFEST_UNKNOWN", "Unknown manifest"),
            };
        }
        refuse(404, "UNSUPPORTED", "Unknown path")
    }

    fn list(&self, repository: &str, query: &str) -> Reply {
        let Some(tags) = self.tags.get(repository) else {
            return refuse(404, "NAME_UNKNOWN", "Unknown name");
        };
        let last = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("last="))
            .unwrap_or_default();
        let rest: Vec<&String> = tags.keys().filter(|tag| tag.as_str() > last).collect();
        let size = match self.page {
            0 => rest.len(),
            page => page.min(rest.len()),
        };
        let body = json!({"name": repository, "tags": &rest[..size]});
        let reply = Reply::new(200, body.to_string()).with("Content-Type", "application/json");
        match rest.get(size) {
            None => reply,
            Some(_) => {
                let last = rest[size - 1];
                let next = format!("</v2/{repository}/tags/list?n=1000&last={last}>; rel=\"next\"");
                reply.with("Link", &next)
            }
        }
    }
}
