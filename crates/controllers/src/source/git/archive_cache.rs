//! Archives that were made a moment ago: repositories that ask for the same commit in the same form, as the
//! same requester, share the work. Strangers do not, even when their remote names the same commit: whoever
//! asks by a proxy or a CA of their own decides what their remote says.

use std::time::Duration;

use everflow_api::Object;
use everflow_api::source::GitRepository;
use everflow_fetch::Recent;
use everflow_fetch::archive::Digest;

use crate::Fingerprint;

/// So many archives are remembered.
const MOST: usize = 64;
/// For so long after they were made.
const LASTS: Duration = Duration::from_secs(300);

/// Everything that shapes an archive beside the commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    /// Who asks.
    requester: Fingerprint,
    url: String,
    ignore: Option<Box<str>>,
    sparse: Vec<String>,
}

impl Form {
    /// The form that a repository asks for; none where more than the commit goes into it, or where
    /// someone is to look at the commit.
    pub(super) fn of(object: &Object<GitRepository>, requester: Fingerprint) -> Option<Self> {
        let spec = &object.spec;
        let plain = spec.include.is_empty() && spec.verify.is_none() && !spec.recurse_submodules;
        plain.then(|| Form {
            requester,
            url: spec.url.clone(),
            ignore: spec.ignore.clone(),
            sparse: spec.sparse_checkout.clone(),
        })
    }
}

/// An archive in the store.
#[derive(Debug, Clone)]
pub(super) struct Archive {
    pub(super) path: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) revision: String,
    /// The beginning of what the commit says.
    pub(super) message: String,
    /// The name of the commit.
    pub(super) hash: String,
}

/// The archives, by form, reference and revision.
#[derive(Debug)]
pub(super) struct ArchiveCache(Recent<(Form, String, String), Archive>);

impl Default for ArchiveCache {
    fn default() -> Self {
        ArchiveCache(Recent::new(LASTS, MOST))
    }
}

impl ArchiveCache {
    /// The archive of a revision of a reference. `now` is a clock that does not jump.
    pub(super) fn find(
        &self,
        form: &Form,
        reference: &str,
        revision: &str,
        now: Duration,
    ) -> Option<Archive> {
        let key = (form.clone(), reference.to_owned(), revision.to_owned());
        self.0.find(&key, now)
    }

    /// Remembers an archive.
    pub(super) fn note(&self, form: Form, reference: &str, archive: Archive, now: Duration) {
        let key = (form, reference.to_owned(), archive.revision.clone());
        self.0.note(key, archive, 1, now);
    }

    /// Forgets an archive that is not there any more.
    pub(super) fn forget(&self, path: &str) {
        self.0.forget(|archive| archive.path == path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::{Value, json};

    fn form(more: Value) -> Option<Form> {
        form_of("b", more)
    }

    fn form_of(requester: &str, more: Value) -> Option<Form> {
        let mut value = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"url": "https://x", "interval": "1m"},
        });
        for (key, content) in more.as_object().unwrap() {
            value["spec"][key] = content.clone();
        }
        let requester = crate::fingerprint::Parts::of(requester).done();
        Form::of(&Object::read(&value).unwrap(), requester)
    }

    #[test]
    fn only_the_same_form_of_the_same_commit_is_shared_and_only_for_a_while() {
        let archive = Archive {
            path: "gitrepository/b/a/1.tar.gz".into(),
            digest: everflow_fetch::archive::digest_of(Default::default(), b"x"),
            size: 1,
            revision: "main@sha1:1".into(),
            message: "first".into(),
            hash: "1".into(),
        };
        let archives = ArchiveCache::default();
        let (plain, now) = (form(json!({})).unwrap(), Duration::from_secs(9));
        archives.note(plain.clone(), "refs/heads/main", archive, now);
        let found = |form: &Form, revision: &str, now| {
            archives
                .find(form, "refs/heads/main", revision, now)
                .is_some()
        };
        assert!(found(&plain, "main@sha1:1", now));
        assert!(!found(&plain, "main@sha1:2", now));
        assert!(!found(&plain, "main@sha1:1", now + LASTS));
        let other = form(json!({"ignore": "x"})).unwrap();
        assert!(!found(&other, "main@sha1:1", now));
        let stranger = form_of("c", json!({})).unwrap();
        assert!(!found(&stranger, "main@sha1:1", now));
        archives.forget("gitrepository/b/a/1.tar.gz");
        assert!(!found(&plain, "main@sha1:1", now));
        let signed = json!({"verify": {"mode": "head", "secretRef": {"name": "k"}}});
        assert!(form(signed).is_none());
        assert!(form(json!({"recurseSubmodules": true})).is_none());
    }
}
