//! Parsing and execution keep to a budget of memory and end when they are told to.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everflow_gotemplate::{
    Error, Functions, GoType, Limits, Map, Meter, Signature, Templates, Value,
};
use everflow_limits::{Budget, Exceeded, Stop};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory is counted for all threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const SHARE: usize = 32 << 20;
/// What the process itself and estimates may be off by.
const SLACK: usize = 8 << 20;

fn functions() -> Arc<Functions> {
    let mut functions = Functions::new();
    let any_list = Signature::variadic(&[GoType::Any], GoType::ANY_SLICE);
    functions.add("list", any_list, |_, args| {
        Ok(Value::list(args.all().to_vec()))
    });
    functions.add("concat", any_list, |_, args| {
        let mut items = Vec::new();
        for list in args.all() {
            items.extend(
                list.as_list()
                    .into_iter()
                    .flat_map(|list| list.items())
                    .cloned(),
            );
        }
        Ok(Value::list(items))
    });
    let set = Signature::new(
        &[GoType::ANY_MAP, GoType::String, GoType::Any],
        GoType::ANY_MAP,
    );
    functions.add("set", set, |context, args| {
        let map = args.map(0)?;
        map.insert(args.text(1)?.clone(), args.get(2).clone())?;
        context.meter().keep();
        Ok(args.get(0).clone())
    });
    let include = Signature::new(&[GoType::String, GoType::Any], GoType::String);
    functions.add("include", include, |context, args| {
        let name = args.text(0)?.to_str_lossy().into_owned();
        Ok(Value::String(context.render(&name, args.get(1))?))
    });
    Arc::new(functions)
}

fn render(text: &str, budget: &Budget) -> Result<Vec<u8>, Error> {
    let meter = Meter::new(&Limits::default(), budget);
    let mut templates = Templates::new("set", functions());
    templates.parse("main", text, &meter)?;
    let data = Value::map([
        ("dict", Value::Map(Map::new())),
        ("bytes", Value::bytes(&vec![7; 8 << 20])),
    ]);
    templates.execute("main", &data, &mut (), &meter)
}

/// Renders with a small share and gives the error; the memory must not have grown beyond the share.
fn used_up(text: &str) -> Error {
    let budget = Budget::new(Stop::new(), SHARE as u64);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let outcome = render(text, &budget).map(|output| output.len());
    let peak = MEMORY.peak_usage().saturating_sub(before);
    let start: String = text.chars().take(80).collect();
    let error = match outcome {
        Ok(length) => panic!("{length} bytes rendered from {start}"),
        Err(error) => error,
    };
    assert!(peak < SHARE + SLACK, "{peak} bytes for {start}");
    assert_eq!(budget.used(), 0, "given back after {start}");
    error
}

#[test]
fn values_that_outgrow_the_share_end_in_an_error_that_names_the_place() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let doubled = "{{ $l := list 1 }}\n{{ range 60 }}{{ $l = concat $l $l }}{{ end }}";
    let error = used_up(doubled);
    let limit = SHARE as u64;
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory { limit }));
    assert_eq!(
        error.to_string(),
        "template: main:2:22: executing \"main\" at <concat $l $l>: error calling concat: needs \
         more than the 32 MiB of memory that one piece of work may use: make it smaller, or raise \
         --max-work-memory"
    );
    for text in [
        // Text, in variables, in a map, in lists in a map and in the output.
        "{{ $x := `0123456789` }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
        "{{ $x := `0123456789` }}{{ range 60 }}{{ $x = printf `%s%s` $x $x }}{{ end }}",
        "{{ $x := print .dict `012345678901234567890123456789` }}\
         {{ range $i, $_ := .bytes }}{{ set $.dict (print $x $i) (print $i $x) }}{{ end }}",
        "{{ range $i, $_ := .bytes }}{{ set $.dict (print $i) (list $i $i $i $i) }}{{ end }}",
        "{{ range 100000000 }}0123456789012345678901234567890123456789{{ end }}",
        "{{ define `a` }}{{ range 100000000 }}0123456789012345678901234567890123456789{{ end }}\
         {{ end }}{{ len (include `a` .) }}",
        // One call.
        "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ $y := print $x }}",
        "{{ $x := printf `%1000000d` 1 }}{{ $x = printf `%s%s%s%s%s` $x $x $x $x $x }}\
         {{ printf `%q` $x }}{{ printf `%x` (printf `%s%s` $x $x) | js }}",
    ] {
        let error = used_up(text);
        assert_eq!(
            error.exceeded(),
            Some(&Exceeded::Memory { limit }),
            "{error}"
        );
    }
}

#[test]
fn texts_that_parse_to_large_trees_end_in_an_error() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = SHARE as u64;
    for unit in [
        "{{.}}",
        "{{1}}",
        "{{1 2 3 4 5 6 7 8 9}}",
        "{{.a.b.c.d.e.f}}",
        "{{$x:=1}}{{$x}}",
        "{{``}}",
        "{{(1)}}",
        "{{1|list|list}}",
        "{{if 1}}{{end}}",
        "{{if .}}a{{else}}b{{end}}",
        "{{template `x`}}",
        "{{`012345678901234567890123456789` | print 1 2}}",
    ] {
        let text = unit.repeat((2 << 20) / unit.len());
        let error = used_up(&text);
        // Those with a bound of their own meet that first.
        let variables = error.to_string().contains("more than 10000 variables");
        let memory = error.exceeded() == Some(&Exceeded::Memory { limit });
        assert!(variables || memory, "{unit}: {error}");
    }
    let names: String = (0..200_000)
        .map(|n| format!("{{{{block `{n}` .}}}}{{{{end}}}}"))
        .collect();
    assert!(used_up(&names).exceeded().is_some());
}

#[test]
fn memory_of_a_statement_is_released_at_its_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for text in [
        "{{ range 2000 }}{{ len (printf `%100000d` 1) }}{{ end }}",
        "{{ range 2000 }}{{ $x := printf `%100000d` 1 }}{{ if $x }}{{ $x | len }}{{ end }}{{ end }}",
        "{{ range 2000 }}{{ with printf `%100000d` 1 }}{{ len . }}{{ end }}{{ end }}",
        "{{ define `a` }}{{ printf `%100000d` 1 }}{{ end }}\
         {{ range 2000 }}{{ len (include `a` .) }}{{ end }}",
        "{{ define `a` }}{{ $x := printf `%100000d` 1 }}{{ end }}\
         {{ range 2000 }}{{ template `a` (printf `%100000d` 1) }}{{ end }}",
        "{{ $n := 0 }}{{ range 2000 }}{{ $n = len (printf `%100000d` 1) }}{{ end }}",
    ] {
        let budget = Budget::new(Stop::new(), 4 << 20);
        let rendered = render(&format!("{text}."), &budget);
        assert!(rendered.is_ok(), "{text}: {}", rendered.unwrap_err());
    }
}

#[test]
fn raised_stop_ends_execution_within_a_second() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for text in [
        "{{ range 10000000000000 }}{{ end }}",
        "{{ define `a` }}{{ range 1000000 }}{{ include `b` . }}{{ end }}{{ end }}\
         {{ define `b` }}{{ range 1000000 }}{{ $x := 1 }}{{ end }}{{ end }}{{ include `a` . }}",
    ] {
        let stop = Stop::new();
        let budget = Budget::new(stop.clone(), u64::MAX);
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            stop.raise();
        });
        let start = Instant::now();
        let error = render(text, &budget).unwrap_err();
        assert_eq!(error.exceeded(), Some(&Exceeded::Stopped), "{error}");
        assert!(start.elapsed() < Duration::from_millis(1_200));
        assert!(error.to_string().contains("the time for it is over"));
        raiser.join().unwrap();
    }
}
