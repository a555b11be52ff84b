//! Puts what was fetched into the store.

use everflow_api::common::Artifact;
use everflow_api::names::condition as types;
use everflow_api::{Kind, Reason};
use everflow_fetch::Error;
use everflow_fetch::archive::Digest;
use everflow_fetch::storage::{Owner, Storage};
use everflow_runtime::attempt::Context;

use super::controller::Source;
use super::draft::Draft;
use super::outcome::Failure;

/// A finished file, and what it is to become.
pub(super) struct Finished<'f> {
    /// Where it is.
    pub(super) path: &'f str,
    /// Its name in the store.
    pub(super) name: &'f str,
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// The revision of its content.
    pub(super) revision: &'f str,
    /// What could not be done when it fails, as Flux says it.
    pub(super) action: &'static str,
}

/// The name of the file for a revision. Where the status names a file of that name with other content, as it does when
/// only what is left out of a revision has changed, the new one has its digest in its name: what is named stays as it
/// is until the status says otherwise.
pub(super) fn file_name(revision: &str, digest: &Digest, named: Option<&Artifact>) -> String {
    let plain = format!("{revision}.tar.gz");
    let taken = named.is_some_and(|named| {
        named.path.ends_with(&format!("/{plain}")) && named.digest != digest.to_string()
    });
    match taken {
        true => format!("{revision}-{:.12}.tar.gz", digest.hex()),
        false => plain,
    }
}

/// The name of an artifact's file, or its address, without the digest that it may have in it: as Flux would name it.
pub fn named_by_revision(name: &str, digest: &str) -> String {
    let hex = digest.split_once(':').map_or("", |(_, hex)| hex);
    match name.strip_suffix(&format!("-{hex:.12}.tar.gz")) {
        Some(start) => format!("{start}.tar.gz"),
        None => name.to_owned(),
    }
}

/// Publishes a file and links the newest name to it. The link may fail without harm.
pub(super) async fn publish<S: Source>(
    storage: &Storage,
    draft: &mut Draft<S::Kind>,
    context: &Context,
    finished: Finished<'_>,
) -> Result<(Artifact, Result<String, Error>), Failure>
where
    S::Kind: Kind,
{
    let published = async {
        let owner = Owner::new(S::NAME, draft.namespace(), draft.name())?;
        let Finished {
            path, name, size, ..
        } = finished;
        let content = (finished.digest.clone(), size);
        storage
            .publish_linked(path, &owner, name, content, S::LINK)
            .await
    };
    let (stored, link) = published.await.map_err(|error| {
        let message = format!("unable to {} to storage: {error}", finished.action);
        let failure = Failure::passing(Reason::ArchiveOperationFailed.as_str(), message);
        draft.fail(types::STORAGE_OPERATION_FAILED, failure)
    })?;
    let artifact = Artifact {
        digest: stored.digest.to_string(),
        path: stored.path,
        url: stored.url,
        revision: finished.revision.to_owned(),
        last_update_time: context.env.clock.now().truncated(),
        size: i64::try_from(stored.size).ok(),
        ..Artifact::default()
    };
    Ok((artifact, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_file_named_in_the_status_is_not_overwritten() {
        let digest = |letter: &str| Digest::parse(&letter.repeat(64)).unwrap();
        let named = |path: &str, letter: &str| Artifact {
            path: format!("gitrepository/a/b/{path}"),
            digest: digest(letter).to_string(),
            ..Artifact::default()
        };
        let name = |named: Option<&Artifact>| file_name("1", &digest("a"), named);
        assert_eq!(name(None), "1.tar.gz");
        assert_eq!(name(Some(&named("1.tar.gz", "a"))), "1.tar.gz");
        assert_eq!(name(Some(&named("2.tar.gz", "b"))), "1.tar.gz");
        let other = name(Some(&named("1.tar.gz", "b")));
        assert_eq!(other, "1-aaaaaaaaaaaa.tar.gz");
        assert_eq!(name(Some(&named(&other, "b"))), "1.tar.gz");
    }
}
