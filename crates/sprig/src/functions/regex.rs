use everflow_gotemplate::GoType::{Bool, Int, String as Str};
use everflow_gotemplate::{Args, FuncError, FuncResult, GoType, List, Value};

use super::Registry;
use crate::regexp::{Expression, compile, must_compile, quote_meta};

type Compile = fn(&[u8]) -> Result<std::rc::Rc<Expression>, String>;

/// A list of texts, nil where there is nothing.
fn texts(found: Option<Vec<Vec<u8>>>) -> Value {
    match found {
        Some(texts) => Value::strings(texts),
        None => Value::List(List::nil(GoType::STRING_SLICE)),
    }
}

fn find(args: &Args<'_>, compile: Compile) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes()).map_err(FuncError::new)?;
    Ok(Value::string(expression.find(args.text(1)?.as_bytes())))
}

fn find_all(args: &Args<'_>, compile: Compile) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes()).map_err(FuncError::new)?;
    Ok(texts(
        expression.find_all(args.text(1)?.as_bytes(), args.int(2)?),
    ))
}

fn replace(args: &Args<'_>, compile: Compile, literal: bool) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes()).map_err(FuncError::new)?;
    let (text, template) = (args.text(1)?.as_bytes(), args.text(2)?.as_bytes());
    Ok(Value::string(
        expression.replace_all(text, template, literal),
    ))
}

fn split(args: &Args<'_>, compile: Compile) -> FuncResult {
    let pattern = args.text(0)?.as_bytes();
    let expression = compile(pattern).map_err(FuncError::new)?;
    Ok(texts(expression.split(
        args.text(1)?.as_bytes(),
        args.int(2)?,
        pattern,
    )))
}

pub(super) fn register(r: &mut Registry<'_>) {
    const TEXTS: GoType = GoType::STRING_SLICE;
    r.add("regexMatch", &[Str, Str], Bool, |a| {
        let expression = compile(a.text(0)?.as_bytes());
        let text = a.text(1)?.as_bytes();
        Ok(Value::Bool(
            expression.is_ok_and(|expression| expression.is_match(text)),
        ))
    });
    r.add("mustRegexMatch", &[Str, Str], Bool, |a| {
        let expression = compile(a.text(0)?.as_bytes()).map_err(FuncError::new)?;
        Ok(Value::Bool(expression.is_match(a.text(1)?.as_bytes())))
    });
    r.add("regexFind", &[Str, Str], Str, |a| find(&a, must_compile));
    r.add("mustRegexFind", &[Str, Str], Str, |a| find(&a, compile));
    r.add("regexFindAll", &[Str, Str, Int], TEXTS, |a| {
        find_all(&a, must_compile)
    });
    r.add("mustRegexFindAll", &[Str, Str, Int], TEXTS, |a| {
        find_all(&a, compile)
    });
    r.add("regexReplaceAll", &[Str, Str, Str], Str, |a| {
        replace(&a, must_compile, false)
    });
    r.add("mustRegexReplaceAll", &[Str, Str, Str], Str, |a| {
        replace(&a, compile, false)
    });
    r.add("regexReplaceAllLiteral", &[Str, Str, Str], Str, |a| {
        replace(&a, must_compile, true)
    });
    r.add("mustRegexReplaceAllLiteral", &[Str, Str, Str], Str, |a| {
        replace(&a, compile, true)
    });
    r.add("regexSplit", &[Str, Str, Int], TEXTS, |a| {
        split(&a, must_compile)
    });
    r.add("mustRegexSplit", &[Str, Str, Int], TEXTS, |a| {
        split(&a, compile)
    });
    r.add("regexQuoteMeta", &[Str], Str, |a| {
        Ok(Value::string(quote_meta(a.text(0)?.as_bytes())))
    });
}
