//! Which connections have a place, and which one goes when there is none left.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::activity::{Activity, Stage};

/// So long a new connection is left alone to send its first request.
const TO_SPEAK: Duration = Duration::from_millis(500);
/// The same when there are so many new connections that not all can have that long.
const TO_SPEAK_IN_A_RUSH: Duration = Duration::from_millis(20);

/// The places of one port.
#[derive(Debug)]
pub(crate) struct Admission {
    connections: usize,
    per_address: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// In the order in which they came.
    places: BTreeMap<u64, Arc<Activity>>,
    addresses: BTreeMap<IpAddr, usize>,
}

/// What becomes of a connection that was accepted.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It has a place.
    Admitted(Place),
    /// Its address has all that it may have.
    Refused,
    /// There is no place now.
    Full,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.state().remove(self.id);
        self.admission.freed.notify_one();
    }
}

impl Admission {
    pub(crate) fn new(connections: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Admission {
            connections: connections.max(1),
            per_address: per_address.max(1),
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection a place, if need be that of another one.
    pub(crate) fn admit(self: &Arc<Self>, activity: &Arc<Activity>) -> Verdict {
        let mut state = self.state();
        if let Some(address) = activity.address
            && state.of(address) >= self.per_address
            && !state.drop_idle(Some(address))
        {
            return Verdict::Refused;
        }
        if state.places.len() >= self.connections && !state.drop_idle(None) {
            return Verdict::Full;
        }
        let id = state.next;
        state.next += 1;
        state.places.insert(id, activity.clone());
        if let Some(address) = activity.address {
            *state.addresses.entry(address).or_default() += 1;
        }
        Verdict::Admitted(Place {
            admission: self.clone(),
            id,
        })
    }

    /// Drops some connections that are idle, because something else than places has run out.
    pub(crate) fn drop_some_idle(&self) {
        let mut state = self.state();
        for _ in 0..(state.places.len() / 8).max(1) {
            if !state.drop_idle(None) {
                return;
            }
        }
    }

    /// Waits until a connection has ended.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// How many places are taken.
    #[cfg(test)]
    fn taken(&self) -> usize {
        self.state().places.len()
    }
}

impl State {
    fn of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).copied().unwrap_or(0)
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Activity>> {
        let activity = self.places.remove(&id)?;
        if let Some(address) = activity.address
            && let Some(count) = self.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
        Some(activity)
    }

    /// Drops an idle connection (of one address), if there is one.
    fn drop_idle(&mut self, address: Option<IpAddr>) -> bool {
        let Some(id) = self.dispensable(address) else {
            return false;
        };
        if let Some(activity) = self.remove(id) {
            activity.cut();
        }
        true
    }

    /// The connection that is missed least: the newest one that has had its time and never sent a request; when all
    /// of these are very new, the one that has had the most time; else the newest one between two requests.
    fn dispensable(&self, address: Option<IpAddr>) -> Option<u64> {
        let now = self.places.values().next()?.clock.elapsed();
        let (mut pressed, mut between) = (None, None);
        for (id, activity) in self.places.iter().rev() {
            if address.is_some() && activity.address != address {
                continue;
            }
            let age = now.saturating_sub(activity.since);
            match activity.stage() {
                Stage::New if age >= TO_SPEAK => return Some(*id),
                Stage::New if age >= TO_SPEAK_IN_A_RUSH => pressed = Some(*id),
                Stage::Between => between = between.or(Some(*id)),
                Stage::New | Stage::Active => {}
            }
        }
        pressed.or(between)
    }
}

/// Whom a connection is counted for; nobody when it comes from this machine.
pub(crate) fn counted_address(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        address if address.is_loopback() => None,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
        address => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use everflow_env::{Clock, SimulatedClock};

    struct Port {
        clock: Arc<SimulatedClock>,
        admission: Arc<Admission>,
    }

    impl Port {
        fn new(connections: usize, per_address: usize) -> Self {
            Port {
                clock: Arc::new(SimulatedClock::new()),
                admission: Admission::new(connections, per_address),
            }
        }

        fn connect(&self, address: &str) -> (Arc<Activity>, Verdict) {
            let address = counted_address(address.parse().unwrap());
            let limits = Arc::new(Limits::default());
            let activity = Activity::new(self.clock.clone(), limits, address);
            let verdict = self.admission.admit(&activity);
            (activity, verdict)
        }

        fn place(&self, address: &str) -> (Arc<Activity>, Place) {
            match self.connect(address) {
                (activity, Verdict::Admitted(place)) => (activity, place),
                (_, verdict) => panic!("{verdict:?}"),
            }
        }

        async fn pass(&self, millis: u64) {
            self.clock.sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Whether the connection was dropped for another.
    async fn is_dropped(activity: &Activity) -> bool {
        let now = std::future::ready(());
        let cut = std::pin::pin!(activity.is_cut());
        matches!(
            futures_util::future::select(cut, now).await,
            futures_util::future::Either::Left(_)
        )
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_idle_connection_is_dropped_first() {
        let port = Port::new(3, 3);
        let (old, _old) = port.place("127.0.0.1");
        let (new, _new) = port.place("127.0.0.1");
        let (active, _active) = port.place("127.0.0.1");
        let _request = active.request();
        port.pass(1_000).await;
        let (_newest, _newest_place) = port.place("127.0.0.1");
        assert!(is_dropped(&new).await);
        assert!(!is_dropped(&old).await && !is_dropped(&active).await);
        assert_eq!(port.admission.taken(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_never_sent_a_request_go_before_those_between_two() {
        let port = Port::new(2, 2);
        let (silent, _silent) = port.place("127.0.0.1");
        let (kept, _kept) = port.place("127.0.0.1");
        drop(kept.request());
        port.pass(1_000).await;
        let (third, _third) = port.place("127.0.0.1");
        assert!(is_dropped(&silent).await && !is_dropped(&kept).await);
        let _request = third.request();
        let (_fourth, _fourth_place) = port.place("127.0.0.1");
        assert!(is_dropped(&kept).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_a_moment_to_send_its_request() {
        let port = Port::new(2, 2);
        let (first, _first) = port.place("127.0.0.1");
        port.pass(5).await;
        let (second, _second) = port.place("127.0.0.1");
        assert!(matches!(port.connect("127.0.0.1").1, Verdict::Full));
        port.pass(17).await;
        // In a rush, the one that has had more time goes.
        let (_third, _third_place) = port.place("127.0.0.1");
        assert!(is_dropped(&first).await && !is_dropped(&second).await);
    }

    #[tokio::test(start_paused = true)]
    async fn active_connections_are_not_dropped() {
        let port = Port::new(1, 1);
        let (active, place) = port.place("127.0.0.1");
        let _request = active.request();
        port.pass(1_000_000).await;
        assert!(matches!(port.connect("127.0.0.1").1, Verdict::Full));
        assert!(!is_dropped(&active).await);
        drop(place);
        port.admission.freed().await;
        let _next = port.place("127.0.0.1");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_its_share_and_competes_with_itself() {
        let port = Port::new(8, 2);
        let (other, _other) = port.place("192.0.2.7");
        let (first, _first) = port.place("192.0.2.1");
        let _active = first.request();
        let (second, _second) = port.place("192.0.2.1");
        port.pass(1_000).await;
        let (third, _third) = port.place("::ffff:192.0.2.1");
        assert!(is_dropped(&second).await && !is_dropped(&other).await);
        let _busy = third.request();
        assert!(matches!(port.connect("192.0.2.1").1, Verdict::Refused));
        let _free = port.place("192.0.2.2");
    }

    #[tokio::test(start_paused = true)]
    async fn networks_of_ipv6_share_and_this_machine_has_no_share() {
        let port = Port::new(8, 1);
        let (one, _one) = port.place("2001:db8::1");
        let _request = one.request();
        assert!(matches!(port.connect("2001:db8::2").1, Verdict::Refused));
        let _next_network = port.place("2001:db8:0:1::1");
        let _local = [port.place("127.0.0.1"), port.place("127.9.9.9")];
        let _local_6 = [port.place("::1"), port.place("::ffff:127.0.0.1")];
    }
}
