//! Sets of field paths as sorted tries.

use super::element::{FieldPath, PathElement};

/// A set of field paths.
///
/// Each node lists the steps that lead further, sorted, each with whether the path up to here is a
/// member itself and with the set of paths below. A node without members below and not being a
/// member is never kept, so equal sets are equal trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl Node {
    fn is_kept(&self) -> bool {
        self.member || !self.children.nodes.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The set of these paths of plain field names.
    #[must_use]
    pub fn of_field_paths(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&FieldPath::of_fields(path).0);
        }
        set
    }

    /// Whether the set has no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member) + node.children.len())
            .sum()
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        // Walks visit objects in order, so new elements mostly go to the end.
        match self.nodes.last() {
            None => Err(0),
            Some(last) if last.element < *element => Err(self.nodes.len()),
            _ => self
                .nodes
                .binary_search_by(|node| node.element.cmp(element)),
        }
    }

    fn node_mut(&mut self, element: &PathElement) -> &mut Node {
        let position = match self.position(element) {
            Ok(position) => position,
            Err(position) => {
                let node = Node {
                    element: element.clone(),
                    member: false,
                    children: FieldSet::new(),
                };
                self.nodes.insert(position, node);
                position
            }
        };
        &mut self.nodes[position]
    }

    /// Adds a path. Its parents do not become members; the empty path is never one.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let mut set = self;
        for element in parents {
            set = &mut set.node_mut(element).children;
        }
        set.node_mut(last).member = true;
    }

    /// Whether the path is a member.
    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        let mut set = self;
        for element in parents {
            match set.position(element) {
                Ok(position) => set = &set.nodes[position].children,
                Err(_) => return false,
            }
        }
        set.position(last)
            .is_ok_and(|position| set.nodes[position].member)
    }

    /// Whether the one step `element` is a member, and the set below it.
    pub(crate) fn step(&self, element: &PathElement) -> Option<(bool, &FieldSet)> {
        self.position(element).ok().map(|position| {
            let node = &self.nodes[position];
            (node.member, &node.children)
        })
    }

    /// All steps from here: the element, whether it is a member, and the set below it.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&PathElement, bool, &FieldSet)> {
        self.nodes
            .iter()
            .map(|node| (&node.element, node.member, &node.children))
    }

    /// Walks two sets in step, and keeps what `combine` makes of each pair of nodes.
    fn zip(
        &self,
        other: &Self,
        mut nodes: Vec<Node>,
        combine: impl Fn(Option<&Node>, Option<&Node>) -> Option<Node>,
    ) -> Self {
        let (mut left, mut right) = (self.nodes.as_slice(), other.nodes.as_slice());
        loop {
            let (a, b) = match (left.first(), right.first()) {
                (None, None) => break,
                (Some(a), Some(b)) => match a.element.cmp(&b.element) {
                    std::cmp::Ordering::Less => (Some(a), None),
                    std::cmp::Ordering::Greater => (None, Some(b)),
                    std::cmp::Ordering::Equal => (Some(a), Some(b)),
                },
                pair => pair,
            };
            left = &left[usize::from(a.is_some())..];
            right = &right[usize::from(b.is_some())..];
            nodes.extend(combine(a, b).filter(Node::is_kept));
        }
        Self { nodes }
    }

    /// All paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let room = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        self.zip(other, room, |a, b| match (a, b) {
            (Some(a), Some(b)) => Some(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (a, b) => a.or(b).cloned(),
        })
    }

    /// All paths that are in either set.
    pub(crate) fn into_union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        self.union(&other)
    }

    /// Whether a path of this set is in the other or below one of its members.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.shares_node(other, |a, b| b.member || a.children.meets(&b.children))
    }

    /// Whether a path is in both sets.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.shares_node(other, |a, b| {
            (a.member && b.member) || a.children.overlaps(&b.children)
        })
    }

    /// Whether there is an element in both sets whose nodes are found to be so.
    fn shares_node(&self, other: &Self, is_so: impl Fn(&Node, &Node) -> bool) -> bool {
        let (mut left, mut right) = (self.nodes.as_slice(), other.nodes.as_slice());
        while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
            match a.element.cmp(&b.element) {
                std::cmp::Ordering::Less => left = left_rest,
                std::cmp::Ordering::Greater => right = right_rest,
                std::cmp::Ordering::Equal => {
                    if is_so(a, b) {
                        return true;
                    }
                    (left, right) = (left_rest, right_rest);
                }
            }
        }
        false
    }

    /// Whether all paths of the other set are in this one.
    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        let mut left = self.nodes.iter();
        other.nodes.iter().all(|b| {
            let same = left.find(|a| a.element >= b.element);
            same.is_some_and(|a| {
                a.element == b.element
                    && (a.member || !b.member)
                    && a.children.contains_all(&b.children)
            })
        })
    }

    /// All paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return Self::new();
        }
        // Most have nothing in common.
        self.zip(other, Vec::new(), |a, b| {
            let (a, b) = (a?, b?);
            Some(Node {
                element: a.element.clone(),
                member: a.member && b.member,
                children: a.children.intersection(&b.children),
            })
        })
    }

    /// All paths of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        self.zip(other, Vec::with_capacity(self.nodes.len()), |a, b| {
            let a = a?;
            let Some(b) = b else { return Some(a.clone()) };
            Some(Node {
                element: a.element.clone(),
                member: a.member && !b.member,
                children: a.children.difference(&b.children),
            })
        })
    }

    /// All paths of this set that are neither in the other nor below one of its members.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        self.zip(other, Vec::with_capacity(self.nodes.len()), |a, b| {
            let a = a?;
            match b {
                None => Some(a.clone()),
                Some(b) if b.member => None,
                Some(b) => Some(Node {
                    element: a.element.clone(),
                    member: a.member,
                    children: a.children.recursive_difference(&b.children),
                }),
            }
        })
    }

    /// The members that have no member below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| {
            let children = node.children.leaves();
            Node {
                element: node.element.clone(),
                member: node.member && children.is_empty(),
                children,
            }
        });
        Self {
            nodes: nodes.filter(Node::is_kept).collect(),
        }
    }

    /// The set with only the paths whose first steps match one of `prefixes`; `None` in a prefix
    /// stands for any step.
    #[must_use]
    pub fn only_below(&self, prefixes: &[&[Option<&str>]]) -> Self {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let matches =
                |wanted: &str| matches!(&node.element, PathElement::Field(name) if name == wanted);
            let rest: Vec<&[Option<&str>]> = prefixes
                .iter()
                .filter_map(|prefix| {
                    let (first, rest) = prefix.split_first()?;
                    first.is_none_or(matches).then_some(rest)
                })
                .collect();
            if rest.is_empty() {
                continue;
            }
            if rest.iter().any(|prefix| prefix.is_empty()) {
                nodes.push(node.clone());
            } else {
                let kept = Node {
                    element: node.element.clone(),
                    member: node.member,
                    children: node.children.only_below(&rest),
                };
                nodes.extend(kept.is_kept().then_some(kept));
            }
        }
        Self { nodes }
    }

    /// All members, those of one level before those below it, as conflicts list them.
    #[must_use]
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut found = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut found);
        found
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, found: &mut Vec<FieldPath>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            found.push(FieldPath(path));
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect_paths(prefix, found);
            prefix.pop();
        }
    }

    /// Calls `change` for every node, top down, with the context that the parent's call returned;
    /// `change` says whether the node is to become a member.
    pub(crate) fn map_members<C: Copy>(
        &self,
        context: C,
        change: &impl Fn(C, &PathElement, bool, bool) -> (bool, C),
    ) -> Self {
        let nodes = self.nodes.iter().map(|node| {
            let has_children = !node.children.is_empty();
            let (member, below) = change(context, &node.element, node.member, has_children);
            Node {
                element: node.element.clone(),
                member,
                children: node.children.map_members(below, change),
            }
        });
        Self {
            nodes: nodes.filter(Node::is_kept).collect(),
        }
    }
}

/// Builds one level of a set from steps in any order.
#[derive(Debug, Default)]
pub(crate) struct FieldSetBuilder {
    nodes: Vec<Node>,
    unsorted: bool,
}

impl FieldSetBuilder {
    /// A builder with room for this many steps.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(capacity),
            unsorted: false,
        }
    }

    /// Adds one step with what lies below it.
    pub(crate) fn push(&mut self, element: PathElement, member: bool, children: FieldSet) {
        let node = Node {
            element,
            member,
            children,
        };
        if !node.is_kept() {
            return;
        }
        self.unsorted |= self
            .nodes
            .last()
            .is_some_and(|last| last.element >= node.element);
        self.nodes.push(node);
    }

    /// As [`FieldSetBuilder::push`] for a step that comes after all others and has something to keep.
    pub(crate) fn push_next(&mut self, element: PathElement, member: bool, children: FieldSet) {
        self.nodes.push(Node {
            element,
            member,
            children,
        });
    }

    /// The set of all steps; equal steps become one.
    pub(crate) fn finish(mut self) -> FieldSet {
        if self.unsorted {
            self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
            self.nodes.dedup_by(|later, earlier| {
                let same = later.element == earlier.element;
                if same {
                    earlier.member |= later.member;
                    earlier.children = earlier.children.union(&later.children);
                }
                same
            });
        }
        FieldSet { nodes: self.nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&[&str]]) -> FieldSet {
        FieldSet::of_field_paths(paths)
    }

    #[test]
    fn algebra() {
        let a = set(&[&["a"], &["b", "c"], &["b", "d", "e"]]);
        let b = set(&[&["b", "c"], &["b", "d"], &["f"]]);
        assert_eq!(
            a.union(&b),
            set(&[&["a"], &["b", "c"], &["b", "d"], &["b", "d", "e"], &["f"]])
        );
        assert_eq!(a.intersection(&b), set(&[&["b", "c"]]));
        assert_eq!(a.difference(&b), set(&[&["a"], &["b", "d", "e"]]));
        assert_eq!(a.recursive_difference(&b), set(&[&["a"]]));
        assert_eq!(
            a.union(&b).leaves(),
            set(&[&["a"], &["b", "c"], &["b", "d", "e"], &["f"]])
        );
        assert_eq!(a.len(), 3);
        assert!(a.contains(&FieldPath::of_fields(&["b", "c"]).0));
        assert!(!a.contains(&FieldPath::of_fields(&["b"]).0));
    }

    #[test]
    fn paths_are_listed_level_by_level() {
        let listed = set(&[&["a", "x"], &["a"], &["b"]]).paths();
        let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(listed, [".a", ".b", ".a.x"]);
    }

    #[test]
    fn prefixes_select() {
        let all = set(&[&["spec", "replicas"], &["spec", "x"], &["status", "y"]]);
        assert_eq!(
            all.only_below(&[&[Some("spec"), Some("replicas")]]),
            set(&[&["spec", "replicas"]])
        );
        assert_eq!(
            all.only_below(&[&[Some("status")]]),
            set(&[&["status", "y"]])
        );
    }
}
