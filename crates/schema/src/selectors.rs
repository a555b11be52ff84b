//! Label and field selectors, with the words of the real server for those that cannot be read.

use everflow_json::Value;

use crate::error::Error;
use crate::structural::{FieldError, NO_FIELD};
use crate::{go_text, names};

/// A comparison of one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Missing,
    Greater,
    Less,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads a selector as it stands in a query.
    ///
    /// # Errors
    /// What cannot be read, in the words of the real server.
    pub fn parse(text: &str) -> Result<LabelSelector, Error> {
        Parser::new(text)
            .requirements()
            .map(LabelSelector)
            .map_err(Error::Selector)
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object's labels match.
    pub fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels = object
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        self.0.iter().all(|requirement| {
            let value = labels
                .and_then(|labels| labels.get(&requirement.key))
                .and_then(Value::as_str);
            match requirement.operator {
                Operator::In => {
                    value.is_some_and(|value| requirement.values.iter().any(|known| known == value))
                }
                Operator::NotIn => {
                    value.is_none_or(|value| !requirement.values.iter().any(|known| known == value))
                }
                Operator::Exists => value.is_some(),
                Operator::Missing => value.is_none(),
                Operator::Greater | Operator::Less => {
                    let bound = requirement
                        .values
                        .first()
                        .and_then(|text| text.parse::<i64>().ok());
                    match (value.and_then(|text| text.parse::<i64>().ok()), bound) {
                        (Some(actual), Some(bound))
                            if requirement.operator == Operator::Greater =>
                        {
                            actual > bound
                        }
                        (Some(actual), Some(bound)) => actual < bound,
                        _ => false,
                    }
                }
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Closed,
    Comma,
    Missing,
    DoubleEquals,
    End,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
    Error,
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn lex(text: &str) -> Vec<(Token, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        while at < chars.len() && matches!(chars[at], ' ' | '\t' | '\r' | '\n') {
            at += 1;
        }
        if at >= chars.len() {
            tokens.push((Token::End, String::new()));
            return tokens;
        }
        let start = at;
        if is_special(chars[at]) {
            // The longest run of special characters that is still a token.
            let mut best: Option<(Token, usize)> = None;
            while at < chars.len() && is_special(chars[at]) {
                at += 1;
                let word: String = chars[start..at].iter().collect();
                match special_token(&word) {
                    Some(token) => best = Some((token, at)),
                    None if best.is_some() => break,
                    None => {}
                }
            }
            match best {
                Some((token, end)) => {
                    tokens.push((token, chars[start..end].iter().collect()));
                    at = end;
                }
                None => {
                    let word: String = chars[start..at].iter().collect();
                    tokens.push((
                        Token::Error,
                        format!("error expected: keyword found '{word}'"),
                    ));
                }
            }
        } else {
            while at < chars.len()
                && !is_special(chars[at])
                && !matches!(chars[at], ' ' | '\t' | '\r' | '\n')
            {
                at += 1;
            }
            let word: String = chars[start..at].iter().collect();
            let token = match word.as_str() {
                "in" => Token::In,
                "notin" => Token::NotIn,
                _ => Token::Identifier,
            };
            tokens.push((token, word));
        }
    }
}

fn special_token(word: &str) -> Option<Token> {
    Some(match word {
        ")" => Token::Closed,
        "," => Token::Comma,
        "!" => Token::Missing,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

impl Parser {
    fn new(text: &str) -> Self {
        Parser {
            tokens: lex(text),
            at: 0,
        }
    }

    /// The next token; outside a list of keys `in` and `notin` are plain words.
    fn look(&self, values: bool) -> (Token, &str) {
        let (token, text) = self
            .tokens
            .get(self.at)
            .map_or((Token::End, ""), |(token, text)| (*token, text.as_str()));
        if values && matches!(token, Token::In | Token::NotIn) {
            (Token::Identifier, text)
        } else {
            (token, text)
        }
    }

    fn next(&mut self, values: bool) -> (Token, String) {
        let (token, text) = self.look(values);
        let found = (token, text.to_owned());
        if self.at < self.tokens.len() {
            self.at += 1;
        }
        found
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            let (token, text) = self.look(true);
            match token {
                Token::Identifier | Token::Missing => {
                    requirements.push(
                        self.requirement()
                            .map_err(|why| format!("unable to parse requirement: {why}"))?,
                    );
                    let (token, text) = self.next(true);
                    match token {
                        Token::End => break,
                        Token::Comma => {
                            let (after, text) = self.look(true);
                            if !matches!(after, Token::Identifier | Token::Missing) {
                                return Err(format!(
                                    "found '{text}', expected: identifier after ','"
                                ));
                            }
                        }
                        _ => {
                            return Err(format!(
                                "found '{text}', expected: ',' or 'end of string'"
                            ));
                        }
                    }
                }
                Token::End => break,
                _ => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next(true);
        let mut operator = None;
        if token == Token::Missing {
            operator = Some(Operator::Missing);
            (token, key) = self.next(true);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = names::qualified_name(&key);
        if !problems.is_empty() {
            let detail = problems
                .join("; ")
                .replace("a qualified name must", "a valid label key must");
            return Err(FieldError::invalid(NO_FIELD, key.into(), detail).to_string());
        }
        let following = self.look(true).0;
        if matches!(following, Token::End | Token::Comma) {
            let operator = operator.unwrap_or(Operator::Exists);
            return Ok(Requirement {
                key,
                operator,
                values: Vec::new(),
            });
        }
        if operator.is_some() {
            // A requirement that starts with `!` ends after its key; the caller reports what follows.
            return Ok(Requirement {
                key,
                operator: Operator::Missing,
                values: Vec::new(),
            });
        }
        let (token, text) = self.next(false);
        let operator = match token {
            Token::In | Token::Equals | Token::DoubleEquals => Operator::In,
            Token::NotIn | Token::NotEquals => Operator::NotIn,
            Token::Greater => Operator::Greater,
            Token::Less => Operator::Less,
            _ => {
                return Err(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        let values = if matches!(token, Token::In | Token::NotIn) {
            self.values()?
        } else {
            vec![self.exact_value()?]
        };
        let mut values: Vec<String> = values;
        values.sort();
        values.dedup();
        check_values(&key, &operator, &values)?;
        Ok(Requirement {
            key,
            operator,
            values,
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let (token, text) = self.next(true);
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let (token, text) = self.look(true);
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                let (token, text) = self.next(true);
                if token != Token::Closed {
                    return Err(format!("found '{text}', expected: ')'"));
                }
                Ok(values)
            }
            Token::Closed => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            let (token, text) = self.next(true);
            match token {
                Token::Identifier => {
                    values.push(text);
                    let (token, text) = self.look(true);
                    match token {
                        Token::Comma => {}
                        Token::Closed => return Ok(values),
                        _ => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    let token = self.look(true).0;
                    if token == Token::Closed {
                        values.push(String::new());
                        return Ok(values);
                    }
                    if token == Token::Comma {
                        self.at += 1;
                        values.push(String::new());
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        let token = self.look(true).0;
        if matches!(token, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        let (token, text) = self.next(true);
        if token == Token::Identifier {
            Ok(text)
        } else {
            Err(format!("found '{text}', expected: identifier"))
        }
    }
}

fn check_values(key: &str, operator: &Operator, values: &[String]) -> Result<(), String> {
    if matches!(operator, Operator::Greater | Operator::Less) {
        for (index, value) in values.iter().enumerate() {
            if value.parse::<i64>().is_err() {
                let path = format!("values[{index}]");
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Err(FieldError::invalid(path, value.as_str().into(), detail).to_string());
            }
        }
    }
    for value in values {
        let problems = names::label_value(value);
        if !problems.is_empty() {
            let path = format!("values[0][{key}]");
            let detail = problems.join("; ");
            return Err(FieldError::invalid(path, value.as_str().into(), detail).to_string());
        }
    }
    Ok(())
}

/// A field selector: every term must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// Field, whether it must be equal, value.
    pub terms: Vec<(String, bool, String)>,
}

impl FieldSelector {
    /// Reads a selector as it stands in a query.
    ///
    /// # Errors
    /// What cannot be read, in the words of the real server.
    pub fn parse(text: &str) -> Result<FieldSelector, Error> {
        let mut terms = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let bad = || {
                let why = format!("invalid selector: '{text}'; can't understand '{term}'");
                Error::Selector(why)
            };
            let (field, equal, value) = split_term(&term).ok_or_else(bad)?;
            terms.push((field.to_owned(), equal, unescape(value)?));
        }
        Ok(FieldSelector { terms })
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name every selected object must have, if the selector says so.
    pub fn exact_name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|(field, equal, _)| *equal && field == "metadata.name")
            .map(|(_, _, value)| value.as_str())
    }

    /// Whether an object matches, given how its fields are read.
    pub fn matches(&self, read: &dyn Fn(&str) -> String) -> bool {
        self.terms
            .iter()
            .all(|(field, equal, value)| (read(field) == *value) == *equal)
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if term[at..].starts_with(operator) {
                return Some((&term[..at], equal, &term[at + operator.len()..]));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, Error> {
    let invalid = |why: &str, what: &str| {
        let what = go_text::quote(what);
        Err(Error::Selector(format!(
            "invalid field selector: {why}: {what}"
        )))
    };
    let mut plain = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                Some(next) => return invalid("invalid escape sequence", &format!("\\{next}")),
                None => return invalid("invalid escape sequence", "\\"),
            },
            ',' | '=' => return invalid("unescaped character in value", &c.to_string()),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn label_selectors_choose_objects() {
        let object = json!({"metadata": {"labels": {"app": "web", "size": "3"}}});
        for (text, matches) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web,size>2", true),
            ("app in (db, web)", true),
            ("app notin (db),tier!=x", true),
            ("size<3", false),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&object), matches, "{text}");
        }
        let refused = LabelSelector::parse("app=a b").unwrap_err().to_string();
        assert_eq!(refused, "found 'b', expected: ',' or 'end of string'");
        let refused = LabelSelector::parse("-a").unwrap_err().to_string();
        let start = "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must";
        assert!(refused.starts_with(start), "{refused}");
    }

    #[test]
    fn field_selectors_are_read_with_their_escapes() {
        let read = FieldSelector::parse(r"a=b\,c,d!=e").unwrap();
        let term = |field: &str, equal, value: &str| (field.to_owned(), equal, value.to_owned());
        assert_eq!(read.terms, [term("a", true, "b,c"), term("d", false, "e")]);
        let refused = FieldSelector::parse(r"a=\x").unwrap_err().to_string();
        let expected = r#"invalid field selector: invalid escape sequence: "\\x""#;
        assert_eq!(refused, expected);
    }
}
