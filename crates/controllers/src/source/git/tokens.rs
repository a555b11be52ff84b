//! Tokens of GitHub Apps, by who asks for them (namespace, all of the Secret with the app's key, the proxy), kept until most of their time is over: asking for one at every attempt
//! would soon meet GitHub's limits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everflow_git::GithubToken;
use everflow_time::Timestamp;

use crate::Fingerprint;

/// Tokens that are still good.
pub(super) struct Tokens {
    /// At most so many; none at all when 0.
    most: usize,
    /// The longest time that one is kept.
    longest: Duration,
    kept: Mutex<BTreeMap<Fingerprint, Kept>>,
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
    pub(super) fn get(&self, id: &Fingerprint, elapsed: Duration) -> Option<GithubToken> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.until > elapsed);
        kept.get(id).map(|kept| kept.token.clone())
    }

    /// Keeps a token for four fifths of its time.
    pub(super) fn keep(
        &self,
        id: Fingerprint,
        token: &GithubToken,
        now: Timestamp,
        elapsed: Duration,
    ) {
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
    pub(super) fn forget(&self, id: &Fingerprint) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Parts;

    fn id(number: u8) -> Fingerprint {
        Parts::of("token").and([number]).done()
    }

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
        tokens.keep(id(1), &token("a", "2026-01-01T00:10:00Z"), now, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(tokens.get(&id(1), at(479)).is_some());
        assert!(tokens.get(&id(1), at(480)).is_none());
        // One that is over, or does not say when, is not kept.
        tokens.keep(id(1), &token("a", "2025-12-31T23:00:00Z"), now, start);
        tokens.keep(id(1), &token("a", ""), now, start);
        assert!(tokens.get(&id(1), start).is_none());
        // The one that ends first makes room.
        for (number, expires) in [(1, "01:00:00"), (2, "00:30:00"), (3, "00:45:00")] {
            let expires = format!("2026-01-01T{expires}Z");
            tokens.keep(id(number), &token("a", &expires), now, start);
        }
        let here = [1, 2, 3].map(|number| tokens.get(&id(number), start).is_some());
        assert_eq!(here, [true, false, true]);
        tokens.forget(&id(1));
        assert!(tokens.get(&id(1), start).is_none());
        let none = Tokens::new(0, Duration::from_secs(3_600));
        none.keep(id(1), &token("a", "2026-01-01T01:00:00Z"), now, start);
        assert!(none.get(&id(1), start).is_none());
    }
}
