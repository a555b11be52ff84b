//! Names that Kubernetes allows, with its words for those it does not.

/// What is wrong with a DNS-1035 label (`[a-z]([-a-z0-9]*[a-z0-9])?`, at most 63 bytes).
pub fn dns_1035_label_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes");
    }
    let first = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !first || !is_dash_word(text) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    problems
}

/// What is wrong with an RFC 1123 subdomain (labels with dots between, at most 253 bytes).
pub fn dns_1123_subdomain_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 bytes");
    }
    if !text.split('.').all(is_dash_word) {
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

/// Lower-case letters and digits, with dashes inside.
fn is_dash_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inside)
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
