//! Git repositories over HTTP and SSH: which commit a name stands for, and an archive of it.
//!
//! There is no clone: one commit comes as one pack, lies in the temporary area while it is turned
//! into an archive, and is gone. [`GitClient::publish`] makes a commit on top of it and sends that.
//! Whatever the server sends is checked against the names of the
//! objects, which are hashes of their content.

#![forbid(unsafe_code)]

mod agent;
mod checkout;
mod delta;
mod deploy_key;
mod error;
mod github_app;
mod host_key;
mod include;
mod known_hosts;
#[cfg(test)]
mod limit_tests;
mod local;
mod object;
#[cfg(test)]
mod origin_tests;
mod pack;
mod pack_index;
mod pgp_signing;
mod pkt;
mod protocol;
mod push;
mod reference;
mod send;
mod session;
pub mod signature;
mod signing;
mod ssh;
mod submodule;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use everflow_env::{Env, run_blocking, run_budgeted};
use everflow_fetch::TemporaryDirectory;
use everflow_fetch::archive::Summary;
use everflow_fetch::http::{
    Auth, Client, ClientOptions, Limits, Proxy, TlsOptions, may_send_credentials,
};
use everflow_fetch::{Deadline, Secret, Url};
use everflow_limits::Budget;

pub use agent::{Opening, SshAgent};
pub use checkout::{Checkout, CheckoutOptions};
pub use deploy_key::{KeyKind, KeyPair, scan_host_key};
pub use error::Error;
pub use github_app::{GithubApp, GithubToken};
pub use include::Include;
pub use local::LocalRepository;
pub use object::{Commit, Kind, ObjectId, Person, Tag};
pub use pack::{Pack, PackLimits};
pub use protocol::Ref;
pub use push::{Change, Found, Published};
pub use reference::{GitRef, Resolution, revision};
pub use signing::SigningKey;
pub use ssh::SshAuth;
pub use submodule::Submodule;
pub use write::FileEdit;

use checkout::Module;
use protocol::Wants;
use reference::{Answer, Question};
use session::{Service, Session};

/// Who we are to a git server.
#[derive(Debug, Clone, Default)]
pub enum GitAuth {
    /// Nobody, or the one in the address.
    #[default]
    None,
    /// Over HTTP.
    Http(Auth),
    /// Over SSH.
    Ssh(SshAuth),
}

/// A repository somewhere.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Where it is: `http`, `https` or `ssh`.
    pub url: Url,
    /// Who we are.
    pub auth: GitAuth,
    /// Whom to trust, for `https`.
    pub tls: TlsOptions,
    /// A proxy in between.
    pub proxy: Option<Proxy>,
    /// Limits of requests.
    pub limits: Limits,
    /// Limits of packs.
    pub pack: PackLimits,
    /// Bytes of a list of names.
    pub listing: u64,
}

/// Bytes of a list of names. The repositories with most names that are known (mirrors with a name for
/// each change that was ever proposed) give about 40 MB.
const LARGEST_LISTING: u64 = 64 << 20;

impl Remote {
    /// A repository without credentials, proxies or certificates, with the usual limits.
    pub fn new(url: Url) -> Self {
        Remote {
            url,
            auth: GitAuth::None,
            tls: TlsOptions::default(),
            proxy: None,
            limits: Limits::default(),
            pack: PackLimits::default(),
            listing: LARGEST_LISTING,
        }
    }
}

/// What [`GitClient::update`] found.
#[derive(Debug)]
pub enum Update {
    /// The remote still is where it was; nothing was fetched.
    Unchanged(Resolution),
    /// Something else is there now.
    Fetched(Box<Checkout>),
}

/// Fetches from one repository.
#[derive(Debug)]
pub struct GitClient {
    env: Env,
    remote: Remote,
    http: Option<Arc<Client>>,
}

/// How deep submodules may nest.
const DEEPEST_MODULE: usize = 10;
/// How many submodules there may be in one artifact, those of submodules too. Boost, which has most
/// of the well-known repositories, has 180.
const MOST_MODULES: u64 = 500;
/// The largest commit or annotated tag.
const LARGEST_COMMIT: u64 = 16 << 20;

/// What is left for the packs of one artifact: that of the repository and those of its submodules.
struct Left {
    pack: PackLimits,
    modules: u64,
    depth: usize,
}

impl Left {
    fn take(&mut self, packed: u64, (objects, unpacked): (usize, u64)) {
        let objects = u32::try_from(objects).unwrap_or(u32::MAX);
        self.pack.packed = self.pack.packed.saturating_sub(packed);
        self.pack.objects = self.pack.objects.saturating_sub(objects);
        self.pack.unpacked = self.pack.unpacked.saturating_sub(unpacked);
    }
}

impl GitClient {
    /// A client for a repository; an error when its certificates or keys cannot be used.
    pub fn new(env: &Env, mut remote: Remote) -> Result<Self, Error> {
        // An answer that carries a pack may be as large as the pack.
        remote.limits.body = remote
            .limits
            .body
            .max(remote.pack.packed + (remote.pack.packed >> 8));
        let http = match remote.url.scheme.as_str() {
            "ssh" => None,
            scheme => {
                let options = ClientOptions {
                    // Certificates do not matter without TLS, as broken ones do not for Flux.
                    tls: match scheme {
                        "https" => remote.tls.clone(),
                        _ => TlsOptions::default(),
                    },
                    proxy: remote.proxy.clone(),
                    limits: remote.limits.clone(),
                    user_agent: concat!("git/everflow-", env!("CARGO_PKG_VERSION")).to_owned(),
                };
                Some(Arc::new(Client::new(env, options)?))
            }
        };
        Ok(GitClient {
            env: env.clone(),
            remote,
            http,
        })
    }

    async fn session(&self, deadline: &Deadline) -> Result<Session, Error> {
        let http = self.http.as_ref();
        Session::open(Service::Fetch, http, &self.env, &self.remote, deadline).await
    }

    /// Asks the server which commit is meant. One question, nothing is fetched, except for a range
    /// of versions with a tie: then the commits behind it.
    pub async fn resolve(
        &self,
        reference: &GitRef,
        deadline: &Deadline,
    ) -> Result<Resolution, Error> {
        let (resolution, _) = self
            .ask(reference, deadline)
            .await
            .map_err(|error| self.listing(error))?;
        Ok(resolution)
    }

    async fn ask(
        &self,
        reference: &GitRef,
        deadline: &Deadline,
    ) -> Result<(Resolution, Option<Session>), Error> {
        let question = Question::new(reference)?;
        let mut session = self.session(deadline).await?;
        let refs = session.refs(&question.prefixes()).await?;
        let answer = match question.answer(&refs) {
            // Nothing that we asked for: maybe there is nothing at all.
            Err(Error::RefMissing(text)) => {
                return match session.refs(&[]).await?.is_empty() {
                    true => Err(Error::EmptyRepository),
                    false => Err(Error::RefMissing(text)),
                };
            }
            other => other?,
        };
        match answer {
            Answer::Found(resolution) => Ok((resolution, Some(session))),
            Answer::Ties(ties) => {
                let resolution = self.untie(session, ties).await?;
                Ok((resolution, None))
            }
        }
    }

    /// Fetches the commits behind tags of equal versions and takes the youngest.
    async fn untie(&self, session: Session, ties: Vec<Ref>) -> Result<Resolution, Error> {
        let wants = Wants {
            ids: ties.iter().map(|one| one.id).collect(),
            shallow: true,
            commits_only: true,
        };
        let mut left = self.left();
        let youngest = move |mut pack: Pack, _place, budget: &Budget| {
            let mut seconds = std::collections::BTreeMap::new();
            for one in &ties {
                let content = small(&mut pack, one.commit(), Kind::Commit, budget)?;
                let commit = Commit::parse(one.commit(), &content)?;
                seconds.insert(commit.id, commit.committer.seconds);
            }
            let of = |id: ObjectId| seconds.get(&id).copied().unwrap_or(i64::MIN);
            reference::youngest(&ties, &of).ok_or(Error::Lost)
        };
        self.pack(session, &wants, &mut left, youngest).await
    }

    /// What one artifact may take.
    fn left(&self) -> Left {
        Left {
            pack: self.remote.pack,
            modules: MOST_MODULES,
            depth: 0,
        }
    }

    /// Fetches what a reference stands for, unless that is the revision that is there already.
    pub async fn update(
        &self,
        reference: &GitRef,
        have: Option<&str>,
        submodules: bool,
        deadline: &Deadline,
    ) -> Result<Update, Error> {
        self.update_unless(reference, have, &|_| false, submodules, deadline)
            .await
    }

    /// The same; what `known` knows of already is not fetched either.
    pub async fn update_unless(
        &self,
        reference: &GitRef,
        have: Option<&str>,
        known: &(dyn Fn(&Resolution) -> bool + Send + Sync),
        submodules: bool,
        deadline: &Deadline,
    ) -> Result<Update, Error> {
        let named = |error: Error| match have.is_some() || !reference.name.is_empty() {
            true => self.listing(error),
            false => self.cloning(error),
        };
        let (resolution, session) = self.ask(reference, deadline).await.map_err(named)?;
        if have == Some(resolution.revision.as_str()) || known(&resolution) {
            return Ok(Update::Unchanged(resolution));
        }
        let session = match session {
            Some(session) => session,
            None => self
                .session(deadline)
                .await
                .map_err(|error| self.cloning(error))?,
        };
        let mut left = self.left();
        let fetched = self
            .fetch_with(session, resolution, submodules, deadline, &mut left)
            .await;
        let checkout = fetched.map_err(|error| self.cloning(error))?;
        Ok(Update::Fetched(Box::new(checkout)))
    }

    /// Fetches a commit that was resolved before.
    pub async fn fetch(
        &self,
        resolution: Resolution,
        submodules: bool,
        deadline: &Deadline,
    ) -> Result<Checkout, Error> {
        let session = self
            .session(deadline)
            .await
            .map_err(|error| self.cloning(error))?;
        let mut left = self.left();
        self.fetch_with(session, resolution, submodules, deadline, &mut left)
            .await
            .map_err(|error| self.cloning(error))
    }

    fn listing(&self, error: Error) -> Error {
        match error {
            Error::RefMissing(_) => self.cloning(error),
            error => self.named("list remote for", error),
        }
    }

    fn cloning(&self, error: Error) -> Error {
        self.named("clone", error)
    }

    /// Flux's words around what went wrong with the server; what is about the reference stays.
    fn named(&self, action: &str, error: Error) -> Error {
        match error {
            Error::Git(text) if !transport_words(&text) => Error::Git(text),
            error @ (Error::EmptyRepository | Error::Authentication(_) | Error::Lost) => error,
            error @ (Error::Disk { .. } | Error::Url(_) | Error::Limit(_)) => error,
            error => Error::Git(format!("unable to {action} '{}': {error}", self.remote.url)),
        }
    }

    fn fetch_with<'a>(
        &'a self,
        session: Session,
        resolution: Resolution,
        submodules: bool,
        deadline: &'a Deadline,
        left: &'a mut Left,
    ) -> Pin<Box<dyn Future<Output = Result<Checkout, Error>> + Send + 'a>> {
        Box::pin(async move {
            let mut session = session;
            let (by_id, commit) = (resolution.by_id, resolution.commit);
            let missing = || reference::commit_missing(&commit.to_string());
            let wants = match resolution.by_id && !session.gives_any_commit() {
                false => Wants {
                    ids: vec![resolution.want],
                    shallow: true,
                    commits_only: false,
                },
                // An old server: the whole history, in which the commit should be.
                true => {
                    let refs = session.refs(&["refs/heads/".to_owned()]).await?;
                    let heads = refs
                        .iter()
                        .filter(|one| one.name.starts_with("refs/heads/"));
                    Wants {
                        ids: heads.map(|one| one.id).collect(),
                        shallow: false,
                        commits_only: false,
                    }
                }
            };
            let read = move |pack, place, budget: &Budget| open(pack, place, &resolution, budget);
            let fetched = self.pack(session, &wants, left, read).await;
            let checkout = match fetched {
                Err(Error::NotOurRef) if by_id => return Err(missing()),
                other => other?,
            };
            match submodules && left.depth < DEEPEST_MODULE {
                true => self.fetch_modules(checkout, deadline, left).await,
                false => Ok(checkout),
            }
        })
    }

    /// Fetches a pack, names its objects and makes something of it.
    async fn pack<T: Send + 'static>(
        &self,
        session: Session,
        wants: &Wants,
        left: &mut Left,
        make: impl FnOnce(Pack, Arc<TemporaryDirectory>, &Budget) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let env = self.env.clone();
        let place = run_blocking(&*self.env.blocking, move || {
            TemporaryDirectory::new(&env, "git")
        })
        .await
        .ok_or(Error::Lost)??;
        let place = Arc::new(place);
        let path = place.file("pack");
        let limits = left.pack;
        let packed = session
            .fetch(&self.env, wants, &path, limits.packed)
            .await?;
        let disk = self.env.disk.clone();
        let opened = run_budgeted(&*self.env.blocking, move |budget| {
            let pack = Pack::open(disk, &path, limits, budget)?;
            let taken = (pack.len(), pack.unpacked());
            let made = make(pack, place, budget)?;
            Ok::<_, Error>((taken, made))
        });
        let (taken, made) = opened.await.ok_or(Error::Lost)??;
        left.take(packed, taken);
        Ok(made)
    }

    async fn fetch_modules(
        &self,
        checkout: Checkout,
        deadline: &Deadline,
        left: &mut Left,
    ) -> Result<Checkout, Error> {
        let read = move |budget: &Budget| {
            let mut checkout = checkout;
            let modules = checkout.modules(budget)?;
            Ok::<_, Error>((checkout, modules))
        };
        let read = run_budgeted(&*self.env.blocking, read);
        let (mut checkout, modules) = read.await.ok_or(Error::Lost)??;
        for (module, commit) in modules {
            left.modules = left.modules.checked_sub(1).ok_or_else(too_many_modules)?;
            let client = self.module_client(&module)?;
            let session = client
                .session(deadline)
                .await
                .map_err(|error| client.cloning(error))?;
            let resolution = Resolution {
                reference: String::new(),
                commit,
                want: commit,
                revision: revision("", commit, false),
                by_id: true,
            };
            left.depth += 1;
            let inner = client
                .fetch_with(session, resolution, true, deadline, left)
                .await
                .map_err(|error| client.cloning(error))?;
            left.depth -= 1;
            let placed = Module {
                name: module.name,
                checkout: inner,
            };
            checkout.submodules.insert(module.path, placed);
        }
        Ok(checkout)
    }

    /// A client for a submodule. Credentials go along only to the same server.
    fn module_client(&self, module: &Submodule) -> Result<GitClient, Error> {
        let url = submodule::resolve(&self.remote.url, &module.url)?;
        if !matches!(url.scheme.as_str(), "http" | "https" | "ssh") {
            return Err(Error::Git(format!(
                "the submodule '{}' has the URL '{url}', whose scheme is not supported",
                module.name
            )));
        }
        let same = may_send_credentials(&self.remote.url, &url);
        let mut remote = self.remote.clone();
        if !same {
            remote.auth = GitAuth::None;
            remote.tls.client = None;
        }
        remote.url = url;
        GitClient::new(&self.env, remote)
    }
}

/// Texts that come from the server's answers, not from the reference.
fn transport_words(text: &str) -> bool {
    [
        "authentication required: ",
        "authorization failed: ",
        "repository not found: ",
        "unexpected client error: ",
        "ssh: ",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}

/// A commit or a tag.
fn small(
    pack: &mut Pack,
    id: ObjectId,
    kind: Kind,
    budget: &Budget,
) -> Result<Arc<Vec<u8>>, Error> {
    let content = pack.read(id, kind, budget)?;
    match content.len() as u64 > LARGEST_COMMIT {
        true => Err(Error::TooLarge {
            what: format!("the {} {id}", kind.name()),
            limit: LARGEST_COMMIT,
        }),
        false => Ok(content),
    }
}

fn too_many_modules() -> Error {
    Error::TooLarge {
        what: "the number of submodules".to_owned(),
        limit: MOST_MODULES,
    }
}

fn open(
    mut pack: Pack,
    place: Arc<TemporaryDirectory>,
    resolution: &Resolution,
    budget: &Budget,
) -> Result<Checkout, Error> {
    let mut tag = None;
    let mut target = resolution.want;
    let mut steps = 0;
    while pack.kind(target) == Some(Kind::Tag) && steps < 10 {
        let content = small(&mut pack, target, Kind::Tag, budget)?;
        let parsed = Tag::parse(target, &content)?;
        target = parsed.target;
        tag.get_or_insert(parsed);
        steps += 1;
    }
    if resolution.by_id && pack.kind(resolution.commit) != Some(Kind::Commit) {
        return Err(reference::commit_missing(&resolution.commit.to_string()));
    }
    let target = if resolution.by_id {
        resolution.commit
    } else {
        target
    };
    let content = small(&mut pack, target, Kind::Commit, budget)?;
    pack.forget();
    let commit = Commit::parse(target, &content)?;
    if commit.id != resolution.commit && tag.is_none() {
        return Err(Error::Protocol(format!(
            "the server sent the commit {} for {}",
            commit.id, resolution.commit
        )));
    }
    Ok(Checkout {
        revision: match commit.id == resolution.commit {
            true => resolution.revision.clone(),
            // A server that does not say what lies behind a tag.
            false => resolution
                .revision
                .replace(&resolution.commit.to_string(), &commit.id.to_string()),
        },
        commit,
        tag,
        reference: resolution.reference.clone(),
        pack,
        submodules: std::collections::BTreeMap::new(),
        place,
    })
}

/// Writes the archive of a checkout to a file of the disk, durably but under its final name at
/// once: the caller gives a path in the temporary area and renames.
pub async fn write_archive(
    env: &Env,
    mut checkout: Checkout,
    path: &str,
    options: CheckoutOptions,
) -> Result<Summary, Error> {
    let (disk, path) = (env.disk.clone(), path.to_owned());
    let work = move |budget: &Budget| {
        let file = disk
            .create(&path)
            .map_err(|error| Error::disk("create", &path, error))?;
        let file = std::io::BufWriter::with_capacity(256 * 1024, file);
        let (file, summary) = checkout.archive(file, &options, budget)?;
        let mut file = file
            .into_inner()
            .map_err(|error| Error::disk("write", &path, error.into_error()))?;
        file.sync()
            .map_err(|error| Error::disk("sync", &path, error))?;
        Ok(summary)
    };
    run_budgeted(&*env.blocking, work)
        .await
        .ok_or(Error::Lost)?
}
