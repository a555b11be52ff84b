//! The objects of a release: from the text in its record to what is applied, compared and deleted.

mod definitions;
mod inventory;
mod named;
mod objects;
mod order;
mod ownership;

pub use definitions::{Definitions, definitions};
pub use inventory::inventory;
pub use named::unnamed;
pub use objects::{Scope, objects, paused};
pub use order::{batches, removed, uninstall_order};
pub use ownership::{MANAGED_BY, check_owned, is_kept, own};
