//! The Common Expression Language as Kubernetes speaks it: the language, its macros, and the
//! functions of the API server (quantities, addresses, URLs, versions, formats, optionals).
//!
//! ```
//! use everflow_cel::{Program, Value, Variables};
//!
//! let program = Program::compile("object.spec.replicas >= 2").unwrap();
//! let object = Value::from_json(&everflow_json::json!({"spec": {"replicas": 3}}));
//! let answer = program.evaluate(&Variables::new().with("object", object)).unwrap();
//! assert!(answer.equals(&Value::Bool(true)));
//! ```
#![forbid(unsafe_code)]

pub mod ast;
pub mod check;
mod error;
mod escape;
mod eval;
mod formats;
mod functions;
pub mod kubernetes;
mod lexer;
mod parser;
pub mod rules;
pub mod time;
mod value;
mod work;

pub use error::{CompileError, EvalError, Issue};
pub use escape::escape;
pub use eval::Variables;
pub use value::{Key, List, ListKind, Value};

/// How many steps an evaluation may take unless told otherwise.
const DEFAULT_STEPS: u64 = 1_000_000;

/// A parsed expression; it can be evaluated any number of times, from any thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    text: String,
    expr: ast::Expr,
    steps: u64,
}

impl Program {
    /// Parses an expression.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        Ok(Program {
            text: text.to_owned(),
            expr: parser::parse(text, parser::Macros::All)?,
            steps: DEFAULT_STEPS,
        })
    }

    /// Parses an expression and checks it as the API server checks rules: types, constants, costs.
    pub fn compile_checked(
        text: &str,
        declarations: &check::Declarations,
    ) -> Result<(Self, check::Checked), CompileError> {
        let program = Program {
            text: text.to_owned(),
            expr: parser::parse(text, parser::Macros::ApiServer)?,
            steps: DEFAULT_STEPS,
        };
        let checked = check::check(text, &program.expr, declarations)?;
        Ok((program, checked))
    }

    /// Evaluates what is constant, as the API server does before it uses a rule.
    pub fn fold_constants(&self) -> Result<(), EvalError> {
        eval::fold_constants(&self.expr)
    }

    /// Limits the steps of an evaluation.
    pub fn with_step_limit(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// The expression's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression's tree.
    pub fn expr(&self) -> &ast::Expr {
        &self.expr
    }

    /// Evaluates the expression, which may do little work: it can be evaluated where others wait.
    pub fn evaluate(&self, variables: &Variables) -> Result<Value, EvalError> {
        self.evaluate_within(variables, &work::Work::of_one()).0
    }

    /// Evaluates the expression and tells what that cost.
    pub fn evaluate_counting(&self, variables: &Variables) -> (Result<Value, EvalError>, u64) {
        self.evaluate_within(variables, &work::Work::default())
    }

    /// As [`Program::evaluate_counting`], with work that other evaluations share.
    pub(crate) fn evaluate_within(
        &self,
        variables: &Variables,
        work: &work::Work,
    ) -> (Result<Value, EvalError>, u64) {
        eval::evaluate(&self.expr, variables, self.steps, work)
    }
}

#[cfg(test)]
mod tests;
