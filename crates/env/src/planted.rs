//! Behaviours that are wrong on purpose, each the mistake of a real program. The simulator must find every one of them.

use crate::Clock;

/// Whether a behaviour is wrong on purpose. Never, but in tests of the simulator.
#[cfg(not(feature = "wrong"))]
#[inline(always)]
pub fn is_wrong(_clock: &dyn Clock, _which: Wrong) -> bool {
    false
}

/// Whether a behaviour is wrong on purpose.
#[cfg(feature = "wrong")]
pub fn is_wrong(clock: &dyn Clock, which: Wrong) -> bool {
    clock.wrong() == Some(which)
}

macro_rules! wrongs {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// A behaviour that is wrong on purpose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Wrong {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Wrong {
            /// All of them.
            pub const ALL: &'static [Wrong] = &[$(Wrong::$name,)*];
        }
    };
}

wrongs! {
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
}
