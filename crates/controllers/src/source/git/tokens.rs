//! Tokens of GitHub Apps, kept until most of their time is over: asking for one at every attempt
//! would soon meet GitHub's limits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everflow_fetch::git::{GithubApp, GithubToken};
use everflow_time::Timestamp;
use sha2::{Digest as _, Sha256};

/// Which token: a digest of all that shapes it.
pub(super) type TokenId = [u8; 32];

/// Tokens that are still good.
pub(super) struct Tokens {
    /// At most so many; none at all when 0.
    most: usize,
    /// The longest time that one is kept.
    longest: Duration,
    kept: Mutex<BTreeMap<TokenId, Kept>>,
}

#[derive(Clone)]
struct Kept {
    token: GithubToken,
    /// By the clock that does not jump.
    until: Duration,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    pub(super) fn new(most: usize, longest: Duration) -> Self {
        Tokens {
            most,
            longest,
            kept: Mutex::default(),
        }
    }

    /// A token that is good at `elapsed`.
    pub(super) fn get(&self, id: &TokenId, elapsed: Duration) -> Option<GithubToken> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.until > elapsed);
        kept.get(id).map(|kept| kept.token.clone())
    }

    /// Keeps a token for four fifths of its time.
    pub(super) fn keep(&self, id: TokenId, token: &GithubToken, now: Timestamp, elapsed: Duration) {
        let Some(end) = Timestamp::parse(&token.expires_at) else {
            return;
        };
        let left = u64::try_from(end.seconds - now.seconds).unwrap_or(0);
        let good = (Duration::from_secs(left) * 4 / 5).min(self.longest);
        if self.most == 0 || good.is_zero() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() >= self.most && !kept.contains_key(&id) {
            let first = kept.iter().min_by_key(|(_, kept)| kept.until);
            let Some(first) = first.map(|(id, _)| *id) else {
                break;
            };
            kept.remove(&first);
        }
        let token = token.clone();
        let until = elapsed + good;
        kept.insert(id, Kept { token, until });
    }

    /// Forgets a token that was refused.
    pub(super) fn forget(&self, id: &TokenId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(id);
    }
}

/// Which token an app of a namespace gets. Namespaces share none.
pub(super) fn token_id(namespace: &str, app: &GithubApp) -> TokenId {
    let mut hasher = Sha256::new();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let parts = [
        namespace.as_bytes(),
        app.app_id.as_bytes(),
        app.private_key.reveal(),
        text(&app.installation_id).as_bytes(),
        text(&app.installation_owner).as_bytes(),
        text(&app.base_url).as_bytes(),
    ]
    .map(<[u8]>::to_vec);
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, expires: &str) -> GithubToken {
        GithubToken {
            token: text.into(),
            expires_at: expires.to_owned(),
        }
    }

    #[test]
    fn tokens_are_kept_for_most_of_their_time() {
        let tokens = Tokens::new(2, Duration::from_secs(3_600));
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let start = Duration::from_secs(100);
        tokens.keep([1; 32], &token("a", "2026-01-01T00:10:00Z"), now, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(tokens.get(&[1; 32], at(479)).is_some());
        assert!(tokens.get(&[1; 32], at(480)).is_none());
        // One that is over, or does not say when, is not kept.
        tokens.keep([1; 32], &token("a", "2025-12-31T23:00:00Z"), now, start);
        tokens.keep([1; 32], &token("a", ""), now, start);
        assert!(tokens.get(&[1; 32], start).is_none());
        // The one that ends first makes room.
        for (id, expires) in [(1, "01:00:00"), (2, "00:30:00"), (3, "00:45:00")] {
            let expires = format!("2026-01-01T{expires}Z");
            tokens.keep([id; 32], &token("a", &expires), now, start);
        }
        let here = [1, 2, 3].map(|id| tokens.get(&[id; 32], start).is_some());
        assert_eq!(here, [true, false, true]);
        tokens.forget(&[1; 32]);
        assert!(tokens.get(&[1; 32], start).is_none());
        let none = Tokens::new(0, Duration::from_secs(3_600));
        none.keep([1; 32], &token("a", "2026-01-01T01:00:00Z"), now, start);
        assert!(none.get(&[1; 32], start).is_none());
    }
}
