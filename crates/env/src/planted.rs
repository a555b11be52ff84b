//! Places where the simulator's own tests plant a mistake, to see that it is found.
//!
//! A mark only names the place and the value; what a mistake makes of the value is written in the crate of the simulator.
//! Without the feature `wrong`, which no program that ships has, a mark compiles to nothing.

use std::any::Any;

#[cfg(feature = "wrong")]
use crate::Clock;
use crate::Env;

/// A place at which a value can be changed on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// How long an attempt may take: a `Duration`.
    AttemptDeadline,
    /// How long a step of a fetch may take: a `Duration`.
    FetchDeadline,
    /// How long `Retry-After` is obeyed at most: a `Duration`.
    RetryAfterLimit,
    /// When an object has its next turn: a `Due` of the queue.
    NextTurn,
    /// What follows a status that could not be written: a `Next`.
    AfterStatusError,
    /// In which time of leadership an attempt may write: an `Option<Epoch>`.
    Fence,
    /// Whether a change of an object whose attempt runs is dropped: a `bool`.
    WakeWhileRunning,
    /// Whether a change came for which the attempt that ended was waiting: a `bool`.
    MissedWake,
    /// Whether a list that is older than what is known is believed: a `bool`.
    OlderList,
    /// Whether an object is left alone that was to be pruned: a `bool`.
    SkippedByPrune,
    /// Which objects the inventory must have before they are applied: a `Vec<Entry>`.
    NewEntries,
    /// When an action on a release that somebody else has begun may be taken up: a `TakeOver`.
    TakeOver,
    /// The record of an action that was left in the middle, as it is gone on with: a `StoredRecord`.
    ResumedRecord,
    /// What is to be done about a release: a `Decision`.
    Decision,
    /// The records of a release, as the server lists them: a `Vec<Value>`.
    Records,
    /// Until when the holder of a Lease may count on it: a `Duration` of its clock.
    EpochEnds,
    /// In which turn an object is worked on whose shard has come: an `Option<Priority>`.
    TakenUp,
}

/// A mistake: what it makes of the values at the places it knows.
#[cfg(feature = "wrong")]
pub trait Mistake: Send + Sync + std::fmt::Debug {
    /// Changes a value.
    fn alter(&self, place: Place, value: &mut dyn Any);
}

/// Marks a place where no [`Env`] is at hand.
#[cfg(not(feature = "wrong"))]
#[inline(always)]
pub fn planted<T: Any>(_clock: &dyn crate::Clock, _place: Place, _value: &mut T) {}

/// Marks a place where no [`Env`] is at hand.
#[cfg(feature = "wrong")]
pub fn planted<T: Any>(clock: &dyn Clock, place: Place, value: &mut T) {
    if let Some(mistake) = clock.mistake() {
        mistake.alter(place, value);
    }
}

impl Env {
    /// Marks a place where the tests of the simulator may change a value. Nothing happens in the program.
    #[inline(always)]
    pub fn planted<T: Any>(&self, place: Place, value: &mut T) {
        planted(&*self.clock, place, value);
    }
}

/// Marks a place where a mistake may have the function return early, under a condition.
#[macro_export]
macro_rules! planted_return {
    ($env:expr, $place:expr, $condition:expr) => {
        let mut returns = false;
        $env.planted($place, &mut returns);
        if returns && $condition {
            return;
        }
    };
}
