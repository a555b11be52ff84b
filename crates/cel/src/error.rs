//! What can go wrong, in cel-go's words.

/// Everything that is wrong with the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// The expression.
    pub text: String,
    /// What is wrong where.
    pub issues: Vec<Issue>,
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Characters before the place.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for CompileError {
    /// Each issue with its line of the text and a mark under the place.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let before: String = self.text.chars().take(issue.offset).collect();
            let line = before.matches('\n').count();
            let column = before.chars().rev().take_while(|c| *c != '\n').count();
            let source = self.text.split('\n').nth(line).unwrap_or("");
            write!(
                f,
                "ERROR: <input>:{}:{}: {}\n | {source}\n | {}^",
                line + 1,
                column + 1,
                issue.message,
                ".".repeat(column)
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A map or object has no such key.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// There is no such variable.
    #[error("no such attribute(s): {0}")]
    NoSuchVariable(String),
    /// No form of the function takes these arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// Beyond the end of a list.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// A number left the range of its type.
    #[error("integer overflow")]
    Overflow,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Remainder by zero.
    #[error("modulus by zero")]
    ModulusByZero,
    /// The expression took more steps than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl EvalError {
    pub(crate) fn other(message: impl Into<String>) -> Self {
        EvalError::Other(message.into())
    }
}
