//! Pipelines, commands and operands.

use super::ast::{Builtin, Command, Expr, ExprKind, FunctionName, Pipe, Target};
use super::lexer::{Kind, Token};
use super::number::Number;
use super::parser::{MAX_VARIABLES, Parsed, Parser, at};
use super::render::expr_text;
use crate::gofmt::quote;
use crate::text::GoStr;

impl Parser<'_> {
    /// `declarations? command ('|' command)*` up to and including the token `end`.
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let mut pipe = Pipe {
            position: at(self.peek_non_space().start),
            assigns: false,
            declared: Vec::new(),
            commands: Vec::new(),
        };
        self.declarations(&mut pipe, context)?;
        let start = self.commands.len();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    pipe.commands = self.commands.drain(start..).collect();
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    self.commands.push(command);
                }
                _ => return Err(self.unexpected(token, context)),
            }
        }
    }

    /// `$x :=`, `$x =` or, for range, `$i, $x :=`.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next();
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.next_non_space();
                    return self.declare(pipe, variable);
                }
                Kind::Char if self.token_text(next) == b"," => {
                    self.next_non_space();
                    self.declare(pipe, variable)?;
                    if context != "range" || pipe.declared.len() >= 2 {
                        return Err(self.error(format!("too many declarations in {context}")));
                    }
                    match self.peek_non_space().kind {
                        Kind::Variable | Kind::RightDelim | Kind::RightParen => {}
                        _ => return Err(self.error("range can only initialize variables")),
                    }
                }
                _ if after.kind == Kind::Space => {
                    self.backup3(variable, after);
                    return Ok(());
                }
                _ => {
                    self.backup2(variable);
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, token: Token) -> Parsed<()> {
        if self.scope.variables.len() >= MAX_VARIABLES {
            return Err(self.error(format!("more than {MAX_VARIABLES} variables in one place")));
        }
        let variable = self.variable(self.token_text(token));
        self.scope.variables.push(variable.id);
        pipe.declared.push(variable);
        Ok(())
    }

    fn check_pipeline(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            if is_constant(&command.args[0].kind) {
                let stage = index + 1;
                return Err(self.error(format!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    /// Operands up to a pipe symbol (which is taken) or the end of the pipeline.
    fn command(&mut self) -> Parsed<Command> {
        let position = at(self.peek_non_space().start);
        let start = self.operands.len();
        loop {
            self.charge_tokens()?;
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                self.operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return Err(self.unexpected(token, "operand")),
            }
            break;
        }
        let args: Vec<Expr> = self.operands.drain(start..).collect();
        match args.is_empty() {
            true => Err(self.error("empty command")),
            false => Ok(Command { position, args }),
        }
    }

    /// A term and the fields behind it.
    fn operand(&mut self) -> Parsed<Option<Expr>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != Kind::Field {
            return Ok(Some(term));
        }
        let position = at(self.peek().start);
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            self.charge_tokens()?;
            let token = self.next();
            fields.push(field_name(self.token_text(token)));
        }
        let kind = match term.kind {
            ExprKind::Field(first) => {
                let mut all = first.into_vec();
                all.append(&mut fields);
                ExprKind::Field(all.into())
            }
            ExprKind::Variable(variable, _) => ExprKind::Variable(variable, fields.into()),
            kind if is_constant(&kind) => {
                let term = Expr {
                    position: term.position,
                    kind,
                };
                let text = quote(expr_text(&term).as_bytes());
                return Err(self.error(format!("unexpected . after term {text}")));
            }
            kind => {
                let inner = Expr {
                    position: term.position,
                    kind,
                };
                ExprKind::Chain(Box::new(inner), fields.into())
            }
        };
        Ok(Some(Expr { position, kind }))
    }

    fn term(&mut self) -> Parsed<Option<Expr>> {
        let token = self.next_non_space();
        let text = self.token_text(token);
        let kind = match token.kind {
            Kind::Identifier => self.function(text)?,
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                let variable = self.variable(text);
                if !self.scope.variables.contains(&variable.id) {
                    return Err(self.error(format!("undefined variable {}", quote(text))));
                }
                ExprKind::Variable(variable, Box::default())
            }
            Kind::Field => ExprKind::Field(Box::new([field_name(text)])),
            Kind::Bool => ExprKind::Bool(text == b"true"),
            Kind::CharConstant => self.number(Number::from_character(text))?,
            Kind::Complex => self.number(Number::from_complex(text))?,
            Kind::Number => self.number(Number::from_number(text))?,
            Kind::LeftParen => {
                if self.stack.is_exhausted() {
                    return Err(self.error("max expression depth exceeded"));
                }
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                return Ok(Some(Expr {
                    position: pipe.position,
                    kind: ExprKind::Pipe(Box::new(pipe)),
                }));
            }
            Kind::String | Kind::RawString => {
                ExprKind::String(self.string_value(token)?, GoStr::from_bytes(text))
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(Expr {
            position: at(token.start),
            kind,
        }))
    }

    fn number(&self, number: Result<Number, String>) -> Parsed<ExprKind> {
        match number {
            Ok(number) => Ok(ExprKind::Number(Box::new(number))),
            Err(message) => Err(self.error(message)),
        }
    }

    fn function(&self, name: &[u8]) -> Parsed<ExprKind> {
        let given = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.functions.index(name));
        let target = match (given, Builtin::named(name)) {
            (Some(index), _) => Target::Given(index),
            (None, Some(builtin)) => Target::Builtin(builtin),
            (None, None) => {
                return Err(self.error(format!("function {} not defined", quote(name))));
            }
        };
        Ok(ExprKind::Function(FunctionName {
            name: GoStr::from_bytes(name),
            target,
        }))
    }
}

/// Constants: they can neither be called nor have fields.
fn is_constant(kind: &ExprKind) -> bool {
    matches!(
        kind,
        ExprKind::Bool(_)
            | ExprKind::Dot
            | ExprKind::Nil
            | ExprKind::Number(_)
            | ExprKind::String(..)
    )
}

/// A field token without its dot.
fn field_name(text: &[u8]) -> GoStr {
    GoStr::from_bytes(text.get(1..).unwrap_or(&[]))
}
