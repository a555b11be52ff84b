//! The controllers without which objects never settle.
//!
//! Writes note what has to be looked at; [`settle`] does it once the write's answer is made, so that the answer shows the
//! object as the client wrote it.

use serde_json::Value;

use crate::kinds::meta;
use crate::rest::Call;
use crate::server_core::ApiServer;

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
