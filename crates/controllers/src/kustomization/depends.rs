//! Kustomizations that must be ready first.

use std::sync::Arc;

use everflow_api::common::DependencyReference;
use everflow_api::kustomization::{Kustomization, KustomizationSourceReference};
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_cel::check::{DeclShape, DeclType, Declarations, Type};
use everflow_cel::{Program, Value as Cel, Variables};
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::At;
use everflow_runtime::queue::WakeOn;

use crate::stop::{Failure, Stop, Tell, Then};
use crate::{Options, resources};

/// What is said of a dependency that does not exist.
const NOT_FOUND: &str = "add a Kustomization of that name";
/// What is said of Kustomizations that wait for each other.
const CIRCLE: &str = "dependsOn goes in a circle";
/// How far a cycle is followed.
const LONGEST_CYCLE: usize = 64;

/// What wakes those who wait for their dependencies.
pub(super) fn wakes(object: &Object<Kustomization>) -> Vec<WakeOn> {
    let own = object.metadata.namespace();
    let all = object.spec.depends_on.iter();
    all.map(|dependency| {
        resources::KUSTOMIZATIONS.wake_on(namespace(dependency, own), &dependency.name)
    })
    .collect()
}

fn namespace<'d>(dependency: &'d DependencyReference, own: &'d str) -> &'d str {
    match dependency.namespace.as_deref() {
        None | Some("") => own,
        Some(other) => other,
    }
}

/// Whether all dependencies are ready.
pub(super) async fn check(
    value: &Value,
    object: &Object<Kustomization>,
    revision: &str,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    for dependency in &object.spec.depends_on {
        one(dependency, value, object, revision, context, options).await?;
    }
    Ok(())
}

async fn one(
    dependency: &DependencyReference,
    value: &Value,
    object: &Object<Kustomization>,
    revision: &str,
    context: &Context,
    options: &Options,
) -> Result<(), Stop> {
    let own = object.metadata.namespace();
    let namespace = namespace(dependency, own);
    let shown = format!("{namespace}/{}", dependency.name);
    let waits = |message: String| -> Stop {
        let soon = everflow_time::Duration::from(options.runtime.requeue_dependency);
        let mut event = format!("Dependencies do not meet ready condition, retrying in {soon}");
        // What time will not mend is worth a word.
        if message.contains(NOT_FOUND) || message.contains(CIRCLE) {
            event = format!("{event}: {message}");
        }
        Failure::new(Reason::DependencyNotReady, message)
            .telling(Tell::Info(event))
            .then(Then::Wait)
            .into()
    };
    let expression = match dependency.ready_expr.as_deref() {
        None | Some("") => None,
        Some(text) => Some(compile(text).map_err(|why| invalid(&dependency.name, &why))?),
    };
    let found = read(namespace, &dependency.name, context)
        .await
        .map_err(|error| waits(format!("dependency '{shown}' not found: {error}")))?;
    let Some(found) = found else {
        let name = &dependency.name;
        let missing = format!("kustomizations.kustomize.toolkit.fluxcd.io \"{name}\" not found");
        return Err(waits(format!(
            "dependency '{shown}' not found: {missing} ({NOT_FOUND}, or correct spec.dependsOn)"
        )));
    };
    if let Some(program) = &expression {
        let variables = Variables::new()
            .with("self", Cel::from_json(value))
            .with("dep", Cel::from_json(&found));
        match program.evaluate(&variables) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let message =
                    format!("dependency '{shown}' is not ready according to readyExpr eval");
                return Err(waits(message));
            }
            Err(error) => {
                let text = program.text();
                let message = format!("failed to evaluate the CEL expression '{text}': {error}");
                return Err(waits(message));
            }
        }
        if !options.gates.additive_cel_dependency_check {
            return Ok(());
        }
    }
    match is_ready(&found, namespace, object, revision) {
        true => Ok(()),
        false => {
            let cycle = cycle(object, context);
            Err(waits(format!("dependency '{shown}' is not ready{cycle}")))
        }
    }
}

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

fn invalid(name: &str, why: &str) -> Stop {
    let message = format!(
        "Reconciliation failed terminally due to configuration error: terminal error: failed to evaluate dependency {name}: {why}\ncorrect readyExpr in spec.dependsOn"
    );
    Failure::new(Reason::InvalidCELExpression, message)
        .then(Then::Change)
        .into()
}

async fn read(
    namespace: &str,
    name: &str,
    context: &Context,
) -> Result<Option<Value>, ClientError> {
    let resource = resources::KUSTOMIZATIONS;
    let store = context.store(&resource.kind);
    if let Some(store) = store.filter(|store| store.is_synced())
        && let Some(found) = store.get(namespace, name)
    {
        return Ok(Some(found.value()));
    }
    // The store may be for one shard or one namespace only.
    match context
        .client
        .get(&resource, At::new(namespace, name))
        .await
    {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_ready(
    found: &Value,
    namespace: &str,
    object: &Object<Kustomization>,
    revision: &str,
) -> bool {
    let Ok(found) = Object::<Kustomization>::read(found) else {
        return false;
    };
    let conditions = &found.status.conditions;
    let own = object.metadata.namespace();
    let at = |source: &KustomizationSourceReference, own: &str| {
        let namespace = source.namespace.clone().filter(|other| !other.is_empty());
        let namespace = namespace.unwrap_or_else(|| own.to_owned());
        (source.kind, namespace, source.name.clone())
    };
    let same_source = at(&found.spec.source_ref, namespace) == at(&object.spec.source_ref, own);
    found.status.observed_generation == found.metadata.generation
        && everflow_api::condition::is_true(conditions, everflow_api::names::condition::READY)
        && (!same_source || found.status.last_applied_revision.as_deref() == Some(revision))
}

/// Names a cycle that the Kustomization is part of.
fn cycle(object: &Object<Kustomization>, context: &Context) -> String {
    let start = (
        object.metadata.namespace().to_owned(),
        object.metadata.name.clone(),
    );
    let Some(store) = context.store(&resources::KUSTOMIZATIONS.kind) else {
        return String::new();
    };
    let mut path = vec![start.clone()];
    let mut seen = std::collections::BTreeSet::new();
    if !follow(store, object, &start, &mut path, &mut seen) {
        return String::new();
    }
    path.push(start);
    let names: Vec<String> = path
        .iter()
        .map(|(space, name)| format!("{space}/{name}"))
        .collect();
    format!(" ({CIRCLE}: {}; take one of these out)", names.join(" -> "))
}

fn follow(
    store: &everflow_runtime::store::Store,
    object: &Object<Kustomization>,
    start: &(String, String),
    path: &mut Vec<(String, String)>,
    seen: &mut std::collections::BTreeSet<(String, String)>,
) -> bool {
    let own = object.metadata.namespace().to_owned();
    for dependency in &object.spec.depends_on {
        let next = (
            namespace(dependency, &own).to_owned(),
            dependency.name.clone(),
        );
        if next == *start {
            return true;
        }
        if path.len() >= LONGEST_CYCLE || !seen.insert(next.clone()) {
            continue;
        }
        let found = store.get(&next.0, &next.1);
        let Some(Ok(found)) = found.map(|found| Object::<Kustomization>::read(&found.value()))
        else {
            continue;
        };
        path.push(next);
        if follow(store, &found, start, path, seen) {
            return true;
        }
        path.pop();
    }
    false
}
