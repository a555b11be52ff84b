//! Rules into programs.

use std::sync::Arc;

use everflow_schema::{CelRule, Type as SchemaType, TypeTable};

use super::decl::REQUEST;
use crate::Program;
use crate::check::{DeclType, Declarations, Type};

/// The most that one evaluation may cost.
pub(super) const PER_CALL: u64 = 1_000_000;

/// A rule that was compiled, or what is wrong with it.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) program: Option<Program>,
    pub(super) error: Option<String>,
    pub(super) uses_old: bool,
    pub(super) max_cost: u64,
    /// How often the rule may be evaluated where the schema sets no bounds.
    pub(super) max_cardinality: u64,
    pub(super) message: Option<Program>,
    pub(super) message_error: Option<String>,
    pub(super) message_cost: u64,
    /// The path of the field that errors name, relative to the node.
    pub(super) field_path: String,
}

/// Compiles the rules of a node.
pub(super) fn compile(
    types: &TypeTable,
    node: &SchemaType,
    rules: &[CelRule],
    decl: &Arc<DeclType>,
) -> Vec<Compiled> {
    rules
        .iter()
        .map(|rule| compile_one(types, node, rule, decl))
        .collect()
}

fn compile_one(
    types: &TypeTable,
    node: &SchemaType,
    rule: &CelRule,
    decl: &Arc<DeclType>,
) -> Compiled {
    let mut compiled = Compiled {
        program: None,
        error: None,
        uses_old: false,
        max_cost: 0,
        max_cardinality: REQUEST / (decl.min_size + 1),
        message: None,
        message_error: None,
        message_cost: 0,
        field_path: String::new(),
    };
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let declarations = variables(decl, rule.optional_old_self == Some(true));
    let (program, checked) = match Program::compile_checked(&rule.rule, &declarations) {
        Ok(done) => done,
        Err(error) => {
            compiled.error = Some(format!("compilation failed: {error}"));
            return compiled;
        }
    };
    if checked.output != Type::Bool {
        compiled.error = Some("cel expression must evaluate to a bool".to_owned());
        return compiled;
    }
    if let Err(error) = program.fold_constants() {
        compiled.error = Some(format!("program instantiation failed: {error}"));
        return compiled;
    }
    compiled.uses_old = checked.variables.iter().any(|name| name == "oldSelf");
    compiled.max_cost = checked.max_cost;
    compiled.program = Some(program.with_step_limit(PER_CALL));
    if let Some(text) = rule
        .message_expression
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        match Program::compile_checked(text, &declarations) {
            Err(error) => {
                compiled.message_error =
                    Some(format!("messageExpression compilation failed: {error}"));
                return compiled;
            }
            Ok((_, checked)) if checked.output != Type::String => {
                compiled.message_error =
                    Some("messageExpression must evaluate to a string".to_owned());
                return compiled;
            }
            Ok((program, checked)) => {
                if let Err(error) = program.fold_constants() {
                    compiled.message_error =
                        Some(format!("messageExpression instantiation failed: {error}"));
                    return compiled;
                }
                compiled.message = Some(program.with_step_limit(PER_CALL));
                compiled.message_cost = checked.max_cost;
            }
        }
    }
    if let Some(path) = rule.field_path.as_deref().filter(|path| !path.is_empty()) {
        compiled.field_path = field_path(types, node, path).unwrap_or_default();
    }
    compiled
}

/// The variables that rules at a node have.
pub(super) fn variables(decl: &Arc<DeclType>, optional_old: bool) -> Declarations {
    let own = decl.to_type("selfType");
    let old = match optional_old {
        true => Type::Opaque("optional_type".into(), vec![own.clone()]),
        false => own.clone(),
    };
    Declarations {
        variables: vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)],
        root: decl.clone(),
    }
}

/// `.a['b']` as the path of a field.
fn field_path(types: &TypeTable, node: &SchemaType, path: &str) -> Option<String> {
    let mut text = String::new();
    let mut node = node;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']")?;
            name = quoted[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = &quoted[end + 2..];
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            name = plain[..end].to_owned();
            rest = &plain[end..];
        }
        let object = node.as_object()?;
        let next = if object.fields.is_empty() {
            text.push_str(&format!("[{name}]"));
            object.additional?
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&name);
            object.field(&name)?.type_id
        };
        node = types.get(next)?;
    }
    Some(text)
}
