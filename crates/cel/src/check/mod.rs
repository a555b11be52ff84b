//! Checks of expressions before they are evaluated: types, constants, costs.
//!
//! They are those of the API server for rules on custom resources, with its functions only and
//! in the words of cel-go.

mod assign;
mod call_cost;
mod checker;
mod cost;
mod functions;
mod literals;
mod lower;
mod range;
mod types;

use std::sync::Arc;

pub use types::{DeclShape, DeclType, ObjectType, Type};

use crate::ast::Expr;
use crate::error::CompileError;

/// What the variables of an expression stand for.
#[derive(Debug, Clone)]
pub struct Declarations {
    /// Their names and types.
    pub variables: Vec<(String, Type)>,
    /// The data behind them, for estimates of size.
    pub root: Arc<DeclType>,
}

/// What checking an expression has found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The type of its value.
    pub output: Type,
    /// The variables it uses.
    pub variables: Vec<String>,
    /// The most it can cost.
    pub max_cost: u64,
}

/// Checks a parsed expression.
pub(crate) fn check(
    text: &str,
    expr: &Expr,
    declarations: &Declarations,
) -> Result<Checked, CompileError> {
    let tree = lower::Tree::of(expr);
    let mut outcome = checker::check(&tree, &declarations.variables);
    if outcome.issues.is_empty() {
        outcome.issues = literals::check(&tree, &outcome);
    }
    if !outcome.issues.is_empty() {
        return Err(CompileError::new(text, outcome.issues));
    }
    Ok(Checked {
        output: outcome.types[tree.root].clone(),
        max_cost: cost::estimate(&tree, &outcome, &declarations.root),
        variables: outcome.variables,
    })
}
