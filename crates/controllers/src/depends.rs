//! What Kustomizations and HelmReleases that wait for others of their kind have in common.

use std::collections::BTreeSet;
use std::sync::Arc;

use everflow_api::common::DependencyReference;
use everflow_api::error::At as Place;
use everflow_api::wire::Wire;
use everflow_cel::check::{DeclShape, DeclType, Declarations, Type};
use everflow_cel::{Program, Value as Cel, Variables};
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{At, Resource};
use everflow_runtime::store::Store;

/// What is said of objects that wait for each other.
pub(crate) const CIRCLE: &str = "dependsOn goes in a circle";
/// How far a cycle is followed.
const LONGEST_CYCLE: usize = 64;

/// The namespace of a dependency.
pub(crate) fn namespace_of<'d>(dependency: &'d DependencyReference, own: &'d str) -> &'d str {
    match dependency.namespace.as_deref() {
        None | Some("") => own,
        Some(other) => other,
    }
}

/// Reads a `readyExpr`; or says why it cannot be read.
pub(crate) fn compile(text: &str) -> Result<Program, String> {
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
pub(crate) fn holds(program: &Program, own: &Value, dependency: &Value) -> Result<bool, String> {
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

/// A dependency; none when it is not there.
pub(crate) async fn read(
    resource: &Resource,
    namespace: &str,
    name: &str,
    context: &Context,
) -> Result<Option<Value>, ClientError> {
    let store = context.store(&resource.kind);
    if let Some(store) = store.filter(|store| store.is_synced())
        && let Some(found) = store.get(namespace, name)
    {
        return Ok(Some(found.value()));
    }
    // The store may be for one shard or one namespace only.
    match context.client.get(resource, At::new(namespace, name)).await {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names a cycle that an object is part of; empty when it is part of none.
pub(crate) fn cycle(
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
