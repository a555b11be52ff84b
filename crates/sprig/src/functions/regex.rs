use everflow_gotemplate::GoType::{Bool, Int, String as Str};
use everflow_gotemplate::{Args, FuncError, FuncResult, GoType, List, Meter, Value};

use super::Registry;
use crate::regexp::{Expression, compile, must_compile, quote_meta};

type Compile = fn(&[u8], &Meter<'_>) -> Result<std::rc::Rc<Expression>, FuncError>;

/// A list of texts, nil where there is nothing.
fn texts(found: Option<Vec<Value>>) -> Value {
    Value::List(match found {
        Some(texts) => List::typed(GoType::STRING_SLICE, texts),
        None => List::nil(GoType::STRING_SLICE),
    })
}

fn find(meter: &Meter<'_>, args: &Args<'_>, compile: Compile) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes(), meter)?;
    Ok(Value::string(
        expression.find(args.text(1)?.as_bytes(), meter)?,
    ))
}

fn find_all(meter: &Meter<'_>, args: &Args<'_>, compile: Compile) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes(), meter)?;
    let (text, limit) = (args.text(1)?.as_bytes(), args.int(2)?);
    Ok(texts(expression.find_all(text, limit, meter)?))
}

fn replace(meter: &Meter<'_>, args: &Args<'_>, compile: Compile, literal: bool) -> FuncResult {
    let expression = compile(args.text(0)?.as_bytes(), meter)?;
    let (text, template) = (args.text(1)?.as_bytes(), args.text(2)?.as_bytes());
    let replaced = expression.replace_all(text, template, literal, meter)?;
    Ok(Value::string(replaced))
}

fn split(meter: &Meter<'_>, args: &Args<'_>, compile: Compile) -> FuncResult {
    let pattern = args.text(0)?.as_bytes();
    let expression = compile(pattern, meter)?;
    let (text, limit) = (args.text(1)?.as_bytes(), args.int(2)?);
    Ok(texts(expression.split(text, limit, pattern, meter)?))
}

pub(super) fn register(r: &mut Registry<'_>) {
    const TEXTS: GoType = GoType::STRING_SLICE;
    r.metered("regexMatch", &[Str, Str], Bool, |m, a| {
        let expression = match compile(a.text(0)?.as_bytes(), m) {
            Ok(expression) => expression,
            Err(error) if error.exceeded().is_some() => return Err(error),
            Err(_) => return Ok(Value::Bool(false)),
        };
        Ok(Value::Bool(expression.is_match(a.text(1)?.as_bytes(), m)?))
    });
    r.metered("mustRegexMatch", &[Str, Str], Bool, |m, a| {
        let expression = compile(a.text(0)?.as_bytes(), m)?;
        Ok(Value::Bool(expression.is_match(a.text(1)?.as_bytes(), m)?))
    });
    r.metered("regexFind", &[Str, Str], Str, |m, a| {
        find(m, &a, must_compile)
    });
    r.metered("mustRegexFind", &[Str, Str], Str, |m, a| {
        find(m, &a, compile)
    });
    r.metered("regexFindAll", &[Str, Str, Int], TEXTS, |m, a| {
        find_all(m, &a, must_compile)
    });
    r.metered("mustRegexFindAll", &[Str, Str, Int], TEXTS, |m, a| {
        find_all(m, &a, compile)
    });
    r.metered("regexReplaceAll", &[Str, Str, Str], Str, |m, a| {
        replace(m, &a, must_compile, false)
    });
    r.metered("mustRegexReplaceAll", &[Str, Str, Str], Str, |m, a| {
        replace(m, &a, compile, false)
    });
    r.metered("regexReplaceAllLiteral", &[Str, Str, Str], Str, |m, a| {
        replace(m, &a, must_compile, true)
    });
    r.metered(
        "mustRegexReplaceAllLiteral",
        &[Str, Str, Str],
        Str,
        |m, a| replace(m, &a, compile, true),
    );
    r.metered("regexSplit", &[Str, Str, Int], TEXTS, |m, a| {
        split(m, &a, must_compile)
    });
    r.metered("mustRegexSplit", &[Str, Str, Int], TEXTS, |m, a| {
        split(m, &a, compile)
    });
    r.add("regexQuoteMeta", &[Str], Str, |a| {
        Ok(Value::string(quote_meta(a.text(0)?.as_bytes())))
    });
}
