//! The root of trust is refreshed from a mirror in the test.

#![allow(clippy::unwrap_used)]

use everflow_cosign::testing::{Sigstore, TestMirror};
use everflow_cosign::{Answer, Error, Files, Mirror, Update, embedded_update_root, update};

/// 2026-01-01.
const NOW: i64 = 1_767_225_600;

struct Memory(Files);

impl Mirror for Memory {
    fn get<'a>(&'a self, path: String, limit: u64) -> Answer<'a> {
        Box::pin(async move {
            let file = self.0.get(&path).cloned();
            match file {
                Some(file) if file.len() as u64 > limit => Err(format!("{path} is too large")),
                file => Ok(file),
            }
        })
    }
}

async fn refresh(mirror: &TestMirror, files: Files, known: Files) -> Result<Update, Error> {
    update(Memory(files), mirror.first(), known, NOW).await
}

#[tokio::test]
async fn the_newest_root_is_fetched_and_kept_files_forbid_older_ones() {
    let (mut mirror, root) = (TestMirror::new(), Sigstore::new().trusted_root());
    let old = mirror.files(&root);
    mirror.version = 2;
    let newer = Sigstore::new().trusted_root();
    let first = refresh(&mirror, mirror.files(&newer), Files::new())
        .await
        .unwrap();
    assert_eq!(first.json, newer.as_bytes());
    assert!(first.files.contains_key("timestamp.json"));
    // Nothing new is no error.
    let again = refresh(&mirror, mirror.files(&newer), first.files.clone())
        .await
        .unwrap();
    assert_eq!(again.json, newer.as_bytes());
    // A mirror cannot go back, unless one forgets.
    let error = refresh(&mirror, old.clone(), first.files)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TrustRootRefreshFailed");
    refresh(&mirror, old, Files::new()).await.unwrap();
}

#[tokio::test]
async fn forged_expired_missing_or_changed_metadata_is_refused() {
    let root = Sigstore::new().trusted_root();
    let outcome = async |mirror: &TestMirror, files: Files| {
        let error = refresh(mirror, files, Files::new()).await.unwrap_err();
        error.to_string()
    };
    let mirror = TestMirror::new();
    outcome(&mirror, mirror.forged(&root)).await;
    let mut stale = TestMirror::new();
    stale.expires = "2025-12-31T00:00:00Z".to_owned();
    assert!(
        outcome(&stale, stale.files(&root))
            .await
            .contains("expired")
    );
    let mut old = TestMirror::new();
    old.root_expires = "2025-12-31T00:00:00Z".to_owned();
    assert!(outcome(&old, old.files(&root)).await.contains("expired"));
    outcome(&mirror, Files::new()).await;
    for name in mirror.files(&root).keys() {
        let mut files = mirror.files(&root);
        files.get_mut(name).unwrap()[40] ^= 1;
        outcome(&mirror, files).await;
    }
    // Rightly signed, but no root of trust.
    outcome(&mirror, mirror.files("{}")).await;
}

#[tokio::test]
async fn the_embedded_root_starts_a_chain() {
    let error = update(
        Memory(Files::new()),
        embedded_update_root(),
        Files::new(),
        NOW,
    )
    .await
    .unwrap_err();
    assert!(
        error.to_string().contains("timestamp.json not found"),
        "{error}"
    );
}
