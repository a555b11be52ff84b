//! The flags that give values.

use std::path::Path;

use everflow_helm::chart::load_values;
use everflow_helm::strvals::{self, SetError};
use everflow_helm::values::merge_json;
use everflow_json::Map;
use everflow_limits::Budget;

use super::chart_source::go_reason;
use crate::exit::Failure;

/// Flags that give values, in helm's order of precedence.
#[derive(clap::Args, Debug, Default)]
pub struct ValueFlags {
    /// Values from a YAML file ("-" for standard input); can be repeated
    #[arg(
        short = 'f',
        long = "values",
        value_name = "FILE",
        value_delimiter = ','
    )]
    files: Vec<String>,
    /// Values as key=value,key=value; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// As --set, but every value is a string
    #[arg(long = "set-string", value_name = "KEY=VALUE")]
    set_string: Vec<String>,
    /// As --set, but values are JSON; or a whole JSON object
    #[arg(long = "set-json", value_name = "KEY=JSON")]
    set_json: Vec<String>,
    /// As --set, but values are the contents of files
    #[arg(long = "set-file", value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// As --set, but the whole rest of the argument is the value
    #[arg(long = "set-literal", value_name = "KEY=TEXT")]
    set_literal: Vec<String>,
}

impl ValueFlags {
    /// All of them as one tree.
    pub fn merge(&self, budget: &Budget) -> Result<Map, Failure> {
        let mut values = Map::new();
        for file in &self.files {
            let data = read(file).map_err(Failure::Work)?;
            let more = load_values(&data)
                .map_err(|reason| Failure::Work(format!("failed to parse {file}: {reason}")))?;
            merge_json(&mut values, more);
        }
        let failed = |flag: &str, error: SetError| {
            Failure::Work(format!("failed parsing --{flag} data: {error}"))
        };
        for line in &self.set_json {
            strvals::set_json_argument(line, &mut values, budget).map_err(|error| {
                if let SetError::Exceeded(exceeded) = error {
                    return failed("set-json", exceeded.into());
                }
                let form = if line.trim().starts_with('{') {
                    " JSON:"
                } else {
                    ""
                };
                Failure::Work(format!("failed parsing --set-json data{form} {line}"))
            })?;
        }
        for line in &self.set {
            strvals::set(line, &mut values, budget).map_err(|error| failed("set", error))?;
        }
        for line in &self.set_string {
            strvals::set_string(line, &mut values, budget)
                .map_err(|error| failed("set-string", error))?;
        }
        let content =
            |name: &str| read(name).map(|data| String::from_utf8_lossy(&data).into_owned());
        for line in &self.set_file {
            strvals::set_file(line, &mut values, &content, budget)
                .map_err(|error| failed("set-file", error))?;
        }
        for line in &self.set_literal {
            strvals::set_literal(line, &mut values, budget)
                .map_err(|error| failed("set-literal", error))?;
        }
        Ok(values)
    }
}

fn read(name: &str) -> Result<Vec<u8>, String> {
    let outcome = match name.trim() {
        "-" => {
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut data).map(|_| data)
        }
        _ => std::fs::read(Path::new(name)),
    };
    outcome.map_err(|error| format!("open {name}: {}", go_reason(&error)))
}
