//! What an expression may cost at most, estimated as the API server estimates it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call_cost::{CallCost, Operand, call_cost};
use super::checker::Outcome;
use super::lower::{Fold, Id, Kind, Tree};
use super::range::Range;
use super::types::{DeclShape, DeclType, Type};
use crate::ast::Literal;

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;

/// The most the expression can cost; `root` declares the data that variables stand for.
pub(super) fn estimate(tree: &Tree, outcome: &Outcome, root: &Arc<DeclType>) -> u64 {
    let mut estimator = Estimator {
        tree,
        outcome,
        root,
        paths: vec![Vec::new(); tree.nodes.len()],
        sizes: vec![None; tree.nodes.len()],
        entries: vec![None; tree.nodes.len()],
        locals: BTreeMap::new(),
    };
    estimator.cost(tree.root).max
}

/// Sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

fn union(left: Option<Entries>, right: Option<Entries>) -> Option<Entries> {
    let (left, right) = (left?, right?);
    Some(Entries {
        is_list: left.is_list,
        key: left.key.union(right.key),
        value: left.value.union(right.value),
    })
}

#[derive(Debug, Clone)]
struct Local {
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// Sizes by path, as the schema declares them.
pub(super) trait SizeOf {
    /// The size of the data at a path.
    fn declared(&self, path: &[String]) -> Option<Range>;
}

impl SizeOf for Estimator<'_> {
    fn declared(&self, path: &[String]) -> Option<Range> {
        self.declared_size(path)
    }
}

struct Estimator<'t> {
    tree: &'t Tree,
    outcome: &'t Outcome,
    root: &'t Arc<DeclType>,
    /// From a variable to the data a node stands for.
    paths: Vec<Vec<String>>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
    locals: BTreeMap<String, Vec<Local>>,
}

impl<'t> Estimator<'t> {
    fn cost(&mut self, id: Id) -> Range {
        let tree = self.tree;
        match tree.kind(id) {
            Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                self.paths[id] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                Range::ONE
            }
            Kind::Select {
                operand,
                field,
                test,
            } => {
                let mut cost = self.cost(*operand);
                if *test {
                    return cost;
                }
                if matches!(self.ty(*operand), Type::Map(..) | Type::Object(_)) {
                    cost = cost.plus(Range::ONE);
                }
                self.paths[id] = extended(self.path(*operand), field);
                cost
            }
            Kind::Call {
                function,
                target,
                args,
            } => {
                let (function, target) = match &self.outcome.namespaced[id] {
                    Some(name) => (name.as_str(), None),
                    None => (function.as_str(), *target),
                };
                self.call(id, function, target, args)
            }
            Kind::List(items) => {
                let mut sizes = if items.is_empty() {
                    Range::ZERO
                } else {
                    Range::NONE
                };
                let mut cost = Range::exactly(10);
                for (item, _) in items {
                    cost = cost.plus(self.cost(*item));
                    sizes = sizes.union(self.size_or_any(*item));
                }
                self.entries[id] = Some(Entries {
                    is_list: true,
                    key: Range::ONE,
                    value: sizes,
                });
                cost
            }
            Kind::Map(entries) => self.map(id, entries),
            Kind::Fold(fold) if self.is_bind(fold) => {
                let cost = self.cost(fold.range).plus(self.cost(fold.start));
                self.push_local(&fold.accumulator, fold.start);
                let cost = cost.plus(self.cost(fold.result));
                let (size, entries) = (self.size(fold.result), self.entries_of(fold.result));
                self.pop(&fold.accumulator);
                self.set_size(id, size);
                self.set_entries(id, entries);
                cost
            }
            Kind::Fold(fold) => self.fold(id, fold),
        }
    }

    fn map(&mut self, id: Id, list: &[(Id, Id, bool)]) -> Range {
        let start = if list.is_empty() {
            Range::ZERO
        } else {
            Range::NONE
        };
        let (mut keys, mut values) = (start, start);
        let mut cost = Range::exactly(30);
        for (key, value, _) in list {
            cost = cost.plus(self.cost(*key)).plus(self.cost(*value));
            keys = keys.union(self.size_or_any(*key));
            values = values.union(self.size_or_any(*value));
        }
        self.entries[id] = Some(Entries {
            is_list: false,
            key: keys,
            value: values,
        });
        cost
    }

    fn is_bind(&self, fold: &Fold) -> bool {
        matches!(self.tree.kind(fold.range), Kind::List(items) if items.is_empty())
            && matches!(
                self.tree.kind(fold.condition),
                Kind::Literal(Literal::Bool(false))
            )
    }

    fn fold(&mut self, id: Id, fold: &Fold) -> Range {
        let mut cost = self.cost(fold.range).plus(self.cost(fold.start));
        self.push_local(&fold.accumulator, fold.start);
        self.push_iteration(fold);
        let turn = self.cost(fold.condition).plus(self.cost(fold.step));
        self.pop(&fold.first);
        if let Some(second) = &fold.second {
            self.pop(second);
        }
        cost = cost.plus(self.cost(fold.result));
        self.pop(&fold.accumulator);
        let turns = self.size_or_any(fold.range);
        cost = cost.plus(turns.times(turn));
        match self.tree.kind(fold.start) {
            Kind::Literal(_) => {
                let size = self.size(fold.start);
                self.set_size(id, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(id, Some(turns));
                let entries = self.entries_of(fold.step);
                self.set_entries(id, entries);
            }
            _ => {}
        }
        cost
    }

    fn push_iteration(&mut self, fold: &Fold) {
        let entries = self.entries_of(fold.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.ty(fold.range), Type::List(_)),
        };
        let path = self.path(fold.range);
        let value_step = if is_list { "@items" } else { "@values" };
        // With two names, cel-go may let both paths share memory: then the value's step wins.
        let shared = fold.second.is_some() && !path.is_empty() && !path.len().is_power_of_two();
        let key_step = match (shared, is_list) {
            (true, _) => value_step,
            (false, true) => "@indices",
            (false, false) => "@keys",
        };
        let key = Local {
            path: extended(path.clone(), key_step),
            size: entries.map(|entries| entries.key),
            entries: None,
        };
        let value = Local {
            path: extended(path, value_step),
            size: entries.map(|entries| entries.value),
            entries: None,
        };
        match &fold.second {
            Some(second) => {
                self.push(&fold.first, key);
                self.push(second, value);
            }
            None => self.push(&fold.first, if is_list { value } else { key }),
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> Range {
        if function == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(*arg).plus(Range::ONE);
            let (size, entries) = (self.size(*arg), self.entries_of(*arg));
            self.set_size(id, size);
            self.set_entries(id, entries);
            return cost;
        }
        let arg_costs: Vec<Range> = args.iter().map(|arg| self.cost(*arg)).collect();
        let operands: Vec<Operand<'_>> = args.iter().map(|arg| self.operand(*arg)).collect();
        let outcome = self.outcome;
        if outcome.overloads[id].is_empty() {
            return Range::ZERO;
        }
        let mut cost = Range::ZERO;
        let target = target.map(|target| {
            cost = self.cost(target);
            self.operand(target)
        });
        let mut own = Range::NONE;
        let mut size: Option<Range> = None;
        for overload in &outcome.overloads[id] {
            let one = self.overload_cost(
                id,
                function,
                overload,
                target.as_ref(),
                args,
                &operands,
                &arg_costs,
            );
            own = own.union(one.cost);
            size = match (size, one.size) {
                (Some(known), Some(other)) => Some(known.union(other)),
                (known, other) => known.or(other),
            };
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(collection)) = (step, args.first()) {
                size = self.entries_of(*collection).map(|entries| entries.value);
                self.paths[id] = extended(self.path(*collection), step);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        self.set_size(id, size);
        cost.plus(own)
    }

    #[allow(clippy::too_many_arguments)]
    fn overload_cost(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<&Operand<'t>>,
        args: &[Id],
        operands: &[Operand<'t>],
        arg_costs: &[Range],
    ) -> CallCost {
        let all = arg_costs
            .iter()
            .fold(Range::ZERO, |sum, cost| sum.plus(*cost));
        if let Some(known) = call_cost(function, overload, target, operands, self) {
            return CallCost {
                cost: known.cost.plus(all),
                size: known.size,
            };
        }
        let sizes: Vec<Range> = operands.iter().map(Operand::size_or_any).collect();
        let receiver = target.map(Operand::size_or_any);
        let plain = |cost: Range| CallCost {
            cost: cost.plus(all),
            size: None,
        };
        match (overload, sizes.as_slice(), receiver) {
            ("string_format", _, Some(text)) => plain(text.scaled(TRAVERSAL)),
            ("string_to_bytes", [text], _) => CallCost {
                cost: text.scaled(TRAVERSAL).plus(all),
                size: Some(Range {
                    min: text.min,
                    max: text.max.wrapping_mul(4),
                }),
            },
            ("bytes_to_string", [bytes], _) => CallCost {
                cost: bytes.scaled(TRAVERSAL).plus(all),
                size: Some(Range {
                    min: bytes.min / 4,
                    max: bytes.max,
                }),
            },
            ("strings_quote", [text], _) => CallCost {
                cost: text.scaled(TRAVERSAL).plus(all),
                size: Some(Range {
                    min: text.min + 2,
                    max: text.max.wrapping_mul(2).wrapping_add(2),
                }),
            },
            ("starts_with_string" | "ends_with_string", [part], _) => plain(part.scaled(TRAVERSAL)),
            ("in_list", [_, list], _) => plain(*list),
            ("matches_string", [pattern], Some(text)) => plain(
                text.plus(Range::ONE)
                    .scaled(TRAVERSAL)
                    .times(pattern.scaled(REGEX)),
            ),
            ("contains_string", [part], Some(text)) => {
                plain(text.scaled(TRAVERSAL).times(part.scaled(TRAVERSAL)))
            }
            ("logical_and" | "logical_or", _, _) => CallCost {
                cost: Range {
                    min: arg_costs.first().map_or(0, |first| first.min),
                    max: all.max,
                },
                size: None,
            },
            ("conditional", [_, yes, no], _) => {
                let entries = union(self.entries_of(args[1]), self.entries_of(args[2]));
                self.set_entries(id, entries);
                CallCost {
                    cost: arg_costs[0].plus(arg_costs[1].union(arg_costs[2])),
                    size: Some(yes.union(*no)),
                }
            }
            ("add_string" | "add_bytes" | "add_list", [left, right], _) => {
                let entries = union(self.entries_of(args[0]), self.entries_of(args[1]));
                self.set_entries(id, entries);
                let size = left.plus(*right);
                let cost = match overload {
                    "add_list" => Range::ONE,
                    _ => size.scaled(TRAVERSAL),
                };
                CallCost {
                    cost: cost.plus(all),
                    size: Some(size),
                }
            }
            (name, [left, right], _) if compares_content(name) => {
                let most = left.max.min(right.max);
                let range = Range {
                    min: u64::from(most > 0),
                    max: most,
                };
                plain(range.scaled(TRAVERSAL))
            }
            _ => plain(Range::ONE),
        }
    }

    fn ty(&self, id: Id) -> &'t Type {
        &self.outcome.types[id]
    }

    fn operand(&mut self, id: Id) -> Operand<'t> {
        let mut path = self.path(id);
        if path
            .first()
            .is_some_and(|first| first.starts_with("@result"))
        {
            path = Vec::new();
        }
        let literal = match self.tree.kind(id) {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        };
        Operand {
            path,
            ty: self.ty(id),
            size: self.size(id),
            literal,
        }
    }

    fn path(&self, id: Id) -> Vec<String> {
        if let Kind::Ident(name) = self.tree.kind(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[id].clone()
    }

    /// The size that the schema allows for the data at a path.
    fn declared_size(&self, path: &[String]) -> Option<Range> {
        let (_, steps) = path.split_first()?;
        let mut current = self.root;
        for step in steps {
            current = match (step.as_str(), &current.shape) {
                ("@items" | "@values", _) => current.element()?,
                ("@keys", DeclShape::Map(_)) => return Some(Range::ZERO),
                (field, DeclShape::Object(fields)) => fields.get(field)?,
                _ => return None,
            };
        }
        Some(Range {
            min: 0,
            max: current.max_elements,
        })
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(known) = self.sizes[id] {
            return Some(known);
        }
        if let Some(obvious) = obvious_size(self.tree.kind(id)) {
            return Some(Range::exactly(obvious));
        }
        if let Some(declared) = self.declared_size(&self.path(id)) {
            self.sizes[id] = Some(declared);
            return Some(declared);
        }
        if is_scalar(self.ty(id)) {
            return Some(Range::ONE);
        }
        match self.tree.kind(id) {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_any(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::ANY)
    }

    fn set_size(&mut self, id: Id, size: Option<Range>) {
        if size.is_some() {
            self.sizes[id] = size;
        }
    }

    fn entries_of(&self, id: Id) -> Option<Entries> {
        self.entries[id].or_else(|| match self.tree.kind(id) {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        })
    }

    fn set_entries(&mut self, id: Id, entries: Option<Entries>) {
        if entries.is_some() {
            self.entries[id] = entries;
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn push_local(&mut self, name: &str, id: Id) {
        let local = Local {
            path: self.path(id),
            size: self.size(id),
            entries: self.entries_of(id),
        };
        self.push(name, local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }
}

fn extended(mut path: Vec<String>, step: &str) -> Vec<String> {
    path.push(step.to_owned());
    path
}

fn compares_content(overload: &str) -> bool {
    matches!(overload, "equals" | "not_equals")
        || ["less", "greater", "less_equals", "greater_equals"]
            .iter()
            .any(|order| {
                overload
                    .strip_prefix(order)
                    .is_some_and(|rest| rest == "_string" || rest == "_bytes")
            })
}

fn obvious_size(kind: &Kind) -> Option<u64> {
    Some(match kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(items) => items.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        other => other.unwrap_optional().is_some_and(is_scalar),
    }
}
