//! A chart of one directory of templates, rendered as helm's engine renders it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use everflow_gotemplate::GoType::{Any, String as Str};
use everflow_gotemplate::{
    Context, FuncError, Functions, GoType, Limits, Map, Meter, MissingKey, Numbers, Signature,
    Templates, Value, gofmt,
};
use everflow_helm::chart::ChartFile;
use everflow_helm::objects::{Capabilities, KubeVersion, VALUES_TYPE, files};
use everflow_json::Value as Json;
use everflow_limits::{Budget, Stop};
use everflow_sprig::{FixedSource, Source};

use crate::errors;

/// The stack of the threads that render: enough for a thousand nested templates unoptimised.
pub const STACK: usize = 128 << 20;

/// What a case may use: what the controllers give a chart on a large machine.
const SHARE: u64 = 512 << 20;

/// What functions need besides their arguments.
struct State {
    source: FixedSource,
    lint: bool,
    included: HashMap<String, usize>,
}

fn source<'c>(context: &'c mut Context<'_>) -> Option<&'c mut dyn Source> {
    context
        .state::<State>()
        .map(|state| &mut state.source as &mut dyn Source)
}

fn functions() -> Arc<Functions> {
    static TABLE: OnceLock<Arc<Functions>> = OnceLock::new();
    Arc::clone(TABLE.get_or_init(|| {
        let mut table = Functions::new();
        everflow_sprig::register(&mut table, source);
        table.add(
            "include",
            Signature::new(&[Str, Any], Str),
            |context, args| include(context, &args.text(0)?.to_str_lossy(), args.get(1)),
        );
        table.add("tpl", Signature::new(&[Str, Any], Str), |context, args| {
            tpl(context, &args.text(0)?.to_str_lossy(), args.get(1))
        });
        table.add(
            "required",
            Signature::new(&[Str, Any], Any),
            |context, args| {
                let missing = match args.get(1) {
                    Value::Nil => true,
                    Value::String(text) => text.is_empty(),
                    _ => false,
                };
                match missing {
                    false => Ok(args.get(1).clone()),
                    true => warn(context, &args.text(0)?.to_str_lossy()),
                }
            },
        );
        table.add("fail", Signature::new(&[Str], Str), |context, args| {
            warn(context, &args.text(0)?.to_str_lossy())
        });
        table.add(
            "lookup",
            Signature::new(&[Str, Str, Str, Str], GoType::ANY_MAP),
            |_, _| Ok(Value::Map(Map::new())),
        );
        Arc::new(table)
    }))
}

fn warn(context: &mut Context<'_>, message: &str) -> Result<Value, FuncError> {
    match context.state::<State>().is_some_and(|state| state.lint) {
        true => Ok(Value::string("")),
        false => Err(FuncError::new(format!(
            "HELM_ERR_START{message}HELM_ERR_END"
        ))),
    }
}

fn include(context: &mut Context<'_>, name: &str, data: &Value) -> Result<Value, FuncError> {
    let state = context.state::<State>().ok_or("no state")?;
    let count = state.included.entry(name.to_owned()).or_default();
    if *count > 1000 {
        return Err(FuncError::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *count += 1;
    let rendered = context.render(name, data);
    if let Some(state) = context.state::<State>() {
        state
            .included
            .entry(name.to_owned())
            .and_modify(|count| *count -= 1);
    }
    Ok(Value::String(rendered?))
}

fn tpl(context: &mut Context<'_>, text: &str, data: &Value) -> Result<Value, FuncError> {
    let meter = context.meter();
    let mut templates = context.templates().clone();
    let quoted = gofmt::quote(text.as_bytes());
    let name = templates.name().to_owned();
    templates
        .parse_new(&name, text, meter)
        .map_err(|error| FuncError::new(format!("cannot parse template {quoted}: {error}")))?;
    let rendered = context
        .render_in(&templates, &name, data)
        .map_err(|error| {
            let message = format!("error during tpl function execution for {quoted}: ");
            FuncError::with_source(message, error)
        })?;
    Ok(Value::string(without_no_value(rendered.as_bytes())))
}

fn without_no_value(text: &[u8]) -> Vec<u8> {
    let marker = b"<no value>";
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest
        .windows(marker.len())
        .position(|window| window == marker)
    {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + marker.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn typed_values(entries: Value) -> Value {
    let entries = entries.as_map().map(Map::snapshot).unwrap_or_default();
    Value::Map(Map::typed(
        GoType::Named(&VALUES_TYPE),
        entries.into_iter().collect(),
    ))
}

fn values(case: &Json, meter: &Meter<'_>) -> Result<Value, String> {
    let documents = match case["values_yaml"].as_str() {
        Some(text) => text
            .split("\n---\n")
            .map(|text| everflow_yaml::sigs::yaml_to_json(text.as_bytes()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| {
                format!("cannot unmarshal yaml document: error converting YAML to JSON: {error}")
            })?,
        None => vec![case["values"].clone()],
    };
    let mut map = everflow_json::Map::new();
    for mut json in documents {
        everflow_yaml::gojson::numbers_as_f64(&mut json);
        if let Json::Object(entries) = json {
            everflow_helm::values::merge_json(&mut map, entries);
        }
    }
    for line in case["options"]["set"].as_array().into_iter().flatten() {
        everflow_helm::strvals::set(line.as_str().unwrap_or(""), &mut map, meter.budget())
            .map_err(|error| error.to_string())?;
    }
    let values = Value::from_json(&Json::Object(map), Numbers::Int64, meter);
    Ok(typed_values(values.map_err(|error| error.to_string())?))
}

fn chart() -> Value {
    let text = |text: &str| Value::string(text);
    let list = || Value::list(Vec::new());
    Value::map([
        ("Name", text("t")),
        ("Home", text("")),
        ("Sources", list()),
        ("Version", text("1.2.3")),
        ("Description", text("corpus")),
        ("Keywords", list()),
        ("Maintainers", list()),
        ("Icon", text("")),
        ("APIVersion", text("v2")),
        ("Condition", text("")),
        ("Tags", text("")),
        ("AppVersion", text("4.5.6")),
        ("Deprecated", Value::Bool(false)),
        ("Annotations", Value::Map(Map::nil(GoType::STRING_MAP))),
        ("KubeVersion", text("")),
        ("Dependencies", list()),
        ("Type", text("application")),
        ("IsRoot", Value::Bool(true)),
    ])
}

fn data(case: &Json, meter: &Meter<'_>) -> Result<Value, String> {
    let options = &case["options"];
    let mut capabilities = Capabilities::default();
    let version = options["kube_version"].as_str().unwrap_or("v1.33.4");
    capabilities.kube_version = KubeVersion::parse(version).map_err(|error| error.to_string())?;
    for version in options["api_versions"].as_array().into_iter().flatten() {
        capabilities
            .api_versions
            .push(version.as_str().unwrap_or("").to_owned());
    }
    let upgrade = options["is_upgrade"].as_bool().unwrap_or(false);
    let release = Value::map([
        ("Name", Value::string("rel")),
        ("Namespace", Value::string("ns")),
        ("IsUpgrade", Value::Bool(upgrade)),
        ("IsInstall", Value::Bool(!upgrade)),
        ("Revision", Value::Int(1)),
        ("Service", Value::string("Helm")),
    ]);
    let chart_files: Vec<ChartFile> = case["files"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, text)| ChartFile {
            name: name.to_string(),
            data: text.as_str().unwrap_or("").as_bytes().into(),
        })
        .collect();
    Ok(typed_values(Value::map([
        ("Chart", chart()),
        ("Files", files(&chart_files)),
        ("Release", release),
        ("Capabilities", capabilities.to_template_value()),
        ("Values", values(case, meter)?),
        ("Subcharts", Value::Map(Map::new())),
    ])))
}

/// Everything a case renders, or helm's error text.
pub fn render(case: &Json) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut sources = BTreeMap::new();
    if let Some(text) = case["template"].as_str() {
        sources.insert("t/templates/case.yaml".to_owned(), text);
    }
    for (name, text) in case["templates"].as_object().into_iter().flatten() {
        sources.insert(format!("t/templates/{name}"), text.as_str().unwrap_or(""));
    }
    let mut names: Vec<String> = sources.keys().cloned().collect();
    names.sort_by_key(|name| (name.matches('/').count(), name.clone()));
    names.reverse();
    let budget = Budget::new(Stop::new(), SHARE);
    let limits = Limits {
        stack_bytes: STACK / 4 * 3,
        ..Limits::default()
    };
    let meter = Meter::new(&limits, &budget);
    let mut templates = Templates::new("gotpl", functions());
    templates.set_missing_key(match case["options"]["strict"].as_bool() {
        Some(true) => MissingKey::Error,
        _ => MissingKey::Zero,
    });
    for name in &names {
        templates
            .parse_new(name, sources[name], &meter)
            .map_err(|error| errors::parse_error(&error))?;
    }
    templates.seal();
    let data = data(case, &meter)?;
    let mut state = State {
        source: FixedSource::new(1_763_164_800, 123_456_789, 42),
        lint: case["options"]["lint"].as_bool().unwrap_or(false),
        included: HashMap::new(),
    };
    let mut rendered = BTreeMap::new();
    for name in names {
        if name
            .rsplit('/')
            .next()
            .is_some_and(|base| base.starts_with('_'))
        {
            continue;
        }
        let template = typed_values(Value::map([
            ("Name", Value::string(&name)),
            ("BasePath", Value::string("t/templates")),
        ]));
        if let Value::Map(map) = &data {
            map.insert("Template", template)
                .map_err(|error| error.to_string())?;
        }
        let output = templates
            .execute(&name, &data, &mut state, &meter)
            .map_err(|error| errors::execution_error(&error))?;
        rendered.insert(name, without_no_value(&output));
    }
    Ok(rendered)
}
