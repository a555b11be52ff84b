//! JSON text piece by piece, for what is too large to be held as values.

use super::parse::{Numbers, check_form, number, unquote};
use super::scan::{Scanner, Token};
use crate::walk::{Collection, Stop};
use everflow_json::Value;

/// A step through JSON text.
pub(crate) enum Piece {
    Start(Collection),
    End,
    Key(String),
    /// Neither array nor object.
    Value(Value),
}

/// Hands over every piece of a text that is sound from beginning to end; integers stay integers.
pub(crate) fn each_piece<E>(
    text: &[u8],
    visit: &mut dyn FnMut(Piece) -> Result<(), Stop<E>>,
) -> Result<(), Stop<E>> {
    check_form(text).map_err(Stop::Json)?;
    let mut scanner = Scanner::new(text);
    let mut key_next = false;
    // Whether each open collection is an object.
    let mut open: Vec<bool> = Vec::new();
    while let Some(token) = scanner.next().map_err(Stop::Json)? {
        match token {
            Token::Colon => key_next = false,
            Token::Comma => key_next = open.last() == Some(&true),
            Token::ArrayStart => {
                open.push(false);
                key_next = false;
                visit(Piece::Start(Collection::List))?;
            }
            Token::ObjectStart => {
                open.push(true);
                key_next = true;
                visit(Piece::Start(Collection::Map))?;
            }
            Token::ArrayEnd | Token::ObjectEnd => {
                open.pop();
                key_next = false;
                visit(Piece::End)?;
            }
            Token::String(quoted) if key_next => visit(Piece::Key(unquote(quoted)))?,
            Token::String(quoted) => visit(Piece::Value(Value::String(unquote(quoted).into())))?,
            Token::Number(digits) => {
                let value = number(digits, Numbers::Integers).map_err(Stop::Json)?;
                visit(Piece::Value(value))?;
            }
            Token::True => visit(Piece::Value(Value::Bool(true)))?,
            Token::False => visit(Piece::Value(Value::Bool(false)))?,
            Token::Null => visit(Piece::Value(Value::Null))?,
        }
    }
    Ok(())
}

/// Whether the text is one JSON value, as `json.Valid` says.
pub fn is_valid(text: &[u8]) -> bool {
    check_form(text).is_ok()
}
