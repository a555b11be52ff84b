//! The parsed form of a template. It holds no `Rc`, so that it can be shared between threads.

use std::sync::Arc;

use super::number::Number;
use crate::text::GoStr;

/// A byte offset in the source.
pub(crate) type Position = u32;

/// A named template.
#[derive(Debug)]
pub(crate) struct Tree {
    pub name: GoStr,
    /// The name of the text it was parsed from, for positions.
    pub file: Arc<str>,
    pub source: Arc<[u8]>,
    pub root: Body,
}

/// A sequence of nodes.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub nodes: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// A range of the source.
    Text(Position, Position),
    Action(Action),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Box<TemplateCall>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub position: Position,
    pub pipe: Pipe,
}

/// `if`, `with` and `range`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub position: Position,
    pub pipe: Pipe,
    pub body: Body,
    pub otherwise: Option<Body>,
}

#[derive(Debug)]
pub(crate) struct TemplateCall {
    pub position: Position,
    pub name: GoStr,
    pub pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub position: Position,
    pub assigns: bool,
    pub declared: Vec<Variable>,
    pub commands: Vec<Command>,
}

/// A variable by name; equal numbers mean equal names within one source.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub id: u32,
    pub name: GoStr,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub position: Position,
    pub args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub position: Position,
    pub kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Box<Number>),
    /// The text and how it was written.
    String(GoStr, GoStr),
    Field(Box<[GoStr]>),
    Variable(Variable, Box<[GoStr]>),
    Function(FunctionName),
    Pipe(Box<Pipe>),
    Chain(Box<Expr>, Box<[GoStr]>),
}

/// A function found at parse time.
#[derive(Clone, Debug)]
pub(crate) struct FunctionName {
    pub name: GoStr,
    pub target: Target,
}

/// Where the code of a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Builtin(Builtin),
    /// Index into the caller's table.
    Given(usize),
}

/// Go's own functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    UrlQuery,
}

impl Builtin {
    /// The builtin of that name.
    pub fn named(name: &[u8]) -> Option<Builtin> {
        Some(match name {
            b"and" => Builtin::And,
            b"call" => Builtin::Call,
            b"eq" => Builtin::Eq,
            b"ge" => Builtin::Ge,
            b"gt" => Builtin::Gt,
            b"html" => Builtin::Html,
            b"index" => Builtin::Index,
            b"js" => Builtin::Js,
            b"le" => Builtin::Le,
            b"len" => Builtin::Len,
            b"lt" => Builtin::Lt,
            b"ne" => Builtin::Ne,
            b"not" => Builtin::Not,
            b"or" => Builtin::Or,
            b"print" => Builtin::Print,
            b"printf" => Builtin::Printf,
            b"println" => Builtin::Println,
            b"slice" => Builtin::Slice,
            b"urlquery" => Builtin::UrlQuery,
            _ => return None,
        })
    }
}

impl Tree {
    /// Whether there is nothing but white space (and definitions) in it.
    pub fn is_blank(&self) -> bool {
        self.root.nodes.iter().all(|node| match node {
            Node::Text(start, end) => is_blank(&self.source[*start as usize..*end as usize]),
            _ => false,
        })
    }

    /// `FILE:LINE:COLUMN` of a position. The column counts bytes from zero.
    pub fn location(&self, position: Position) -> String {
        let text = &self.source[..(position as usize).min(self.source.len())];
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        let column = match text.iter().rposition(|byte| *byte == b'\n') {
            Some(newline) => text.len() - newline - 1,
            None => text.len(),
        };
        format!("{}:{}:{column}", self.file, lines + 1)
    }
}

/// Whether the text is only white space, by Go's (Unicode) definition.
fn is_blank(text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let (rune, width) = crate::gofmt::decode_rune(rest);
        let space = matches!(rune, 0x09..=0x0d | 0x20 | 0x85 | 0xa0 | 0x1680)
            || matches!(
                rune,
                0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000
            );
        if !space {
            return false;
        }
        rest = &rest[width..];
    }
    true
}
