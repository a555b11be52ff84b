//! Character classes in the syntax of the regex crate.

use regex::Regex;

/// `\d` and its kin, which are about ASCII only.
pub(crate) fn perl(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'd' => "[0-9]",
        b'D' => "[^0-9]",
        b's' => r"[\t\n\x0C\r ]",
        b'S' => r"[^\t\n\x0C\r ]",
        b'w' => "[0-9A-Za-z_]",
        b'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// `[:alpha:]` and its kin by the text between the colons.
pub(crate) fn posix(name: &str) -> Option<String> {
    let (negated, plain) = match name.strip_prefix('^') {
        Some(plain) => ("^", plain),
        None => ("", name),
    };
    let members = match plain {
        "alnum" => "0-9A-Za-z",
        "alpha" => "A-Za-z",
        "ascii" => r"\x00-\x7F",
        "blank" => r"\t ",
        "cntrl" => r"\x00-\x1F\x7F",
        "digit" => "0-9",
        "graph" => r"\x21-\x7E",
        "lower" => "a-z",
        "print" => r"\x20-\x7E",
        "punct" => r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E",
        "space" => r"\t\n\x0B\x0C\r ",
        "upper" => "A-Z",
        "word" => "0-9A-Za-z_",
        "xdigit" => "0-9A-Fa-f",
        _ => return None,
    };
    Some(format!("[{negated}{members}]"))
}

/// Scripts whose names are as short as the codes that other scripts have, which do not count.
const SHORT_SCRIPTS: [&str; 15] = [
    "toto", "mro", "yi", "vai", "thai", "cham", "ahom", "lao", "lisu", "modi", "newa", "miao",
    "han", "kawi", "nko",
];

/// A Unicode category or script by name.
pub(crate) fn unicode(name: &str, negated: bool) -> Option<String> {
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' '))
    {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let is_script_name = lower.len() > 4 && lower != "unknown" && !lower.contains(['_', '-', ' '])
        || SHORT_SCRIPTS.contains(&lower.as_str());
    let keys: &[&str] = match lower.as_str() {
        "any" | "ascii" | "assigned" => &[""],
        _ if is_script_name => &["gc=", "sc="],
        _ => &["gc="],
    };
    let property = if negated { "P" } else { "p" };
    keys.iter()
        .map(|key| format!(r"\{property}{{{key}{name}}}"))
        .find(|class| Regex::new(class).is_ok())
}

/// One character of a class.
pub(crate) fn member(c: char) -> String {
    format!(r"\x{{{:X}}}", c as u32)
}
