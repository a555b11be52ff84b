//! Printing results to standard output.

use std::io::{ErrorKind, Write};

use clap::ValueEnum;
use everflow_json::Value;

use crate::exit::Failure;

/// Formats for results that are data.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints a value as data.
pub fn print_data(value: &Value, format: DataFormat) -> Result<(), Failure> {
    match format {
        DataFormat::Json => {
            let text = everflow_json::to_string_pretty(value)
                .map_err(|error| Failure::Work(error.to_string()))?;
            print_text(&format!("{text}\n"))
        }
        DataFormat::Yaml => print_text(&everflow_yaml::emit::sigs(value)),
    }
}

/// Prints text as it is. A reader that went away (`everflow … | head`) is not an error.
pub fn print_text(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
