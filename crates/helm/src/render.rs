//! Running a chart's templates.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use everflow_gotemplate::{
    Context, Error, FuncError, Functions, GoStr, GoType, Limits, Map, Meter, MissingKey, Numbers,
    Signature, Templates, Value, map_bytes, text_bytes,
};
use everflow_limits::Budget;
use everflow_sprig::Source;
use memchr::memmem;

use crate::chart::Chart;
use crate::objects::{VALUES_TYPE, files};
use crate::parsed::TemplateCache;
use crate::post_render::PostRenderer;
pub use crate::render_error::RenderError;
use crate::render_error::{clean_parse_error, reformat};
use crate::values::{Warnings, table};

/// How often one template may be inside itself.
const MAX_NESTED_INCLUDES: usize = 1000;
const NO_VALUE: &[u8] = b"<no value>";
/// What a chart's scope takes, without its values and files.
const SCOPE_BYTES: usize = 16 << 10;

/// Objects in the cluster, for `lookup`.
pub trait Lookup {
    /// The object of that name, or the list of all where the name is empty; an empty map where
    /// there is none.
    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<everflow_json::Value, String>;
}

/// What a render takes from outside: the time, randomness and, where there are such, the cluster
/// and a post-renderer.
pub struct Sources {
    source: Option<Box<dyn Source>>,
    lookup: Option<Box<dyn Lookup>>,
    parsed: Option<Arc<TemplateCache>>,
    post_renderer: Option<Box<dyn PostRenderer>>,
}

impl Sources {
    /// A clock and a source of randomness, and no cluster.
    pub fn new(source: impl Source + 'static) -> Self {
        Sources {
            source: Some(Box::new(source)),
            lookup: None,
            parsed: None,
            post_renderer: None,
        }
    }

    /// Sends what the templates give through a post-renderer.
    pub fn with_post_renderer(mut self, renderer: impl PostRenderer + 'static) -> Self {
        self.post_renderer = Some(Box::new(renderer));
        self
    }

    pub(crate) fn post_renderer(&mut self) -> Option<&mut dyn PostRenderer> {
        match &mut self.post_renderer {
            Some(renderer) => Some(&mut **renderer),
            None => None,
        }
    }

    /// Keeps parsed templates, so that the next render of the same chart need not parse them.
    pub fn with_parsed(mut self, cache: Arc<TemplateCache>) -> Self {
        self.parsed = Some(cache);
        self
    }

    /// Lets `lookup` see a cluster.
    pub fn with_lookup(mut self, lookup: impl Lookup + 'static) -> Self {
        self.lookup = Some(Box::new(lookup));
        self
    }
}

/// A chart with everything that its templates see.
pub struct RenderInput<'a> {
    /// The chart, its dependencies processed.
    pub chart: &'a Chart,
    /// The coalesced values.
    pub values: &'a Map,
    /// `.Release`.
    pub release: Value,
    /// `.Capabilities`.
    pub capabilities: Value,
    /// A missing key is an error.
    pub strict: bool,
    /// `required` and `fail` only warn.
    pub lint: bool,
    /// What the templates may use up, all of them together.
    pub meter: &'a Meter<'a>,
}

/// One template file with what it is rendered with.
struct Job<'a> {
    text: &'a Arc<[u8]>,
    scope: Map,
    base_path: String,
}

/// Renders all templates; gives the files that are not partials by path.
pub fn render(
    input: &RenderInput<'_>,
    sources: &mut Sources,
    warnings: &mut Warnings,
) -> Result<Vec<(String, Vec<u8>)>, RenderError> {
    let mut jobs = BTreeMap::new();
    let meter = input.meter;
    let failed = |error: FuncError| match error.exceeded() {
        Some(exceeded) => RenderError::Exceeded {
            text: format!("the values of {}: {exceeded}", input.chart.name()),
            exceeded: exceeded.clone(),
        },
        None => RenderError::Plain(error.to_string()),
    };
    let top = Scope {
        values: Value::Map(typed_values(input.values)),
        release: input.release.clone(),
        capabilities: input.capabilities.clone(),
    };
    collect_jobs(
        input.chart,
        input.chart.name(),
        true,
        &top,
        &mut jobs,
        meter,
    )
    .map_err(failed)?;
    let mut order: Vec<&String> = jobs.keys().collect();
    // The deepest first, and among equals from Z to A: the last definition of a partial wins, and
    // that is to be the parent's.
    order.sort_by_key(|path| std::cmp::Reverse((path.matches('/').count(), *path)));

    let cache = sources.parsed.as_deref();
    let templates = parse_all(&order, &jobs, input.strict, cache, meter)?;
    let mut engine = Engine {
        source: sources.source.take(),
        included: HashMap::new(),
        lint: input.lint,
        lookup: sources.lookup.take(),
        warnings: Vec::new(),
    };
    let outcome = execute_all(&order, &jobs, &templates, meter, &mut engine);
    sources.source = engine.source;
    sources.lookup = engine.lookup;
    warnings.0.extend(engine.warnings);
    outcome
}

fn parse_all(
    order: &[&String],
    jobs: &BTreeMap<String, Job<'_>>,
    strict: bool,
    cache: Option<&TemplateCache>,
    meter: &Meter<'_>,
) -> Result<Templates, RenderError> {
    let files: Vec<(&str, &Arc<[u8]>)> = order
        .iter()
        .map(|path| (path.as_str(), jobs[*path].text))
        .collect();
    if let Some(found) = cache.and_then(|cache| cache.find(strict, &files)) {
        return Ok(found);
    }
    let mut templates = Templates::new("gotpl", helm_functions());
    templates.set_missing_key(match strict {
        true => MissingKey::Error,
        false => MissingKey::Zero,
    });
    for (path, text) in &files {
        templates
            .parse_shared(path, text, meter)
            .map_err(|error| clean_parse_error(path, &error))?;
    }
    templates.seal();
    if let Some(cache) = cache {
        cache.keep(strict, &files, &templates);
    }
    Ok(templates)
}

fn execute_all(
    order: &[&String],
    jobs: &BTreeMap<String, Job<'_>>,
    templates: &Templates,
    meter: &Meter<'_>,
    engine: &mut Engine,
) -> Result<Vec<(String, Vec<u8>)>, RenderError> {
    let mut rendered = Vec::new();
    for path in order {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') {
            continue;
        }
        let job = &jobs[*path];
        let about = [
            ("Name", Value::string(path.as_str())),
            ("BasePath", Value::string(&job.base_path)),
        ];
        let about: Map = about.into_iter().collect();
        // A scope is a map of ours, which takes any value.
        let _ = job
            .scope
            .insert("Template", Value::Map(typed_values(&about)));
        let mark = meter.mark();
        let output = templates
            .execute(path, &Value::Map(job.scope.clone()), engine, meter)
            .map_err(|error| reformat(path, &error))?;
        meter.release_to(mark);
        rendered.push(((*path).clone(), without_no_value(output)));
    }
    Ok(rendered)
}

/// What the templates of one chart see of their parent.
struct Scope {
    values: Value,
    release: Value,
    capabilities: Value,
}

fn collect_jobs<'a>(
    chart: &'a Chart,
    path: &str,
    is_root: bool,
    scope: &Scope,
    jobs: &mut BTreeMap<String, Job<'a>>,
    meter: &Meter<'_>,
) -> Result<Value, FuncError> {
    let count = chart.files.len() + chart.templates.len();
    meter.charge(map_bytes(count) + SCOPE_BYTES)?;
    let own = Map::new();
    let subcharts = Map::new();
    let entries = [
        (
            "Chart",
            Value::Map(chart.metadata.to_template_value(is_root, meter)?),
        ),
        ("Files", files(&chart.files)),
        ("Release", scope.release.clone()),
        ("Capabilities", scope.capabilities.clone()),
        ("Values", scope.values.clone()),
        ("Subcharts", Value::Map(subcharts.clone())),
    ];
    for (key, value) in entries {
        let _ = own.insert(key, value);
    }
    for dependency in &chart.dependencies {
        let inner = Scope {
            values: dependency_values(&scope.values, dependency.name()),
            release: scope.release.clone(),
            capabilities: scope.capabilities.clone(),
        };
        let inner_path = format!("{path}/charts/{}", dependency.name());
        let inner = collect_jobs(dependency, &inner_path, false, &inner, jobs, meter)?;
        let _ = subcharts.insert(dependency.name(), inner);
    }
    for template in &chart.templates {
        let base = template.name.rsplit('/').next().unwrap_or(&template.name);
        if chart.is_library() && !base.starts_with('_') {
            continue;
        }
        jobs.insert(
            format!("{path}/{}", template.name),
            Job {
                text: &template.data,
                scope: own.clone(),
                base_path: format!("{path}/templates"),
            },
        );
    }
    Ok(Value::Map(own))
}

fn dependency_values(values: &Value, name: &str) -> Value {
    let found = match values {
        Value::Map(values) => table(values, name).ok(),
        _ => None,
    };
    Value::Map(typed_values(&found.unwrap_or_default()))
}

/// The same entries under the type `common.Values`.
fn typed_values(values: &Map) -> Map {
    values.converted(GoType::Named(&VALUES_TYPE))
}

/// The state of a render, which functions reach through their context.
struct Engine {
    source: Option<Box<dyn Source>>,
    included: HashMap<String, usize>,
    lint: bool,
    lookup: Option<Box<dyn Lookup>>,
    warnings: Vec<String>,
}

fn engine<'s>(context: &'s mut Context<'_>) -> Option<&'s mut Engine> {
    context.state()
}

fn source_of<'s>(context: &'s mut Context<'_>) -> Option<&'s mut dyn Source> {
    Some(&mut **engine(context)?.source.as_mut()?)
}

/// Everything a chart's templates may call.
fn helm_functions() -> Arc<Functions> {
    static FUNCTIONS: std::sync::OnceLock<Arc<Functions>> = std::sync::OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let mut functions = Functions::new();
            everflow_sprig::register(&mut functions, source_of);
            add_engine_functions(&mut functions);
            Arc::new(functions)
        })
        .clone()
}

fn add_engine_functions(functions: &mut Functions) {
    const TWO: &[GoType] = &[GoType::String, GoType::Any];
    const FOUR_STRINGS: &[GoType] = &[GoType::String; 4];
    let text = Signature::new(TWO, GoType::String);
    functions.add("include", text, |context, args| {
        include(context, args.text(0)?, args.get(1))
    });
    functions.add("tpl", text, |context, args| {
        tpl(context, args.text(0)?, args.get(1))
    });
    functions.add(
        "required",
        Signature::new(TWO, GoType::Any),
        |context, args| {
            let value = args.get(1);
            let missing = match value {
                Value::Nil => true,
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            if !missing {
                return Ok(value.clone());
            }
            refuse(
                context,
                args.text(0)?,
                "level=WARN msg=\"missing required value\"",
            )
        },
    );
    functions.add(
        "fail",
        Signature::new(&[GoType::String], GoType::String),
        |context, args| refuse(context, args.text(0)?, "level=INFO msg=\"funcMap fail\""),
    );
    functions.add(
        "lookup",
        Signature::new(FOUR_STRINGS, GoType::ANY_MAP),
        |context, args| {
            let part = |index| {
                args.text(index)
                    .map(|text| text.to_str_lossy().into_owned())
            };
            let (version, kind, namespace, name) = (part(0)?, part(1)?, part(2)?, part(3)?);
            let found = match engine(context) {
                Some(Engine {
                    lookup: Some(lookup),
                    lint: false,
                    ..
                }) => lookup
                    .lookup(&version, &kind, &namespace, &name)
                    .map_err(FuncError::new)?,
                _ => everflow_json::json!({}),
            };
            Value::from_json(&found, Numbers::Int64, context.meter())
        },
    );
}

/// `required` and `fail`: an error, or when linting a warning and an empty string.
fn refuse(context: &mut Context<'_>, message: &GoStr, log: &str) -> Result<Value, FuncError> {
    context.meter().add_buffer(2 * message.len())?;
    let message = message.to_str_lossy();
    match engine(context) {
        Some(engine) if engine.lint => {
            engine.warnings.push(format!("{log} message={message:?}"));
            Ok(Value::string(""))
        }
        _ => Err(FuncError::new(format!(
            "HELM_ERR_START{message}HELM_ERR_END"
        ))),
    }
}

fn include(context: &mut Context<'_>, name: &GoStr, data: &Value) -> Result<Value, FuncError> {
    let name = name.to_str_lossy().into_owned();
    if let Some(engine) = engine(context) {
        let count = engine.included.entry(name.clone()).or_insert(0);
        if *count > MAX_NESTED_INCLUDES {
            return Err(FuncError::new(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *count += 1;
    }
    let result = context.render(&name, data);
    if let Some(engine) = engine(context)
        && let Some(count) = engine.included.get_mut(&name)
    {
        *count -= 1;
    }
    Ok(Value::String(result?))
}

fn tpl(context: &mut Context<'_>, text: &GoStr, data: &Value) -> Result<Value, FuncError> {
    let (meter, parent) = (context.meter(), context.templates());
    let name = parent.name().to_owned();
    let mut templates = parent.clone();
    let quoted = || everflow_gotemplate::gofmt::quote(text.as_bytes());
    let _held = meter.hold(text_bytes(text.len()))?;
    templates
        .parse_new(&name, text.as_bytes(), meter)
        .map_err(|error| {
            FuncError::with_source(format!("cannot parse template {}: ", quoted()), error)
        })?;
    let output = context
        .render_in(&templates, &name, data)
        .map_err(|error| {
            FuncError::with_source(
                format!("error during tpl function execution for {}: ", quoted()),
                error,
            )
        })?;
    meter.drop_buffer(templates.parsed_bytes() - parent.parsed_bytes());
    Ok(match contains(output.as_bytes(), NO_VALUE) {
        true => Value::String(GoStr::from_vec(without_no_value(
            output.as_bytes().to_vec(),
        ))),
        false => Value::String(output),
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memmem::find(text, part).is_some()
}

/// Go prints missing values so; helm takes it out, wherever it comes from.
fn without_no_value(mut text: Vec<u8>) -> Vec<u8> {
    let found: Vec<usize> = memmem::find_iter(&text, NO_VALUE).collect();
    let mut end = found.first().copied().unwrap_or(text.len());
    for (index, at) in found.iter().enumerate() {
        let from = at + NO_VALUE.len();
        let to = found.get(index + 1).copied().unwrap_or(text.len());
        text.copy_within(from..to, end);
        end += to - from;
    }
    text.truncate(end);
    text
}

/// Renders the template of a release's name.
pub fn render_name(
    text: &str,
    sources: &mut Sources,
    budget: &Budget,
) -> Result<String, RenderError> {
    let failed = |error: Error| match error.exceeded() {
        Some(_) => reformat("name-template", &error),
        None => RenderError::Plain(error.to_string()),
    };
    let meter = Meter::new(&Limits::default(), budget);
    let mut templates = Templates::new("name-template", helm_functions());
    templates
        .parse("name-template", text, &meter)
        .map_err(failed)?;
    let mut engine = Engine {
        source: sources.source.take(),
        included: HashMap::new(),
        lint: false,
        lookup: None,
        warnings: Vec::new(),
    };
    let outcome = templates.execute("name-template", &Value::Nil, &mut engine, &meter);
    sources.source = engine.source;
    Ok(String::from_utf8_lossy(&outcome.map_err(failed)?).into_owned())
}
