//! Expressions with their macros spelled out, as checks and costs see them.

use crate::ast::{Comprehension, ComprehensionKind, Expr, ExprKind, Literal};

/// The number of a node.
pub(super) type Id = usize;

/// The name under which macros collect their result.
pub(super) const ACCUMULATOR: &str = "@result";
const UNUSED: &str = "#unused";

/// A node and where it stands in the text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) offset: usize,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Id,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List(Vec<(Id, bool)>),
    Map(Vec<(Id, Id, bool)>),
    Fold(Box<Fold>),
}

/// A loop over a list or map that collects a result.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Id,
    pub(super) first: String,
    pub(super) second: Option<String>,
    pub(super) accumulator: String,
    pub(super) start: Id,
    pub(super) condition: Id,
    pub(super) step: Id,
    pub(super) result: Id,
}

/// All nodes of an expression.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
}

impl Tree {
    pub(super) fn of(expr: &Expr) -> Self {
        let mut tree = Tree::default();
        tree.root = tree.lower(expr);
        tree
    }

    pub(super) fn kind(&self, id: Id) -> &Kind {
        &self.nodes[id].kind
    }

    fn add(&mut self, offset: usize, kind: Kind) -> Id {
        self.nodes.push(Node { kind, offset });
        self.nodes.len() - 1
    }

    fn call(&mut self, offset: usize, function: &str, args: Vec<Id>) -> Id {
        let function = function.to_owned();
        self.add(
            offset,
            Kind::Call {
                function,
                target: None,
                args,
            },
        )
    }

    fn literal(&mut self, offset: usize, literal: Literal) -> Id {
        self.add(offset, Kind::Literal(literal))
    }

    fn ident(&mut self, offset: usize, name: &str) -> Id {
        self.add(offset, Kind::Ident(name.to_owned()))
    }

    fn lower(&mut self, expr: &Expr) -> Id {
        let offset = expr.offset;
        let kind = match &expr.kind {
            ExprKind::Literal(literal) => Kind::Literal(literal.clone()),
            ExprKind::Ident(name) => Kind::Ident(name.clone()),
            ExprKind::Select {
                operand,
                field,
                optional: true,
            } => {
                let operand = self.lower(operand);
                let field = self.literal(offset, Literal::String(field.clone()));
                return self.call(offset, "_?._", vec![operand, field]);
            }
            ExprKind::Select { operand, field, .. } => Kind::Select {
                operand: self.lower(operand),
                field: field.clone(),
                test: false,
            },
            ExprKind::Has { operand, field } => Kind::Select {
                operand: self.lower(operand),
                field: field.clone(),
                test: true,
            },
            ExprKind::Call {
                function,
                target,
                args,
            } => Kind::Call {
                function: function.clone(),
                target: target.as_ref().map(|target| self.lower(target)),
                args: args.iter().map(|arg| self.lower(arg)).collect(),
            },
            ExprKind::List(items) => Kind::List(
                items
                    .iter()
                    .map(|(item, optional)| (self.lower(item), *optional))
                    .collect(),
            ),
            ExprKind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|(key, value, optional)| (self.lower(key), self.lower(value), *optional))
                    .collect(),
            ),
            ExprKind::Comprehension(comprehension) => return self.fold(comprehension, offset),
            ExprKind::Bind { name, value, body } => {
                let range = self.add(offset, Kind::List(Vec::new()));
                let start = self.lower(value);
                let condition = self.literal(offset, Literal::Bool(false));
                let step = self.ident(offset, name);
                let result = self.lower(body);
                Kind::Fold(Box::new(Fold {
                    range,
                    first: UNUSED.to_owned(),
                    second: None,
                    accumulator: name.clone(),
                    start,
                    condition,
                    step,
                    result,
                }))
            }
        };
        self.add(offset, kind)
    }

    fn fold(&mut self, comprehension: &Comprehension, offset: usize) -> Id {
        use ComprehensionKind::{
            All, Exists, ExistsOne, Filter, Map, TransformMap, TransformMapEntry,
        };
        let range = self.lower(&comprehension.range);
        let filter = comprehension
            .filter
            .as_ref()
            .map(|filter| self.lower(filter));
        let body = self.lower(&comprehension.body);
        let accumulator = |tree: &mut Self| tree.ident(offset, ACCUMULATOR);
        let so_far = accumulator(self);
        let yes = Literal::Bool(true);
        let (start, condition, step, result) = match comprehension.kind {
            All => {
                let start = self.literal(offset, yes);
                let tested = accumulator(self);
                let condition = self.call(offset, "@not_strictly_false", vec![tested]);
                let step = self.call(offset, "_&&_", vec![so_far, body]);
                (start, condition, step, accumulator(self))
            }
            Exists => {
                let start = self.literal(offset, Literal::Bool(false));
                let tested = accumulator(self);
                let negated = self.call(offset, "!_", vec![tested]);
                let condition = self.call(offset, "@not_strictly_false", vec![negated]);
                let step = self.call(offset, "_||_", vec![so_far, body]);
                (start, condition, step, accumulator(self))
            }
            ExistsOne => {
                let start = self.literal(offset, Literal::Int(0));
                let condition = self.literal(offset, yes);
                let one = self.literal(offset, Literal::Int(1));
                let more = self.call(offset, "_+_", vec![so_far, one]);
                let same = accumulator(self);
                let step = self.call(offset, "_?_:_", vec![body, more, same]);
                let (found, one) = (accumulator(self), self.literal(offset, Literal::Int(1)));
                let result = self.call(offset, "_==_", vec![found, one]);
                (start, condition, step, result)
            }
            Filter | Map => {
                let (filter, item) = match comprehension.kind {
                    Filter => (Some(body), self.ident(offset, &comprehension.first)),
                    _ => (filter, body),
                };
                let start = self.add(offset, Kind::List(Vec::new()));
                let condition = self.literal(offset, yes);
                let one = self.add(offset, Kind::List(vec![(item, false)]));
                let step = self.call(offset, "_+_", vec![so_far, one]);
                let step = self.only_if(filter, step, offset);
                (start, condition, step, accumulator(self))
            }
            TransformMap | TransformMapEntry => {
                let start = self.add(offset, Kind::Map(Vec::new()));
                let condition = self.literal(offset, yes);
                let args = match comprehension.kind {
                    TransformMap => {
                        let key = self.ident(offset, &comprehension.first);
                        vec![so_far, key, body]
                    }
                    _ => vec![so_far, body],
                };
                let step = self.call(offset, "cel.@mapInsert", args);
                let step = self.only_if(filter, step, offset);
                (start, condition, step, accumulator(self))
            }
        };
        self.add(
            offset,
            Kind::Fold(Box::new(Fold {
                range,
                first: comprehension.first.clone(),
                second: comprehension.second.clone(),
                accumulator: ACCUMULATOR.to_owned(),
                start,
                condition,
                step,
                result,
            })),
        )
    }

    fn only_if(&mut self, filter: Option<Id>, step: Id, offset: usize) -> Id {
        match filter {
            None => step,
            Some(filter) => {
                let same = self.ident(offset, ACCUMULATOR);
                self.call(offset, "_?_:_", vec![filter, step, same])
            }
        }
    }

    /// The nodes right below one.
    pub(super) fn children(&self, id: Id) -> Vec<Id> {
        match self.kind(id) {
            Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } => vec![*operand],
            Kind::Call { target, args, .. } => target.iter().chain(args).copied().collect(),
            Kind::List(items) => items.iter().map(|(item, _)| *item).collect(),
            Kind::Map(entries) => entries
                .iter()
                .flat_map(|(key, value, _)| [*key, *value])
                .collect(),
            Kind::Fold(fold) => vec![
                fold.range,
                fold.start,
                fold.condition,
                fold.step,
                fold.result,
            ],
        }
    }

    /// `a.b.c` as text, where the node is nothing else.
    pub(super) fn dotted(&self, id: Id) -> Option<String> {
        match self.kind(id) {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                test: false,
            } => Some(format!("{}.{field}", self.dotted(*operand)?)),
            _ => None,
        }
    }
}
