//! What a server demands before it answers: the header `WWW-Authenticate`.

use std::collections::BTreeMap;

use ::http::HeaderMap;
use ::http::header::WWW_AUTHENTICATE;

/// One demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// `basic`, `bearer` and so on.
    pub scheme: String,
    /// By name in lower case.
    pub parameters: BTreeMap<String, String>,
}

impl Challenge {
    /// All demands of an answer; those that cannot be read are left out.
    pub fn all(headers: &HeaderMap) -> Vec<Challenge> {
        headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Challenge::parse(value.to_str().ok()?))
            .collect()
    }

    /// The first that we know what to do with, else the first.
    pub fn pick(headers: &HeaderMap) -> Option<Challenge> {
        let all = Challenge::all(headers);
        let known = |one: &&Challenge| matches!(one.scheme.as_str(), "basic" | "bearer");
        all.iter().find(known).or(all.first()).cloned()
    }

    /// Reads one demand.
    pub(crate) fn parse(text: &str) -> Option<Challenge> {
        let (scheme, mut rest) = token(text);
        if scheme.is_empty() {
            return None;
        }
        let mut parameters = BTreeMap::new();
        rest = rest.trim_start();
        loop {
            let (name, after) = token(rest);
            let Some(after) = after.strip_prefix('=').filter(|_| !name.is_empty()) else {
                break;
            };
            let Some((value, after)) = value(after) else {
                break;
            };
            parameters.insert(name.to_ascii_lowercase(), value);
            match after.trim_start().strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None => break,
            }
        }
        Some(Challenge {
            scheme: scheme.to_ascii_lowercase(),
            parameters,
        })
    }
}

fn token(text: &str) -> (&str, &str) {
    let odd = |char: char| {
        !char.is_ascii() || char.is_ascii_control() || " \t\"(),/:;<=>?@[]\\{}".contains(char)
    };
    text.split_at(text.find(odd).unwrap_or(text.len()))
}

fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = token(text);
        return (!value.is_empty()).then(|| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authentication_challenges_are_parsed() {
        let text = r#"Bearer realm="https://a.io/t?x=1,2",service="s \"q\"", Other=fun"#;
        let one = Challenge::parse(text).unwrap();
        assert_eq!(one.scheme, "bearer");
        assert_eq!(one.parameters["realm"], "https://a.io/t?x=1,2");
        assert_eq!(one.parameters["service"], "s \"q\"");
        assert_eq!(one.parameters["other"], "fun");
        for garbage in ["Bearer realm=\"open", "Bearer =x", "Basic", "Basic realm"] {
            assert!(Challenge::parse(garbage).unwrap().parameters.is_empty());
        }
        assert_eq!(Challenge::parse(""), None);
    }
}
