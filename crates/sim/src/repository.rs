//! A repository as a world: its directories stand for sources, and the cluster and the controllers are as `everflow up` has
//! them.

use std::sync::OnceLock;
use std::time::Duration;

use everflow_api::view::condition;
use everflow_cluster::ApiServer;
use everflow_json::{Value, json};
use everflow_local::world::{Plan, beginning, server_options};
use everflow_time::Timestamp;

use crate::Error;
use crate::cluster;
use crate::oracles::world::World;
use crate::scenario::Scenario;

/// What charts make of chance and the time of day is no difference between runs.
const SAME_MOMENT: Timestamp = Timestamp::from_seconds(1_577_836_800);

/// A repository, and the cluster that it begins with.
#[derive(Debug)]
pub struct Repository {
    /// What it wants.
    pub plan: Plan,
    base: OnceLock<ApiServer>,
}

impl Repository {
    /// A repository that is brought up by this plan. Whatever the plan says, nothing is fetched.
    pub fn new(mut plan: Plan) -> Self {
        plan.stand_ins.offline = true;
        plan.rendered_as_of = Some(SAME_MOMENT);
        Repository {
            plan,
            base: OnceLock::new(),
        }
    }

    /// The scenario of it: everything must have converged within so long after the last fault.
    pub fn scenario(&self, about: &str, within: Duration) -> Scenario {
        let mut objects = Vec::new();
        for object in &self.plan.first {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            if !namespace.is_empty() {
                objects.push(json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
                }));
            }
            objects.push(object.clone());
        }
        Scenario::of_objects("repository", about, objects, within.as_secs())
    }

    /// The cluster before anything of the repository is in it. It is made once.
    pub(crate) fn base(&self) -> Result<ApiServer, Error> {
        if let Some(base) = self.base.get() {
            return Ok(base.clone());
        }
        let options = server_options(&self.plan).map_err(|error| Error::Setup {
            scenario: "repository".to_owned(),
            what: "the cluster".to_owned(),
            why: error.to_string(),
        })?;
        let made = cluster::with_objects(options, &beginning());
        Ok(self.base.get_or_init(|| made).clone())
    }
}

/// Objects of Flux that are not ready, with what they say.
pub(crate) fn failing(server: &ApiServer) -> Vec<String> {
    let store = server.store();
    let tables = store.tables();
    let tables = tables.iter().filter(|table| crate::oracles::is_flux(table));
    let objects = tables.flat_map(|table| store.list(table, "", None, 0).items);
    let mut failing: Vec<String> = objects
        .filter_map(|stored| {
            let object = &stored.value;
            let ready = condition(object, "Ready").filter(|ready| ready["status"] != "True")?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Some(format!(
                "{}/{}/{}: {}: {}",
                text(&object["kind"]),
                text(&object["metadata"]["namespace"]),
                text(&object["metadata"]["name"]),
                text(&ready["reason"]),
                text(&ready["message"])
            ))
        })
        .collect();
    failing.sort();
    failing
}

/// Takes the words out of a picture: messages of a repository that fails tell how it came about, which differs.
pub(crate) fn without_words(world: &mut World) {
    for object in world.values_mut() {
        let conditions = object.pointer_mut("/status/conditions");
        for condition in conditions
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("message");
            }
        }
    }
}
