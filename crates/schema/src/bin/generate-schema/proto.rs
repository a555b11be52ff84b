//! Reads the messages of `generated.proto` files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use everflow_schema::WireEncoding;

use crate::Failure;

/// Fields by number.
pub type Message = BTreeMap<u32, ProtoField>;

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtoField {
    /// The type's name; of a map that of its values.
    pub type_name: String,
    /// `repeated`.
    pub repeated: bool,
    /// `map<...>`.
    pub map: bool,
}

impl ProtoField {
    /// The encoding of one value.
    pub fn encoding(&self) -> WireEncoding {
        match self.type_name.as_str() {
            "int32" | "int64" => WireEncoding::Varint,
            "bool" => WireEncoding::Bool,
            "double" => WireEncoding::Double,
            "float" => WireEncoding::Float,
            "string" => WireEncoding::String,
            "bytes" => WireEncoding::Bytes,
            _ => WireEncoding::Message,
        }
    }
}

/// Messages by full name (`k8s.io.api.core.v1.Pod`).
#[derive(Default)]
pub struct Messages(BTreeMap<String, Message>);

impl Messages {
    /// Reads one file; a directory without one adds nothing.
    pub fn read(&mut self, file: &Path) -> Result<(), Failure> {
        let Ok(text) = fs::read_to_string(file) else {
            return Ok(());
        };
        let mut package = String::new();
        let mut current: Option<(String, Message)> = None;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("package ") {
                package = name.trim_end_matches(';').to_owned();
            } else if let Some(name) = line
                .strip_prefix("message ")
                .and_then(|rest| rest.strip_suffix(" {"))
            {
                current = Some((format!("{package}.{name}"), Message::new()));
            } else if line == "}" {
                self.0.extend(current.take());
            } else if let Some((name, message)) = &mut current
                && let Some((number, field)) = field(line, &package)?
                && message.insert(number, field).is_some()
            {
                return Err(format!("{name} has field {number} twice").into());
            }
        }
        Ok(())
    }

    /// The message with the given full name.
    pub fn get(&self, name: &str) -> Option<&Message> {
        self.0.get(name)
    }
}

fn field(line: &str, package: &str) -> Result<Option<(u32, ProtoField)>, Failure> {
    let Some((left, right)) = line.split_once(" = ") else {
        return Ok(None);
    };
    if line.starts_with("//") || line.starts_with("option ") {
        return Ok(None);
    }
    let number: u32 = right
        .trim_end_matches(';')
        .parse()
        .map_err(|error| format!("{line}: {error}"))?;
    let (repeated, map, type_name) = if let Some(rest) = left.strip_prefix("map<") {
        let values = rest
            .split_once(", ")
            .and_then(|(_, rest)| rest.split_once('>'));
        (
            false,
            true,
            values.ok_or_else(|| format!("{line}: not a map"))?.0,
        )
    } else {
        let mut words = left.split_whitespace();
        let label = words.next().unwrap_or_default();
        (
            label == "repeated",
            false,
            words.next().ok_or_else(|| format!("{line}: no type"))?,
        )
    };
    Ok(Some((
        number,
        ProtoField {
            type_name: full_name(type_name, package),
            repeated,
            map,
        },
    )))
}

fn full_name(name: &str, package: &str) -> String {
    const SCALARS: &[&str] = &[
        "int32", "int64", "bool", "double", "float", "string", "bytes",
    ];
    match name.strip_prefix('.') {
        Some(full) => full.to_owned(),
        None if SCALARS.contains(&name) => name.to_owned(),
        None => format!("{package}.{name}"),
    }
}
