//! Short expressions that would take the stack, the memory or the time of the process.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use everflow_cel::{Program, Value, Variables};

/// Compiles and evaluates on the stack that work has in production.
fn evaluated(text: &str) -> Result<String, String> {
    let text = text.to_owned();
    let work = move || {
        let program = Program::compile(&text).map_err(|error| error.to_string())?;
        let _ = program.fold_constants();
        let variables = Variables::new().with("a", Value::Bool(true));
        let value = program.evaluate(&variables);
        value
            .map(|value| format!("{value:?}"))
            .map_err(|error| error.to_string())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(work).unwrap().join().unwrap()
}

#[test]
fn long_chains_are_refused_before_they_overflow_the_stack() {
    for (operand, link) in [
        ("1", "+1"),
        ("1", "*1"),
        ("a", "==a"),
        ("a", ".a"),
        ("a", "[0]"),
        ("a", ".a()"),
        ("1", "?1"),
    ] {
        let text = format!("{operand}{}", link.repeat(20_000));
        let error = evaluated(&text).unwrap_err();
        assert!(
            error.contains("recursion limit exceeded: 250") || link == "?1",
            "{link}: {error:.200}"
        );
    }
    assert_eq!(
        evaluated(&format!("1{}", "+1".repeat(250))).unwrap(),
        "Int(251)"
    );
}

#[test]
fn chains_inside_one_another_are_refused_before_they_overflow_the_stack() {
    let (open, close) = ("(1+".repeat(100), "+1".repeat(200));
    let text = format!("{open}1{}", format!("{close})").repeat(100));
    let error = evaluated(&text).unwrap_err();
    assert!(error.contains("recursion limit exceeded"), "{error:.200}");
}

#[test]
fn long_conditions_are_evaluated() {
    assert_eq!(
        evaluated(&format!("a{}", " && a".repeat(15_000))).unwrap(),
        "Bool(true)"
    );
    assert_eq!(
        evaluated(&format!("!a{}", "||!a".repeat(20_000))).unwrap(),
        "Bool(false)"
    );
}

#[test]
fn characters_beyond_ascii_outside_of_text_are_errors() {
    for text in ["é", "a + é1", "😀.b", "1é"] {
        let error = evaluated(text).unwrap_err();
        assert!(error.contains("token recognition error"), "{text}: {error}");
    }
}

#[test]
fn tokens_too_many_are_passed_over_without_recursion() {
    assert!(evaluated(&"%-".repeat(40_000)).is_err());
}

#[test]
fn text_grows_no_faster_than_it_is_charged() {
    let long = "a".repeat(40_000);
    for text in [
        format!("['{long}'].map(s, s.replace('a', s).size())"),
        format!("['{long}'].map(s, s.replace('', s).size())"),
        format!("['{long}'].map(s, s.split('').join(s).size())"),
        "lists.range(1000000000000).size()".to_owned(),
        "lists.range(100000000).size()".to_owned(),
        "'%.2000000000f'.format([1.0])".to_owned(),
        "'%.2000000000e'.format([1.0])".to_owned(),
        format!(
            "'{}'.format(['{}'])",
            "%s".repeat(20_000),
            "a".repeat(50_000)
        ),
    ] {
        let began = Instant::now();
        let error = evaluated(&text).map(|value| value.len()).unwrap_err();
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{text:.60}: {error}"
        );
    }
}

/// Fails in time, whatever the error.
fn refused_soon(text: &str) {
    let began = Instant::now();
    let outcome = evaluated(text);
    let took = began.elapsed();
    assert!(outcome.is_err(), "{text:.90} has a value");
    assert!(took < Duration::from_secs(8), "{text:.90} took {took:?}");
}

#[test]
fn operand_of_or_value_is_evaluated_once() {
    refused_soon(&format!("dyn(1){}", ".orValue(2)".repeat(200)));
}

#[test]
fn values_that_double_are_refused() {
    for step in [
        ".map(a,[a,a])",
        ".map(a,a+a)",
        ".map(a,{'x':a,'y':a})",
        ".map(a,[optional.of([a,a])])",
    ] {
        let doubled = format!("[[1,2]]{}", step.repeat(60));
        refused_soon(&doubled);
        refused_soon(&format!("{doubled}=={doubled}"));
        refused_soon(&format!("'%s'.format([{doubled}])"));
    }
    let text = format!("['abcdefgh'].map(a,a+a){}", ".map(a,a+a)".repeat(60));
    refused_soon(&text);
}

#[test]
fn values_that_nest_ever_deeper_are_refused() {
    let step = format!(".map(a,{}a{})", "[".repeat(100), "]".repeat(100));
    refused_soon(&format!("[1]{}", step.repeat(240)));
    let step = format!(".map(a,{}a{})", "optional.of(".repeat(100), ")".repeat(100));
    refused_soon(&format!("[1]{}", step.repeat(70)));
}

#[test]
fn large_patterns_are_compiled_a_few_times_only() {
    refused_soon("lists.range(9000).map(x, 'a'.matches('(\\\\pL{60}){9}' + string(x)))");
    let same =
        Program::compile("lists.range(900).all(x, 'é'.matches('^(\\\\pL{1,20}){1,9}$'))").unwrap();
    let (value, _) = same.evaluate_counting(&Variables::new());
    assert!(matches!(value, Ok(Value::Bool(true))));
}

#[test]
fn cheap_calls_on_long_text_are_counted() {
    let long = "ab".repeat(20_000);
    refused_soon(&format!(
        "['{long}'].map(s, s+s+s+s+s+s+s+s).all(s, lists.range(90000).all(i, s.size() > i))"
    ));
    refused_soon(&format!(
        "['{long}'].map(s, s+s+s+s+s+s+s+s).all(s, lists.range(90000).all(i, s.reverse().reverse().charAt(i) != ''))"
    ));
}

#[test]
fn an_evaluation_by_itself_does_little_work() {
    let items: Vec<everflow_json::Value> = (0..60).map(everflow_json::Value::from).collect();
    let list = Value::from_json(&everflow_json::Value::Array(items));
    let variables = Variables::new().with("l", list);
    let program = Program::compile("l.all(a, lists.range(9000).size() == 9000)").unwrap();
    let (counted, _) = program.evaluate_counting(&variables);
    assert!(
        counted.is_ok(),
        "{:?}",
        counted.err().map(|error| error.to_string())
    );
    let error = program.evaluate(&variables).unwrap_err().to_string();
    assert!(
        error.contains("expensive") || error.contains("cost"),
        "{error}"
    );
    let small = "l.filter(a, a > 3).exists(b, string(b).matches('^5[0-9]$'))";
    let small = Program::compile(small).unwrap();
    assert!(matches!(small.evaluate(&variables), Ok(Value::Bool(true))));
}

#[test]
fn precisions_of_formats_have_a_bound() {
    let long = evaluated("'%.70000f'.format([1.5]).size()").unwrap();
    assert_eq!(long, "Int(70002)");
    let error = evaluated("'%.1000001f'.format([1.0])").unwrap_err();
    assert!(error.contains("too large"), "{error}");
}
