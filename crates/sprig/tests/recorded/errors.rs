//! The shapes helm gives to the errors of templates.

use everflow_gotemplate::{Error, FuncError};

/// `parse error at (FILE:LINE): …`.
pub fn parse_error(error: &Error) -> String {
    let text = error.to_string();
    let tokens: Vec<&str> = text.split(": ").collect();
    match tokens.as_slice() {
        [_, location, .., last] => format!("parse error at ({location}): {last}"),
        _ => format!("parse error: {text}"),
    }
}

/// A block of location, place and message for each error of a chain, or the plain text.
pub fn execution_error(error: &Error) -> String {
    let text = error.to_string();
    if !matches!(error, Error::Exec { .. }) {
        return text;
    }
    let mut tokens = text.splitn(3, ": ");
    let (_, Some(location), Some(rest)) = (tokens.next(), tokens.next(), tokens.next()) else {
        return text;
    };
    if let Some(warning) = between(rest, "HELM_ERR_START", "HELM_ERR_END") {
        return format!("execution error at ({location}): {warning}");
    }
    let mut blocks: Vec<String> = Vec::new();
    let mut current = Some(text.clone());
    let mut source = inner(error);
    while let Some(message) = current {
        match block(&message) {
            Some(block) if blocks.last() != Some(&block) => blocks.push(block),
            Some(_) => {}
            None => return text,
        }
        current = source.map(ToString::to_string);
        source = source.and_then(FuncError::template_error).and_then(inner);
    }
    blocks.concat().trim().to_owned()
}

fn inner(error: &Error) -> Option<&FuncError> {
    match error {
        Error::Exec { source, .. } => source.as_deref(),
        _ => None,
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let from = text.find(start)? + start.len();
    let to = text.rfind(end).filter(|&to| to >= from)?;
    Some(&text[from..to])
}

fn block(message: &str) -> Option<String> {
    let rest = message.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some(format!("{message}\n"));
    }
    let cut = |text: &str| text.split(" template:").next().unwrap_or(text).to_owned();
    if let Some((location, after)) = rest.split_once(": executing ") {
        let after = after.strip_prefix('"')?;
        let (name, after) = after.split_once('"')?;
        let (place, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
        return Some(format!(
            "{location}\n  executing \"{name}\" at <{place}>:\n    {}\n",
            cut(message)
        ));
    }
    let (location, message) = rest.rsplit_once(": ")?;
    Some(format!("{location}\n  {}\n", cut(message)))
}
