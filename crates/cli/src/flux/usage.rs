//! Wrong command lines, in the words of flux and with its exit code.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The verbs that are flux's.
const VERBS: [&str; 8] = [
    "build",
    "events",
    "get",
    "logs",
    "reconcile",
    "resume",
    "suspend",
    "tree",
];

/// What flux would say about a command line; `None` when it is not for us to say.
pub fn complaint(error: &clap::Error, verb: Option<&str>) -> Option<String> {
    if !VERBS.contains(&verb?) {
        return None;
    }
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.split([' ', '=']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => Some(match flag.strip_prefix("--") {
            Some(_) => format!("unknown flag: {flag}"),
            None => {
                let short = flag.trim_start_matches('-');
                format!("unknown shorthand flag: '{short}' in -{short}")
            }
        }),
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            let last = std::env::args().next_back().unwrap_or_default();
            let short = last.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            Some(match short {
                Some(short) => format!("flag needs an argument: '{short}' in -{short}"),
                None => format!("flag needs an argument: {flag}"),
            })
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            Some(format!(
                "invalid argument {value:?} for {flag:?} flag: {cause}"
            ))
        }
        _ => None,
    }
}
