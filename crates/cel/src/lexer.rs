//! Text into tokens.

use crate::ast::Literal;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    Literal(Literal),
    Ident,
    /// An operator or a bracket.
    Symbol,
    /// A number that does not fit its type.
    BadNumber,
    /// What no token can begin with.
    Unknown,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'a str,
    /// Characters before it.
    pub(crate) offset: usize,
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "<", ">",
];

/// All tokens, with an end token behind them, and what is none. A string that does not end is none.
pub(crate) fn tokens(text: &str) -> (Vec<Token<'_>>, Vec<Token<'_>>) {
    let mut lexer = Lexer {
        text,
        position: 0,
        offset: 0,
    };
    let mut tokens = Vec::new();
    let mut unknown = Vec::new();
    loop {
        lexer.skip_blanks();
        let token = lexer.next();
        match token.kind {
            TokenKind::Unknown => unknown.push(token),
            TokenKind::End => {
                tokens.push(token);
                return (tokens, unknown);
            }
            _ => tokens.push(token),
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    position: usize,
    offset: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let taken = &self.text[self.position..self.position + bytes];
        self.position += bytes;
        self.offset += taken.chars().count();
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len()
                - rest
                    .trim_start_matches([' ', '\t', '\n', '\r', '\x0c'])
                    .len();
            if blanks > 0 {
                self.advance(blanks);
            } else if rest.starts_with("//") {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Token<'a> {
        let offset = self.offset;
        let rest = self.rest();
        let token = |kind, text| Token { kind, text, offset };
        let Some(first) = rest.chars().next() else {
            return token(TokenKind::End, "<EOF>");
        };
        if let Some((length, literal)) = quoted(rest) {
            let text = self.advance(length);
            return token(literal.map_or(TokenKind::Unknown, TokenKind::Literal), text);
        }
        let digit_follows = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if first.is_ascii_digit() || (first == '.' && digit_follows) {
            let (length, literal) = number(rest);
            let text = self.advance(length);
            return token(
                literal.map_or(TokenKind::BadNumber, TokenKind::Literal),
                text,
            );
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let text = self.advance(length);
            let kind = match text {
                "true" => TokenKind::Literal(Literal::Bool(true)),
                "false" => TokenKind::Literal(Literal::Bool(false)),
                "null" => TokenKind::Literal(Literal::Null),
                "in" => TokenKind::Symbol,
                _ => TokenKind::Ident,
            };
            return token(kind, text);
        }
        if first == '`'
            && let Some(end) = rest[1..].find('`')
        {
            let text = self.advance(end + 2);
            return token(TokenKind::Ident, text);
        }
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            let text = self.advance(symbol.len());
            return token(TokenKind::Symbol, text);
        }
        // What could begin an operator takes the character that does not continue it along.
        let mut length = first.len_utf8();
        if matches!(first, '=' | '&' | '|') {
            length += rest[length..].chars().next().map_or(0, char::len_utf8);
        }
        let text = self.advance(length);
        token(TokenKind::Unknown, text)
    }
}

/// The length of a number and what it is; `None` if it does not fit its type.
fn number(text: &str) -> (usize, Option<Literal>) {
    let bytes = text.as_bytes();
    if text.starts_with("0x") || text.starts_with("0X") {
        let digits = bytes[2..]
            .iter()
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        let hex = &text[2..2 + digits];
        return match bytes.get(2 + digits) {
            Some(b'u' | b'U') => (
                digits + 3,
                u64::from_str_radix(hex, 16).ok().map(Literal::Uint),
            ),
            _ => (
                digits + 2,
                i64::from_str_radix(hex, 16).ok().map(Literal::Int),
            ),
        };
    }
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut end = digits(0);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        is_float = true;
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let power = digits(end + 1 + sign);
        if power > 0 {
            is_float = true;
            end += 1 + sign + power;
        }
    }
    let value = &text[..end];
    if is_float {
        return (end, value.parse().ok().map(Literal::Double));
    }
    match bytes.get(end) {
        Some(b'u' | b'U') => (end + 1, value.parse().ok().map(Literal::Uint)),
        _ => (end, value.parse().ok().map(Literal::Int)),
    }
}

/// The length of a string or bytes literal and what it is; nothing if there is none here.
fn quoted(text: &str) -> Option<(usize, Option<Literal>)> {
    let prefix_length = text
        .bytes()
        .take_while(|b| matches!(b, b'r' | b'R' | b'b' | b'B'))
        .count();
    let (prefix, rest) = text.split_at(prefix_length.min(2));
    let prefix = prefix.to_ascii_lowercase();
    if !matches!(prefix.as_str(), "" | "r" | "b" | "rb" | "br") {
        return None;
    }
    let mark = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|mark| rest.starts_with(mark))?;
    let (raw, is_bytes) = (prefix.contains('r'), prefix.contains('b'));
    let body = &rest[mark.len()..];
    let end = match closing(body, mark, raw) {
        Ok(end) => end,
        Err(length) => return Some((prefix.len() + mark.len() + length, None)),
    };
    let length = prefix.len() + mark.len() + end + mark.len();
    let content = unescape(&body[..end], raw, is_bytes);
    let literal = content.and_then(|bytes| match is_bytes {
        true => Some(Literal::Bytes(bytes)),
        false => String::from_utf8(bytes).ok().map(Literal::String),
    });
    Some((length, literal))
}

/// Where the content ends; or how much was read when it turned out to be none.
fn closing(body: &str, mark: &str, raw: bool) -> Result<usize, usize> {
    let mut index = 0;
    while let Some(character) = body[index..].chars().next() {
        if body[index..].starts_with(mark) {
            return Ok(index);
        }
        if character == '\n' && mark.len() == 1 {
            return Err(index + 1);
        }
        index += character.len_utf8();
        if character == '\\' && !raw {
            let Some(escape) = body[index..].chars().next() else {
                return Err(index);
            };
            index += escape.len_utf8();
            let is_known = matches!(
                escape,
                'a' | 'b'
                    | 'f'
                    | 'n'
                    | 'r'
                    | 't'
                    | 'v'
                    | '\\'
                    | '\''
                    | '"'
                    | '`'
                    | '?'
                    | 'x'
                    | 'X'
                    | 'u'
                    | 'U'
                    | '0'..='3'
            );
            if !is_known {
                return Err(index);
            }
        }
    }
    Err(body.len())
}

fn unescape(text: &str, raw: bool, is_bytes: bool) -> Option<Vec<u8>> {
    if raw {
        return Some(text.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            push(&mut out, u32::from(character), false)?;
            continue;
        }
        let escape = characters.next()?;
        let mut digits = |count: usize, radix: u32, first: Option<char>| -> Option<u32> {
            let mut value = first.map_or(Some(0), |c| c.to_digit(radix))?;
            for _ in 0..count {
                value = value.checked_mul(radix)? + characters.next()?.to_digit(radix)?;
            }
            Some(value)
        };
        let (code, is_byte) = match escape {
            'a' => (7, false),
            'b' => (8, false),
            'f' => (12, false),
            'n' => (10, false),
            'r' => (13, false),
            't' => (9, false),
            'v' => (11, false),
            '\\' | '\'' | '"' | '`' | '?' => (u32::from(escape), false),
            'x' | 'X' => (digits(2, 16, None)?, is_bytes),
            'u' if !is_bytes => (digits(4, 16, None)?, false),
            'U' if !is_bytes => (digits(8, 16, None)?, false),
            '0'..='3' => (digits(2, 8, Some(escape))?, is_bytes),
            _ => return None,
        };
        push(&mut out, code, is_byte)?;
    }
    Some(out)
}

fn push(out: &mut Vec<u8>, code: u32, is_byte: bool) -> Option<()> {
    if is_byte {
        out.push(u8::try_from(code).ok()?);
    } else {
        let character = char::from_u32(code)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(())
}
