//! Which values are encrypted.

use regex::Regex;

/// The rule of a file.
#[derive(Clone, Debug)]
pub enum Rule {
    /// All but those under a key with this ending.
    UnencryptedSuffix(String),
    /// Those under a key with this ending.
    EncryptedSuffix(String),
    /// All but those under a key that fits.
    UnencryptedRegex(Expression),
    /// Those under a key that fits.
    EncryptedRegex(Expression),
    /// All but those after a comment that fits.
    UnencryptedComment(Expression),
    /// Those after a comment that fits.
    EncryptedComment(Expression),
}

/// An expression; one that is none fits nothing.
#[derive(Clone, Debug)]
pub struct Expression(Option<Regex>);

impl Expression {
    pub fn new(text: &str) -> Self {
        Expression(Regex::new(text).ok())
    }

    fn fits(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

impl Rule {
    /// Whether a value is encrypted: by the keys above it and the comments before it and before
    /// what it is in.
    pub fn encrypts(&self, path: &[String], comments: &[Vec<String>], is_comment: bool) -> bool {
        match self {
            Rule::UnencryptedSuffix(suffix) => !path.iter().any(|key| key.ends_with(suffix)),
            Rule::EncryptedSuffix(suffix) => path.iter().any(|key| key.ends_with(suffix)),
            Rule::UnencryptedRegex(expression) => !path.iter().any(|key| expression.fits(key)),
            Rule::EncryptedRegex(expression) => path.iter().any(|key| expression.fits(key)),
            Rule::UnencryptedComment(expression) => !comments
                .iter()
                .flatten()
                .any(|comment| expression.fits(comment)),
            Rule::EncryptedComment(expression) => {
                // The comment that asks for encryption stays readable itself.
                let mut all: Vec<&String> = comments.iter().flatten().collect();
                if is_comment && comments.last().is_some_and(|last| !last.is_empty()) {
                    all.pop();
                }
                all.iter().any(|comment| expression.fits(comment))
            }
        }
    }
}
