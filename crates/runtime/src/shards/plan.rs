//! What is done about each shard: pure, with the time handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::assign::assign;

/// A shard as it is seen.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenShard {
    /// Who holds it.
    pub(super) holder: Option<String>,
    /// Whether we hold it, by an epoch that lasts.
    pub(super) ours: bool,
    /// Since when nobody holds it.
    pub(super) free_since: Option<Duration>,
    /// Since when it is being given away, and whether work still goes on in it.
    pub(super) giving: Option<(Duration, bool)>,
    /// Until when it is not given away again, since work in it did not end.
    pub(super) kept_until: Duration,
}

/// What is done about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// Nothing.
    Leave,
    /// It is taken.
    Take,
    /// Nothing more is begun in it.
    BeginGiving,
    /// It is not given away after all.
    Keep,
    /// Work in it does not end: it is kept for now.
    GiveUpGiving,
    /// Its Lease is released.
    Release,
}

/// Who we are among the others.
#[derive(Debug)]
pub(super) struct View<'v> {
    pub(super) me: &'v str,
    /// Those who take shares, with us if we do.
    pub(super) members: &'v BTreeSet<String>,
    /// Shards that guests ask for, whatever the shares are.
    pub(super) claims: &'v BTreeMap<usize, String>,
    pub(super) now: Duration,
    /// After so long without a holder, anybody takes a shard.
    pub(super) patience: Duration,
    /// After so long work in a shard that is to be given away goes on with it.
    pub(super) drain: Duration,
}

/// What is to be done about each shard.
pub(super) fn plan(view: &View<'_>, shards: &[SeenShard]) -> Vec<Move> {
    let holders: Vec<Option<String>> = shards.iter().map(|shard| shard.holder.clone()).collect();
    let mut shares = assign(view.members, &holders);
    for (number, share) in shares.iter_mut().enumerate() {
        if let Some(guest) = view.claims.get(&number) {
            *share = Some(guest.clone());
        }
    }
    let take_part = view.members.contains(view.me);
    let of = |(number, shard): (usize, &SeenShard)| {
        let share = shares.get(number).and_then(Option::as_deref);
        let mine = share == Some(view.me);
        match shard.ours {
            // Without anybody to give it to, it is kept.
            true => held(view, shard, mine || share.is_none()),
            false => free(view, shard, mine, take_part),
        }
    };
    shards.iter().enumerate().map(of).collect()
}

fn held(view: &View<'_>, shard: &SeenShard, mine: bool) -> Move {
    match (shard.giving, mine) {
        (None, true) => Move::Leave,
        (Some(_), true) => Move::Keep,
        (None, false) if view.now < shard.kept_until => Move::Leave,
        (None, false) => Move::BeginGiving,
        (Some((_, false)), false) => Move::Release,
        (Some((since, true)), false) if view.now >= since + view.drain => Move::GiveUpGiving,
        (Some(_), false) => Move::Leave,
    }
}

fn free(view: &View<'_>, shard: &SeenShard, mine: bool, take_part: bool) -> Move {
    let is_free = shard.holder.is_none() || shard.holder.as_deref() == Some(view.me);
    let waited = shard
        .free_since
        .is_some_and(|since| view.now >= since + view.patience);
    match is_free && (mine || waited && take_part) {
        true => Move::Take,
        false => Move::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn held_by(holder: &str) -> SeenShard {
        SeenShard {
            holder: Some(holder.to_owned()),
            ours: holder == "me",
            ..SeenShard::default()
        }
    }

    fn decide(members: &[&str], now: u64, shards: &[SeenShard]) -> Vec<Move> {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        let view = View {
            me: "me",
            members: &members,
            claims: &BTreeMap::new(),
            now: seconds(now),
            patience: seconds(10),
            drain: seconds(60),
        };
        plan(&view, shards)
    }

    #[test]
    fn single_member_takes_all_shards() {
        let shards = vec![SeenShard::default(); 3];
        assert_eq!(decide(&["me"], 0, &shards), vec![Move::Take; 3]);
    }

    #[test]
    fn half_goes_to_a_joining_member_once_running_work_has_ended() {
        let mut shards = vec![held_by("me"); 4];
        let moves = decide(&["me", "new"], 0, &shards);
        let given = |of: &[Move], what| of.iter().filter(|found| **found == what).count();
        assert_eq!(given(&moves, Move::BeginGiving), 2);
        let first = moves.iter().position(|one| *one == Move::BeginGiving);
        let first = first.unwrap();
        shards[first].giving = Some((seconds(0), true));
        assert_eq!(decide(&["me", "new"], 5, &shards)[first], Move::Leave);
        assert_eq!(decide(&["me"], 5, &shards)[first], Move::Keep);
        assert_eq!(
            decide(&["me", "new"], 60, &shards)[first],
            Move::GiveUpGiving
        );
        shards[first].giving = Some((seconds(0), false));
        assert_eq!(decide(&["me", "new"], 5, &shards)[first], Move::Release);
        shards[first].giving = None;
        shards[first].kept_until = seconds(120);
        assert_eq!(decide(&["me", "new"], 60, &shards)[first], Move::Leave);
    }

    #[test]
    fn shard_not_taken_by_its_member_is_taken_after_a_delay() {
        let mut free = SeenShard {
            free_since: Some(seconds(0)),
            ..SeenShard::default()
        };
        let shards = |free: &SeenShard| vec![held_by("me"), free.clone()];
        assert_eq!(decide(&["me", "new"], 9, &shards(&free))[1], Move::Leave);
        assert_eq!(decide(&["me", "new"], 10, &shards(&free))[1], Move::Take);
        free.holder = Some("new".into());
        assert_eq!(decide(&["me", "new"], 99, &shards(&free))[1], Move::Leave);
    }

    #[test]
    fn excluded_member_hands_over_all_shards_and_takes_none() {
        let shards = vec![held_by("me"), SeenShard::default()];
        assert_eq!(
            decide(&["other"], 0, &shards),
            vec![Move::BeginGiving, Move::Leave]
        );
        // Nobody is there to take it.
        assert_eq!(decide(&[], 0, &shards), vec![Move::Leave, Move::Leave]);
    }

    #[test]
    fn a_guest_is_given_what_it_asks_for() {
        let members = ["engine".to_owned()].into();
        let claims = BTreeMap::from([(1, "me".to_owned())]);
        let view = |me| View {
            me,
            members: &members,
            claims: &claims,
            now: seconds(0),
            patience: seconds(10),
            drain: seconds(60),
        };
        let free = SeenShard::default();
        assert_eq!(
            plan(&view("me"), &[free.clone(), free.clone()]),
            vec![Move::Leave, Move::Take]
        );
        assert_eq!(
            plan(&view("me"), &[free, held_by("engine")]),
            vec![Move::Leave, Move::Leave]
        );
        let own = SeenShard {
            ours: true,
            ..held_by("engine")
        };
        assert_eq!(
            plan(&view("engine"), &[own.clone(), own]),
            vec![Move::Leave, Move::BeginGiving]
        );
    }
}
