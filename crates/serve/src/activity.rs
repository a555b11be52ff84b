//! What a connection is doing, and how long it may go on with it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::Clock;
use tokio::sync::Notify;

use crate::limits::{Limits, Pace};
use crate::meter::Meter;

/// What one connection is doing. The parts of the connection report to it, whoever watches over the connection asks.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) clock: Arc<dyn Clock>,
    limits: Arc<Limits>,
    /// Where it comes from, when that counts.
    pub(crate) address: Option<IpAddr>,
    /// When it was accepted.
    pub(crate) since: Duration,
    state: Mutex<State>,
    cut: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests whose head is complete and whose answer is not.
    running: usize,
    /// Whether there ever was a request.
    served: bool,
    /// When the wait for a handshake or a head began, and how long it may take.
    waiting: (Duration, Duration),
    /// Bytes written since then.
    written: u64,
    /// Whether the socket takes no more.
    blocked: bool,
    /// Answers of which a piece was handed out that the client has not taken.
    due: usize,
    output: Meter,
    input: Meter,
}

/// What a connection is doing now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not sent a whole head yet.
    New,
    /// A request is under way: one to answer, or an answer that the client is still taking.
    Active,
    /// It waits for the next request.
    Between,
}

/// What there is to do about a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Its time is up.
    Cut,
    /// It is fine for so long.
    Again(Duration),
}

impl Activity {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        limits: Arc<Limits>,
        address: Option<IpAddr>,
    ) -> Arc<Self> {
        let since = clock.elapsed();
        let state = State {
            running: 0,
            served: false,
            waiting: (since, limits.head),
            written: 0,
            blocked: false,
            due: 0,
            output: Meter::default(),
            input: Meter::default(),
        };
        Arc::new(Activity {
            clock,
            limits,
            address,
            since,
            state: Mutex::new(state),
            cut: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> Pace {
        self.limits.pace
    }

    /// Closes the connection.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits until somebody closes the connection.
    pub(crate) async fn is_cut(&self) {
        self.cut.notified().await;
    }

    /// What it is doing now.
    pub(crate) fn stage(&self) -> Stage {
        let state = self.state();
        match state.running > 0 || state.blocked {
            true => Stage::Active,
            false if state.served => Stage::Between,
            false => Stage::New,
        }
    }

    /// A TLS handshake comes first.
    pub(crate) fn handshake_begins(&self) {
        self.wait(self.limits.handshake);
    }

    /// The first head is waited for.
    pub(crate) fn handshake_ended(&self) {
        self.wait(self.limits.head);
    }

    fn wait(&self, span: Duration) {
        let now = self.clock.elapsed();
        self.state().wait(now, span);
    }

    /// A request is under way until the value is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> Running {
        let mut state = self.state();
        state.running += 1;
        state.served = true;
        Running(self.clone())
    }

    /// The socket took bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        let (now, bytes, pace) = (self.clock.elapsed(), bytes as u64, self.pace());
        let mut state = self.state();
        state.written = state.written.saturating_add(bytes);
        state.output.moved(bytes, now, pace);
        state.blocked = false;
        state.judge_output(now, pace);
    }

    /// Whether the socket takes no more now.
    pub(crate) fn blocked(&self, blocked: bool) {
        let (now, pace) = (self.clock.elapsed(), self.pace());
        let mut state = self.state();
        state.blocked = blocked;
        state.judge_output(now, pace);
    }

    /// A piece of an answer was handed out (`true`), or the client has taken it.
    pub(crate) fn due(&self, due: bool) {
        let (now, pace) = (self.clock.elapsed(), self.pace());
        let mut state = self.state();
        match due {
            true => state.due += 1,
            false => state.due = state.due.saturating_sub(1),
        }
        state.judge_output(now, pace);
    }

    /// A piece of a request's body is waited for (`true`), or no longer.
    pub(crate) fn awaited(&self, awaited: bool) {
        let (now, pace) = (self.clock.elapsed(), self.pace());
        let mut state = self.state();
        match awaited {
            true => state.input.begin(now, pace),
            false => state.input.end(now),
        }
    }

    /// A piece of a request's body came.
    pub(crate) fn received(&self, bytes: usize) {
        let (now, pace) = (self.clock.elapsed(), self.pace());
        self.state().input.moved(bytes as u64, now, pace);
    }

    /// Whether the connection may go on.
    pub(crate) fn look(&self) -> Look {
        let now = self.clock.elapsed();
        let pace = self.pace();
        let mut state = self.state();
        let mut next = now + self.limits.shortest();
        if state.running == 0 && !state.blocked {
            let (since, span) = state.waiting;
            // The end of an answer may be on its way when the request is done.
            if now >= since + span && state.written >= pace.bytes {
                state.wait(now, span);
            }
            next = next.min(state.waiting.0 + span);
        }
        for deadline in [state.input.deadline(pace), state.output.deadline(pace)] {
            next = next.min(deadline.unwrap_or(next));
        }
        match next > now {
            true => Look::Again(next - now),
            false => Look::Cut,
        }
    }
}

impl State {
    fn wait(&mut self, now: Duration, span: Duration) {
        self.waiting = (now, span);
        self.written = 0;
    }

    fn judge_output(&mut self, now: Duration, pace: Pace) {
        match self.blocked || self.due > 0 {
            true if !self.output.is_running() => self.output.begin(now, pace),
            false if self.output.is_running() => self.output.end(now),
            _ => {}
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        let (now, idle) = (self.0.clock.elapsed(), self.0.limits.idle);
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            state.wait(now, idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::SimulatedClock;

    fn activity() -> Arc<Activity> {
        let limits = Arc::new(Limits::default());
        Activity::new(Arc::new(SimulatedClock::new()), limits, None)
    }

    async fn pass(activity: &Activity, seconds: u64) {
        activity.clock.sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn heads_have_a_span_and_requests_under_way_have_none() {
        let activity = activity();
        assert_eq!(activity.stage(), Stage::New);
        pass(&activity, 29).await;
        assert_eq!(activity.look(), Look::Again(Duration::from_secs(1)));
        let request = activity.request();
        pass(&activity, 3_600).await;
        assert_ne!(activity.look(), Look::Cut);
        assert_eq!(activity.stage(), Stage::Active);
        drop(request);
        assert_eq!(activity.stage(), Stage::Between);
        pass(&activity, 119).await;
        assert_ne!(activity.look(), Look::Cut);
        pass(&activity, 1).await;
        assert_eq!(activity.look(), Look::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn output_that_is_not_taken_counts_and_a_quiet_watch_does_not() {
        let activity = activity();
        let _watch = activity.request();
        for _ in 0..100 {
            activity.due(true);
            activity.wrote(300);
            activity.due(false);
            pass(&activity, 50).await;
        }
        assert_ne!(activity.look(), Look::Cut);
        activity.due(true);
        pass(&activity, 59).await;
        assert_eq!(activity.look(), Look::Again(Duration::from_secs(1)));
        // A little now and then is not enough.
        activity.wrote(300);
        pass(&activity, 1).await;
        assert_eq!(activity.look(), Look::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_answer_that_still_moves_keeps_its_connection() {
        let activity = activity();
        drop(activity.request());
        activity.wrote(100 << 10);
        pass(&activity, 120).await;
        assert_ne!(activity.look(), Look::Cut);
        pass(&activity, 120).await;
        assert_eq!(activity.look(), Look::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_socket_is_not_idle_and_has_a_span() {
        let activity = activity();
        drop(activity.request());
        activity.blocked(true);
        assert_eq!(activity.stage(), Stage::Active);
        pass(&activity, 60).await;
        assert_eq!(activity.look(), Look::Cut);
        activity.wrote(64 << 10);
        assert_ne!(activity.look(), Look::Cut);
    }
}
