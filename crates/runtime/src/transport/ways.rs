//! Which way to the API servers is taken: the configured address, further ones from flags, and the
//! servers' own addresses as the cluster tells them.
//!
//! Pure: what happened and the time come in, the way to take and what is due to be tried come out.

use std::time::Duration;

use super::endpoint::Endpoint;

/// The first pause before a bad way is tried again; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A server that could not prove that it belongs to the cluster is asked again after this.
const STRANGER_PAUSE: Duration = Duration::from_secs(600);
/// A way that was well for so long has its failures forgotten.
const FORGIVEN_AFTER: Duration = Duration::from_secs(120);
/// At most so many ways.
pub const MOST_WAYS: usize = 32;

/// Where a way is known from. Lower ones are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The kubeconfig, or the Service inside a cluster.
    Configured,
    /// A flag.
    Flag,
    /// The cluster's own list of its API servers.
    Learned,
}

/// What is wrong with a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody answers.
    Unreachable,
    /// Somebody answers who cannot prove to be a server of this cluster.
    Stranger,
}

/// Names a way for as long as the list lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WayId(u64);

/// What is known of the health of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has used it yet.
    Untried,
    Well {
        since: Duration,
    },
    Bad {
        retry_at: Duration,
    },
}

#[derive(Debug, Clone)]
struct Way {
    id: WayId,
    endpoint: Endpoint,
    origin: Origin,
    state: State,
    failures: u32,
    /// Whether somebody is trying it right now.
    probing: bool,
}

impl Way {
    fn is_bad(&self) -> bool {
        matches!(self.state, State::Bad { .. })
    }

    /// Better ones are smaller: well before untried before bad, each in order of origin; of bad ones
    /// the one whose turn comes first.
    fn rank(&self) -> (u8, Duration, Origin, WayId) {
        let (class, turn) = match self.state {
            State::Well { .. } => (0, Duration::ZERO),
            State::Untried => (1, Duration::ZERO),
            State::Bad { retry_at } => (2, retry_at),
        };
        (class, turn, self.origin, self.id)
    }
}

/// The ways there are, and the one that is taken.
#[derive(Debug)]
pub struct Ways {
    list: Vec<Way>,
    current: WayId,
    next_id: u64,
}

impl Ways {
    /// One way, from the configuration.
    pub fn new(configured: Endpoint) -> Self {
        let id = WayId(0);
        Ways {
            list: vec![Way {
                id,
                endpoint: configured,
                origin: Origin::Configured,
                state: State::Untried,
                failures: 0,
                probing: false,
            }],
            current: id,
            next_id: 1,
        }
    }

    /// Sets which ways of an origin there are. Those that stay keep what is known of them.
    pub fn set(&mut self, origin: Origin, endpoints: &[Endpoint]) {
        self.list
            .retain(|way| way.origin != origin || endpoints.contains(&way.endpoint));
        for endpoint in endpoints {
            let known = self.list.iter().any(|way| way.endpoint == *endpoint);
            if known || self.list.len() >= MOST_WAYS {
                continue;
            }
            self.list.push(Way {
                id: WayId(self.next_id),
                endpoint: endpoint.clone(),
                origin,
                state: State::Untried,
                failures: 0,
                probing: false,
            });
            self.next_id += 1;
        }
        if self.way(self.current).is_none() {
            self.take_best();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The way that is taken.
    pub fn current(&self) -> WayId {
        self.current
    }

    /// Where a way leads.
    pub fn endpoint(&self, id: WayId) -> Option<&Endpoint> {
        self.way(id).map(|way| &way.endpoint)
    }

    /// Every way: where it leads, where it is known from, and whether it works as far as is known.
    pub fn all(&self) -> impl Iterator<Item = (WayId, &Endpoint, Origin, bool)> {
        self.list
            .iter()
            .map(|way| (way.id, &way.endpoint, way.origin, !way.is_bad()))
    }

    /// Whether another way may work when this one does not.
    pub fn has_alternative(&self, id: WayId) -> bool {
        self.list.iter().any(|way| way.id != id && !way.is_bad())
    }

    /// A way did not work. Returns the one that is taken instead, if it is another.
    pub fn failed(&mut self, id: WayId, fault: Fault, now: Duration) -> Option<WayId> {
        let way = self.list.iter_mut().find(|way| way.id == id)?;
        if let State::Well { since } = way.state
            && now.saturating_sub(since) >= FORGIVEN_AFTER
        {
            way.failures = 0;
        }
        let pause = match fault {
            Fault::Stranger => STRANGER_PAUSE,
            Fault::Unreachable => FIRST_PAUSE
                .saturating_mul(1 << way.failures.min(8))
                .min(LONGEST_PAUSE),
        };
        way.failures = way.failures.saturating_add(1);
        way.state = State::Bad {
            retry_at: now + pause,
        };
        way.probing = false;
        if id != self.current {
            return None;
        }
        let before = self.current;
        self.take_best();
        (self.current != before).then_some(self.current)
    }

    /// A way works. Returns it when it is taken from now on and was not before: it is preferred to
    /// the one that was, or that one is bad.
    pub fn works(&mut self, id: WayId, now: Duration) -> Option<WayId> {
        let way = self.list.iter_mut().find(|way| way.id == id)?;
        if !matches!(way.state, State::Well { .. }) {
            way.state = State::Well { since: now };
        }
        way.probing = false;
        let before = self.current;
        let (rank, origin) = (way.rank(), way.origin);
        let current = self.way(before);
        // Ways of one origin are equal: nothing is gained by going from one to another.
        let better = current.is_none_or(|current| {
            current.is_bad() || (origin < current.origin && rank < current.rank())
        });
        if better && before != id {
            self.current = id;
            return Some(id);
        }
        None
    }

    /// The ways that are to be tried now: bad ones whose pause is over, and those that nobody has
    /// used. Each is handed out once, until its trial has ended.
    pub fn due(&mut self, now: Duration) -> Vec<WayId> {
        let mut due = Vec::new();
        for way in &mut self.list {
            let is_due = match way.state {
                State::Untried => true,
                State::Well { .. } => false,
                State::Bad { retry_at } => retry_at <= now,
            };
            if is_due && !way.probing {
                way.probing = true;
                due.push(way.id);
            }
        }
        due
    }

    /// Marks a way as being tried out of turn. False when somebody does so already.
    pub fn begin_trial(&mut self, id: WayId) -> bool {
        let way = self.list.iter_mut().find(|way| way.id == id);
        way.is_some_and(|way| !std::mem::replace(&mut way.probing, true))
    }

    /// A trial ended, whatever came of it.
    pub fn end_trial(&mut self, id: WayId) {
        if let Some(way) = self.list.iter_mut().find(|way| way.id == id) {
            way.probing = false;
        }
    }

    /// When a way is due next.
    pub fn next_due(&self) -> Option<Duration> {
        let waiting = self.list.iter().filter(|way| !way.probing);
        let turns = waiting.filter_map(|way| match way.state {
            State::Untried => Some(Duration::ZERO),
            State::Well { .. } => None,
            State::Bad { retry_at } => Some(retry_at),
        });
        turns.min()
    }

    fn way(&self, id: WayId) -> Option<&Way> {
        self.list.iter().find(|way| way.id == id)
    }

    fn take_best(&mut self) {
        if let Some(best) = self.list.iter().min_by_key(|way| way.rank()) {
            self.current = best.id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Endpoint {
        Endpoint {
            tls: true,
            host: "10.0.0.1".into(),
            port,
            prefix: String::new(),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn port(ways: &Ways) -> u16 {
        ways.endpoint(ways.current()).unwrap().port
    }

    /// Service 1, flag 2, learned 3 and 4.
    fn four() -> (Ways, Vec<WayId>) {
        let mut ways = Ways::new(at(1));
        ways.set(Origin::Learned, &[at(3), at(4), at(1)]);
        ways.set(Origin::Flag, &[at(2)]);
        let mut ids: Vec<(u16, WayId)> = ways
            .all()
            .map(|(id, endpoint, ..)| (endpoint.port, id))
            .collect();
        ids.sort();
        (ways, ids.into_iter().map(|(_, id)| id).collect())
    }

    #[test]
    fn failed_endpoint_is_left_for_the_best_working_one() {
        let (mut ways, ids) = four();
        assert_eq!((ways.len(), port(&ways)), (4, 1));
        ways.works(ids[0], seconds(0));
        // A learned way that answered is taken before a flag that nobody has tried.
        ways.works(ids[3], seconds(0));
        assert_eq!(
            ways.failed(ids[0], Fault::Unreachable, seconds(1)),
            Some(ids[3])
        );
        assert_eq!(
            ways.failed(ids[3], Fault::Unreachable, seconds(1)),
            Some(ids[1])
        );
        assert!(ways.has_alternative(ids[1]));
        ways.failed(ids[2], Fault::Unreachable, seconds(1));
        assert!(!ways.has_alternative(ids[1]));
        // All are bad: the one whose turn comes first.
        assert_eq!(
            ways.failed(ids[1], Fault::Unreachable, seconds(2)),
            Some(ids[0])
        );
    }

    #[test]
    fn preferred_endpoint_is_used_again_after_it_recovers() {
        let (mut ways, ids) = four();
        ways.works(ids[2], seconds(0));
        ways.failed(ids[0], Fault::Unreachable, seconds(1));
        assert_eq!(port(&ways), 3);
        ways.due(seconds(1));
        assert_eq!(ways.works(ids[3], seconds(1)), None, "equal to the current");
        ways.failed(ids[1], Fault::Unreachable, seconds(1));
        assert_eq!(ways.next_due(), Some(seconds(3)));
        assert_eq!(ways.due(seconds(2)), []);
        assert_eq!(ways.due(seconds(3)), [ids[0], ids[1]]);
        assert_eq!(ways.due(seconds(3)), [], "one trial at a time");
        assert_eq!(ways.works(ids[0], seconds(4)), Some(ids[0]));
        assert_eq!(port(&ways), 1);
    }

    #[test]
    fn backoff_grows_with_failures_and_resets_after_a_stable_period() {
        let (mut ways, ids) = four();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            ways.failed(ids[0], Fault::Unreachable, seconds(0));
            let State::Bad { retry_at } = ways.way(ids[0]).unwrap().state else {
                panic!("it failed");
            };
            pauses.push(retry_at.as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        // Well for a moment: a way that comes and goes is not returned to ever faster.
        ways.works(ids[0], seconds(100));
        ways.failed(ids[0], Fault::Unreachable, seconds(110));
        assert!(ways.due(seconds(150)).iter().all(|id| *id != ids[0]));
        ways.works(ids[0], seconds(200));
        ways.failed(ids[0], Fault::Unreachable, seconds(400));
        assert!(ways.due(seconds(402)).contains(&ids[0]));
        ways.failed(ids[2], Fault::Stranger, seconds(400));
        assert!(!ways.due(seconds(999)).contains(&ids[2]));
        assert!(ways.due(seconds(1_000)).contains(&ids[2]));
    }

    #[test]
    fn learned_endpoints_are_added_and_removed() {
        let (mut ways, ids) = four();
        ways.failed(ids[0], Fault::Unreachable, seconds(0));
        ways.failed(ids[1], Fault::Unreachable, seconds(0));
        assert_eq!(port(&ways), 3);
        ways.set(Origin::Learned, &[at(4)]);
        assert_eq!((ways.len(), port(&ways)), (3, 4));
        let many: Vec<Endpoint> = (100..200).map(at).collect();
        ways.set(Origin::Learned, &many);
        assert_eq!(ways.len(), MOST_WAYS);
        ways.set(Origin::Learned, &[]);
        assert_eq!(port(&ways), 1);
    }
}
