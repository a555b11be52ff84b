//! YAML request bodies and answers.

use super::json::Json;

/// Reads the first document of a YAML body. Also lists duplicate keys as warnings.
pub fn parse(body: &[u8]) -> Result<(Json, Vec<String>), String> {
    let first = first_document(body);
    let value = everflow_yaml::sigs::yaml_to_json(first).map_err(|error| error.to_string())?;
    let mut warnings = Vec::new();
    if let Err(error) = everflow_yaml::sigs::yaml_to_json_strict(first) {
        warnings.extend(
            error
                .to_string()
                .lines()
                .map(str::trim)
                .filter(|line| line.contains("already set in map"))
                .map(str::to_owned),
        );
    }
    Ok((Json::from_value(&value), warnings))
}

/// Everything up to the second document separator.
fn first_document(body: &[u8]) -> &[u8] {
    let Ok(text) = std::str::from_utf8(body) else {
        return body;
    };
    let mut offset = 0;
    let mut content = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        if bare == "---" || bare.starts_with("--- ") {
            if content {
                return &body[..offset];
            }
        } else if !bare.trim().is_empty() && !bare.starts_with('#') {
            content = true;
        }
        offset += line.len();
    }
    body
}

/// Prints a value as YAML.
pub fn print(value: &serde_json::Value) -> String {
    everflow_yaml::emit::sigs(value)
}
