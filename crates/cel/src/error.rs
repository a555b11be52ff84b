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

/// How many issues are told.
const MOST_ISSUES: usize = 100;

impl CompileError {
    /// The issues in the order of their places.
    pub(crate) fn new(text: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.offset);
        CompileError {
            text: text.to_owned(),
            issues,
        }
    }
}

impl std::fmt::Display for CompileError {
    /// Each issue with its line of the text and a mark under the place.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, issue) in self.issues.iter().take(MOST_ISSUES).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            self.show(issue, f)?;
        }
        match self.issues.len().checked_sub(MOST_ISSUES) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

impl CompileError {
    fn show(&self, issue: &Issue, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before: String = self.text.chars().take(issue.offset).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let source = self.text.split('\n').nth(line).unwrap_or("");
        let source = source.replace('\t', " ");
        // Characters of several bytes are taken for wide ones.
        let mut dots = String::new();
        let mut characters = source.chars();
        for c in characters.by_ref().take(column) {
            dots.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
        }
        let mark = match characters.next() {
            Some(c) if c.len_utf8() > 1 => '\u{ff3e}',
            _ => '^',
        };
        write!(
            f,
            "ERROR: <input>:{}:{}: {}\n | {source}\n | {dots}{mark}",
            line + 1,
            column + 1,
            issue.message,
        )
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
    /// No form of the function takes these arguments; tells which.
    #[error("no such overload: {0}")]
    NoSuchOverloadFor(String),
    /// Beyond the end of a list.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// A number left the range of its type.
    #[error("integer overflow")]
    Overflow,
    /// An unsigned number left the range of its type.
    #[error("unsigned integer overflow")]
    UintOverflow,
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
