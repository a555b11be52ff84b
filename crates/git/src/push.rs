//! A commit on top of a branch: made of files, sent, and made again when the branch has moved.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_env::run_budgeted;
use everflow_limits::Budget;

use super::object::{Kind, Mode, ObjectId, Person, parse_tree};
use super::reference::GitRef;
use super::send::{RefUpdate, Sent, send};
use super::session::{Service, Session};
use super::signing::SigningKey;
use super::write::{FileEdit, TreeWriter, encode_commit, pack, with_signature};
use super::{Checkout, GitClient};
use crate::{Deadline, Error};

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct Change {
    /// The branch that it belongs to.
    pub branch: String,
    /// Files by their paths. What is not named stays as it is.
    pub files: BTreeMap<String, FileEdit>,
    /// Who makes it, and when.
    pub author: Person,
    /// The message.
    pub message: String,
    /// What signs it.
    pub signing: Option<SigningKey>,
}

/// What became of a [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The newest commit of the branch.
    pub commit: ObjectId,
    /// Whether it was made for the change; otherwise all was so already.
    pub changed: bool,
    /// How many times the branch had moved in between.
    pub conflicts: u32,
}

/// How many times a commit is made again before it is given up.
const MOST_CONFLICTS: u32 = 10;
/// The pause before the first of these times; the later ones are longer.
const PAUSE: Duration = Duration::from_millis(200);

/// A commit that the server does not have yet.
struct Prepared {
    commit: ObjectId,
    pack: Vec<u8>,
}

impl GitClient {
    /// The newest commit of a branch; `None` when there is no such branch yet.
    pub async fn head(&self, branch: &str, deadline: &Deadline) -> Result<Option<Checkout>, Error> {
        let reference = GitRef {
            branch: branch.to_owned(),
            ..GitRef::default()
        };
        let (resolution, session) = match self.ask(&reference, deadline).await {
            Err(Error::EmptyRepository | Error::RefMissing(_)) => return Ok(None),
            asked => asked.map_err(|error| self.cloning(error))?,
        };
        let session = match session {
            Some(session) => session,
            None => self.session(deadline).await?,
        };
        let mut left = self.left();
        let fetched = self.fetch_with(session, resolution, false, deadline, &mut left);
        let checkout = fetched.await.map_err(|error| self.cloning(error))?;
        Ok(Some(checkout))
    }

    /// Asks whether the server lets us push, and changes nothing.
    pub async fn may_push(&self, deadline: &Deadline) -> Result<(), Error> {
        let http = self.http.as_ref();
        let opened = Session::open(Service::Push, http, &self.env, &self.remote, deadline).await;
        opened.map(drop).map_err(|error| self.pushing(error))
    }

    /// Makes a commit on a branch and sends it. When somebody else was faster, the files are put on
    /// top of what they sent, and it is tried again.
    pub async fn publish(&self, change: &Change, deadline: &Deadline) -> Result<Published, Error> {
        let mut conflicts = 0;
        loop {
            let head = self.head(&change.branch, deadline).await?;
            let before = head.as_ref().map(|head| head.commit.id);
            let prepared = match self.prepare(change, head).await? {
                Some(prepared) => prepared,
                None => {
                    return Ok(Published {
                        commit: before.ok_or(Error::EmptyRepository)?,
                        changed: false,
                        conflicts,
                    });
                }
            };
            let update = RefUpdate {
                name: format!("refs/heads/{}", change.branch),
                old: before,
                new: prepared.commit,
            };
            let sent = send(self, &update, &prepared.pack, deadline).await;
            if self.is_taken(&update, sent, change, deadline).await? {
                return Ok(Published {
                    commit: prepared.commit,
                    changed: true,
                    conflicts,
                });
            }
            conflicts += 1;
            if conflicts > MOST_CONFLICTS {
                return Err(self.pushing(format!(
                    "non-fast-forward update: the branch '{}' moved {conflicts} times meanwhile",
                    change.branch
                )));
            }
            let pause = self.env.clock.sleep(PAUSE * conflicts);
            deadline.wait(pause).await.ok_or(Error::Deadline(""))?;
        }
    }

    /// Whether the server has the commit; an error when trying again would not help.
    async fn is_taken(
        &self,
        update: &RefUpdate,
        sent: Result<Sent, Error>,
        change: &Change,
        deadline: &Deadline,
    ) -> Result<bool, Error> {
        let failure = match sent {
            Ok(Sent::Done) => return Ok(true),
            Ok(Sent::Moved) => return Ok(false),
            Ok(Sent::Refused(why)) => self.pushing(format!("the server refuses it: {why}")),
            // The answer may be lost and the commit taken.
            Err(error) => self.pushing(error),
        };
        let reference = GitRef {
            branch: change.branch.clone(),
            ..GitRef::default()
        };
        let now = match self.ask(&reference, deadline).await {
            Ok((resolution, _)) => Some(resolution.commit),
            Err(Error::EmptyRepository | Error::RefMissing(_)) => None,
            Err(_) => return Err(failure),
        };
        match now {
            now if now == Some(update.new) => Ok(true),
            now if now == update.old => Err(failure),
            _ => Ok(false),
        }
    }

    fn pushing(&self, why: impl std::fmt::Display) -> Error {
        Error::Git(format!("unable to push to '{}': {why}", self.remote.url))
    }

    /// The commit on top of another; `None` when it would change nothing.
    async fn prepare(
        &self,
        change: &Change,
        head: Option<Checkout>,
    ) -> Result<Option<Prepared>, Error> {
        let change = change.clone();
        let work = move |budget: &Budget| prepare(&change, head, budget);
        run_budgeted(&*self.env.blocking, work)
            .await
            .ok_or(Error::Lost)?
    }
}

fn prepare(
    change: &Change,
    mut head: Option<Checkout>,
    budget: &Budget,
) -> Result<Option<Prepared>, Error> {
    let before = head.as_ref().map(|head| (head.commit.id, head.commit.tree));
    let mut writer = TreeWriter::new(head.as_mut().map(|head| &mut head.pack), budget);
    let tree = writer.edit(before.map(|(_, tree)| tree), &change.files)?;
    if before.map(|(_, tree)| tree) == Some(tree) {
        return Ok(None);
    }
    let parent = before.map(|(id, _)| id);
    let mut content = encode_commit(tree, parent, &change.author, &change.message);
    if let Some(key) = &change.signing {
        content = with_signature(&content, &key.sign(&content, change.author.seconds)?);
    }
    let commit = writer.commit(content)?;
    let pack = pack(&writer.into_objects(), budget)?;
    Ok(Some(Prepared { commit, pack }))
}

/// The largest file that is read whole.
const LARGEST_FILE: u64 = 64 << 20;

/// What is at a path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A directory.
    Directory,
    /// A plain file.
    File(Vec<u8>),
}

impl Checkout {
    /// What is at a path of the commit; `None` for what is neither a file nor a directory.
    pub fn look(&mut self, path: &str, budget: &Budget) -> Result<Option<Found>, Error> {
        let mut tree = self.commit.tree;
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let content = self.pack.read(tree, Kind::Tree, budget)?;
            let entries = parse_tree(tree, &content)?;
            let found = entries.iter().find(|entry| entry.name == part.as_bytes());
            match found.map(|entry| (entry.mode, entry.id)) {
                Some((Mode::Directory, id)) => tree = id,
                Some((Mode::File | Mode::Executable, id)) if parts.peek().is_none() => {
                    return self.whole(id, path, budget).map(Some);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Found::Directory))
    }

    /// A plain file of the commit by its path.
    pub fn read_file(&mut self, path: &str, budget: &Budget) -> Result<Option<Vec<u8>>, Error> {
        Ok(match self.look(path, budget)? {
            Some(Found::File(bytes)) => Some(bytes),
            _ => None,
        })
    }

    fn whole(&mut self, id: ObjectId, path: &str, budget: &Budget) -> Result<Found, Error> {
        let (size, mut reader) = self.pack.blob(id, budget)?;
        if size > LARGEST_FILE {
            return Err(Error::TooLarge {
                what: format!("the file '{path}'"),
                limit: LARGEST_FILE,
            });
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut bytes)
            .map_err(|error| Error::Protocol(format!("the file '{path}': {error}")))?;
        Ok(Found::File(bytes))
    }
}
