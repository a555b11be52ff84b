//! From text to nodes.

use everflow_limits::Budget;

use crate::operators::Operator;
use crate::{Cause, Error};

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// What stays as it is.
    Text(String),
    /// What is put in.
    Variable {
        name: String,
        operator: Operator,
        arguments: Vec<Node>,
        line: usize,
    },
}

impl Node {
    pub(crate) fn line(&self) -> usize {
        match self {
            Node::Text(_) => 1,
            Node::Variable { line, .. } => *line,
        }
    }
}

const DEEPEST: usize = 100;

/// Cuts a text into its parts.
pub(crate) fn parse(text: &str, budget: &Budget) -> Result<Vec<Node>, Error> {
    // Flux takes the first NUL for the end.
    let text = text.split('\0').next().unwrap_or_default();
    let mut parser = Parser {
        text,
        at: 0,
        line: 1,
        counted: 0,
    };
    let mut nodes = Vec::new();
    while !parser.rest().is_empty() {
        let node = budget.check().map_err(Cause::from);
        let node = node.and_then(|()| parser.next_node());
        let node = node.map_err(|cause| Error {
            cause,
            line: 1 + parser.text[..parser.at].matches('\n').count(),
        })?;
        nodes.push(node);
    }
    Ok(nodes)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// The line at `counted`, so that every line is counted once.
    line: usize,
    counted: usize,
}

/// What a backslash or a dollar does in an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    None,
    /// `$$` is a dollar.
    Dollar,
    /// `$$`, `\/` and `\\` too.
    DollarAndBackslash,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next_node(&mut self) -> Result<Node, Cause> {
        if self.rest().starts_with("${") {
            self.variable(0)
        } else {
            Ok(Node::Text(self.words(Escapes::Dollar, |_| true)))
        }
    }

    /// Text up to the next `${` or a character that is not accepted.
    fn words(&mut self, escapes: Escapes, accept: impl Fn(char) -> bool) -> String {
        let mut words = String::new();
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { break };
            if rest.starts_with("${") {
                break;
            }
            let escaped = match escapes {
                Escapes::None => false,
                Escapes::Dollar => rest.starts_with("$$"),
                Escapes::DollarAndBackslash => ["$$", "\\/", "\\\\"]
                    .iter()
                    .any(|pair| rest.starts_with(pair)),
            };
            if escaped {
                words.push_str(&rest[1..2]);
                self.at += 2;
            } else if accept(c) {
                words.push(c);
                self.at += c.len_utf8();
            } else {
                break;
            }
        }
        words
    }

    fn line_here(&mut self) -> usize {
        self.line += self.text[self.counted..self.at].matches('\n').count();
        self.counted = self.at;
        self.line
    }

    fn variable(&mut self, depth: usize) -> Result<Node, Cause> {
        if depth > DEEPEST {
            return Err(Cause::TooDeep(DEEPEST));
        }
        let line = self.line_here();
        self.at += "${".len();
        let length = self.rest().starts_with('#');
        self.at += usize::from(length);
        let name = self.name();
        let (operator, arguments) = match (length, name.is_empty()) {
            (true, true) => return Err(Cause::BadSubstitution),
            (false, true) => return Err(Cause::VariableName),
            (true, false) => (Operator::Length, Vec::new()),
            (false, false) => self.operation(depth)?,
        };
        if !self.rest().starts_with('}') {
            return Err(match operator {
                Operator::Value => Cause::MissingClosingBrace,
                _ => Cause::BadSubstitution,
            });
        }
        self.at += 1;
        Ok(Node::Variable {
            name,
            operator,
            arguments,
            line,
        })
    }

    fn name(&mut self) -> String {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    /// The operator after the name, with its arguments.
    fn operation(&mut self, depth: usize) -> Result<(Operator, Vec<Node>), Cause> {
        let written = self.written_operator();
        let operator = Operator::of(written);
        self.at += written.len();
        let arguments = match operator {
            _ if written.is_empty() => Vec::new(),
            Operator::Default => self.default_arguments(depth)?,
            Operator::Part => self.part_arguments(depth)?,
            Operator::TrimStart
            | Operator::TrimStartLongest
            | Operator::TrimEnd
            | Operator::TrimEndLongest => vec![self.argument(depth, Escapes::None, not_closing)?],
            Operator::Replace
            | Operator::ReplaceAll
            | Operator::ReplaceStart
            | Operator::ReplaceEnd => self.replace_arguments(depth)?,
            // A mix of commas and carets changes nothing, but is no error.
            _ if self.rest().starts_with('}') => Vec::new(),
            _ => return Err(Cause::BadSubstitution),
        };
        Ok((operator, arguments))
    }

    /// As much of what follows as can belong to one operator.
    fn written_operator(&self) -> &'a str {
        let rest = self.rest();
        let second = |ends: &[char]| usize::from(rest[1..].starts_with(ends));
        let length = match rest.chars().next() {
            Some(':') => 1 + second(&['=', '-', '?', '+']),
            Some('=') => 1,
            Some(',' | '^') => 1 + second(&[',', '^']),
            Some('/') => 1 + second(&['/', '#', '%']),
            Some('#') => 1 + second(&['#']),
            Some('%') => 1 + second(&['%']),
            _ => 0,
        };
        &rest[..length]
    }

    fn argument(
        &mut self,
        depth: usize,
        escapes: Escapes,
        accept: impl Fn(char) -> bool,
    ) -> Result<Node, Cause> {
        if self.rest().starts_with("${") {
            return self.variable(depth + 1);
        }
        let start = self.at;
        let words = self.words(escapes, accept);
        match self.at == start {
            true => Err(Cause::Argument),
            false => Ok(Node::Text(words)),
        }
    }

    fn default_arguments(&mut self, depth: usize) -> Result<Vec<Node>, Cause> {
        let mut arguments = Vec::new();
        while !self.rest().starts_with('}') {
            arguments.push(self.argument(depth, Escapes::None, not_closing)?);
        }
        Ok(arguments)
    }

    fn part_arguments(&mut self, depth: usize) -> Result<Vec<Node>, Cause> {
        let start = self.argument(depth, Escapes::None, |c| c != ':' && c != '}')?;
        if self.rest().starts_with('}') {
            return Ok(vec![start]);
        }
        let colons = self.rest().len() - self.rest().trim_start_matches(':').len();
        if colons == 0 {
            return Err(Cause::BadSubstitution);
        }
        self.at += colons;
        Ok(vec![
            start,
            self.argument(depth, Escapes::None, not_closing)?,
        ])
    }

    fn replace_arguments(&mut self, depth: usize) -> Result<Vec<Node>, Cause> {
        let old = self.argument(depth, Escapes::DollarAndBackslash, |c| c != '/')?;
        let slashes = self.rest().len() - self.rest().trim_start_matches('/').len();
        if slashes == 0 {
            return Err(Cause::BadSubstitution);
        }
        self.at += slashes;
        if self.rest().starts_with('}') {
            return Ok(vec![old]);
        }
        Ok(vec![
            old,
            self.argument(depth, Escapes::DollarAndBackslash, not_closing)?,
        ])
    }
}

fn not_closing(c: char) -> bool {
    c != '}'
}
