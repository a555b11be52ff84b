//! The life of a custom resource definition: its names are accepted, its kinds are served.

use super::names::{is_established, name_conflicts, set_names, track_status};
use super::{cleanup, serve};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// The table of definitions.
pub const TABLE: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Serves the kinds of all stored definitions.
pub fn restore(server: &ApiServer) {
    for stored in server.store().list(TABLE, "", None, 0).items {
        if meta::is_terminating(&stored.value) {
            let name = meta::text(&stored.value, "name").to_owned();
            server.note(crate::controllers::Task::Definition(name));
        }
        if is_established(&stored.value) {
            serve::serve(server, &stored.value);
        }
    }
}

/// After a definition was written: accepts its names and serves it, or takes its instances away.
pub fn after_write(server: &ApiServer, name: &str) {
    let Some(current) = server.store().get(TABLE, name) else {
        return;
    };
    if meta::is_terminating(&current.value) {
        cleanup::finish_deletion(server, name);
        return;
    }
    let conflicts = name_conflicts(server, &current.value);
    let mut updated = current.value.clone();
    set_names(server, &mut updated, &conflicts);
    if updated.get("status") != current.value.get("status") {
        track_status(server, &current.value, &mut updated);
        if server
            .store()
            .update(TABLE, name, current.revision, updated.clone())
            .is_err()
        {
            return;
        }
    }
    if is_established(&updated) {
        serve::serve(server, &updated);
    }
}
