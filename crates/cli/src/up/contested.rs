//! What several Kustomizations or HelmReleases deploy: all is ready, and will not stay so.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_local::picture::{Node, Picture, State};

/// What stands between the object and the other Kustomization, as statuses say it.
const APPLIED_BY: &str = " is applied by ";

/// One owner, what else is said of the other one, and the objects of both.
type Pair = (String, String, Vec<String>);

/// One line for each two Kustomizations or HelmReleases that have objects in common.
pub fn lines(picture: &Picture) -> Vec<String> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut told: BTreeSet<String> = BTreeSet::new();
    let ready = picture.kustomizations.iter();
    for node in ready.filter(|node| node.state == State::Ready) {
        for sentence in node.message.split(['\n', ';']) {
            let Some((object, other)) = sentence.trim().split_once(APPLIED_BY) else {
                continue;
            };
            if other.starts_with("Kustomization/") && told.insert(object.to_owned()) {
                note(&mut pairs, node, other, object);
            }
        }
    }
    let mut owners: BTreeMap<&ObjectId, &Node> = BTreeMap::new();
    for node in picture.deploying() {
        for child in &node.children {
            // Nobody may have noticed yet.
            if let Some(owner) = owners.insert(&child.id, node)
                && told.insert(child.id.subject())
            {
                let other = format!("{} too: take it out of one of the two", owner.id.subject());
                note(&mut pairs, node, &other, &child.id.subject());
            }
        }
    }
    pairs.iter().map(line).collect()
}

fn note(pairs: &mut Vec<Pair>, node: &Node, other: &str, object: &str) {
    let one = node.id.subject();
    let known = pairs.iter_mut().find(|it| it.0 == one && it.1 == other);
    match known {
        Some((_, _, objects)) => objects.push(object.to_owned()),
        None => pairs.push((one, other.to_owned(), vec![object.to_owned()])),
    }
}

fn line((one, other, objects): &Pair) -> String {
    let first = objects.first().map_or("", String::as_str);
    match objects.len() {
        0 | 1 => format!("⚠ {one}: {first}{APPLIED_BY}{other}"),
        many => format!(
            "⚠ {one}: {first} and {} more are applied by {}",
            many - 1,
            other.replace("take it out", "take them out")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &str, name: &str) -> Node {
        Node {
            id: ObjectId {
                namespace: "flux-system".into(),
                name: name.into(),
                group: String::new(),
                kind: kind.into(),
            },
            state: State::Ready,
            reason: String::new(),
            message: String::new(),
            revision: String::new(),
            waits_for: Vec::new(),
            children: Vec::new(),
        }
    }

    fn owner(name: &str, objects: &[&str]) -> Node {
        let children = objects.iter().map(|object| node("ConfigMap", object));
        Node {
            children: children.collect(),
            ..node("Kustomization", name)
        }
    }

    #[test]
    fn object_in_two_inventories_is_reported() {
        let picture = Picture {
            kustomizations: vec![owner("one", &["settings"]), owner("two", &["settings"])],
            ..Picture::default()
        };
        assert_eq!(
            lines(&picture),
            [
                "⚠ Kustomization/flux-system/two: ConfigMap/flux-system/settings is applied by Kustomization/flux-system/one too: take it out of one of the two"
            ]
        );
    }

    #[test]
    fn many_objects_of_two_kustomizations_are_one_line() {
        let says = |of: &str| {
            let tell = |object: &str| {
                format!(
                    "ConfigMap/flux-system/{object} is applied by Kustomization/flux-system/{of} too: take it out of one of the two"
                )
            };
            format!("Applied; {}; {}", tell("a"), tell("b"))
        };
        let (mut one, mut two) = (
            owner("one", &["a", "b", "c"]),
            owner("two", &["a", "b", "c"]),
        );
        (one.message, two.message) = (says("two"), says("one"));
        let picture = Picture {
            kustomizations: vec![one, two],
            ..Picture::default()
        };
        assert_eq!(
            lines(&picture),
            [
                "⚠ Kustomization/flux-system/one: ConfigMap/flux-system/a and 1 more are applied by Kustomization/flux-system/two too: take them out of one of the two",
                "⚠ Kustomization/flux-system/two: ConfigMap/flux-system/c is applied by Kustomization/flux-system/one too: take it out of one of the two",
            ]
        );
    }
}
