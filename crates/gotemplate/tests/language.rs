//! Finds of the comparison with Go, limits and robustness.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use everflow_gotemplate::{
    Error, FuncError, Functions, GoStr, GoType, Limits, Map, Meter, MissingKey, Signature,
    Templates, Value, gofmt, on_large_stack,
};
use everflow_limits::Budget;

fn functions() -> Arc<Functions> {
    let mut functions = Functions::new();
    let any_list = Signature::variadic(&[GoType::Any], GoType::ANY_SLICE);
    functions.add("list", any_list, |_, args| {
        Ok(Value::list(args.all().to_vec()))
    });
    let put = Signature::new(
        &[GoType::ANY_MAP, GoType::String, GoType::Any],
        GoType::ANY_MAP,
    );
    functions.add("set", put, |_, args| {
        args.map(0)?
            .insert(args.text(1)?.clone(), args.get(2).clone())?;
        Ok(args.get(0).clone())
    });
    let include = Signature::new(&[GoType::String, GoType::Any], GoType::String);
    functions.add("include", include, |context, args| {
        let name = args.text(0)?.to_str_lossy().into_owned();
        Ok(Value::String(context.render(&name, args.get(1))?))
    });
    functions.add("tpl", include, |context, args| {
        let mut templates = context.templates().clone();
        templates.parse("tpl", args.text(0)?, context.meter())?;
        Ok(Value::String(context.render_in(
            &templates,
            "tpl",
            args.get(1),
        )?))
    });
    functions.add("tick", Signature::new(&[], GoType::Int), |context, _| {
        let Some(count) = context.state::<i64>() else {
            return Err(FuncError::new("no counter"));
        };
        *count += 1;
        Ok(Value::Int(*count))
    });
    Arc::new(functions)
}

fn data() -> Value {
    let inner = Value::map([("b", Value::Int(1)), ("a", Value::string("x"))]);
    Value::map([
        ("Map", inner),
        ("List", Value::list(vec![Value::Int(1), Value::Nil])),
        ("Empty", Value::list(vec![])),
        ("Dict", Value::Map(Map::new())),
    ])
}

fn render_with(text: &str, limits: &Limits) -> Result<String, Error> {
    let mut templates = Templates::new("set", functions());
    templates.set_missing_key(MissingKey::Zero);
    let budget = Budget::unlimited();
    let meter = Meter::new(limits, &budget);
    templates.parse("main", text, &meter)?;
    let mut counter = 0i64;
    let out = templates.execute("main", &data(), &mut counter, &meter)?;
    Ok(String::from_utf8(out).unwrap())
}

fn render(text: &str) -> String {
    match render_with(text, &Limits::default()) {
        Ok(out) => out,
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_break_in_the_else_of_a_range_leaves_only_that_range() {
    let text = "{{range list 1 2}}<{{range .Empty}}{{else}}e{{break}}f{{end}}>{{end}}";
    let text = text.replace(".Empty", "$.Empty");
    assert_eq!(render(&text), "<e><e>");
    let text = "{{range list 1 2}}<{{range $.Empty}}{{else}}{{continue}}{{end}}>{{end}}";
    assert_eq!(render(text), "<<");
}

#[test]
fn an_imaginary_part_needs_digits() {
    assert_eq!(
        render("{{2+i}}"),
        "template: main:1: syntax error scanning complex number"
    );
}

#[test]
fn slice_does_not_look_into_interfaces() {
    let text = "{{slice \"hello\" .Map.b}}";
    assert!(render(text).ends_with("cannot index slice/array with type interface {}"));
    assert_eq!(render("{{$i := .Map.b}}{{slice \"hello\" $i}}"), "ello");
}

#[test]
fn variables_live_as_long_as_in_go() {
    assert_eq!(
        render("{{if false}}{{$x := 1}}{{else}}{{$x}}{{end}}"),
        "template: main:1:33: executing \"main\" at <$x>: undefined variable: $x"
    );
    assert_eq!(
        render("{{$x := 1}}{{if false}}{{$x := 2}}{{else}}{{$x}}{{end}}"),
        "1"
    );
    assert_eq!(render("{{$x := 1}}{{or true ($x := 2)}}{{$x}}"), "true1");
}

#[test]
fn maps_are_shared() {
    let text = "{{$d := .Dict}}{{$_ := set .Dict \"k\" 1}}{{$d.k}}{{$d}}";
    assert_eq!(render(text), "1map[k:1]");
}

#[test]
fn functions_render_and_parse_templates() {
    let text = "{{define \"t\"}}[{{.b}}{{tick}}]{{end}}{{include \"t\" .Map}}{{tpl \"{{.a}}{{include `t` .}}\" .Map}}";
    assert_eq!(render(text), "[11]x[12]");
    assert_eq!(
        render("{{define \"t\"}}{{.b.c}}{{end}}{{include \"t\" .Map}}"),
        "template: main:1:31: executing \"main\" at <include \"t\" .Map>: error calling include: \
         template: main:1:18: executing \"t\" at <.b.c>: can't evaluate field c in type interface {}"
    );
}

#[test]
fn the_error_of_a_function_is_the_source() {
    let error = render_with("{{include \"none\" .}}", &Limits::default()).unwrap_err();
    let Error::Exec {
        source: Some(source),
        ..
    } = error
    else {
        panic!("no source");
    };
    assert_eq!(source.template_error().unwrap().reason(), "TemplateMissing");
}

#[test]
fn endless_recursion_ends_in_an_error() {
    let depth = "exceeded maximum template depth";
    assert!(
        render("{{define \"r\"}}{{template \"r\" .}}{{end}}{{template \"r\" .}}").contains(depth)
    );
    assert!(
        render("{{define \"r\"}}{{include \"r\" .}}{{end}}{{include \"r\" .}}").contains(depth)
    );
    let text = "{{define \"r\"}}{{tpl \"{{include `r` .}}\" .}}{{end}}{{include \"r\" .}}";
    assert!(render(text).contains(depth));
}

#[test]
fn a_large_stack_allows_a_thousand_includes() {
    let text = "{{define \"r\"}}{{if .}}x{{include \"r\" (slice . 1)}}{{end}}{{end}}\
                {{include \"r\" .Long}}";
    let out = on_large_stack(256 << 20, || {
        let limits = Limits {
            stack_bytes: 192 << 20,
            ..Limits::default()
        };
        let mut templates = Templates::new("set", functions());
        let budget = Budget::unlimited();
        let meter = Meter::new(&limits, &budget);
        templates.parse("main", text, &meter).unwrap();
        let long = Value::map([("Long", Value::list(vec![Value::Int(1); 1500]))]);
        let out = templates.execute("main", &long, &mut 0i64, &meter);
        out.map(|out| out.len())
            .map_err(|error| error.to_string().len())
    });
    assert_eq!(out.unwrap(), Ok(1500));
}

#[test]
fn steps_and_output_are_bounded() {
    let limits = Limits {
        steps: 1000,
        ..Limits::default()
    };
    let error = render_with("{{range 1000000}}{{end}}", &limits).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("exceeded the limit of 1000 execution steps"),
        "{text}"
    );
    let limits = Limits {
        output_bytes: 1000,
        ..Limits::default()
    };
    let error = render_with("{{range 1000000}}0123456789{{end}}", &limits).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("exceeded the limit of 1000 bytes of output"),
        "{text}"
    );
}

#[test]
fn text_made_by_functions_is_bounded() {
    let limits = Limits {
        text_bytes: 1 << 20,
        ..Limits::default()
    };
    let text = "{{$x := \"0123456789\"}}{{$l := list}}\
                {{range 1000}}{{$x = print $x $x}}{{$l = list $l $x}}{{end}}";
    let error = render_with(text, &limits).unwrap_err().to_string();
    assert!(error.contains("bytes of text made by functions"), "{error}");
}

#[test]
fn deep_nesting_in_the_text_is_refused() {
    let parens = format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(render(&parens).contains("max expression depth exceeded"));
    let ifs = format!(
        "{}{}",
        "{{if 1}}".repeat(100_000),
        "{{end}}".repeat(100_000)
    );
    assert!(render(&ifs).contains("control structures nest too deep"));
    let elses = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(100_000));
    assert!(render(&elses).contains("control structures nest too deep"));
}

#[test]
fn deep_and_cyclic_values_do_no_harm() {
    assert_eq!(
        render("{{$x := 1}}{{range 200000}}{{$x = list $x}}{{end}}ok"),
        "ok"
    );
    let deep = "{{$x := 1}}{{range 200000}}{{$x = list $x}}{{end}}{{$x}}";
    assert!(render(deep).contains("nests deeper than 500 levels"));
    let cycle = "{{$_ := set .Dict \"self\" .Dict}}{{.Dict}}";
    assert!(render(cycle).contains("contains itself"));
    let wide = "{{$x := list}}{{range 60}}{{$x = list $x $x}}{{end}}{{len (print $x)}}";
    assert!(render(wide).contains("cannot print more than 16 MiB"));
}

#[test]
fn copies_and_json_of_strange_values_are_bounded() {
    let budget = Budget::unlimited();
    let meter = Meter::new(&Limits::default(), &budget);
    let map = Map::new();
    map.insert("self", Value::Map(map.clone())).unwrap();
    assert!(Value::Map(map.clone()).deep_copy(&meter).is_err());
    assert!(Value::Map(map.clone()).to_json(&meter).is_err());
    map.remove("self");
    let mut wide = Value::Map(Map::new());
    for _ in 0..60 {
        wide = Value::list(vec![wide.clone(), wide]);
    }
    assert!(wide.deep_copy(&meter).is_err());
    assert!(wide.to_json(&meter).is_err());
}

#[test]
fn strings_are_bytes() {
    let cut = GoStr::from_bytes(&"é".as_bytes()[..1]);
    assert_eq!(cut.as_str(), None);
    assert_eq!(gofmt::quote(cut.as_bytes()), "\"\\xc3\"");
    assert_eq!(
        render("{{len (slice \"é\" 0 1)}}{{printf \"%q\" (slice \"é\" 0 1)}}"),
        "1\"\\xc3\""
    );
}

#[test]
fn templates_are_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Templates>();
    check::<Error>();
}
