//! Label selectors: `app=web,tier in (a,b),!old`.

use crate::error::{Error, Result};

/// A parsed selector; all requirements have to hold.
#[derive(Clone, Debug, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Reads a selector; the empty one fits everything.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser {
            tokens: tokenize(text),
            next: 0,
        };
        let requirements = parser
            .requirements()
            .map_err(|why| Error::Configuration(format!("unable to parse requirement: {why}")))?;
        Ok(LabelSelector { requirements })
    }

    /// True when the labels that `get` finds fit.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        let compare = |value: &str| {
            let left = value.parse::<i64>().ok()?;
            let right = self.values.first()?.parse::<i64>().ok()?;
            Some(left.cmp(&right))
        };
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::In, value) => value.is_some_and(listed),
            (Operator::NotIn, value) => !value.is_some_and(listed),
            (Operator::GreaterThan, value) => {
                value.and_then(compare) == Some(std::cmp::Ordering::Greater)
            }
            (Operator::LessThan, value) => {
                value.and_then(compare) == Some(std::cmp::Ordering::Less)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

fn tokenize(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<'])
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

type Parsed<T> = std::result::Result<T, String>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(have)) if *have == symbol);
        self.next += usize::from(found);
        found
    }

    fn requirements(&mut self) -> Parsed<Vec<Requirement>> {
        let mut requirements = Vec::new();
        while self.peek().is_some() {
            requirements.push(self.requirement()?);
            if self.peek().is_none() {
                break;
            }
            if !self.take_symbol(",") {
                return Err(self.unexpected("',' or 'end of string'"));
            }
            if self.peek().is_none() {
                return Err("found '', expected: identifier after ','".to_owned());
            }
        }
        Ok(requirements)
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let negated = self.take_symbol("!");
        let key = match self.take() {
            Some(Token::Word(word)) => word,
            _ => {
                self.next -= 1;
                return Err(self.unexpected("!, identifier, or 'end of string'"));
            }
        };
        check_key(&key)?;
        let at_end = matches!(self.peek(), None | Some(Token::Symbol(",")));
        if negated || at_end {
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key,
                operator,
                values: Vec::new(),
            });
        }
        let operator = match self.take() {
            Some(Token::Word(word)) if word == "in" => Operator::In,
            Some(Token::Word(word)) if word == "notin" => Operator::NotIn,
            Some(Token::Symbol("=" | "==")) => return self.exact(key, Operator::In),
            Some(Token::Symbol("!=")) => return self.exact(key, Operator::NotIn),
            Some(Token::Symbol(">")) => return self.exact(key, Operator::GreaterThan),
            Some(Token::Symbol("<")) => return self.exact(key, Operator::LessThan),
            _ => {
                self.next -= 1;
                return Err(self.unexpected("in, notin, =, ==, !=, gt, lt"));
            }
        };
        let values = self.value_list()?;
        Ok(Requirement {
            key,
            operator,
            values,
        })
    }

    fn exact(&mut self, key: String, operator: Operator) -> Parsed<Requirement> {
        let value = match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                word
            }
            None | Some(Token::Symbol(",")) => String::new(),
            Some(_) => return Err(self.unexpected("identifier")),
        };
        let numeric = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if numeric && value.parse::<i64>().is_err() {
            return Err(format!(
                "values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        check_value(&key, &value)?;
        Ok(Requirement {
            key,
            operator,
            values: vec![value],
        })
    }

    fn value_list(&mut self) -> Parsed<Vec<String>> {
        if !self.take_symbol("(") {
            return Err(self.unexpected("'('"));
        }
        let mut values = Vec::new();
        loop {
            match self.take() {
                Some(Token::Word(word)) => values.push(word),
                Some(Token::Symbol(",")) => values.push(String::new()),
                Some(Token::Symbol(")")) if values.is_empty() => return Ok(vec![String::new()]),
                _ => {
                    self.next -= 1;
                    return Err(self.unexpected("',', ')' or identifier"));
                }
            }
            if self.take_symbol(")") {
                return Ok(values);
            }
            self.take_symbol(",");
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        let found = match self.peek() {
            Some(Token::Word(word)) => word.as_str(),
            Some(Token::Symbol(symbol)) => symbol,
            None => "",
        };
        format!("found '{found}', expected: {expected}")
    }
}

fn is_name(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text
            .chars()
            .all(|c| alphanumeric(c) || matches!(c, '-' | '_' | '.'))
}

fn check_key(key: &str) -> Parsed<()> {
    let (prefix, name) = key.split_once('/').unwrap_or(("a", key));
    if is_name(name) && !prefix.is_empty() && !name.contains('/') {
        return Ok(());
    }
    Err(format!(
        "key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

fn check_value(key: &str, value: &str) -> Parsed<()> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(format!(
        "values[0][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(selector: &str, labels: &[(&str, &str)]) -> bool {
        LabelSelector::parse(selector).unwrap().matches(|key| {
            labels
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        })
    }

    #[test]
    fn requirements_are_read() {
        let labels = [("app", "web"), ("tier", "front"), ("n", "5")];
        assert!(fits("", &labels));
        assert!(fits("app=web, tier in (front, back)", &labels));
        assert!(fits("app==web,!old", &labels));
        assert!(fits("app!=db,missing!=x", &labels));
        assert!(fits("tier notin (back)", &labels));
        assert!(fits("n>4,n<6", &labels));
        assert!(!fits("app=db", &labels));
        assert!(!fits("!app", &labels));
        assert!(LabelSelector::parse("app in web").is_err());
        assert!(LabelSelector::parse("app=a b").is_err());
    }
}
