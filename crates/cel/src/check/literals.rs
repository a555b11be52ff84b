//! Checks of constants: patterns, durations, moments, and lists of one type.

use super::checker::Outcome;
use super::lower::{Id, Kind, Tree};
use super::types::Type;
use crate::ast::Literal;
use crate::error::Issue;
use crate::functions::format::{Piece, next_piece, wrong_type};
use crate::time::{Duration, Timestamp};

/// What is wrong with the constants of an expression whose types are right.
pub(super) fn check(tree: &Tree, outcome: &Outcome) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut report = |id: Id, message: String| {
        issues.push(Issue {
            offset: tree.nodes[id].offset,
            message,
        });
    };
    let mixed = mixed_allowed(tree);
    for (id, node) in tree.nodes.iter().enumerate() {
        match &node.kind {
            Kind::List(_) | Kind::Map(_) if mixed[id] => {}
            Kind::Call {
                function,
                target: Some(target),
                args,
            } if function == "format" => {
                if let Some((at, message)) = format_problem(tree, outcome, id, *target, args) {
                    report(at, message);
                }
            }
            Kind::Call { function, args, .. } => {
                let literal = args.first().map(|arg| (*arg, tree.kind(*arg)));
                if let Some((arg, Kind::Literal(literal))) = literal
                    && !is_fine(function, literal)
                {
                    report(arg, format!("invalid {function} argument"));
                }
            }
            Kind::List(items) => {
                let mut types = items.iter().map(|(item, optional)| {
                    let ty = &outcome.types[*item];
                    (*item, unwrapped(ty, *optional))
                });
                let Some((_, first)) = types.next() else {
                    continue;
                };
                if let Some((item, ty)) = types.find(|(_, ty)| !is_alike(first, ty)) {
                    report(item, format!("expected type '{first}' but found '{ty}'"));
                }
            }
            Kind::Map(entries) => {
                let types = |entry: &(Id, Id, bool)| {
                    let value = unwrapped(&outcome.types[entry.1], entry.2);
                    (&outcome.types[entry.0], value)
                };
                let Some((first, rest)) = entries.split_first() else {
                    continue;
                };
                let (key, value) = types(first);
                for entry in rest {
                    for (id, wanted, actual) in [
                        (entry.0, key, types(entry).0),
                        (entry.1, value, types(entry).1),
                    ] {
                        if !is_alike(wanted, actual) {
                            report(id, format!("expected type '{wanted}' but found '{actual}'"));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    issues
}

/// The nodes inside arguments of `format`, which may have any types.
fn mixed_allowed(tree: &Tree) -> Vec<bool> {
    let mut allowed = vec![false; tree.nodes.len()];
    // Parents come after their children.
    for (id, node) in tree.nodes.iter().enumerate().rev() {
        let inside = allowed[id]
            || matches!(&node.kind, Kind::Call { function, .. } if function == "format");
        if inside {
            tree.children(id)
                .into_iter()
                .for_each(|child| allowed[child] = true);
        }
    }
    allowed
}

/// What is wrong with a constant template and its arguments.
fn format_problem(
    tree: &Tree,
    outcome: &Outcome,
    id: Id,
    target: Id,
    args: &[Id],
) -> Option<(Id, String)> {
    let (Kind::Literal(Literal::String(template)), [list]) = (tree.kind(target), args) else {
        return None;
    };
    let Kind::List(items) = tree.kind(*list) else {
        return None;
    };
    let mut rest = template.as_str();
    let mut used = 0;
    loop {
        match next_piece(&mut rest, used, items.len() - used) {
            Err(problem) => return Some((id, problem)),
            Ok(None) => break,
            Ok(Some(Piece::Text(_))) => {}
            Ok(Some(Piece::Clause { verb, .. })) => {
                let (item, _) = items[used];
                used += 1;
                let ty = &outcome.types[item];
                if !takes(verb, ty) {
                    return Some((item, wrong_type(verb, &runtime_name(ty))));
                }
            }
        }
    }
    (items.len() > used).then(|| {
        let problem = format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            items.len()
        );
        (id, problem)
    })
}

fn takes(verb: char, ty: &Type) -> bool {
    let is_int = matches!(ty, Type::Int | Type::Uint);
    *ty == Type::Dyn
        || match verb {
            'd' | 'o' => is_int,
            'f' | 'e' => matches!(ty, Type::Double | Type::String),
            'b' => is_int || *ty == Type::Bool,
            'x' | 'X' => is_int || matches!(ty, Type::String | Type::Bytes),
            _ => !matches!(ty, Type::Object(_) | Type::Opaque(..)),
        }
}

fn runtime_name(ty: &Type) -> String {
    match ty {
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Null => "null_type".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Type(_) => "type".to_owned(),
        Type::Opaque(name, _) => name.to_string(),
        other => other.to_string(),
    }
}

fn unwrapped(ty: &Type, optional: bool) -> &Type {
    match optional {
        true => ty.unwrap_optional().unwrap_or(ty),
        false => ty,
    }
}

fn is_alike(left: &Type, right: &Type) -> bool {
    left == right
}

/// Whether a pattern can be read. Whether it is too large is found when it is searched with, at a price.
fn is_pattern(pattern: &str) -> bool {
    const ENOUGH: usize = 16 << 10;
    let built = regex::RegexBuilder::new(pattern).size_limit(ENOUGH).build();
    matches!(built, Ok(_) | Err(regex::Error::CompiledTooBig(_)))
}

fn is_fine(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("matches", Literal::String(pattern)) => is_pattern(pattern),
        ("duration", Literal::String(text)) => Duration::parse(text).is_some(),
        ("duration", Literal::Int(_)) => false,
        ("timestamp", Literal::String(text)) => Timestamp::parse(text).is_some(),
        _ => true,
    }
}
