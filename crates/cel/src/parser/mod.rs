//! Tokens into expressions.

mod macros;

use crate::ast::{Expr, ExprKind, Literal};
use crate::error::{CompileError, Issue};
use crate::lexer::{Token, TokenKind, tokens};

/// How deep expressions may nest.
const MAX_DEPTH: usize = 120;
/// How many comparisons, calculations and selections may follow one another, those that they stand in
/// included: each makes the tree deeper by one. cel-go counts them likewise.
const MAX_CHAIN: usize = 250;
/// How long an expression may be.
const MAX_LENGTH: usize = 100_000;

/// Which macros are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Macros {
    /// All of them.
    All,
    /// Those that rules of the API server may use.
    ApiServer,
}

/// Parses an expression.
pub(crate) fn parse(text: &str, macros: Macros) -> Result<Expr, CompileError> {
    if text.len() > MAX_LENGTH {
        return Err(CompileError {
            text: String::new(),
            issues: vec![Issue {
                offset: 0,
                message: format!(
                    "expression code point size exceeds limit: size: {}, limit {MAX_LENGTH}",
                    text.chars().count()
                ),
            }],
        });
    }
    let (tokens, unknown) = tokens(text);
    let issues = unknown
        .iter()
        .map(|token| Issue {
            offset: token.offset,
            message: format!("Syntax error: token recognition error at: '{}'", token.text),
        })
        .collect();
    let mut parser = Parser {
        tokens,
        position: 0,
        depth: 0,
        chains: Chains::default(),
        macros,
        issues,
        closers: Vec::new(),
        is_recovering: false,
    };
    let expr = parser.whole();
    match (expr, parser.issues.is_empty()) {
        (Ok(expr), true) => Ok(expr),
        (_, _) => Err(CompileError::new(text, parser.issues)),
    }
}

/// An issue has been noted; nothing sensible can follow.
struct Stop;

type Parsed<T> = Result<T, Stop>;

/// How many operations of a kind are open where the parser stands.
#[derive(Default)]
struct Chains {
    relations: usize,
    calculations: usize,
    members: usize,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
    depth: usize,
    chains: Chains,
    macros: Macros,
    issues: Vec<Issue>,
    /// What may follow expressions where the parser stands, the innermost last.
    closers: Vec<&'static [&'static str]>,
    /// After a syntax error nothing more is told until something fits again.
    is_recovering: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &Token<'a> {
        // The end token is never passed.
        &self.tokens[self.position.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token<'a> {
        self.is_recovering = false;
        let token = self.peek().clone();
        self.position = (self.position + 1).min(self.tokens.len() - 1);
        token
    }

    fn at(&self, symbol: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Symbol && token.text == symbol
    }

    fn accept(&mut self, symbol: &str) -> Option<usize> {
        self.at(symbol).then(|| self.take().offset)
    }

    fn fail<T>(&mut self, offset: usize, message: String) -> Parsed<T> {
        self.issues.push(Issue { offset, message });
        Err(Stop)
    }

    fn syntax<T>(&mut self, message: String) -> Parsed<T> {
        self.note(message);
        Err(Stop)
    }

    /// Tells of a syntax error at the current token.
    fn note(&mut self, message: String) {
        if !self.is_recovering {
            let offset = self.peek().offset;
            self.issues.push(Issue {
                offset,
                message: format!("Syntax error: {message}"),
            });
        }
        self.is_recovering = true;
    }

    /// Takes a symbol; where it is missing, or one token too many is there, parsing goes on.
    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.accept(symbol).is_some() {
            return Ok(());
        }
        let found = self.peek().text.to_owned();
        let next = self.tokens.get(self.position + 1);
        let is_extra =
            next.is_some_and(|next| next.kind == TokenKind::Symbol && next.text == symbol);
        if is_extra {
            self.note(format!("extraneous input '{found}' expecting '{symbol}'"));
            self.position += 1;
            self.take();
            return Ok(());
        }
        let fits_behind = match symbol {
            ":" => self.starts_expression(),
            _ => self.may_follow(),
        };
        if fits_behind {
            self.note(format!("missing '{symbol}' at '{found}'"));
            return Ok(());
        }
        self.syntax(format!("mismatched input '{found}' expecting '{symbol}'"))
    }

    fn starts_expression(&self) -> bool {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol => matches!(token.text, "[" | "{" | "(" | "." | "-" | "!"),
            TokenKind::End => false,
            _ => true,
        }
    }

    /// Whether the current token may stand behind an expression here.
    fn may_follow(&self) -> bool {
        let token = self.peek();
        match token.kind {
            TokenKind::End => true,
            TokenKind::Symbol => {
                matches!(
                    token.text,
                    "." | "["
                        | "*"
                        | "/"
                        | "%"
                        | "+"
                        | "-"
                        | "=="
                        | "!="
                        | "<"
                        | "<="
                        | ">"
                        | ">="
                        | "in"
                        | "&&"
                        | "||"
                        | "?"
                ) || self
                    .closers
                    .iter()
                    .any(|closers| closers.contains(&token.text))
            }
            _ => false,
        }
    }

    /// Parses something inside brackets, behind which these may stand.
    fn inside<T>(
        &mut self,
        closers: &'static [&'static str],
        parse: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        self.closers.push(closers);
        let parsed = parse(self);
        self.closers.pop();
        parsed
    }

    fn whole(&mut self) -> Parsed<Expr> {
        let expr = self.expr()?;
        let token = self.peek().clone();
        match token.kind {
            TokenKind::End => Ok(expr),
            _ => {
                let next = self.tokens.get(self.position + 1);
                let is_last = next.is_some_and(|next| next.kind == TokenKind::End);
                let words = if is_last { "extraneous" } else { "mismatched" };
                self.syntax(format!("{words} input '{}' expecting <EOF>", token.text))
            }
        }
    }

    fn too_deep<T>(&mut self) -> Parsed<T> {
        let offset = self.peek().offset;
        self.fail(
            offset,
            format!("expression recursion limit exceeded: {MAX_CHAIN}"),
        )
    }

    /// Counts one more operation of a kind.
    fn chain(&mut self, count: fn(&mut Chains) -> &mut usize) -> Parsed<()> {
        let open = count(&mut self.chains);
        *open += 1;
        match *open > MAX_CHAIN {
            true => self.too_deep(),
            false => Ok(()),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.too_deep();
        }
        let condition = self.or()?;
        let expr = match self.accept("?") {
            None => condition,
            Some(offset) => {
                let yes = self.inside(&[":"], Self::or)?;
                self.expect(":")?;
                let no = self.expr()?;
                call(offset, "_?_:_", vec![condition, yes, no])
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn or(&mut self) -> Parsed<Expr> {
        self.logical("||", "_||_", Self::and)
    }

    fn and(&mut self) -> Parsed<Expr> {
        self.logical("&&", "_&&_", Self::relation)
    }

    fn logical(
        &mut self,
        symbol: &str,
        name: &str,
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(offset) = self.accept(symbol) {
            rest.push((offset, operand(self)?));
        }
        Ok(balanced(name, first, rest))
    }

    fn relation(&mut self) -> Parsed<Expr> {
        let names = [
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("<=", "_<=_"),
            (">=", "_>=_"),
            ("<", "_<_"),
            (">", "_>_"),
            ("in", "@in"),
        ];
        self.binary(&names, |chains| &mut chains.relations, Self::sum)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let names = [("+", "_+_"), ("-", "_-_")];
        self.binary(&names, |chains| &mut chains.calculations, Self::product)
    }

    fn product(&mut self) -> Parsed<Expr> {
        let names = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];
        self.binary(&names, |chains| &mut chains.calculations, Self::unary)
    }

    fn binary(
        &mut self,
        operators: &[(&str, &str)],
        count: fn(&mut Chains) -> &mut usize,
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let before = *count(&mut self.chains);
        let mut left = operand(self)?;
        while let Some((_, name)) = operators.iter().find(|(symbol, _)| self.at(symbol)) {
            self.chain(count)?;
            let offset = self.take().offset;
            let right = operand(self)?;
            left = call(offset, name, vec![left, right]);
        }
        *count(&mut self.chains) = before;
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let first = self.peek().offset;
        let mut count = 0;
        if self.at("!") {
            while self.accept("!").is_some() {
                count += 1;
            }
            let operand = self.member()?;
            return Ok(match count % 2 {
                1 => call(first, "!_", vec![operand]),
                _ => operand,
            });
        }
        if self.at("-") {
            if let Some(number) = self.negative_number() {
                return self.member_of(number);
            }
            while self.accept("-").is_some() {
                count += 1;
            }
            let operand = self.member()?;
            return Ok(match count % 2 {
                1 => call(first, "-_", vec![operand]),
                _ => operand,
            });
        }
        self.member()
    }

    /// One `-` right before a number belongs to it.
    fn negative_number(&mut self) -> Option<Expr> {
        let offset = self.peek().offset;
        let token = self.tokens.get(self.position + 1)?;
        let negated = match &token.kind {
            TokenKind::Literal(Literal::Int(value)) => Literal::Int(-value),
            TokenKind::Literal(Literal::Double(value)) => Literal::Double(-value),
            TokenKind::BadNumber if token.text == "9223372036854775808" => Literal::Int(i64::MIN),
            _ => return None,
        };
        self.take();
        self.take();
        Some(expr(offset, ExprKind::Literal(negated)))
    }

    fn member(&mut self) -> Parsed<Expr> {
        let operand = self.primary()?;
        self.member_of(operand)
    }

    /// Selections, calls and indexes behind an expression.
    fn member_of(&mut self, mut operand: Expr) -> Parsed<Expr> {
        let before = self.chains.members;
        loop {
            if let Some(offset) = self.accept(".") {
                self.chain(|chains| &mut chains.members)?;
                operand = self.selection(operand, offset)?;
            } else if let Some(offset) = self.accept("[") {
                self.chain(|chains| &mut chains.members)?;
                if !self.at("?") && !self.starts_expression() {
                    let message = self.mismatch(&["'?'"]);
                    return self.syntax(message);
                }
                let optional = self.accept("?").is_some();
                let index = self.inside(&["]"], Self::expr)?;
                self.expect("]")?;
                let name = if optional { "_[?_]" } else { "_[_]" };
                operand = call(offset, name, vec![operand, index]);
            } else {
                self.chains.members = before;
                return Ok(operand);
            }
        }
    }

    fn selection(&mut self, operand: Expr, offset: usize) -> Parsed<Expr> {
        let optional = self.accept("?").is_some();
        let token = self.take();
        if !matches!(token.kind, TokenKind::Ident) {
            self.position -= usize::from(token.kind != TokenKind::End);
            let found = match token.kind {
                TokenKind::End => "",
                _ => token.text,
            };
            return self.syntax(format!("no viable alternative at input '.{found}'"));
        }
        let field = token.text.trim_matches('`').to_owned();
        if !optional && let Some(open) = self.accept("(") {
            let args = self.arguments(")")?;
            return self.method(operand, field, args, open);
        }
        Ok(expr(
            offset,
            ExprKind::Select {
                operand: Box::new(operand),
                field,
                optional,
            },
        ))
    }

    fn arguments(&mut self, close: &str) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(close).is_some() {
            return Ok(args);
        }
        if !self.starts_expression() && !self.drop_extraneous(&["')'"]) {
            let message = self.mismatch(&["')'"]);
            self.note(message);
        }
        loop {
            args.push(self.inside(&[",", ")"], Self::expr)?);
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect(close)?;
        Ok(args)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.peek().clone();
        match &token.kind {
            TokenKind::Literal(literal) => {
                self.take();
                Ok(expr(token.offset, ExprKind::Literal(literal.clone())))
            }
            TokenKind::Ident => {
                self.take();
                self.name(token.text.trim_matches('`').to_owned(), token.offset)
            }
            TokenKind::Symbol => match token.text {
                "(" => {
                    self.take();
                    let inner = self.inside(&[")"], Self::expr)?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "[" => self.list(),
                "{" => self.map(),
                "." => {
                    self.take();
                    let name = self.peek().clone();
                    match name.kind {
                        TokenKind::Ident => {
                            self.take();
                            self.name(format!(".{}", name.text), token.offset)
                        }
                        _ => self.mismatched(),
                    }
                }
                _ => self.mismatched(),
            },
            TokenKind::BadNumber => {
                self.take();
                let kind = match token.text {
                    text if text.ends_with(['u', 'U']) => "uint",
                    text if text.contains(['.', 'e', 'E']) && !text.starts_with("0x") => "double",
                    _ => "int",
                };
                self.issues.push(Issue {
                    offset: token.offset,
                    message: format!("invalid {kind} literal"),
                });
                Ok(expr(token.offset, ExprKind::Literal(Literal::Null)))
            }
            TokenKind::Unknown | TokenKind::End => self.mismatched(),
        }
    }

    /// What is wrong with the current token where an expression, or one of these, should begin.
    fn mismatch(&self, also: &[&str]) -> String {
        self.unexpected("mismatched", also)
    }

    fn unexpected(&self, words: &str, also: &[&str]) -> String {
        let mut expected: Vec<&str> = vec!["'['", "'{'", "'('"];
        expected.extend(also.iter().filter(|symbol| **symbol == "')'"));
        expected.extend(["'.'", "'-'", "'!'"]);
        expected.extend(also.iter().filter(|symbol| **symbol == "'?'"));
        expected.extend([
            "'true'",
            "'false'",
            "'null'",
            "NUM_FLOAT",
            "NUM_INT",
            "NUM_UINT",
            "STRING",
            "BYTES",
            "IDENTIFIER",
        ]);
        format!(
            "{words} input '{}' expecting {{{}}}",
            self.peek().text,
            expected.join(", ")
        )
    }

    /// Passes over one token that is too many.
    fn drop_extraneous(&mut self, also: &[&str]) -> bool {
        self.position += 1;
        let goes_on = self.position < self.tokens.len() && self.starts_expression();
        self.position -= 1;
        if goes_on {
            let message = self.unexpected("extraneous", also);
            self.note(message);
            self.position += 1;
        }
        goes_on
    }

    /// Tells that no expression can begin here, and goes on with what may follow one.
    fn mismatched(&mut self) -> Parsed<Expr> {
        let offset = self.peek().offset;
        if self.drop_extraneous(&[]) {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return self.too_deep();
            }
            let operand = self.unary()?;
            self.depth -= 1;
            return Ok(operand);
        }
        let message = self.mismatch(&[]);
        self.note(message);
        while !self.may_follow() {
            self.position += 1;
        }
        Ok(expr(offset, ExprKind::Literal(Literal::Null)))
    }

    fn name(&mut self, name: String, offset: usize) -> Parsed<Expr> {
        if crate::escape::RESERVED.contains(&name.as_str()) {
            self.issues.push(Issue {
                offset,
                message: format!("reserved identifier: {name}"),
            });
        }
        let Some(open) = self.accept("(") else {
            return Ok(expr(offset, ExprKind::Ident(name)));
        };
        let args = self.arguments(")")?;
        if name == "has" {
            return self.has(args, open);
        }
        Ok(call(open, name.trim_start_matches('.'), args))
    }

    fn list(&mut self) -> Parsed<Expr> {
        let offset = self.take().offset;
        let mut items = Vec::new();
        while !self.at("]") {
            let optional = self.accept("?").is_some();
            items.push((self.inside(&[",", "]"], Self::expr)?, optional));
            if self.accept(",").is_none() {
                break;
            }
        }
        self.close("]")?;
        Ok(expr(offset, ExprKind::List(items)))
    }

    /// The end of a list or map.
    fn close(&mut self, symbol: &str) -> Parsed<()> {
        if self.accept(symbol).is_some() {
            return Ok(());
        }
        let found = self.peek().text.to_owned();
        let next = self.tokens.get(self.position + 1);
        let is_extra = next.is_some_and(|next| next.text == symbol);
        if is_extra {
            self.note(format!(
                "extraneous input '{found}' expecting {{'{symbol}', ','}}"
            ));
            self.position += 1;
            self.take();
            return Ok(());
        }
        self.syntax(format!(
            "mismatched input '{found}' expecting {{'{symbol}', ','}}"
        ))
    }

    fn map(&mut self) -> Parsed<Expr> {
        let offset = self.take().offset;
        let mut entries = Vec::new();
        while !self.at("}") {
            let optional = self.accept("?").is_some();
            let key = self.inside(&[":", ",", "}"], Self::expr)?;
            self.expect(":")?;
            let value = self.inside(&[",", "}"], Self::expr)?;
            entries.push((key, value, optional));
            if self.accept(",").is_none() {
                break;
            }
        }
        self.close("}")?;
        Ok(expr(offset, ExprKind::Map(entries)))
    }
}

fn expr(offset: usize, kind: ExprKind) -> Expr {
    Expr { kind, offset }
}

/// A tree of equal operations that is as flat as can be; cel-go builds the same.
fn balanced(name: &str, first: Expr, mut rest: Vec<(usize, Expr)>) -> Expr {
    if rest.is_empty() {
        return first;
    }
    let mut right = rest.split_off(rest.len() / 2);
    let (offset, head) = right.remove(0);
    let left = balanced(name, first, rest);
    call(offset, name, vec![left, balanced(name, head, right)])
}

fn call(offset: usize, function: &str, args: Vec<Expr>) -> Expr {
    expr(
        offset,
        ExprKind::Call {
            function: function.to_owned(),
            target: None,
            args,
        },
    )
}
