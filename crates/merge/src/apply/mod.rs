//! Server-side apply and ownership tracking as the API server does them.

mod cap;
mod conflict;
mod field_manager;
mod last_applied;
mod managed;
mod no_op;
mod one_version;
mod reset;
mod scale;
mod time;
mod updater;
mod versions;
mod zero;

pub use cap::MAX_UPDATE_MANAGERS;
pub use conflict::{Conflict, ConflictCause, Conflicts};
pub use field_manager::{FieldManager, Writer};
pub use last_applied::LAST_APPLIED;
pub use managed::{Manager, Operation, decode, manager_of_user_agent};
pub use no_op::without_time_only_changes;
pub use reset::ResetFields;
pub use scale::{ReplicasPaths, entries_for_scale, entries_from_scale};
pub use versions::{SameContent, SingleVersion, Versions};
pub use zero::zero_object;
