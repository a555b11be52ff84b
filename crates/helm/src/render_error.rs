//! Errors of templates in the forms that helm gives them.

use everflow_gotemplate::Error;
use everflow_limits::Exceeded;

/// Why a chart's templates do not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A template cannot be parsed.
    #[error("parse error at ({location}): {message}")]
    Parse {
        /// `FILE:LINE`.
        location: String,
        /// What is wrong.
        message: String,
    },
    /// `required` or `fail` spoke.
    #[error("execution error at ({location}): {message}")]
    Refused {
        /// `FILE:LINE:COLUMN`.
        location: String,
        /// The chart author's words.
        message: String,
    },
    /// Templates nest deeper than the stack allows; on a larger one the chart may well render.
    #[error("{0}")]
    TooDeep(String),
    /// The templates need more memory or time than there is.
    #[error("{text}")]
    Exceeded {
        /// Where, and what is wrong.
        text: String,
        /// What was used up.
        exceeded: Exceeded,
    },
    /// Anything else, as text.
    #[error("{0}")]
    Plain(String),
}

impl RenderError {
    /// What was used up, when that is why the templates do not render.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            RenderError::Exceeded { exceeded, .. } => Some(exceeded),
            _ => None,
        }
    }
}

/// Keeps of a parse error the place and the last cause.
pub(crate) fn clean_parse_error(path: &str, error: &Error) -> RenderError {
    let text = error.to_string();
    if let Some(exceeded) = error.exceeded() {
        return used_up(text, exceeded);
    }
    let mut parts = text.split(": ");
    let (Some(_), Some(location)) = (parts.next(), parts.next()) else {
        return RenderError::Plain(format!("parse error in ({path}): {text}"));
    };
    RenderError::Parse {
        location: location.to_owned(),
        message: parts.last().unwrap_or(location).to_owned(),
    }
}

/// One step of the way to an error: where, in which template, what.
#[derive(PartialEq, Eq)]
struct Step {
    location: String,
    executing: String,
    message: String,
}

/// Tells an execution error as a block with one step per template.
pub(crate) fn reformat(path: &str, error: &Error) -> RenderError {
    let text = error.to_string();
    if error.is_too_deep() {
        return RenderError::TooDeep(block_of(error, text));
    }
    if let Some(exceeded) = error.exceeded() {
        return used_up(block_of(error, text), exceeded);
    }
    if !matches!(error, Error::Exec { .. }) {
        return RenderError::Plain(text);
    }
    let parts: Vec<&str> = text.splitn(3, ": ").collect();
    let [_, location, rest] = parts[..] else {
        return RenderError::Plain(format!("execution error in ({path}): {text}"));
    };
    if let Some(message) = refusal(rest) {
        return RenderError::Refused {
            location: location.to_owned(),
            message: message.to_owned(),
        };
    }
    RenderError::Plain(block_of(error, text))
}

fn used_up(text: String, exceeded: &Exceeded) -> RenderError {
    RenderError::Exceeded {
        text,
        exceeded: exceeded.clone(),
    }
}

/// The block with one step per template; the plain text if that has another form.
fn block_of(error: &Error, text: String) -> String {
    let mut steps: Vec<Step> = Vec::new();
    for part in chain(&text, error) {
        let Some(step) = parse_step(part) else {
            return text;
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    let mut block = String::new();
    for step in steps {
        if !step.location.is_empty() {
            block.push_str(&format!("{}\n  ", step.location));
        }
        if !step.executing.is_empty() {
            block.push_str(&format!("{}\n    ", step.executing));
        }
        if !step.message.is_empty() {
            block.push_str(&format!("{}\n", step.message));
        }
    }
    block.trim().to_owned()
}

/// What stands between the marks of `required` and `fail`; the outermost pair counts.
fn refusal(text: &str) -> Option<&str> {
    let start = text.find("HELM_ERR_START")? + "HELM_ERR_START".len();
    let end = text.rfind("HELM_ERR_END")?;
    text.get(start..end)
}

/// The texts of an error and its causes, as Go unwraps them. Every cause's text ends the text of
/// what it caused, so that all of them are parts of the first one.
fn chain<'t>(text: &'t str, error: &Error) -> Vec<&'t str> {
    let mut texts = vec![text];
    let mut current = error;
    let mut rest = text;
    while let Error::Exec {
        source: Some(function_error),
        ..
    } = current
    {
        rest = rest.get(current.prefix().len()..).unwrap_or_default();
        texts.push(rest);
        let Some(inner) = function_error.template_error() else {
            break;
        };
        rest = rest
            .get(function_error.prefix().len()..)
            .unwrap_or_default();
        texts.push(rest);
        current = inner;
    }
    texts
}

/// Reads one text of the chain; `None` if it is not the text of a template error.
fn parse_step(text: &str) -> Option<Step> {
    let rest = text.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some(Step {
            location: String::new(),
            executing: String::new(),
            message: text.to_owned(),
        });
    }
    parse_executing(rest).or_else(|| parse_simple(rest))
}

fn parse_executing(rest: &str) -> Option<Step> {
    let (location, after) = rest.split_once(": executing ")?;
    let after = after.strip_prefix('"')?;
    let (name, after) = after.split_once('"')?;
    let after = after.strip_prefix(" at <")?;
    let (context, message) = after.split_once(">: ")?;
    Some(Step {
        location: location.to_owned(),
        executing: format!("executing \"{name}\" at <{context}>:"),
        message: before_next_template(message).to_owned(),
    })
}

fn parse_simple(rest: &str) -> Option<Step> {
    let (location, message) = rest.rsplit_once(": ")?;
    Some(Step {
        location: location.to_owned(),
        executing: String::new(),
        message: before_next_template(message).to_owned(),
    })
}

fn before_next_template(message: &str) -> &str {
    message
        .find(" template:")
        .map_or(message, |cut| &message[..cut])
}
