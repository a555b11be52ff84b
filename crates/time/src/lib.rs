//! Moments, the calendar and durations, as Kubernetes and Go write them.
//!
//! There is no clock here: what time it is, the caller says.

#![forbid(unsafe_code)]

mod calendar;
mod duration;
mod timestamp;

pub use calendar::{Calendar, days_in_month, is_leap_year, unix_seconds};
pub use duration::{Duration, DurationError};
pub use timestamp::Timestamp;
