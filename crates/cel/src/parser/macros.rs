//! Calls that are expanded while they are parsed.

use super::{Macros, Parsed, Parser, Stop, call, expr};
use crate::ast::{Comprehension, ComprehensionKind, Expr, ExprKind};

impl Parser<'_> {
    pub(super) fn has(&mut self, mut args: Vec<Expr>, offset: usize) -> Parsed<Expr> {
        match (args.pop(), args.is_empty()) {
            (
                Some(Expr {
                    kind:
                        ExprKind::Select {
                            operand,
                            field,
                            optional: false,
                        },
                    ..
                }),
                true,
            ) => Ok(expr(offset, ExprKind::Has { operand, field })),
            (Some(other), true) => {
                self.fail(other.offset, "invalid argument to has() macro".to_owned())
            }
            _ => self.fail(
                offset,
                "found no matching overload for 'has' applied to '()'".to_owned(),
            ),
        }
    }

    /// A call on a receiver: a macro or a plain method.
    pub(super) fn method(
        &mut self,
        target: Expr,
        name: String,
        args: Vec<Expr>,
        offset: usize,
    ) -> Parsed<Expr> {
        use ComprehensionKind::{
            All, Exists, ExistsOne, Filter, Map, TransformMap, TransformMapEntry,
        };
        let all = self.macros == Macros::All;
        let is_cel = all && matches!(&target.kind, ExprKind::Ident(ident) if ident == "cel");
        match (name.as_str(), args.len()) {
            ("sortBy", 2) => self.sort_by(target, args, offset),
            ("existsOne", 2) if all => self.comprehension(ExistsOne, target, args, 1, offset),
            ("bind", 3) if is_cel => self.bind(args),
            ("all", 2) => self.comprehension(All, target, args, 1, offset),
            ("all", 3) => self.comprehension(All, target, args, 2, offset),
            ("exists", 2) => self.comprehension(Exists, target, args, 1, offset),
            ("exists", 3) => self.comprehension(Exists, target, args, 2, offset),
            ("exists_one", 2) => self.comprehension(ExistsOne, target, args, 1, offset),
            ("exists_one" | "existsOne", 3) => {
                self.comprehension(ExistsOne, target, args, 2, offset)
            }
            ("filter", 2) => self.comprehension(Filter, target, args, 1, offset),
            ("map", 2 | 3) => self.comprehension(Map, target, args, 1, offset),
            ("transformList", 3 | 4) => self.comprehension(Map, target, args, 2, offset),
            ("transformMap", 3 | 4) => self.comprehension(TransformMap, target, args, 2, offset),
            ("transformMapEntry", 3 | 4) => {
                self.comprehension(TransformMapEntry, target, args, 2, offset)
            }
            ("optMap" | "optFlatMap", 2) => self.optional_map(&name, target, args, offset),
            _ => Ok(expr(
                offset,
                ExprKind::Call {
                    function: name,
                    target: Some(Box::new(target)),
                    args,
                },
            )),
        }
    }

    fn variable(&mut self, arg: Expr, problem: &str) -> Parsed<String> {
        match arg.kind {
            ExprKind::Ident(name) if name == "__result__" => self.fail(
                arg.offset,
                "iteration variable overwrites accumulator variable".to_owned(),
            ),
            ExprKind::Ident(name) => Ok(name),
            _ => self.fail(arg.offset, problem.to_owned()),
        }
    }

    /// `l.sortBy(e, k)` is `l` in the order of `l.map(e, k)`.
    fn sort_by(&mut self, target: Expr, args: Vec<Expr>, offset: usize) -> Parsed<Expr> {
        const INPUT: &str = "@__sortBy_input__";
        if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_)) {
            return self.fail(
                target.offset,
                "sortBy can only be applied to a list, identifier, comprehension, call or select \
                 expression"
                    .to_owned(),
            );
        }
        let input = || expr(offset, ExprKind::Ident(INPUT.to_owned()));
        let keys = self.comprehension(ComprehensionKind::Map, input(), args, 1, offset)?;
        let sorted = expr(
            offset,
            ExprKind::Call {
                function: "@sortByAssociatedKeys".to_owned(),
                target: Some(Box::new(input())),
                args: vec![keys],
            },
        );
        Ok(expr(
            offset,
            ExprKind::Bind {
                name: INPUT.to_owned(),
                value: Box::new(target),
                body: Box::new(sorted),
            },
        ))
    }

    fn bind(&mut self, args: Vec<Expr>) -> Parsed<Expr> {
        let mut args = args.into_iter();
        let (Some(name), Some(value), Some(body)) = (args.next(), args.next(), args.next()) else {
            return Err(Stop);
        };
        let offset = name.offset;
        let problem = "cel.bind() variable names must be simple identifiers";
        let name = self.variable(name, problem)?;
        let (value, body) = (Box::new(value), Box::new(body));
        Ok(expr(offset, ExprKind::Bind { name, value, body }))
    }

    fn comprehension(
        &mut self,
        kind: ComprehensionKind,
        range: Expr,
        args: Vec<Expr>,
        names: usize,
        offset: usize,
    ) -> Parsed<Expr> {
        let mut args = args.into_iter();
        let mut variables = Vec::new();
        let problem = match kind {
            ComprehensionKind::Map | ComprehensionKind::Filter if names == 1 => {
                "argument is not an identifier"
            }
            _ => "argument must be a simple name",
        };
        for arg in args.by_ref().take(names) {
            let offset = arg.offset;
            let name = self.variable(arg, problem)?;
            if variables.contains(&name) {
                return self.fail(offset, format!("duplicate variable name: {name}"));
            }
            variables.push(name);
        }
        let mut variables = variables.into_iter();
        let mut rest: Vec<Expr> = args.collect();
        let (Some(first), Some(body)) = (variables.next(), rest.pop()) else {
            return Err(Stop);
        };
        Ok(expr(
            offset,
            ExprKind::Comprehension(Box::new(Comprehension {
                kind,
                range,
                first,
                second: variables.next(),
                filter: rest.pop(),
                body,
            })),
        ))
    }

    /// `o.optMap(v, e)` is `o.hasValue() ? optional.of(bind(v, o.value(), e)) : optional.none()`.
    fn optional_map(
        &mut self,
        name: &str,
        target: Expr,
        args: Vec<Expr>,
        offset: usize,
    ) -> Parsed<Expr> {
        let mut args = args.into_iter();
        let (Some(variable), Some(body)) = (args.next(), args.next()) else {
            return Err(Stop);
        };
        let problem = format!("{name}() variable name must be a simple identifier");
        let variable = self.variable(variable, &problem)?;
        let method = |function: &str| {
            expr(
                offset,
                ExprKind::Call {
                    function: function.to_owned(),
                    target: Some(Box::new(target.clone())),
                    args: Vec::new(),
                },
            )
        };
        let bound = expr(
            offset,
            ExprKind::Bind {
                name: variable,
                value: Box::new(method("value")),
                body: Box::new(body),
            },
        );
        let result = match name {
            "optMap" => call(offset, "optional.of", vec![bound]),
            _ => bound,
        };
        let none = call(offset, "optional.none", Vec::new());
        Ok(call(
            offset,
            "_?_:_",
            vec![method("hasValue"), result, none],
        ))
    }
}
