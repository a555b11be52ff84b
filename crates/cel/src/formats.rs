//! Kubernetes' named formats of strings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::kubernetes::Url;
use crate::time::Timestamp;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// The format of that name.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|known| **known == name).copied()
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
     used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
     validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a value of a format; empty if nothing.
pub(crate) fn problems(format: &str, value: &str) -> Vec<String> {
    let prefix = value.strip_suffix('-').unwrap_or(value);
    match format {
        "dns1123Label" => checked(value, "[a-z0-9]([-a-z0-9]*[a-z0-9])?", LABEL, 63),
        "dns1123LabelPrefix" => checked(prefix, "[a-z0-9]([-a-z0-9]*[a-z0-9])?", LABEL, 63),
        "dns1123Subdomain" => subdomain(value),
        "dns1123SubdomainPrefix" => subdomain(prefix),
        "dns1035Label" => checked(value, "[a-z]([-a-z0-9]*[a-z0-9])?", LABEL_1035, 63),
        "dns1035LabelPrefix" => checked(prefix, "[a-z]([-a-z0-9]*[a-z0-9])?", LABEL_1035, 63),
        "labelValue" => checked(
            value,
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            LABEL_VALUE,
            63,
        ),
        "qualifiedName" => qualified_name(value),
        "uri" => single(Url::parse(value).is_some(), "invalid URI"),
        "uuid" => single(
            matches(
                value,
                "[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}",
            ),
            "does not match the UUID format",
        ),
        "byte" => single(STANDARD.decode(value).is_ok(), "invalid base64"),
        "date" => single(
            Timestamp::parse(&format!("{value}T00:00:00Z")).is_some(),
            "invalid date",
        ),
        "datetime" => single(Timestamp::parse(value).is_some(), "invalid datetime"),
        _ => Vec::new(),
    }
}

fn matches(value: &str, pattern: &str) -> bool {
    Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(value))
}

fn single(valid: bool, problem: &str) -> Vec<String> {
    match valid {
        true => Vec::new(),
        false => vec![problem.to_owned()],
    }
}

fn checked(value: &str, pattern: &str, problem: &str, length: usize) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > length {
        problems.push(format!("must be no more than {length} characters"));
    }
    problems.extend(single(matches(value, pattern), problem));
    problems
}

fn subdomain(value: &str) -> Vec<String> {
    let pattern = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    checked(value, pattern, SUBDOMAIN, 253)
}

fn qualified_name(value: &str) -> Vec<String> {
    let (mut problems, name) = match value.split_once('/') {
        Some((prefix, name)) => (
            subdomain(prefix)
                .into_iter()
                .map(|problem| format!("prefix part {problem}"))
                .collect(),
            name,
        ),
        None => (Vec::new(), value),
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(checked(
        name,
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
        QUALIFIED,
        63,
    ));
    problems
}
