//! What Kustomizations and HelmReleases that wait for others of their kind have in common.

use std::collections::BTreeSet;
use std::sync::Arc;

use everflow_api::common::DependencyReference;
use everflow_api::error::At as Place;
use everflow_api::object::ObjectMeta;
use everflow_api::wire::Wire;
use everflow_cel::check::{DeclShape, DeclType, Declarations, Type};
use everflow_cel::{Program, Value as Cel, Variables};
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{At, Resource};
use everflow_runtime::queue::WakeOn;
use everflow_runtime::store::{CachedObject, Store};

use crate::Options;
use crate::stop::Misconfigured;

/// What is said of objects that wait for each other.
pub(crate) const CIRCLE: &str = "dependsOn goes in a circle";
/// How far a cycle is followed.
const LONGEST_CYCLE: usize = 64;

/// The namespace of a dependency.
fn namespace_of<'d>(dependency: &'d DependencyReference, own: &'d str) -> &'d str {
    match dependency.namespace.as_deref() {
        None | Some("") => own,
        Some(other) => other,
    }
}

/// Reads a `readyExpr`; or says why it cannot be read.
fn compile(text: &str) -> Result<Program, String> {
    let unread = |why: String| format!("failed to parse the CEL expression '{text}': {why}");
    let any = Arc::new(DeclType {
        shape: DeclShape::Dyn,
        max_elements: 0,
        min_size: 0,
    });
    let map = || Type::Dyn;
    let declarations = Declarations {
        variables: vec![("self".to_owned(), map()), ("dep".to_owned(), map())],
        root: any,
    };
    let (program, checked) =
        Program::compile_checked(text, &declarations).map_err(|error| unread(error.to_string()))?;
    match checked.output {
        Type::Bool => Ok(program),
        other => Err(format!(
            "CEL expression output type mismatch: expected bool, got {other}"
        )),
    }
}

/// Whether a `readyExpr` holds for an object and its dependency.
fn holds(program: &Program, own: &Value, dependency: &Value) -> Result<bool, String> {
    let variables = Variables::new()
        .with("self", Cel::from_json(own))
        .with("dep", Cel::from_json(dependency));
    match program.evaluate(&variables) {
        Ok(Cel::Bool(true)) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => {
            let text = program.text();
            Err(format!(
                "failed to evaluate the CEL expression '{text}': {error}"
            ))
        }
    }
}

/// What an object of the same kind has to wait for.
#[derive(Debug)]
pub(crate) struct Dependencies<'a> {
    pub(crate) resource: &'a Resource,
    /// The object that waits, as expressions see it.
    pub(crate) value: &'a Value,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) listed: &'a [DependencyReference],
}

/// Why an object has to wait.
#[derive(Debug)]
pub(crate) enum Unmet {
    /// An expression cannot be read.
    Invalid(Misconfigured),
    /// A dependency is not there, or could not be looked at.
    Unread { shown: String, why: String },
    /// One is not ready, in words.
    NotReady(String),
}

impl Dependencies<'_> {
    /// What wakes those who wait for them.
    pub(crate) fn wakes(&self) -> Vec<WakeOn> {
        let own = self.metadata.namespace();
        let wake = |dependency: &DependencyReference| {
            let namespace = namespace_of(dependency, own);
            self.resource.wake_on(namespace, &dependency.name)
        };
        self.listed.iter().map(wake).collect()
    }

    /// Whether all of them are ready. `is_ready` judges one by its namespace and what was read.
    pub(crate) async fn check(
        &self,
        context: &Context,
        options: &Options,
        is_ready: impl Fn(&str, &Value) -> bool,
    ) -> Result<(), Unmet> {
        for dependency in self.listed {
            let namespace = namespace_of(dependency, self.metadata.namespace());
            let shown = format!("{namespace}/{}", dependency.name);
            let program = match dependency.ready_expr.as_deref() {
                None | Some("") => None,
                Some(text) => Some(compile(text).map_err(|why| {
                    Unmet::Invalid(Misconfigured::dependency(&dependency.name, &why))
                })?),
            };
            let found = self.find(namespace, &dependency.name, context).await;
            let found = found.map_err(|why| Unmet::Unread {
                shown: shown.clone(),
                why,
            })?;
            if let Some(program) = &program {
                if !holds(program, self.value, &found).map_err(Unmet::NotReady)? {
                    let why = "is not ready according to readyExpr eval";
                    return Err(Unmet::NotReady(format!("dependency '{shown}' {why}")));
                }
                if !options.gates.additive_cel_dependency_check {
                    continue;
                }
            }
            if !is_ready(namespace, &found) {
                let cycle = self.cycle(context);
                let why = format!("dependency '{shown}' is not ready{cycle}");
                return Err(Unmet::NotReady(why));
            }
        }
        Ok(())
    }

    async fn find(&self, namespace: &str, name: &str, context: &Context) -> Result<Value, String> {
        let Resource {
            group,
            plural,
            kind,
            ..
        } = self.resource;
        let found = read(self.resource, namespace, name, context, CachedObject::value);
        let found = found.await.map_err(|error| error.to_string())?;
        found.ok_or_else(|| {
            format!(
                "{plural}.{group} \"{name}\" not found (add a {kind} of that name, or correct spec.dependsOn)"
            )
        })
    }

    fn cycle(&self, context: &Context) -> String {
        let start = (self.metadata.namespace(), self.metadata.name.as_str());
        cycle(self.resource, start, self.listed, context)
    }
}

/// What `part` takes of an object in a store that has heard of all there is, or the object as the server has it: the
/// store may be for one shard or one namespace only, and that nothing is there is said only by the server. An object that
/// was taken over from another replica sees what the server has.
pub(crate) async fn read(
    resource: &Resource,
    namespace: &str,
    name: &str,
    context: &Context,
    part: fn(&CachedObject) -> Value,
) -> Result<Option<Value>, ClientError> {
    let store = context.store(&resource.kind);
    if let Some(store) = store.filter(|store| store.is_synced() && !context.taken_over)
        && let Some(found) = store.get(namespace, name)
    {
        return Ok(Some(part(&found)));
    }
    match context.client.get(resource, At::new(namespace, name)).await {
        Ok(found) => {
            context.learn(&found);
            Ok(Some(found))
        }
        Err(ClientError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names a cycle that an object is part of; empty when it is part of none.
fn cycle(
    resource: &Resource,
    start: (&str, &str),
    depends_on: &[DependencyReference],
    context: &Context,
) -> String {
    let Some(store) = context.store(&resource.kind) else {
        return String::new();
    };
    let start = (start.0.to_owned(), start.1.to_owned());
    let mut walk = Walk {
        store,
        path: vec![start.clone()],
        seen: BTreeSet::new(),
        start,
    };
    if !walk.follow(&walk.start.0.clone(), depends_on) {
        return String::new();
    }
    walk.path.push(walk.start);
    let names: Vec<String> = walk
        .path
        .iter()
        .map(|(space, name)| format!("{space}/{name}"))
        .collect();
    format!(" ({CIRCLE}: {}; take one of these out)", names.join(" -> "))
}

struct Walk<'s> {
    store: &'s Store,
    start: (String, String),
    path: Vec<(String, String)>,
    seen: BTreeSet<(String, String)>,
}

impl Walk<'_> {
    fn follow(&mut self, own: &str, depends_on: &[DependencyReference]) -> bool {
        for dependency in depends_on {
            let namespace = namespace_of(dependency, own).to_owned();
            let next = (namespace, dependency.name.clone());
            if next == self.start {
                return true;
            }
            if self.path.len() >= LONGEST_CYCLE || !self.seen.insert(next.clone()) {
                continue;
            }
            let Some(found) = self.store.get(&next.0, &next.1) else {
                continue;
            };
            let listed = found.value()["spec"]["dependsOn"].clone();
            let listed = Vec::<DependencyReference>::read(&listed, &Place::Root);
            let Ok(listed) = listed else {
                continue;
            };
            let namespace = next.0.clone();
            self.path.push(next);
            if self.follow(&namespace, &listed) {
                return true;
            }
            self.path.pop();
        }
        false
    }
}
