//! The simulator's own proof: mistakes of real programs that are planted in a run, each of which must be found.
//!
//! What a mistake does is written here and nowhere else. Most are wrappers around what a replica is given: its
//! controllers ([`controller`]), its way to the API server ([`transport`]), its disk ([`disk`]), its options. The others
//! change a value at a place that the code under test marks with [`Env::planted`](everflow_env::Env::planted).

pub(crate) mod controller;
pub(crate) mod dialer;
pub(crate) mod disk;
mod queue;
mod release;
pub(crate) mod transport;

use std::any::Any;
use std::time::Duration;

use everflow_apply::inventory::Entry;
use everflow_env::Place;
use everflow_runtime::attempt::Next;
use everflow_runtime::lease::Epoch;
use everflow_runtime::queue::{Due, Priority};

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

macro_rules! mistakes {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// A mistake of a real program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mistake {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Mistake {
            /// All of them.
            pub const ALL: &'static [Mistake] = &[$(Mistake::$name,)*];
        }
    };
}

mistakes! {
    /// The status goes in three patches, the first of which has a `resourceVersion` (source-controller 2012).
    StatusInThreePatches,
    /// Who was Ready once is not looked at again (source-controller 155).
    ReadyRemembered,
    /// A build that fails counts as an empty one, and is pruned (Argo CD 18480).
    FailureTakenAsEmpty,
    /// The inventory is stored after the objects were applied.
    InventoryAfterApply,
    /// Writes go on when leadership is over (Kubernetes 23731).
    WritesWithoutLease,
    /// A wait for health holds its worker (flux2 5622).
    WaitHoldsWorker,
    /// What is stalled is not tried again (flux2 5592).
    NoRetryWhenStalled,
    /// The generation counts as observed only on success (source-controller 729).
    ObservedOnlyOnSuccess,
    /// Old artifacts go before the status names the new one (source-controller 208).
    ArtifactDeletedFirst,
    /// Files are renamed without having been synced.
    NoSyncBeforeRename,
    /// What is to be pruned is not looked at before, whoever it belongs to by now (kustomize-controller 339).
    StoreTrustedForDeletion,
    /// A list older than what is known is believed (time travel).
    OlderListBelieved,
    /// A change that comes while an attempt runs is forgotten (kustomize-controller 1624).
    WakeLostWhileRunning,
    /// There is no deadline on fetches (source-controller 402).
    NoDeadlineOnFetch,
    /// Objects known before a forced push are asked for again and again (go-git 1443).
    OldCommitAskedFor,
    /// The finalizer goes before what it protects (flux2 4872).
    FinalizerRemovedFirst,
    /// A conflict counts as success.
    ConflictTakenAsSuccess,
    /// Events are told before the attempt goes on (kustomize-controller 1479).
    EventsAwaited,
    /// Failures are tried again at once.
    NoBackoff,
    /// `Retry-After` is obeyed, however long (kube-rs).
    RetryAfterUnbounded,
    /// A failed status write ends it: there is no next attempt (flux2 5607).
    NoRequeueAfterStatusError,
    /// What was applied is remembered by name, and not looked at when it is gone.
    DriftForgotten,
    /// A HelmRelease that was Ready once is not looked at again, whatever became of its release.
    ReleaseReadyRemembered,
    /// Hooks that ran when the process ended count as done (helm-controller 149).
    HookSkippedAfterRestart,
    /// A release on which somebody else is at work is taken over without asking (helm-controller 644).
    BlindUnlock,
    /// A release that the status does not know is upgraded to, although it is what is asked for (helm-controller 1409).
    ExtraRevision,
    /// Only the newest record of a release is looked at (helm-controller 120).
    HistoryForgotten,
    /// Who has taken a Lease works on when its time is over: two hold one shard (Kubernetes 23731).
    TwoHoldersOfAShard,
    /// What the last holder of a shard had dealt with is not taken up by the next one, though it waits.
    WaitDroppedInHandOver,
    /// A copy of another replica's artifact is served, though less of it was written than had come.
    CopyOfArtifactCutShort,
    /// A notification counts as delivered before the provider has answered.
    DeliveredBeforeAnswer,
    /// What waited to be delivered, and what was told, is forgotten by a restart (as Flux's notification-controller does).
    QueueForgotten,
    /// All providers share one connection, which one that hangs holds.
    OneLaneForAll,
    /// A webhook is answered although its annotation was not stored.
    AnsweredUnstored,
}

impl everflow_env::Mistake for Mistake {
    fn alter(&self, place: Place, value: &mut dyn Any) {
        match (self, place) {
            (Mistake::NoDeadlineOnFetch, Place::FetchDeadline | Place::AttemptDeadline) => {
                set(value, Duration::from_secs(86_400));
            }
            (Mistake::RetryAfterUnbounded, Place::RetryAfterLimit) => set(value, Duration::MAX),
            (Mistake::NoBackoff, Place::NextTurn) => {
                if let Some(due @ Due::Backoff { .. }) = value.downcast_mut() {
                    *due = Due::Now;
                }
            }
            (Mistake::NoRequeueAfterStatusError, Place::AfterStatusError) => {
                set(value, Next::At(NEVER));
            }
            (Mistake::WritesWithoutLease, Place::Fence) => set(value, None::<Epoch>),
            (Mistake::WakeLostWhileRunning, Place::WakeWhileRunning) => set(value, true),
            (Mistake::WakeLostWhileRunning, Place::MissedWake) => set(value, false),
            (Mistake::OlderListBelieved, Place::OlderList) => set(value, true),
            (Mistake::StoreTrustedForDeletion, Place::SkippedByPrune) => set(value, false),
            (Mistake::TwoHoldersOfAShard, Place::EpochEnds) => set(value, NEVER),
            (Mistake::WaitDroppedInHandOver, Place::TakenUp) => {
                if let Some(priority @ Some(Priority::Interval)) = value.downcast_mut() {
                    *priority = None;
                }
            }
            (Mistake::InventoryAfterApply, Place::NewEntries) => set(value, Vec::<Entry>::new()),
            (_, Place::TakeOver | Place::ResumedRecord | Place::Decision | Place::Records) => {
                release::alter(*self, value);
            }
            _ => {}
        }
    }
}

/// Puts something else in the place of a value of the same type.
fn set<T: Any>(value: &mut dyn Any, other: T) {
    if let Some(value) = value.downcast_mut() {
        *value = other;
    }
}
