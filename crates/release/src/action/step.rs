//! The steps of actions: what is to be done next, and what came of it.
//!
//! Every step may be done again when it is not known whether it was done: objects are applied and deleted
//! by name, writes of records test the version of the Secret, and hooks that are there already are not
//! created anew.

use everflow_api::helm::DeletionPropagation;
use everflow_json::Value;
use everflow_time::{Duration, Timestamp};

use super::plan::{DefinitionMode, Wait};
use crate::record::RecordWrite;

/// What the Secret must be like for a write to go through. If it is not, someone else has written:
/// the action ends here, and what is true is read anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// There is none.
    Absent,
    /// It is at this version.
    Version(String),
}

/// How objects are brought to what they are to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Apply {
    /// The objects, all of one kind; they are worked on side by side.
    pub objects: Vec<Value>,
    /// How each was before, as the manifest of the revision before has it. Without it, a client-side
    /// merge starts from how the object is in the cluster.
    pub before: Vec<Option<Value>>,
    /// Whether the server merges, by force.
    pub server_side: bool,
    /// Whether objects are replaced as a whole instead.
    pub replace: bool,
    /// Whether fields that our client merged before are handed over to the server's merging; the answer of
    /// the server tells which these are.
    pub migrate_fields: bool,
    /// Whether custom resources are merged with how they are in the cluster, when the client merges.
    pub three_way_for_custom: bool,
    /// Whether an object that is there already may be changed. If not, it must belong to the release.
    pub take_ownership: bool,
}

/// Objects that are waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct Await {
    /// The objects.
    pub objects: Vec<Value>,
    /// What is waited for.
    pub what: Wait,
    /// Since when.
    pub since: Timestamp,
    /// How long.
    pub timeout: Duration,
}

impl Await {
    /// When it has taken too long.
    pub fn deadline(&self) -> Timestamp {
        self.since + self.timeout.unsigned()
    }
}

/// Objects that are deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The objects, in their order.
    pub objects: Vec<Value>,
    /// How deletion spreads.
    pub propagation: DeletionPropagation,
    /// The release to which an object must belong to be deleted, as name and namespace.
    pub owner: Option<(String, String)>,
    /// Only what is as new as this by the API server's clock.
    pub created_since: Option<Timestamp>,
}

/// One effect of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Apply custom resource definitions and wait up to a minute until they are served. Afterwards kinds
    /// have to be looked up anew. Answered with `Done` or `Failed`.
    ApplyDefinitions {
        /// The definitions.
        objects: Vec<Value>,
        /// How.
        mode: DefinitionMode,
    },
    /// Refuse objects that exist and do not belong to the release. Answered with `Done` or `Failed`.
    CheckOwnership {
        /// The objects that would be created.
        objects: Vec<Value>,
    },
    /// Create the namespace unless it is there. Answered with `Done` or `Failed`.
    CreateNamespace(Value),
    /// Write a record. Answered with `Written` or `Failed`.
    WriteRecord {
        /// The record.
        write: Box<RecordWrite>,
        /// What the Secret must be like.
        expected: Expected,
    },
    /// Write the progress of the action beside its record, and nothing else. Answered with `Written`.
    NoteProgress {
        /// The name of the Secret.
        secret: String,
        /// The text of the annotation.
        progress: String,
        /// What the Secret must be like.
        expected: Expected,
    },
    /// Delete records. Answered with `Done`.
    DeleteRecords {
        /// The names of the Secrets, in their order.
        secrets: Vec<String>,
    },
    /// Delete what a hook created and wait until it is gone. Answered with `Done`, `Failed` or `Pending`.
    DeleteHook(Await),
    /// Create the objects of a hook. Those that are there are left as they are. Answered with `Done` or
    /// `Failed`.
    CreateHook {
        /// The objects.
        objects: Vec<Value>,
        /// Whether the server merges.
        server_side: bool,
    },
    /// Wait for the Jobs and Pods of a hook. Answered with `Done`, `Failed` or `Pending`.
    AwaitHook(Await),
    /// Print the logs of a hook's containers. Answered with `Done`.
    PrintHookLogs {
        /// The objects.
        objects: Vec<Value>,
    },
    /// Apply objects. Answered with `Done` or `Failed`.
    Apply(Box<Apply>),
    /// Delete objects; those that ask to be kept are kept. Answered with `Done` or `Failed`.
    Delete(Box<Delete>),
    /// Wait until objects are as asked for; ends early when one cannot become so. Answered with `Done`,
    /// `Failed` or `Pending`.
    AwaitHealth(Await),
    /// Wait until objects are gone. Answered with `Done`, `Failed` or `Pending`.
    AwaitDeletion(Await),
    /// Nothing is left to do.
    Over(Outcome),
}

/// What came of a step. When that is not known, or the API server could not be asked, the action is
/// dropped and taken up again from what is in storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepResult {
    /// It is done.
    Done,
    /// The record is written.
    Written {
        /// The version that the Secret is at now.
        resource_version: String,
        /// When the API server took the Secret first.
        created: Option<Timestamp>,
    },
    /// What is waited for has not come yet.
    Pending,
    /// It cannot be done: why, in Helm's words.
    Failed(String),
}

/// How an action ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As it was meant to.
    Succeeded,
    /// Not so.
    Failed {
        /// Why, in Helm's words.
        message: String,
        /// Whether storage has changed. If not, the failure does not count against retries.
        stored: bool,
    },
}
