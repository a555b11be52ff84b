//! The controllers without which objects never settle.
//!
//! Writes note what has to be looked at; [`settle`] does it once the write's answer is made, so that the answer shows the
//! object as the client wrote it.

use serde_json::Value;

use crate::kinds::meta;
use crate::rest::Call;
use crate::server_core::ApiServer;

/// A controller that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Empties and removes terminating namespaces.
    Namespace,
    /// Deletes objects whose owners are gone, and releases orphans.
    GarbageCollector,
    /// Gives every namespace its default service account.
    ServiceAccount,
    /// Gives workloads the status of a healthy cluster.
    Workload,
}

impl Controller {
    /// All of them, with the names of the command line.
    pub const ALL: [(&'static str, Controller); 4] = [
        ("namespace", Controller::Namespace),
        ("garbagecollector", Controller::GarbageCollector),
        ("serviceaccount", Controller::ServiceAccount),
        ("workload", Controller::Workload),
    ];

    /// Reads `all`, `none` or a comma-separated list of names.
    pub fn parse(text: &str) -> Result<Vec<Controller>, String> {
        match text {
            "all" => {
                return Ok(Self::ALL
                    .iter()
                    .map(|(_, controller)| *controller)
                    .collect());
            }
            "none" | "" => return Ok(Vec::new()),
            _ => {}
        }
        text.split(',')
            .map(|name| {
                let known = Self::ALL.iter().find(|(known, _)| *known == name.trim());
                known.map(|(_, controller)| *controller).ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
                    format!(
                        "there is no controller {name:?}; known are {}",
                        names.join(", ")
                    )
                })
            })
            .collect()
    }
}

/// Something to look at after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A custom resource definition was written.
    Definition(String),
    /// An instance of a custom kind went away.
    InstanceGone(String, String),
}

/// Called after every committed write.
pub fn after_write(call: &Call<'_>, object: &Value, _previous: Option<&Value>) {
    if *call.resource.table == *crate::crd::TABLE {
        call.server
            .note(Task::Definition(meta::text(object, "name").to_owned()));
    }
}

/// Called after every removal.
pub fn after_delete(call: &Call<'_>, object: &Value) {
    if call.resource.group.is_empty() && call.resource.plural == "services" {
        call.server.allocator().release(object);
    }
    if call.resource.is_custom() {
        call.server.note(Task::InstanceGone(
            call.resource.group.clone(),
            call.resource.plural.clone(),
        ));
    }
}

/// Does what writes left to be done.
pub fn settle(server: &ApiServer) {
    while let Some(task) = server.next_task() {
        let _guard = server.write_lock();
        match task {
            Task::Definition(name) => crate::crd::after_write(server, &name),
            Task::InstanceGone(group, plural) => crate::crd::after_delete(server, &group, &plural),
        }
    }
}
