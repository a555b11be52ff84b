//! Reads the structs of Go packages: names in JSON, protobuf numbers, pointers, omission.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Failure;

/// A field with tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoField {
    /// The name in JSON; empty for an embedded struct whose fields are inline.
    pub json_name: String,
    /// The type as written.
    pub type_name: String,
    /// The number in the protobuf tag, when there is one.
    pub number: Option<u32>,
    /// `omitempty`.
    pub omit_empty: bool,
    /// `omitzero`.
    pub omit_zero: bool,
}

impl GoField {
    /// Whether the field is a pointer.
    pub fn is_pointer(&self) -> bool {
        self.type_name.starts_with('*')
    }
}

/// Structs of one package by name.
pub type Structs = BTreeMap<String, Vec<GoField>>;

/// Reads all structs of a package directory.
pub fn read_package(directory: &Path) -> Result<Structs, Failure> {
    let mut structs = Structs::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(structs);
    };
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let generated =
            name.starts_with("zz_") || name.ends_with("_test.go") || name.ends_with(".pb.go");
        if name.ends_with(".go") && !generated {
            read_file(&fs::read_to_string(&path)?, &mut structs)?;
        }
    }
    Ok(structs)
}

fn read_file(text: &str, structs: &mut Structs) -> Result<(), Failure> {
    let mut current: Option<(String, Vec<GoField>)> = None;
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("type ")
            .and_then(|rest| rest.strip_suffix(" struct {"))
        {
            current = Some((name.to_owned(), Vec::new()));
        } else if line == "}" {
            structs.extend(current.take());
        } else if let Some((_, fields)) = &mut current {
            fields.extend(field(line.trim())?);
        }
    }
    Ok(())
}

fn field(line: &str) -> Result<Option<GoField>, Failure> {
    if line.starts_with("//") {
        return Ok(None);
    }
    let Some((declaration, tags)) = line.split_once('`') else {
        return Ok(None);
    };
    let Some(json) = tag(tags, "json") else {
        return Ok(None);
    };
    let mut parts = json.split(',');
    let json_name = parts.next().unwrap_or_default();
    if json_name == "-" {
        return Ok(None);
    }
    let options: Vec<&str> = parts.collect();
    let number = match tag(tags, "protobuf") {
        None | Some("-") => None,
        Some(text) => {
            let number = text
                .split(',')
                .nth(1)
                .ok_or_else(|| format!("{line}: no protobuf number"))?;
            Some(number.parse().map_err(|error| format!("{line}: {error}"))?)
        }
    };
    Ok(Some(GoField {
        json_name: json_name.to_owned(),
        type_name: declaration
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned(),
        number,
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
    }))
}

fn tag<'t>(tags: &'t str, key: &str) -> Option<&'t str> {
    let start = tags.find(&format!("{key}:\""))? + key.len() + 2;
    let rest = tags.get(start..)?;
    rest.get(..rest.find('"')?)
}
