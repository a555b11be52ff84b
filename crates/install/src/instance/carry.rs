//! Carries over what patches changed in Flux's Deployments to ours.
//!
//! Each of Flux's Deployments is patched by itself, in the order of the patches. Then, for each thing that changed:
//! of two numbers or quantities that controllers were given, the larger one counts, and no limit is more than any;
//! of anything else what the last patch said. Something is taken away when no controller has it any more.

use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Value, json};

use super::changes::{Path, Step, flat, remove, set, shown};
use super::flags::{FEATURE_GATES, Meaning, meaning, parts};
use super::quantity;
use crate::component::Component;

/// One of Flux's objects, as it was and as patches left it.
#[derive(Debug, Clone)]
pub(super) struct Patched {
    pub(super) component: Component,
    base: BTreeMap<Path, Value>,
    now: BTreeMap<Path, Value>,
    /// Which patch changed each path last.
    by: BTreeMap<Path, usize>,
}

impl Patched {
    pub(super) fn new(component: Component, object: &Value) -> Self {
        let base = normal(object);
        Patched {
            component,
            now: base.clone(),
            base,
            by: BTreeMap::new(),
        }
    }

    /// Notes what a patch has made of it.
    pub(super) fn becomes(&mut self, object: &Value, patch: usize) {
        let new = normal(object);
        for path in self.now.keys().chain(new.keys()) {
            if self.now.get(path) != new.get(path) {
                self.by.insert(path.clone(), patch);
            }
        }
        self.now = new;
    }
}

/// All values by path; the temporary directory is called as ours is.
fn normal(object: &Value) -> BTreeMap<Path, Value> {
    let field = |path: &[Step], name: &str| path.contains(&Step::Field(name.to_owned()));
    let values = flat(object).into_iter().map(|(mut path, mut value)| {
        if field(&path, "volumes") || field(&path, "volumeMounts") {
            for step in &mut path {
                if *step == Step::Item("name", "temp".to_owned()) {
                    *step = Step::Item("name", "tmp".to_owned());
                }
            }
            if path.last() == Some(&Step::Field("name".to_owned())) && value == "temp" {
                value = json!("tmp");
            }
        }
        (path, value)
    });
    values.collect()
}

/// What controllers were given at one path.
struct Change {
    /// By whom, by which patch; nothing when it was taken away.
    given: Vec<(Component, usize, Option<Value>)>,
    /// Whether some controller still has it as it was.
    is_kept: bool,
}

impl Change {
    fn last_patch(&self) -> usize {
        self.given.iter().map(|given| given.1).max().unwrap_or(0)
    }

    /// The one value that counts; nothing when it goes.
    fn outcome(&self, path: &[Step]) -> Option<Option<Value>> {
        let has_field = |name: &str| path.contains(&Step::Field(name.to_owned()));
        let is_gone = self.given.iter().any(|given| given.2.is_none());
        let values: Vec<_> = self
            .given
            .iter()
            .filter_map(|(component, patch, value)| Some((*patch, *component, value.as_ref()?)))
            .collect();
        if is_gone && has_field("limits") {
            return Some(None);
        }
        if values.is_empty() {
            let goes = !self.is_kept || has_field("volumes");
            return goes.then_some(None);
        }
        let amounts: Option<Vec<f64>> = values
            .iter()
            .map(|(.., value)| amount(value, path))
            .collect();
        let chosen = match amounts {
            Some(amounts) => {
                let pairs = values.iter().zip(amounts);
                pairs
                    .max_by(|one, two| one.1.total_cmp(&two.1))
                    .map(|pair| pair.0)
            }
            None => values
                .iter()
                .max_by_key(|(patch, component, _)| (*patch, *component)),
        };
        chosen.map(|(.., value)| Some((*value).clone()))
    }
}

/// A number, in the place of a quantity or a flag as text, too; spans of time are none.
fn amount(value: &Value, path: &[Step]) -> Option<f64> {
    match (value.as_str(), path.last()) {
        (None, _) => value.as_f64(),
        (Some(text), Some(Step::Flag(_))) => text.parse().ok(),
        (Some(text), _) if path.contains(&Step::Field("resources".to_owned())) => quantity(text),
        _ => None,
    }
}

/// Carries all changes over to one of our objects; what is not is told in notes.
pub(super) fn carry(patched: &[Patched], ours: &mut Value, notes: &mut BTreeSet<(usize, String)>) {
    let mut changes = collected(patched);
    let main = ours["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let is_shard = main != crate::DEPLOYMENT;
    changes.retain(|path, change| match refused(path, change, is_shard) {
        None => true,
        Some(why) => {
            if !why.is_empty() {
                notes.insert((change.last_patch(), format!("{} {why}", shown(path))));
            }
            false
        }
    });
    // What goes first may make room for what comes.
    let (goes, comes): (Vec<_>, Vec<_>) = changes
        .iter()
        .filter_map(|(path, change)| Some((path, change, change.outcome(path)?)))
        .partition(|(.., outcome)| outcome.is_none());
    for (path, change, outcome) in goes.into_iter().chain(comes) {
        if let Some((Step::Flag(name), container)) = path.split_last() {
            let args = arguments(ours, container);
            if let Err(why) = flag(args, name, outcome.as_ref(), change) {
                notes.insert((change.last_patch(), format!("--{name} {why}")));
            }
            continue;
        }
        match outcome {
            None => remove(ours, path),
            Some(value) => set(ours, path, about_us(value, &main)),
        }
    }
}

fn collected(patched: &[Patched]) -> BTreeMap<Path, Change> {
    let mut changes: BTreeMap<Path, Change> = BTreeMap::new();
    for one in patched {
        for (path, patch) in &one.by {
            let (before, after) = (one.base.get(path), one.now.get(path));
            if before == after {
                continue;
            }
            let change = changes.entry(path.clone()).or_insert_with(|| Change {
                given: Vec::new(),
                is_kept: false,
            });
            change.given.push((one.component, *patch, after.cloned()));
        }
    }
    for (path, change) in &mut changes {
        change.is_kept = patched.iter().any(|one| {
            let is_changed = change.given.iter().any(|given| given.0 == one.component);
            !is_changed && one.now.contains_key(path)
        });
    }
    changes
}

/// Why a change is not carried over; empty when nothing needs to be said of it.
fn refused(path: &[Step], change: &Change, is_shard: bool) -> Option<&'static str> {
    let field = |index: usize| match path.get(index) {
        Some(Step::Field(name)) => name.as_str(),
        _ => "",
    };
    let last = match path.last() {
        Some(Step::Field(name) | Step::Flag(name)) => name.as_str(),
        _ => "",
    };
    let is_manager = path.contains(&Step::Item("name", crate::CONTAINER.to_owned()));
    if field(0) == "spec" && field(1) == "selector" || last == "app" {
        return Some("is what our own pods are selected by, and stays");
    }
    if field(1) == "strategy" {
        return Some("is left as it is: replicas are replaced one by one");
    }
    if is_manager && last == "image" {
        return Some("is Flux's image; ours is named with --image or --registry");
    }
    if last == "serviceAccountName" {
        return Some("is left as it is: the rights are given to the account everflow");
    }
    let data = [
        Step::Field("volumes".to_owned()),
        Step::Item("name", "data".to_owned()),
    ];
    if path.windows(2).any(|steps| steps == data) {
        return Some(
            "is left as it is: each replica has a store of its own; spec.storage gives it a class and a size",
        );
    }
    let is_none = change
        .given
        .iter()
        .any(|given| given.2.as_ref().is_some_and(|value| *value == 0));
    if path == [Step::Field("spec".into()), Step::Field("replicas".into())] && is_none {
        return Some("is not set to 0: leave the controller out of spec.components");
    }
    let is_own = matches!(last, "watch-label-selector" | "storage-adv-addr");
    if is_shard && is_own && matches!(path.last(), Some(Step::Flag(_))) {
        return Some("");
    }
    None
}

/// The arguments of a container of ours.
fn arguments<'v>(ours: &'v mut Value, container: &[Step]) -> &'v mut Value {
    let mut place = ours;
    for step in container {
        place = match step {
            Step::Field(name) => &mut place[name.as_str()],
            Step::Item(key, name) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let items = place.as_array().map(Vec::as_slice).unwrap_or_default();
                let found = items.iter().position(|item| item[*key] == name.as_str());
                let found = found.unwrap_or(items.len());
                if let Some(items) = place.as_array_mut()
                    && found == items.len()
                {
                    items.push(json!({*key: name}));
                }
                &mut place[found]
            }
            Step::Element(_) | Step::Flag(_) => place,
        };
    }
    place
}

/// Carries over an argument of Flux's; says why when it has no effect.
fn flag(
    args: &mut Value,
    name: &str,
    outcome: Option<&Value>,
    change: &Change,
) -> Result<(), String> {
    let text = outcome.map(|value| value.as_str());
    let is_on = matches!(
        text,
        Some(None | Some("true" | "1" | "t" | "T" | "TRUE" | "True"))
    );
    match meaning(name) {
        None => Err("has no counterpart and is left out".to_owned()),
        Some(Meaning::Idle(why)) => Err(format!("has no effect: {why}")),
        Some(Meaning::Switch) if name == "enable-leader-election" && !is_on => {
            Err("stays: of several replicas one works".to_owned())
        }
        Some(Meaning::Switch) => {
            argument(args, name, is_on.then(|| format!("--{name}")));
            Ok(())
        }
        Some(Meaning::AllNamespaces) => {
            let own = "--watch-namespace=$(RUNTIME_NAMESPACE)";
            let is_all = outcome.is_none() || is_on;
            argument(args, "watch-namespace", (!is_all).then(|| own.to_owned()));
            Ok(())
        }
        Some(Meaning::Gates) => gates(args, change),
        Some(Meaning::Same) => match text {
            Some(None) => Err("needs a value".to_owned()),
            Some(Some(value)) => {
                argument(args, name, Some(format!("--{name}={value}")));
                Ok(())
            }
            None => {
                argument(args, name, None);
                Ok(())
            }
        },
    }
}

/// Gives a flag one argument, or none.
fn argument(args: &mut Value, name: &str, new: Option<String>) {
    if !args.is_array() {
        *args = json!([]);
    }
    let Some(items) = args.as_array_mut() else {
        return;
    };
    let is_it = |item: &Value| {
        item.as_str()
            .is_some_and(|text| text.starts_with("--") && parts(text).0 == name)
    };
    let place = items.iter().position(is_it);
    match (place, new) {
        (Some(place), Some(new)) => items[place] = json!(new),
        (Some(place), None) => {
            items.remove(place);
        }
        (None, Some(new)) => items.push(json!(new)),
        (None, None) => {}
    }
}

/// Features of all controllers together; the last patch says how a feature is that several switch.
fn gates(args: &mut Value, change: &Change) -> Result<(), String> {
    let mut given: Vec<_> = change.given.iter().collect();
    given.sort_by_key(|(component, patch, _)| (*patch, *component));
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut unknown: BTreeSet<&str> = BTreeSet::new();
    let texts = given
        .iter()
        .filter_map(|(.., value)| value.as_ref()?.as_str());
    for gate in texts.flat_map(|text| text.split(',')).map(str::trim) {
        match gate.split_once('=') {
            Some((name, on)) if FEATURE_GATES.contains(&name) => {
                chosen.insert(name, on);
            }
            Some((name, _)) => {
                unknown.insert(name);
            }
            None => {}
        }
    }
    let text: Vec<String> = chosen
        .iter()
        .map(|(name, on)| format!("{name}={on}"))
        .collect();
    let new = (!text.is_empty()).then(|| format!("--feature-gates={}", text.join(",")));
    argument(args, "feature-gates", new);
    match unknown.is_empty() {
        true => Ok(()),
        false => {
            let unknown: Vec<&str> = unknown.into_iter().collect();
            Err(format!(
                "has features without a counterpart, which are left out: {}",
                unknown.join(", ")
            ))
        }
    }
}

/// Selectors of one controller's pods select ours.
fn about_us(mut value: Value, main: &str) -> Value {
    rewrite(&mut value, main);
    value
}

fn is_controller(value: &Value) -> bool {
    let name = value.as_str().unwrap_or_default();
    Component::ALL
        .iter()
        .any(|component| component.name() == name)
}

fn rewrite(value: &mut Value, main: &str) {
    const OF_ONE: [&str; 2] = ["app", "app.kubernetes.io/component"];
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, main)),
        Value::Object(_) => {
            if let Some(labels) = value.get_mut("matchLabels").and_then(Value::as_object_mut) {
                for key in OF_ONE {
                    if labels.get(key).is_some_and(is_controller) {
                        labels.remove(key);
                        labels.insert("app".into(), json!(main));
                    }
                }
            }
            let is_of_one = OF_ONE.iter().any(|key| value["key"] == *key);
            let names = value["values"].as_array();
            if is_of_one && names.is_some_and(|names| names.iter().any(is_controller)) {
                value["key"] = json!("app");
                value["values"] = json!([main]);
            }
            if let Some(map) = value.as_object_mut() {
                map.values_mut().for_each(|below| rewrite(below, main));
            }
        }
        _ => {}
    }
}
