//! Every recorded answer of the real library, byte for byte.

use everflow_json::{Value, json};
use everflow_semver::{Constraint, Version, sort_ascending};

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_default()
}

fn texts<'a>(case: &'a Value, key: &str) -> Vec<&'a str> {
    case[key]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn constraint(case: &Value) -> Result<Constraint, String> {
    Constraint::parse(text(case, "constraint")).map_err(|error| format!("constraint: {error}"))
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse(text).map_err(|error| error.to_string())
}

fn parts(version: &Version) -> Value {
    json!({
        "major": version.major(), "minor": version.minor(), "patch": version.patch(),
        "prerelease": version.prerelease(), "metadata": version.metadata(),
        "original": version.original(), "string": version.to_string(),
    })
}

fn answer(case: &Value) -> Result<(Value, Option<Value>), String> {
    let plain = |value: Value| (value, None);
    match text(case, "op") {
        "check" => {
            let constraint = constraint(case)?;
            let version =
                version(text(case, "version")).map_err(|error| format!("version: {error}"))?;
            let reasons = constraint.validate(&version).err();
            assert_eq!(constraint.check(&version), reasons.is_none(), "{case}");
            let reasons: Option<Value> = reasons.map(|reasons| {
                reasons
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .into()
            });
            Ok((reasons.is_none().into(), reasons))
        }
        "parse" => version(text(case, "version")).map(|version| plain(parts(&version))),
        "strict" => Version::parse_strict(text(case, "version"))
            .map(|version| plain(parts(&version)))
            .map_err(|error| error.to_string()),
        "compare" => {
            let versions = texts(case, "versions");
            let order = version(versions[0])?.cmp_precedence(&version(versions[1])?);
            Ok(plain(json!(order as i8)))
        }
        "sort" => {
            let mut versions = texts(case, "versions")
                .into_iter()
                .map(version)
                .collect::<Result<Vec<_>, _>>()?;
            sort_ascending(&mut versions);
            Ok(plain(
                versions
                    .iter()
                    .map(Version::original)
                    .collect::<Vec<_>>()
                    .into(),
            ))
        }
        "latest" => {
            let latest = constraint(case)?.latest(texts(case, "versions"));
            Ok(plain(latest.map_or("", |(text, _)| text).into()))
        }
        "constraint-string" => Ok(plain(constraint(case)?.to_string().into())),
        other => Err(format!("unknown op {other}")),
    }
}

#[test]
fn recorded_answers() {
    let Some(path) = everflow_corpus::find("helm/values/semver.jsonl") else {
        return;
    };
    let data = std::fs::read_to_string(path).unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for line in data.lines() {
        count += 1;
        let case: Value = everflow_json::from_str(line).unwrap();
        let wanted = match case.get("want_error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok((case["want"].clone(), case.get("reasons").cloned())),
        };
        let got = answer(&case);
        if got != wanted {
            failures.push(format!("{case}\n  got {got:?}"));
        }
    }
    println!("{count} recorded answers");
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(count > 3000);
}
