//! Threads for work that blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_limits::{Budget, Pool, Stop};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::turns::Turns;
use super::{Blocking, DEFAULT_SHARE, Job, Lane};
use crate::BoxFuture;

/// How often the memory of the process is looked at: asking the system costs more than many a job.
const MEASURE_EVERY: Duration = Duration::from_millis(100);

/// How much work may run at once, and what it may use.
#[derive(Debug, Clone)]
pub struct ThreadOptions {
    /// How many jobs run at once.
    pub slots: usize,
    /// The memory of one job, in bytes.
    pub share: u64,
    /// The memory of all jobs together, in bytes.
    pub pool: u64,
    /// The memory of the whole process, where it is known: work on foreign input is done one at a time
    /// when most of it is used.
    pub process: Option<u64>,
}

impl ThreadOptions {
    /// Bounds that fit a process that may use so many bytes: three eighths for one job, but no more than
    /// [`DEFAULT_SHARE`], and a half for all of them. With 64 MiB, what a chart takes that brings a megabyte of definitions
    /// fits just in.
    pub fn for_memory(process: Option<u64>) -> Self {
        let Some(limit) = process else {
            return ThreadOptions::default();
        };
        ThreadOptions {
            share: (limit / 8 * 3).clamp(16 << 20, DEFAULT_SHARE),
            pool: limit / 2,
            process,
            ..ThreadOptions::default()
        }
    }
}

impl Default for ThreadOptions {
    fn default() -> Self {
        ThreadOptions {
            slots: std::thread::available_parallelism().map_or(4, |cores| (2 * cores.get()).max(4)),
            share: DEFAULT_SHARE,
            pool: 2 * DEFAULT_SHARE,
            process: None,
        }
    }
}

/// A job that goes on although it was told to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// On whose behalf it runs.
    pub lane: Lane,
    /// For how long.
    pub span: Duration,
}

/// Threads, so many at once; the others wait for their turn, which namespaces and kinds share fairly.
#[derive(Debug, Clone)]
pub struct ThreadBlocking {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    share: u64,
    process: Option<u64>,
    pool: Arc<Pool>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    turns: Turns<(u64, oneshot::Sender<Slot>)>,
    running: BTreeMap<u64, Running>,
    serial: u64,
    /// When the memory of the process was last looked at, and whether most of it was used.
    measured: Option<(Instant, bool)>,
}

#[derive(Debug)]
struct Running {
    lane: Lane,
    stop: Stop,
    /// When it was first seen to go on after it was told to stop.
    overdue_since: Option<Instant>,
}

impl ThreadBlocking {
    /// Without work yet.
    pub fn new(options: ThreadOptions) -> Self {
        ThreadBlocking {
            shared: Arc::new(Shared {
                share: options.share,
                process: options.process,
                pool: Arc::new(Pool::new(options.pool.max(options.share))),
                state: Mutex::new(State {
                    turns: Turns::new(options.slots),
                    running: BTreeMap::new(),
                    serial: 0,
                    measured: None,
                }),
            }),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so much memory is used that what runs should end before more begins.
    fn is_crowded(&self, state: &mut State) -> bool {
        let most = |limit: u64| limit / 4 * 3;
        if self.pool.used() > most(self.pool.limit()) {
            return true;
        }
        let Some(limit) = self.process else {
            return false;
        };
        let now = Instant::now();
        if state
            .measured
            .is_none_or(|(when, _)| now - when > MEASURE_EVERY)
        {
            let used = crate::memory::resident().unwrap_or_default();
            state.measured = Some((now, used > most(limit)));
        }
        state.measured.is_some_and(|(_, crowded)| crowded)
    }

    /// Gives free slots to those whose turn it is.
    fn admit(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                if !state.turns.is_free() {
                    return;
                }
                if state.turns.is_busy() && self.is_crowded(&mut state) {
                    return;
                }
                state.turns.next()
            };
            let Some((lane, (serial, sender))) = next else {
                return;
            };
            let slot = Slot {
                shared: self.clone(),
                lane,
                serial,
            };
            // A slot that nobody takes any more comes back when it is dropped here.
            drop(sender.send(slot));
        }
    }
}

/// The right to run, given back when it is dropped.
#[derive(Debug)]
struct Slot {
    shared: Arc<Shared>,
    lane: Lane,
    serial: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.running.remove(&self.serial);
        state.turns.end(&self.lane);
        drop(state);
        self.shared.admit();
    }
}

/// A place in the line, given up when it is dropped.
struct Place {
    shared: Arc<Shared>,
    serial: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let serial = self.serial;
        self.shared
            .lock()
            .turns
            .leave(|(place, _)| *place == serial);
    }
}

impl Blocking for ThreadBlocking {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            let serial = {
                let mut state = shared.lock();
                state.serial += 1;
                let serial = state.serial;
                state.turns.wait(job.lane.clone(), (serial, sender));
                serial
            };
            let place = Place {
                shared: shared.clone(),
                serial,
            };
            shared.admit();
            let Ok(slot) = receiver.await else {
                return;
            };
            drop(place);
            let running = Running {
                lane: job.lane,
                stop: job.stop.clone(),
                overdue_since: None,
            };
            shared.lock().running.insert(serial, running);
            let budget = Budget::new(job.stop, shared.share).within(shared.pool.clone());
            // A panic stays the caller's: its result does not come.
            let _ = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                // Its memory is given back before its slot.
                let budget = budget;
                (job.work)(&budget);
            })
            .await;
        })
    }

    fn overdue(&self) -> Vec<Overdue> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let told = state.running.values_mut();
        let told = told.filter(|running| running.stop.is_raised());
        told.map(|running| Overdue {
            lane: running.lane.clone(),
            span: now - *running.overdue_since.get_or_insert(now),
        })
        .collect()
    }

    fn memory(&self) -> Option<Arc<Pool>> {
        Some(self.shared.pool.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::{LaneBlocking, run_blocking, run_budgeted};
    use super::*;

    fn blocking(slots: usize) -> Arc<ThreadBlocking> {
        Arc::new(ThreadBlocking::new(ThreadOptions {
            slots,
            ..ThreadOptions::default()
        }))
    }

    fn of(blocking: &Arc<ThreadBlocking>, namespace: &str) -> LaneBlocking {
        let lane = Lane {
            kind: "GitRepository".into(),
            namespace: namespace.into(),
            name: "bomb".into(),
        };
        LaneBlocking::new(blocking.clone(), lane)
    }

    /// Work that never ends by itself.
    fn endless(budget: &Budget) {
        while budget.check().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[tokio::test]
    async fn dropping_the_future_frees_the_thread() {
        let blocking = blocking(1);
        let (sender, receiver) = mpsc::channel();
        let work = run_budgeted(&*blocking, move |budget| {
            endless(budget);
            sender.send(()).unwrap();
        });
        let timeout = tokio::time::timeout(Duration::from_millis(20), work).await;
        assert!(timeout.is_err());
        assert_eq!(run_blocking(&*blocking, || 1).await, Some(1));
        receiver.recv().unwrap();
    }

    #[tokio::test]
    async fn endless_work_of_one_namespace_leaves_slots_to_others() {
        let blocking = blocking(4);
        let hostile = of(&blocking, "hostile");
        let bombs: Vec<_> = (0..6)
            .map(|_| {
                let hostile = hostile.clone();
                tokio::spawn(async move { run_budgeted(&hostile, endless).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let other = of(&blocking, "other");
        assert_eq!(run_blocking(&other, || 7).await, Some(7));
        bombs.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn work_that_ignores_its_stop_flag_is_reported() {
        let blocking = blocking(2);
        let stubborn = of(&blocking, "hostile");
        let (sender, receiver) = mpsc::channel::<()>();
        let work = run_blocking(&stubborn, move || {
            let _ = receiver.recv();
        });
        let timeout = tokio::time::timeout(Duration::from_millis(20), work).await;
        assert!(timeout.is_err());
        let overdue = blocking.overdue();
        assert_eq!(overdue.len(), 1);
        assert_eq!(overdue[0].lane.to_string(), "GitRepository hostile/bomb");
        drop(sender);
        while !blocking.overdue().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn crowded_memory_lets_one_job_run_at_a_time() {
        let blocking = Arc::new(ThreadBlocking::new(ThreadOptions {
            slots: 4,
            share: 100,
            pool: 100,
            process: None,
        }));
        let (sender, receiver) = mpsc::channel::<()>();
        let large = tokio::spawn({
            let blocking = of(&blocking, "large");
            async move {
                run_budgeted(&blocking, move |budget| {
                    budget.charge(90).unwrap();
                    let _ = receiver.recv();
                })
                .await
            }
        });
        while blocking.memory().unwrap().used() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let other = of(&blocking, "other");
        let mut next = Box::pin(run_blocking(&other, || 1));
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err());
        drop(sender);
        assert_eq!(next.await, Some(1));
        large.await.unwrap().unwrap();
    }

    #[test]
    fn bounds_follow_the_memory_of_the_process() {
        let small = ThreadOptions::for_memory(Some(64 << 20));
        assert_eq!((small.share, small.pool), (24 << 20, 32 << 20));
        let large = ThreadOptions::for_memory(Some(24 << 30));
        assert_eq!((large.share, large.pool), (DEFAULT_SHARE, 12 << 30));
    }

    #[tokio::test]
    async fn memory_of_all_jobs_is_bounded_and_given_back() {
        let blocking = ThreadBlocking::new(ThreadOptions {
            slots: 1,
            share: 100,
            pool: 100,
            process: None,
        });
        let error = run_budgeted(&blocking, |budget| budget.charge(101)).await;
        assert_eq!(error.unwrap().unwrap_err().reason(), "LimitExceeded");
        let fine = run_budgeted(&blocking, |budget| budget.charge(100)).await;
        assert_eq!(fine, Some(Ok(())));
        assert_eq!(blocking.memory().unwrap().used(), 0);
    }
}
