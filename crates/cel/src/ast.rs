//! Parsed expressions.

/// An expression with the place where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Characters before it; for calls and selections those before their operator.
    pub offset: usize,
}

impl Expr {
    /// The expressions right inside.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Expr> {
        let mut inside: Vec<&Expr> = Vec::new();
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } | ExprKind::Has { operand, .. } => {
                inside.push(operand)
            }
            ExprKind::Call { target, args, .. } => {
                inside.extend(target.as_deref());
                inside.extend(args);
            }
            ExprKind::List(items) => inside.extend(items.iter().map(|(item, _)| item)),
            ExprKind::Map(entries) => {
                inside.extend(entries.iter().flat_map(|(key, value, _)| [key, value]));
            }
            ExprKind::Comprehension(comprehension) => {
                inside.push(&comprehension.range);
                inside.extend(&comprehension.filter);
                inside.push(&comprehension.body);
            }
            ExprKind::Bind { value, body, .. } => inside.extend([&**value, &**body]),
        }
        inside.into_iter()
    }
}

/// What an expression is.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// A name; a leading dot is kept.
    Ident(String),
    /// `operand.field`.
    Select {
        /// What is selected from.
        operand: Box<Expr>,
        /// The field.
        field: String,
        /// `operand.?field`: gives an optional.
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        /// What is looked at.
        operand: Box<Expr>,
        /// The field.
        field: String,
    },
    /// A function or an operator, on a receiver or without one.
    Call {
        /// The name; operators have the names cel-go gives them (`_==_`).
        function: String,
        /// What it is called on.
        target: Option<Box<Expr>>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, b]`; marks items that stand behind `?`.
    List(Vec<(Expr, bool)>),
    /// `{k: v}`; marks entries whose key stands behind `?`.
    Map(Vec<(Expr, Expr, bool)>),
    /// `all`, `exists`, `map` and the other macros over lists and maps.
    Comprehension(Box<Comprehension>),
    /// `cel.bind(name, value, body)` and `optMap`-like binding.
    Bind {
        /// The name.
        name: String,
        /// What it stands for.
        value: Box<Expr>,
        /// Where it may be used.
        body: Box<Expr>,
    },
}

/// A macro over a list or map.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// Which.
    pub kind: ComprehensionKind,
    /// The list or map.
    pub range: Expr,
    /// The item; or, with two names, the index or key.
    pub first: String,
    /// The item or value, where two names are given.
    pub second: Option<String>,
    /// Which items count, for `map` and the `transform…` macros with a filter.
    pub filter: Option<Expr>,
    /// What is asked or made of each item.
    pub body: Expr,
}

/// The macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComprehensionKind {
    /// True for all.
    All,
    /// True for at least one.
    Exists,
    /// True for exactly one.
    ExistsOne,
    /// The items for which it is true.
    Filter,
    /// A list of results.
    Map,
    /// A map with the same keys.
    TransformMap,
    /// A map made of the maps that result.
    TransformMapEntry,
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`, `0x1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'text'`
    String(String),
    /// `b'bytes'`
    Bytes(Vec<u8>),
}
