//! Expressions in CEL, checked before they are used and in the words of Flux.

use std::sync::Arc;

use everflow_cel::check::{DeclShape, DeclType, Declarations, Type};
use everflow_cel::{Program, Value as Cel, Variables};
use everflow_json::Value;

/// An expression that gives a value of a known type.
#[derive(Debug, Clone)]
pub(crate) struct Expression(Program);

impl Expression {
    /// Reads an expression over these variables, of which nothing is known but that they are objects.
    pub(crate) fn new(
        text: &str,
        variables: &[&str],
        wanted: Option<&Type>,
    ) -> Result<Self, String> {
        let declarations = Declarations {
            variables: variables
                .iter()
                .map(|name| ((*name).to_owned(), Type::Dyn))
                .collect(),
            root: Arc::new(DeclType {
                shape: DeclShape::Dyn,
                max_elements: 0,
                min_size: 0,
            }),
        };
        let (program, checked) = Program::compile_checked(text, &declarations)
            .map_err(|error| format!("failed to parse the CEL expression '{text}': {error}"))?;
        match wanted {
            Some(wanted) if *wanted != checked.output => Err(format!(
                "CEL expression output type mismatch: expected {wanted}, got {}",
                checked.output
            )),
            _ => Ok(Expression(program)),
        }
    }

    fn text(&self) -> &str {
        self.0.text()
    }

    pub(crate) fn value(&self, variables: &Variables) -> Result<Cel, String> {
        self.0.evaluate(variables).map_err(|error| {
            format!(
                "failed to evaluate the CEL expression '{}': {error}",
                self.text()
            )
        })
    }

    pub(crate) fn boolean(&self, variables: &Variables) -> Result<bool, String> {
        match self.value(variables)? {
            Cel::Bool(flag) => Ok(flag),
            _ => Err(format!(
                "failed to evaluate CEL expression as boolean: '{}'",
                self.text()
            )),
        }
    }

    pub(crate) fn string(&self, variables: &Variables) -> Result<String, String> {
        match self.value(variables)? {
            Cel::String(text) => Ok(text.to_string()),
            _ => Err(format!(
                "failed to evaluate CEL expression as string: '{}'",
                self.text()
            )),
        }
    }
}

/// A value from outside: all of its numbers are doubles, as Go's decoder makes them.
pub(crate) fn with_doubles(value: &Value) -> Cel {
    match value {
        Value::Number(number) => Cel::Double(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => Cel::list(items.iter().map(with_doubles).collect()),
        Value::Object(map) => Cel::map(
            map.iter()
                .map(|(key, value)| (key.to_string(), with_doubles(value))),
        ),
        other => Cel::from_json(other),
    }
}
