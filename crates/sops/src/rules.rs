//! Which values are encrypted.

use regex::{Regex, RegexBuilder};

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

/// How large a compiled expression may be.
const SIZE_LIMIT: usize = 64 << 10;
/// How long the keys and comments are that an expression is tried on: the worst ones take time for each
/// of their states at each letter.
const LONGEST: usize = 16 << 10;

/// An expression; one that is none, or too large, fits nothing.
#[derive(Clone, Debug)]
pub struct Expression(Option<Regex>);

impl Expression {
    pub fn new(text: &str) -> Self {
        let regex = RegexBuilder::new(text).size_limit(SIZE_LIMIT).build();
        Expression(regex.ok())
    }

    fn fits(&self, text: &str) -> bool {
        let regex = self.0.as_ref().filter(|_| text.len() <= LONGEST);
        regex.is_some_and(|regex| regex.is_match(text))
    }
}

impl Rule {
    /// Whether a key says something about what is under it.
    pub fn fits_key(&self, key: &str) -> bool {
        match self {
            Rule::UnencryptedSuffix(suffix) | Rule::EncryptedSuffix(suffix) => {
                key.ends_with(suffix)
            }
            Rule::UnencryptedRegex(expression) | Rule::EncryptedRegex(expression) => {
                expression.fits(key)
            }
            Rule::UnencryptedComment(_) | Rule::EncryptedComment(_) => false,
        }
    }

    /// Whether a comment says something about what is after it.
    pub fn fits_comment(&self, comment: &str) -> bool {
        match self {
            Rule::UnencryptedComment(expression) | Rule::EncryptedComment(expression) => {
                expression.fits(comment)
            }
            _ => false,
        }
    }

    /// Whether a value is encrypted, when so many of the keys above it fit, and so many of the
    /// comments before it and before what it is in.
    pub fn encrypts(&self, keys: usize, comments: usize) -> bool {
        match self {
            Rule::UnencryptedSuffix(_) | Rule::UnencryptedRegex(_) => keys == 0,
            Rule::EncryptedSuffix(_) | Rule::EncryptedRegex(_) => keys > 0,
            Rule::UnencryptedComment(_) => comments == 0,
            Rule::EncryptedComment(_) => comments > 0,
        }
    }

    /// Whether a comment that fits is subject to the rule itself: one that asks for encryption
    /// stays readable.
    pub fn counts_for_itself(&self) -> bool {
        !matches!(self, Rule::EncryptedComment(_))
    }
}
