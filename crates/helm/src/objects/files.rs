//! `.Files`: the chart's files that are neither templates nor metadata.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_gotemplate::{
    Args, Context, FuncResult, GoStr, GoType, Map, Method, NamedType, Signature, Value,
};
use everflow_json::Value as Json;

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
    from_entries(
        from.iter()
            .map(|file| (GoStr::new(&file.name), Value::bytes(&file.data))),
    )
}

fn from_entries(entries: impl Iterator<Item = (GoStr, Value)>) -> Value {
    Value::Map(Map::typed(GoType::Named(&FILES_TYPE), entries.collect()))
}

fn entry(receiver: &Value, name: &GoStr) -> Option<Vec<u8>> {
    receiver.as_map()?.get(name.as_bytes())?.as_byte_slice()
}

fn get(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let data = entry(receiver, args.text(0)?).unwrap_or_default();
    Ok(Value::String(GoStr::from_vec(data)))
}

fn get_bytes(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    Ok(Value::bytes(
        &entry(receiver, args.text(0)?).unwrap_or_default(),
    ))
}

fn glob(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let pattern = Glob::new(&args.text(0)?.to_str_lossy());
    let entries = receiver.as_map().map(Map::snapshot).unwrap_or_default();
    Ok(from_entries(
        entries
            .into_iter()
            .filter(|(name, _)| pattern.matches(name.as_bytes())),
    ))
}

fn as_config(_: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    Ok(by_base_name(receiver, |data| {
        String::from_utf8_lossy(data).into_owned()
    }))
}

fn as_secrets(_: &mut Context<'_>, receiver: &Value, _: Args<'_>) -> FuncResult {
    Ok(by_base_name(receiver, |data| STANDARD.encode(data)))
}

fn by_base_name(receiver: &Value, text: fn(&[u8]) -> String) -> Value {
    let mut config = everflow_json::Map::new();
    for (name, data) in receiver.as_map().map(Map::snapshot).unwrap_or_default() {
        let name = name.to_str_lossy();
        let base = name
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(&name);
        let data = data.as_byte_slice().unwrap_or_default();
        config.insert(base.into(), Json::String(text(&data).into()));
    }
    Value::string(everflow_yaml::emit::to_yaml(&Json::Object(config)))
}

fn lines(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let data = entry(receiver, args.text(0)?).unwrap_or_default();
    if data.is_empty() {
        return Ok(Value::strings(Vec::<GoStr>::new()));
    }
    let data = data.strip_suffix(b"\n").unwrap_or(&data);
    Ok(Value::strings(
        data.split(|byte| *byte == b'\n').map(GoStr::from_bytes),
    ))
}
