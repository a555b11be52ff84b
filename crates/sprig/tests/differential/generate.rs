//! Makes up calls that fit the signatures of the functions.

use everflow_gotemplate::{Functions, GoType};

use crate::Random;
use crate::pools;

/// Functions whose answers depend on chance or the clock, take long, or are Helm's alone.
fn is_left_out(name: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "now",
        "ago",
        "shuffle",
        "uuidv4",
        "bcrypt",
        "htpasswd",
        "derivePassword",
        "buildCustomCert",
        "encryptAES",
        "getHostByName",
        "keys",
        "values",
        "fail",
        "mustToDuration",
        "mustToJson",
    ];
    OTHERS.contains(&name)
        || name.starts_with("rand")
        || name.starts_with("gen")
        || name.starts_with("duration") && name != "duration"
        || matches!(name, "mustToYaml" | "mustToToml")
}

/// Functions that take the current time for what is no time.
fn needs_time(name: &str, index: usize) -> bool {
    matches!(
        (name, index),
        ("date" | "dateInZone" | "date_in_zone", 1) | ("htmlDate" | "htmlDateInZone", 0)
    )
}

pub fn template(random: &mut Random, table: &Functions) -> String {
    let names: Vec<&str> = table.names().filter(|name| !is_left_out(name)).collect();
    let name = names[random.below(names.len())];
    let call = call(random, table, name, 2);
    match random.below(4) {
        0 => format!("{{{{ {call} | toJson }}}}"),
        1 => format!("{{{{ printf \"%T\" ({call}) }}}}|{{{{ {call} }}}}"),
        _ => format!("{{{{ {call} }}}}"),
    }
}

fn call(random: &mut Random, table: &Functions, name: &str, depth: usize) -> String {
    let signature = table.get(name).unwrap().signature;
    let mut out = name.to_owned();
    let fixed = signature.params.len() - usize::from(signature.variadic);
    let mut count = fixed;
    if signature.variadic {
        count += random.below(4);
    }
    for index in 0..count {
        let param = signature.params[index.min(signature.params.len() - 1)];
        out.push(' ');
        out.push_str(&argument(random, table, name, index, param, depth));
    }
    out
}

/// A function that gives a value of that type.
fn nested(random: &mut Random, table: &Functions, wanted: GoType, depth: usize) -> Option<String> {
    if depth == 0 {
        return None;
    }
    let names: Vec<&str> = table
        .names()
        .filter(|name| !is_left_out(name))
        .filter(|name| table.get(name).unwrap().signature.result == wanted)
        .collect();
    if names.is_empty() {
        return None;
    }
    let name = names[random.below(names.len())];
    Some(format!("({})", call(random, table, name, depth - 1)))
}

fn argument(
    random: &mut Random,
    table: &Functions,
    name: &str,
    index: usize,
    param: GoType,
    depth: usize,
) -> String {
    if needs_time(name, index) {
        return pools::time(random);
    }
    // A made up number may be too large for the memory of the real ones.
    if param != GoType::Int
        && random.below(6) == 0
        && let Some(call) = nested(random, table, param, depth)
    {
        return call;
    }
    match param {
        GoType::String => pools::text(random, name, index),
        GoType::Int | GoType::Uint32 | GoType::Int64 => pools::int(random),
        GoType::Float64 => random
            .pick(&["0.5", "0.1", "0.9", "1e3", "-2.5"])
            .to_string(),
        GoType::Bool => random.pick(&["true", "false"]).to_string(),
        GoType::Any => pools::any(random, name, index),
        GoType::Map(_) => pools::map(random),
        GoType::Slice(_) => pools::list(random),
        _ => pools::time(random),
    }
}
