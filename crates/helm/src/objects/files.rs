//! `.Files`: the chart's files that are neither templates nor metadata.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_gotemplate::{
    Args, Context, FuncError, FuncResult, GoStr, GoType, ITEM_BYTES, JSON_BYTES, List, Map, Meter,
    Method, NamedType, Signature, Value, map_bytes, text_bytes,
};
use everflow_json::Value as Json;
use everflow_sprig::cost;

use super::glob::Glob;
use crate::chart::ChartFile;

const FILE_MAP: GoType = GoType::Map(&GoType::BYTES);

static FILES_TYPE: NamedType = NamedType {
    name: "engine.files",
    underlying: FILE_MAP,
    methods: &[
        method("Get", &[GoType::String], GoType::String, get),
        method("GetBytes", &[GoType::String], GoType::BYTES, get_bytes),
        method("Glob", &[GoType::String], GoType::Named(&FILES_TYPE), glob),
        method("AsConfig", &[], GoType::String, as_config),
        method("AsSecrets", &[], GoType::String, as_secrets),
        method("Lines", &[GoType::String], GoType::STRING_SLICE, lines),
    ],
};

const fn method(
    name: &'static str,
    parameters: &'static [GoType],
    result: GoType,
    call: fn(&mut Context<'_>, &Value, Args<'_>) -> FuncResult,
) -> Method {
    Method {
        name,
        signature: Signature {
            params: parameters,
            variadic: false,
            result,
        },
        call,
    }
}

/// The files as templates see them.
pub fn files(from: &[ChartFile]) -> Value {
    from_entries(from.iter().map(|file| {
        let data = List::of_bytes(Arc::clone(&file.data));
        (GoStr::new(&file.name), Value::List(data))
    }))
}

fn from_entries(entries: impl Iterator<Item = (GoStr, Value)>) -> Value {
    Value::Map(Map::typed(GoType::Named(&FILES_TYPE), entries.collect()))
}

/// The content of a file, nothing where there is none.
fn entry(receiver: &Value, name: &GoStr) -> Value {
    let found = receiver.as_map().and_then(|map| map.get(name.as_bytes()));
    found.unwrap_or_else(|| Value::bytes(&[]))
}

fn get(context: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let file = entry(receiver, args.text(0)?);
    let data = file.as_byte_slice().unwrap_or_default();
    context.meter().charge(text_bytes(data.len()))?;
    Ok(Value::String(GoStr::from_bytes(&data)))
}

fn get_bytes(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    Ok(entry(receiver, args.text(0)?))
}

fn glob(context: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let pattern = Glob::new(&args.text(0)?.to_str_lossy());
    let entries = entries(context.meter(), receiver)?;
    Ok(from_entries(
        entries
            .into_iter()
            .filter(|(name, _)| pattern.matches(name.as_bytes())),
    ))
}

/// All files; looking through them counts.
fn entries(meter: &Meter<'_>, receiver: &Value) -> Result<Vec<(GoStr, Value)>, FuncError> {
    let Some(map) = receiver.as_map() else {
        return Ok(Vec::new());
    };
    meter.steps(map.len() as u64)?;
    meter.check()?;
    meter.charge(map_bytes(map.len()))?;
    Ok(map.snapshot())
}

fn as_config(context: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    by_base_name(context.meter(), receiver, |data| {
        String::from_utf8_lossy(data).into_owned()
    })
}

fn as_secrets(context: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    by_base_name(context.meter(), receiver, |data| STANDARD.encode(data))
}

fn by_base_name(meter: &Meter<'_>, receiver: &Value, text: fn(&[u8]) -> String) -> FuncResult {
    let mut config = everflow_json::Map::new();
    let mut held = meter.nothing();
    for (name, data) in entries(meter, receiver)? {
        let name = name.to_str_lossy();
        let base = name
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(&name);
        let data = data.as_byte_slice().unwrap_or_default();
        // The text, and its copy in the tree.
        held.add(JSON_BYTES + 3 * data.len())?;
        config.insert(base.into(), Json::String(text(&data).into()));
    }
    let config = Json::Object(config);
    held.add(cost::of_printing(&config))?;
    Ok(Value::string(everflow_yaml::emit::to_yaml(&config)))
}

fn lines(context: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let file = entry(receiver, args.text(0)?);
    let data = file.as_byte_slice().unwrap_or_default();
    if data.is_empty() {
        return Ok(Value::strings(Vec::<GoStr>::new()));
    }
    let data = data.strip_suffix(b"\n").unwrap_or(&data);
    let meter = context.meter();
    let mut lines = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        meter.steps(1)?;
        // The list may have grown to twice its size.
        meter.charge(2 * ITEM_BYTES + text_bytes(line.len()))?;
        lines.push(Value::String(GoStr::from_bytes(line)));
    }
    Ok(Value::List(List::typed(GoType::STRING_SLICE, lines)))
}
