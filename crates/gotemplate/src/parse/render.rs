//! Writes parts of a template back as text, for error messages.

use super::ast::{Action, Body, Branch, Command, Expr, ExprKind, Node, Pipe, TemplateCall, Tree};
use crate::gofmt::quote;
use crate::text::GoStr;

/// The part of a template that an error message shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'t> {
    Expr(&'t Expr),
    Pipe(&'t Pipe),
    Command(&'t Command),
    Action(&'t Action),
    Template(&'t TemplateCall),
    If(&'t Branch),
    With(&'t Branch),
    Range(&'t Branch),
    /// A body (a template as a whole) with its position.
    Body(&'t Body, u32),
}

impl Place<'_> {
    pub fn position(&self) -> u32 {
        match self {
            Place::Expr(expr) => expr.position,
            Place::Pipe(pipe) => pipe.position,
            Place::Command(command) => command.position,
            Place::Action(action) => action.position,
            Place::Template(call) => call.position,
            Place::If(branch) | Place::With(branch) | Place::Range(branch) => branch.position,
            Place::Body(_, position) => *position,
        }
    }

    /// The text, as Go's `String` method of the node gives it.
    pub fn text(&self, tree: &Tree) -> String {
        let mut out = Vec::new();
        match self {
            Place::Expr(expr) => write_expr(&mut out, expr),
            Place::Pipe(pipe) => write_pipe(&mut out, pipe),
            Place::Command(command) => write_command(&mut out, command),
            Place::Action(action) => write_action(&mut out, action),
            Place::Template(call) => write_template(&mut out, call),
            Place::If(branch) => write_branch(&mut out, "if", branch, tree),
            Place::With(branch) => write_branch(&mut out, "with", branch, tree),
            Place::Range(branch) => write_branch(&mut out, "range", branch, tree),
            Place::Body(body, _) => write_body(&mut out, body, tree),
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The text of an expression.
pub(crate) fn expr_text(expr: &Expr) -> String {
    let mut out = Vec::new();
    write_expr(&mut out, expr);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_fields(out: &mut Vec<u8>, fields: &[GoStr]) {
    for field in fields {
        out.push(b'.');
        out.extend_from_slice(field.as_bytes());
    }
}

fn write_expr(out: &mut Vec<u8>, expr: &Expr) {
    match &expr.kind {
        ExprKind::Bool(true) => out.extend_from_slice(b"true"),
        ExprKind::Bool(false) => out.extend_from_slice(b"false"),
        ExprKind::Dot => out.push(b'.'),
        ExprKind::Nil => out.extend_from_slice(b"nil"),
        ExprKind::Number(number) => out.extend_from_slice(number.text.as_bytes()),
        ExprKind::String(_, literal) => out.extend_from_slice(literal.as_bytes()),
        ExprKind::Field(fields) => write_fields(out, fields),
        ExprKind::Variable(variable, fields) => {
            out.extend_from_slice(variable.name.as_bytes());
            write_fields(out, fields);
        }
        ExprKind::Function(function) => out.extend_from_slice(function.name.as_bytes()),
        ExprKind::Pipe(pipe) => write_pipe(out, pipe),
        ExprKind::Chain(inner, fields) => {
            write_operand(out, inner);
            write_fields(out, fields);
        }
    }
}

/// Pipelines stand in parentheses as operands.
fn write_operand(out: &mut Vec<u8>, expr: &Expr) {
    match &expr.kind {
        ExprKind::Pipe(pipe) => {
            out.push(b'(');
            write_pipe(out, pipe);
            out.push(b')');
        }
        _ => write_expr(out, expr),
    }
}

fn write_command(out: &mut Vec<u8>, command: &Command) {
    for (index, arg) in command.args.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        write_operand(out, arg);
    }
}

fn write_pipe(out: &mut Vec<u8>, pipe: &Pipe) {
    for (index, variable) in pipe.declared.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(variable.name.as_bytes());
    }
    if !pipe.declared.is_empty() {
        out.extend_from_slice(if pipe.assigns { b" = " } else { b" := " });
    }
    for (index, command) in pipe.commands.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b" | ");
        }
        write_command(out, command);
    }
}

fn write_action(out: &mut Vec<u8>, action: &Action) {
    out.extend_from_slice(b"{{");
    write_pipe(out, &action.pipe);
    out.extend_from_slice(b"}}");
}

fn write_template(out: &mut Vec<u8>, call: &TemplateCall) {
    out.extend_from_slice(b"{{template ");
    out.extend_from_slice(quote(call.name.as_bytes()).as_bytes());
    if let Some(pipe) = &call.pipe {
        out.push(b' ');
        write_pipe(out, pipe);
    }
    out.extend_from_slice(b"}}");
}

fn write_branch(out: &mut Vec<u8>, word: &str, branch: &Branch, tree: &Tree) {
    out.extend_from_slice(b"{{");
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    write_pipe(out, &branch.pipe);
    out.extend_from_slice(b"}}");
    write_body(out, &branch.body, tree);
    if let Some(otherwise) = &branch.otherwise {
        out.extend_from_slice(b"{{else}}");
        write_body(out, otherwise, tree);
    }
    out.extend_from_slice(b"{{end}}");
}

fn write_body(out: &mut Vec<u8>, body: &Body, tree: &Tree) {
    for node in &body.nodes {
        match node {
            Node::Text(start, end) => {
                out.extend_from_slice(&tree.source[*start as usize..*end as usize]);
            }
            Node::Action(action) => write_action(out, action),
            Node::If(branch) => write_branch(out, "if", branch, tree),
            Node::With(branch) => write_branch(out, "with", branch, tree),
            Node::Range(branch) => write_branch(out, "range", branch, tree),
            Node::Template(call) => write_template(out, call),
            Node::Break => out.extend_from_slice(b"{{break}}"),
            Node::Continue => out.extend_from_slice(b"{{continue}}"),
        }
    }
}
