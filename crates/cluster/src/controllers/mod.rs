//! The controllers without which objects never settle.
//!
//! Writes note what has to be looked at; [`settle`] does it once the write's answer is made, so that the answer shows the
//! object as the client wrote it. Controllers act through requests of their own, as the real ones do.

mod garbage;
mod namespaces;
mod quotas;
mod roles;
pub mod workload;

use everflow_json::Value;

pub use garbage::OwnerIndex;

use crate::auth::User;
use crate::kinds::meta;
use crate::resource::Resource;
use crate::rest::Call;
use crate::rest::request::{Answer, Request};
use crate::server_core::ApiServer;

/// A controller that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Empties and removes terminating namespaces.
    Namespace,
    /// Deletes objects whose owners are gone, and releases orphans.
    GarbageCollector,
    /// Gives every namespace its default service account and the server's root certificate.
    ServiceAccount,
    /// Fills aggregated ClusterRoles.
    RoleAggregation,
    /// Counts what quotas limit.
    ResourceQuota,
    /// Gives workloads the status of a healthy cluster.
    Workload,
}

impl Controller {
    /// All of them, with the names of the command line.
    pub const ALL: [(&'static str, Controller); 6] = [
        ("namespace", Controller::Namespace),
        ("garbagecollector", Controller::GarbageCollector),
        ("serviceaccount", Controller::ServiceAccount),
        ("roleaggregation", Controller::RoleAggregation),
        ("resourcequota", Controller::ResourceQuota),
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
    /// An object was written: its table and key.
    Written(String, String),
    /// An object went away: its uid, its namespace and the workload it belonged to (table and key).
    Gone(String, String, Option<(&'static str, String)>),
    /// The time of an object has come: its table and key.
    Due(String, String),
}

/// Looks at an object again that was there before the server started.
pub fn resume(server: &ApiServer, table: &str, key: &str) {
    if workload::TABLES.contains(&table) || matches!(table, "/namespaces" | "/resourcequotas") {
        server.note(Task::Written(table.to_owned(), key.to_owned()));
    }
}

/// Looks at what the server itself made at its start.
pub fn begin(server: &ApiServer) {
    if runs(server, Controller::RoleAggregation) {
        roles::aggregate(server);
    }
    settle(server);
}

fn runs(server: &ApiServer, controller: Controller) -> bool {
    server.options().controllers.contains(&controller)
}

/// Called after every committed write.
pub fn after_write(call: &Call<'_>, object: &Value, _previous: Option<&Value>) {
    if *call.resource.table == *crate::crd::TABLE {
        call.server
            .note(Task::Definition(meta::text(object, "name").to_owned()));
    }
    if !call.server.options().controllers.is_empty() {
        let key = call
            .resource
            .key(meta::text(object, "namespace"), meta::text(object, "name"));
        call.server
            .owners()
            .record(&call.resource.table, &key, object);
        call.server
            .note(Task::Written(call.resource.table.to_string(), key));
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
    if !call.server.options().controllers.is_empty() {
        let key = call
            .resource
            .key(meta::text(object, "namespace"), meta::text(object, "name"));
        call.server
            .owners()
            .forget(&call.resource.table, &key, object);
        call.server.note(Task::Gone(
            meta::text(object, "uid").to_owned(),
            meta::text(object, "namespace").to_owned(),
            workload::owner(object),
        ));
    }
}

/// Does what writes left to be done.
pub fn settle(server: &ApiServer) {
    let _one_at_a_time = server.settling();
    while let Some(task) = server.next_task() {
        if server.is_crashed() {
            return;
        }
        match task {
            Task::Definition(name) => {
                let _guard = server.write_lock();
                crate::crd::after_write(server, &name);
            }
            Task::InstanceGone(group, plural) => {
                let _guard = server.write_lock();
                crate::crd::after_delete(server, &group, &plural);
            }
            Task::Written(table, key) => written(server, &table, &key),
            Task::Due(table, key) => {
                if runs(server, Controller::Workload) {
                    workload::due(server, &table, &key);
                }
            }
            Task::Gone(uid, namespace, owner) => {
                if runs(server, Controller::GarbageCollector) {
                    garbage::owner_gone(server, &uid);
                }
                if runs(server, Controller::ResourceQuota) {
                    quotas::look(server, &namespace);
                }
                if runs(server, Controller::Namespace) && !namespace.is_empty() {
                    namespaces::look(server, &namespace);
                }
                if let (Some((table, key)), true) = (owner, runs(server, Controller::Workload)) {
                    workload::look_again(server, table, &key);
                }
            }
        }
    }
}

fn written(server: &ApiServer, table: &str, key: &str) {
    let Some(current) = server.store().get(table, key) else {
        return;
    };
    let object = &current.value;
    if table == "/namespaces" {
        if meta::is_terminating(object) && runs(server, Controller::Namespace) {
            namespaces::empty(server, key);
        } else if runs(server, Controller::ServiceAccount) {
            namespaces::default_account(server, key);
            namespaces::root_certificate(server, key);
        }
    }
    if runs(server, Controller::GarbageCollector) && meta::is_terminating(object) {
        garbage::finish(server, table, key, object);
    }
    if runs(server, Controller::RoleAggregation) && table == roles::TABLE {
        roles::aggregate(server);
    }
    if runs(server, Controller::ResourceQuota) {
        match table {
            "/resourcequotas" => quotas::sync(server, object),
            _ if quotas::CHANGING.contains(&table) => {
                quotas::look(server, meta::text(object, "namespace"));
            }
            _ => {}
        }
    }
    let is_pod = table == "/pods";
    if runs(server, Controller::Workload) && (is_pod || !meta::is_terminating(object)) {
        workload::look(server, table, key, object);
    }
}

/// The resource whose objects a table holds.
fn resource_of(server: &ApiServer, table: &str) -> Option<std::sync::Arc<Resource>> {
    let registry = server.registry();
    registry
        .all()
        .find(|resource| *resource.table == *table && crate::kinds::convert::is_storage(resource))
        .cloned()
}

/// The path of an object.
fn path_of(resource: &Resource, namespace: &str, name: &str) -> String {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if resource.namespaced {
        format!("{root}/namespaces/{namespace}/{}/{name}", resource.plural)
    } else {
        format!("{root}/{}/{name}", resource.plural)
    }
}

/// A request of a controller.
fn send(server: &ApiServer, method: &str, path: &str, media: &str, body: &Value) -> Answer {
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        everflow_json::to_vec(body).unwrap_or_default()
    };
    let mut request = Request::new(method, path, bytes)
        .header("content-type", media)
        .header("accept", "application/json")
        .header("user-agent", "kube-controller-manager/");
    request.user = Some(std::sync::Arc::new(User::admin()));
    server.handle_quietly(&request)
}
