//! The rules for names, labels and annotations, with Kubernetes' words for those that break them.

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const DNS1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    let mut text = format!("{message} (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            text.push_str(" or ");
        }
        text.push_str(&format!("'{example}', "));
    }
    format!("{text}regex used for validation is '{pattern}')")
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Labels and annotations are measured in bytes by name; other names are measured in the same way and called characters.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(text: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match text.as_bytes() {
        [] => false,
        bytes => {
            ok(bytes[0])
                && ok(bytes[bytes.len() - 1])
                && bytes.iter().all(|byte| ok(*byte) || *byte == b'-')
        }
    }
}

/// An RFC 1123 label.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) {
        if is_subdomain(text) {
            problems.push("must not contain dots".to_owned());
        } else {
            problems.push(regex_error(
                LABEL_RULE,
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            ));
        }
    }
    problems
}

fn is_subdomain(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(is_label)
}

/// An RFC 1123 subdomain.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    problems.extend(subdomain_shape(text));
    problems
}

/// As [`dns_subdomain`], for the names whose length is given in bytes.
pub fn long_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_many_bytes(253));
    }
    problems.extend(subdomain_shape(text));
    problems
}

fn subdomain_shape(text: &str) -> Option<String> {
    let pattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    (!is_subdomain(text)).then(|| regex_error(SUBDOMAIN_RULE, pattern, &["example.com"]))
}

/// A subdomain whose labels may have underscores.
pub fn dns_subdomain_with_underscore(text: &str) -> Vec<String> {
    let is_word = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        label.split('_').all(|part| {
            part.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        }) && !label.is_empty()
            && !label.starts_with(['-', '_'])
            && !label.ends_with(['-', '_'])
    };
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.split('.').all(is_word) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
        let label = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
        problems.push(regex_error(
            rule,
            &format!("{label}(\\.{label})*"),
            &["example.com"],
        ));
    }
    problems
}

/// A subdomain below a wildcard.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        let rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        let pattern = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
        problems.push(regex_error(rule, pattern, &["*.example.com"]));
    }
    problems
}

/// The name of an environment variable.
pub fn variable(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text
        .bytes()
        .any(|byte| !(0x20..0x7f).contains(&byte) || byte == b'=')
    {
        return vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()];
    }
    Vec::new()
}

/// The name of an HTTP header.
pub fn http_header(text: &str) -> Vec<String> {
    if !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Vec::new();
    }
    let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(rule, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A percentage.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let rule = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(rule, "[0-9]+%", &["1%", "93%"])]
}

/// The pattern of the path behind a domain.
pub const HTTP_PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/// The path behind a domain.
pub fn http_path(text: &str) -> Vec<String> {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !text.is_empty() && text.bytes().all(ok) {
        return Vec::new();
    }
    vec![regex_error("Invalid path", HTTP_PATH, &[])]
}

/// A DNS 1035 label.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) || !text.as_bytes()[0].is_ascii_lowercase() {
        problems.push(regex_error(
            DNS1035_RULE,
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    problems
}

fn is_qualified_part(text: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric();
    match text.as_bytes() {
        [] => false,
        bytes => {
            ok(bytes[0])
                && ok(bytes[bytes.len() - 1])
                && bytes
                    .iter()
                    .all(|byte| ok(*byte) || matches!(byte, b'-' | b'_' | b'.'))
        }
    }
}

/// A label or annotation key.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let pattern = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    long_name(prefix)
                        .into_iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            *name
        }
        _ => {
            let rule = format!("a qualified name {QUALIFIED_RULE}");
            let text = regex_error(&rule, pattern, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_qualified_part(name) {
        problems.push(format!(
            "name part {}",
            regex_error(QUALIFIED_RULE, pattern, &["MyName", "my.name", "123-abc"])
        ));
    }
    problems
}

/// A label value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        problems.push(regex_error(
            LABEL_VALUE_RULE,
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// A key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    let ok = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if !ok {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        problems.push(regex_error(
            rule,
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// A name that only has to be one segment of a path.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// A prefix for generated names is judged as if its trailing dash were a letter.
pub fn as_prefix(rule: fn(&str) -> Vec<String>, text: &str) -> Vec<String> {
    match text.strip_suffix('-') {
        Some(front) if !front.is_empty() => rule(&format!("{front}a")),
        _ => rule(text),
    }
}

/// The name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 15 {
        problems.push(too_long(15));
    }
    if text.is_empty()
        || !text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        problems.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

/// What is wrong with a DNS-1035 label in the words of definitions of kinds (`[a-z]([-a-z0-9]*[a-z0-9])?`, at most 63 bytes).
pub fn dns_1035_label_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes");
    }
    let first = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !first || !is_label(text) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    problems
}

/// What is wrong with an RFC 1123 subdomain in the words of definitions of kinds (labels with dots between, at most 253 bytes).
pub fn dns_1123_subdomain_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 bytes");
    }
    if !is_subdomain(text) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    problems
}

/// What is wrong with a kind, which is a DNS-1035 label but for its case.
pub fn kind_problem(kind: &str) -> Option<String> {
    let problems = dns_1035_label_problems(&kind.to_lowercase()).join(",");
    (!problems.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {problems}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "a-b", "a1"] {
            assert!(dns_1035_label_problems(good).is_empty(), "{good}");
        }
        for bad in ["", "1a", "-a", "a-", "A", "a.b", "V 1"] {
            assert_eq!(dns_1035_label_problems(bad).len(), 1, "{bad}");
        }
        assert!(dns_1123_subdomain_problems("a.b-c.1").is_empty());
        for bad in ["", "a..b", "a.-b", "A.b"] {
            assert_eq!(dns_1123_subdomain_problems(bad).len(), 1, "{bad}");
        }
        assert_eq!(kind_problem("Widget"), None);
    }
}
