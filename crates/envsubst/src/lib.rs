//! Variables in text, as Flux substitutes them after a build.
//!
//! The forms are a shell's: `${v}`, `${v:-default}`, `${v:2:3}`, `${v/old/new}` and so on; `$$`
//! is one dollar, and `$v` without braces is left alone. Where Flux differs from a shell (an empty
//! variable counts as unset, `:+` and `:?` give a default too), it is Flux that is followed.

#![forbid(unsafe_code)]

mod glob;
mod operators;
mod parse;

use std::borrow::Cow;

use everflow_limits::{Budget, Exceeded, Held};
use thiserror::Error;

use operators::Operator;
use parse::Node;

/// Why a text cannot be substituted. The words are Flux's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{cause}")]
pub struct Error {
    /// What is wrong.
    #[source]
    pub cause: Cause,
    /// The line it is on, from 1.
    pub line: usize,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// An operator that is not known, or not complete.
    #[error("bad substitution")]
    BadSubstitution,
    /// `${v` without its end, or with an operator that is not known.
    #[error("missing closing brace")]
    MissingClosingBrace,
    /// No name after `${`.
    #[error("unable to parse variable name")]
    VariableName,
    /// No argument where the operator needs one.
    #[error("unable to parse substitution within function")]
    Argument,
    /// Too many `${` in one another.
    #[error("substitutions are nested more than {0} levels deep")]
    TooDeep(usize),
    /// The variable has no value and the text gives no default.
    #[error("variable not set (strict mode): {0:?}")]
    NotSet(String),
    /// A cut through the middle of a character, or to a negative length.
    #[error("the part of {0:?} cannot be cut out")]
    Cut(String),
    /// It would cost more than it may.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

/// Gives the value of a variable; `None` for one that is not set.
pub type Values<'v> = &'v dyn Fn(&str) -> Option<Cow<'v, str>>;

/// How many nodes a variable has at most, with its arguments and the text after it.
const NODES_EACH: usize = 4;

/// Puts the values of variables into a text. One that is not set is an error unless the text has a
/// default for it. The result is charged to the budget while it grows, and not any more when it is
/// returned.
///
/// # Errors
/// Says what is wrong, in which line.
pub fn substitute(text: &str, values: Values<'_>, budget: &Budget) -> Result<String, Error> {
    let first = |cause: Exceeded| Error {
        cause: cause.into(),
        line: 1,
    };
    let nodes = text.matches("${").count() * NODES_EACH * size_of::<Node>();
    let _nodes = budget.hold(text.len() + nodes).map_err(first)?;
    let mut output = Output::new(budget).map_err(first)?;
    for node in parse::parse(text, budget)? {
        evaluate(&node, values, &mut output).map_err(|cause| Error {
            cause,
            line: node.line(),
        })?;
    }
    Ok(output.text)
}

/// A text in the making, and what is charged for it.
struct Output<'b> {
    text: String,
    held: Held<'b>,
    budget: &'b Budget,
}

impl<'b> Output<'b> {
    fn new(budget: &'b Budget) -> Result<Self, Exceeded> {
        Ok(Output {
            text: String::new(),
            held: budget.hold(0)?,
            budget,
        })
    }

    fn push(&mut self, text: &str) -> Result<(), Exceeded> {
        self.held.grow(text.len())?;
        self.text.push_str(text);
        Ok(())
    }
}

fn evaluate(node: &Node, values: Values<'_>, output: &mut Output<'_>) -> Result<(), Cause> {
    match node {
        Node::Text(text) => output.push(text)?,
        Node::Variable {
            name,
            operator,
            arguments,
            ..
        } => {
            let budget = output.budget;
            let mut texts = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let mut text = Output::new(budget)?;
                evaluate(argument, values, &mut text)?;
                texts.push(text);
            }
            let value = match (values(name), operator) {
                (Some(value), _) => value,
                (None, Operator::Default) => Cow::default(),
                (None, _) => return Err(Cause::NotSet(name.clone())),
            };
            let texts: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
            let _result = budget.hold(operator.most(&value, &texts))?;
            let result = operator.apply(&value, &texts, budget)?;
            output.push(&result.ok_or_else(|| Cause::Cut(name.clone()))?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(&str, &str)], text: &str) -> Result<String, String> {
        let value = |name: &str| {
            let found = values.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| Cow::from(*value))
        };
        let budget = Budget::unlimited();
        let result = substitute(text, &value, &budget);
        assert_eq!(budget.used(), 0);
        result.map_err(|error| error.to_string())
    }

    fn table(value: &str, cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let result = with(&[("v", value), ("d", "north"), ("empty", "")], text);
            assert_eq!(result.as_deref(), Ok(*expected), "{text} of {value:?}");
        }
    }

    #[test]
    fn plain_variables_and_what_is_no_variable() {
        table(
            "alpine",
            &[
                ("", ""),
                ("no variables", "no variables"),
                ("${v}", "alpine"),
                ("a ${v} b ${v}\n${d}", "a alpine b alpine\nnorth"),
                ("$v $ $", "$v $ $"),
                ("$${v}", "${v}"),
                ("$$$${v}", "$${v}"),
                ("$$v", "$v"),
                ("${v}$$", "alpine$"),
                ("a\\b\\\\c", "a\\b\\\\c"),
            ],
        );
    }

    #[test]
    fn defaults_stand_in_for_empty_and_unset() {
        table(
            "set",
            &[
                ("${v:-other}", "set"),
                ("${v:=other}", "set"),
                ("${v=other}", "set"),
                ("${unset:-other}", "other"),
                ("${unset:=}", ""),
                ("${unset=a b:c}", "a b:c"),
                ("${empty:-other}", "other"),
                ("${empty=other}", "other"),
                ("${unset:+other}", "other"),
                ("${unset:?other}", "other"),
                ("${unset:-${d}}", "north"),
                ("${unset:-a-${d}-b}", "a-north-b"),
                ("${unset:-${also:-deep}}", "deep"),
                ("${unset:-$$x}", "$$x"),
            ],
        );
    }

    #[test]
    fn lengths_cases_and_parts() {
        table(
            "abcDEF",
            &[
                ("${#v}", "6"),
                ("${v^}", "AbcDEF"),
                ("${v^^}", "ABCDEF"),
                ("${v,}", "abcDEF"),
                ("${v,,}", "abcdef"),
                ("${v:0}", "abcDEF"),
                ("${v:2}", "cDEF"),
                ("${v:2:3}", "cDE"),
                ("${v:2:30}", "cDEF"),
                ("${v:20}", ""),
                ("${v:20:1}", ""),
                ("${v:-2}", "abcDEF"),
                ("${v: -2}", "abcDEF"),
                ("${v:x}", "abcDEF"),
            ],
        );
    }

    #[test]
    fn replacements() {
        table(
            "a.b.c/a",
            &[
                ("${v/a/X}", "X.b.c/a"),
                ("${v//a/X}", "X.b.c/X"),
                ("${v//./}", "abc/a"),
                ("${v/#a/X}", "X.b.c/a"),
                ("${v/#b/X}", "a.b.c/a"),
                ("${v/%a/X}", "a.b.c/X"),
                ("${v/%b/X}", "a.b.c/a"),
                ("${v/c\\/a/X}", "a.b.X"),
                ("${v//a/${d}}", "north.b.c/north"),
            ],
        );
    }

    #[test]
    fn patterns_trim_at_either_end() {
        table(
            "one/two/three.tar.gz",
            &[
                ("${v#*/}", "two/three.tar.gz"),
                ("${v##*/}", "three.tar.gz"),
                ("${v%.*}", "one/two/three.tar"),
                ("${v%%.*}", "one/two/three"),
                ("${v#one}", "/two/three.tar.gz"),
                ("${v#???}", "/two/three.tar.gz"),
                ("${v#[a-o]ne}", "/two/three.tar.gz"),
                ("${v#nothing}", "one/two/three.tar.gz"),
                ("${v%${d}}", "one/two/three.tar.gz"),
            ],
        );
    }

    #[test]
    fn errors_are_worded_as_flux_words_them() {
        let cases = [
            ("${}", "unable to parse variable name"),
            ("${ v}", "unable to parse variable name"),
            ("${v", "missing closing brace"),
            ("${v-x}", "missing closing brace"),
            ("${v@}", "missing closing brace"),
            ("${v:}", "unable to parse substitution within function"),
            ("${v#}", "unable to parse substitution within function"),
            ("${v//.}", "bad substitution"),
            ("${#}", "bad substitution"),
            ("${v:-x", "unable to parse substitution within function"),
            ("${unset}", "variable not set (strict mode): \"unset\""),
            ("${#unset}", "variable not set (strict mode): \"unset\""),
            ("${unset^^}", "variable not set (strict mode): \"unset\""),
            ("${v:0:-9}", "the part of \"v\" cannot be cut out"),
            ("${unset} ${v", "missing closing brace"),
        ];
        for (text, message) in cases {
            assert_eq!(
                with(&[("v", "x.y")], text),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn an_error_knows_its_line() {
        let unset = |_: &str| None;
        let budget = Budget::unlimited();
        let error = substitute("a\nb: $$\nc: ${x:-\n}\nd: ${y}", &unset, &budget).unwrap_err();
        assert_eq!(
            (error.line, error.cause),
            (5, Cause::NotSet("y".to_owned()))
        );
        let error = substitute("a\n  ${x", &unset, &budget).unwrap_err();
        assert_eq!((error.line, error.cause), (2, Cause::MissingClosingBrace));
    }

    #[test]
    fn nesting_has_a_bound() {
        let deep = "${a:-".repeat(100_000);
        assert!(
            substitute(&deep, &|_| None, &Budget::unlimited())
                .unwrap_err()
                .to_string()
                .contains("nested")
        );
    }
}
