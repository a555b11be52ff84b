//! Values worth trying.

use crate::Random;

const TEXTS: [&str; 30] = [
    "",
    "a",
    "hello",
    "Hello World",
    "héllo wörld 日本",
    "foo_bar-baz Qux",
    "  pad me  ",
    "a,b,,c",
    "HTTPServer2xx",
    "line1\nline2\n\nline4",
    "it's \"quoted\"",
    "42",
    "-7",
    "3.75",
    "0x1F",
    "1e3",
    "true",
    "null",
    "~",
    "a\tb",
    "\u{7f}\u{85}",
    "ǆ ß ŉ İ",
    "日本語テキスト",
    "__init__",
    "-- x --",
    "ALL CAPS",
    "$1 ${2} $$",
    "<a href=\"x\">&</a>",
    "the quick brown fox jumps",
    "É\u{301}x1Y2",
];
const PATTERNS: [&str; 40] = [
    "a",
    "[a-z]+",
    "^h.*d$",
    "(a)(b)?",
    "x*",
    "\\d+",
    "\\w+\\s\\w+",
    "(?i)hello",
    "(?m)^line\\d$",
    "[^a-z]",
    "a|b|",
    "(?P<n>o)",
    "(?<m>l+)",
    ".",
    "(?s).+",
    "\\bfoo",
    "[[:alpha:]]+",
    "\\p{Lu}",
    "a{2,3}",
    "a{,2}",
    "(a*)*",
    "[]a]",
    "\\Q.\\E",
    "\\x41",
    "(?U)l+",
    "(?:o|l)+?",
    "",
    "$",
    "^",
    "\\B",
    "(",
    "[z-a]",
    "*",
    "a**",
    "\\8",
    "(?z)",
    "\\pX",
    "a{1001}",
    "[a-\\d]",
    "\\p{Greek}|é",
];
const LAYOUTS: [&str; 14] = [
    "2006-01-02",
    "2006-01-02T15:04:05Z07:00",
    "Mon Jan _2 15:04:05 2006",
    "02 Jan 06 15:04 MST",
    "15:04:05.000",
    "3:04PM",
    "Monday, January 2 2006",
    "2006-002",
    "06/1/2",
    "2006-01-02 15:04:05.999",
    "Z0700 -07:00:00",
    "__2 2006",
    "pm 03 .000000 ,999",
    "Jan. Mond January2",
];
const DATES: [&str; 18] = [
    "2024-02-29",
    "2023-02-29",
    "2024-02-29T12:34:56Z",
    "2024-02-29T12:34:56.789+05:30",
    "Thu Feb 29 01:02:03 2024",
    "29 Feb 24 12:34 UTC",
    "29 Feb 24 12:34 EST",
    "11:22:33.444",
    "3:04PM",
    "Monday, January 2 2006",
    "2024-060",
    "2024-366",
    "24/2/9",
    "2024-02-29 12:34:56.5",
    "nope",
    "",
    "2024-13-01",
    "2024-02-29x",
];
const VERSIONS: [&str; 16] = [
    "1.2.3",
    "v1.2.3",
    "1.2",
    "1",
    "1.2.3-rc.1",
    "1.2.3+b",
    "01.2.3",
    "x",
    "",
    "1.2.3-01",
    "2.0.0",
    "0.0.0",
    "1.2.3-alpha.beta",
    "1.0.0-0",
    "99999999999999999999.0.0",
    "1.2.x",
];
const CONSTRAINTS: [&str; 20] = [
    ">=1.2",
    "<2",
    "^1.2",
    "~1.2.3",
    "1.x",
    "1.2 - 2",
    "*",
    "!=1.2.3",
    ">=1.2 <2 || ^3",
    "=>1",
    "x",
    "~>1",
    "1.2.3-rc.1",
    ">1.2-0",
    "^0.0",
    "",
    "||",
    ">= 1.2.3, < 2",
    "bad",
    "==1",
];
const URLS: [&str; 22] = [
    "http://u:p%40@h:80/p%20q?x=1#f",
    "https://[::1]:8080/",
    "mailto:a@b",
    "/p/q",
    "//h/p",
    "p:q",
    "http://h:port/",
    "http://%zz",
    "h?a=b?c",
    "http://a b",
    ":",
    "http://h#é%41",
    "*",
    "http://h/;p",
    "HTTP://H",
    "http://[fe80::1%25en0]/",
    "http://a@b@c/",
    "?q",
    "#f",
    "///x",
    "http://h?",
    "postgres://u@h1:1,h2:2/db",
];
const JSONS: [&str; 22] = [
    "{}",
    "[]",
    "{\"a\":1}",
    "[1,2.5,\"x\",null,true]",
    "null",
    "1",
    "\"s\"",
    "{\"a\":",
    "[1,]",
    "{a}",
    "tru",
    "01",
    "-",
    "1.",
    "1e",
    "\"\\u00e9\\ud83d\\ude00\\ud800\"",
    "\"\\x\"",
    "{\"a\":1,\"a\":2}",
    " [ 1 ] x",
    "{\"<\":\"&\"}",
    "1e30",
    "[[[[]]]]",
];
const YAMLS: [&str; 26] = [
    "a: 1",
    "a: [1, 2]",
    "- 1\n- b: 2",
    "a: yes\nb: 0x10\nc: 010\nd: 1e3",
    "a: |\n  x\n  y\n",
    "x",
    "",
    "a: &x 1\nb: *x",
    "a: {b: c}",
    "{",
    "a: b: c",
    "a: 'x''y'",
    "? a\n: b",
    "a: ~",
    "1: 2",
    "a: !!str 1",
    "- [a, b]\n- {c: d}",
    "a:\n- 1\n-  2",
    "a: \"\\u00e9\\n\"",
    "<<: {a: 1}\nb: 2",
    "a: 1.50",
    "---\na: 1\n",
    "a: 2024-01-01",
    "a: >-\n  x\n  y",
    "# c",
    "\ta: 1",
];
const TOMLS: [&str; 30] = [
    "a = 1",
    "a = \"x\"",
    "[t]\nb = true",
    "[[l]]\nx = 1\n[[l]]\nx = 2",
    "a.b = 1",
    "a = [1, \"b\"]",
    "a = {x = 1, y.z = 2}",
    "a = 1.5e3",
    "a = 0x1F",
    "a = 2024-01-02T03:04:05Z",
    "a = 'raw'",
    "a = \"\"\"\nx\ny\"\"\"",
    "a",
    "a =",
    "= 1",
    "a = 1\na = 2",
    "[a]\n[a]",
    "a = [1",
    "a = \"x",
    "[",
    "a = tru",
    "a = 1_000",
    "a = 01",
    "a = .5",
    "a = +1",
    "a = inf",
    "a = \"\\q\"",
    "a = \"\\u00e9\"",
    "# c\na = 1 # d",
    "\"a b\" = 1",
];
const ENCODED: [&str; 12] = [
    "",
    "aGVsbG8=",
    "aGVsbG8",
    "!!!",
    "YQ==",
    "YQ=",
    "YQ==x",
    "aGVs\nbG8=",
    "JBSWY3DP",
    "JBSWY3DPEB3W64TMMQ======",
    "MFRA====",
    "M=",
];
const PATHS: [&str; 14] = [
    "",
    "/",
    "a/b/c.txt",
    "/a/../b",
    "../../x",
    "a//b/./c/",
    ".",
    "..",
    "/..",
    "x.tar.gz",
    "a.b/c",
    "//",
    "dir/",
    ".hidden",
];
const ZONES: [&str; 12] = [
    "UTC",
    "Local",
    "",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Etc/UTC",
    "utc",
    "Nope/Where",
    "../etc",
    "Etc/GMT+5",
];
const DURATIONS: [&str; 14] = [
    "1h", "-1.5h", "90m", "1h2m3s", "100ms", "1us", "5", "", "1d", "x", ".5s", "+3s", "1h-2m", "0",
];

pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Changes a text a little.
fn mutated(random: &mut Random, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let alphabet: Vec<char> = "aZ09é .:/-_+*()[]{}\\\"'\n=,|^$%#@<>日".chars().collect();
    for _ in 0..=random.below(2) {
        let at = random.below(characters.len() + 1);
        match random.below(3) {
            0 if at < characters.len() => drop(characters.remove(at)),
            1 if at < characters.len() => {
                let other = random.below(characters.len());
                characters.swap(at, other);
            }
            _ => characters.insert(at, *random.pick(&alphabet)),
        }
    }
    characters.into_iter().collect()
}

fn pool(name: &str, index: usize) -> &'static [&'static str] {
    let lower = name.to_lowercase();
    match (lower.as_str(), index) {
        ("semver", _) | ("semvercompare", 1) => &VERSIONS,
        ("semvercompare", 0) => &CONSTRAINTS,
        ("urlparse", _) => &URLS,
        ("base" | "dir" | "clean" | "ext" | "isabs", _) => &PATHS,
        (name, 0) if name.contains("regex") && name != "regexquotemeta" => &PATTERNS,
        (name, 0) if name.contains("modify") => &DURATIONS,
        ("duration" | "durationround", _) => &DURATIONS,
        (name, 0) if name.ends_with("todate") || name.starts_with("date") => &LAYOUTS,
        ("dateinzone" | "date_in_zone", 2) | ("htmldateinzone", 1) => &ZONES,
        (name, 1) if name.ends_with("todate") => &DATES,
        (name, _) if name.starts_with("fromjson") || name == "mustfromjson" => &JSONS,
        (name, _) if name.starts_with("fromyaml") => &YAMLS,
        (name, _) if name.starts_with("fromtoml") => &TOMLS,
        ("b64dec" | "b32dec" | "decryptaes", _) => &ENCODED,
        (name, _) if name.starts_with("os") => &PATHS,
        _ => &TEXTS,
    }
}

pub fn text(random: &mut Random, name: &str, index: usize) -> String {
    if random.below(12) == 0 {
        return random.pick(&[".s", ".multi", ".e"]).to_string();
    }
    let chosen = *random.pick(pool(name, index));
    match random.below(3) {
        0 => quoted(&mutated(random, chosen)),
        _ => quoted(chosen),
    }
}

pub fn int(random: &mut Random) -> String {
    let choices = [
        "0", "1", "2", "3", "4", "5", "7", "10", "20", "-1", "-2", "-5", "100",
    ];
    random.pick(&choices).to_string()
}

pub fn any(random: &mut Random, name: &str, index: usize) -> String {
    match random.below(16) {
        0 => "nil".to_owned(),
        1 => int(random),
        2 => random
            .pick(&["0.5", "-1.25", "1e21", "1e-7", "3.0", "1e6"])
            .to_string(),
        3 => random.pick(&["true", "false"]).to_string(),
        4 | 5 => list(random),
        6 | 7 => map(random),
        8 => random
            .pick(&["'x'", "(int64 5)", "(float64 2)", "(atoi \"7\")"])
            .to_string(),
        9 => random
            .pick(&[
                "(split \",\" \"a,b\")",
                "(splitList \",\" \"x,y\")",
                "(chunk 2 .l)",
            ])
            .to_string(),
        10 | 11 => {
            let paths = [
                ".s", ".i", ".f", ".z", ".t", ".n", ".l", ".m", ".m.c", ".big", ".missing", ".neg",
            ];
            random.pick(&paths).to_string()
        }
        12 => time(random),
        _ => text(random, name, index),
    }
}

fn scalar(random: &mut Random) -> String {
    match random.below(8) {
        0 => "nil".to_owned(),
        1 => int(random),
        2 => "2.5".to_owned(),
        3 => "true".to_owned(),
        4 => "(list 1 \"a\")".to_owned(),
        5 => "(dict \"k\" (dict))".to_owned(),
        6 => random
            .pick(&["\"\"", "0", "false", "(list)", "(dict)"])
            .to_string(),
        _ => quoted(TEXTS[random.below(TEXTS.len())]),
    }
}

pub fn list(random: &mut Random) -> String {
    if random.below(5) == 0 {
        return ".l".to_owned();
    }
    let mut out = String::from("(list");
    for _ in 0..random.below(5) {
        out.push(' ');
        out.push_str(&scalar(random));
    }
    out.push(')');
    out
}

pub fn map(random: &mut Random) -> String {
    if random.below(5) == 0 {
        return random
            .pick(&["(deepCopy .m)", "(deepCopy .m.c)"])
            .to_string();
    }
    let keys = [
        "a", "b", "c", "k", "scheme", "host", "path", "query", "userinfo", "x y", "",
    ];
    let mut out = String::from("(dict");
    for _ in 0..random.below(5) {
        out.push_str(&format!(" {} ", quoted(keys[random.below(keys.len())])));
        out.push_str(&scalar(random));
    }
    out.push(')');
    out
}

pub fn time(random: &mut Random) -> String {
    let times: [&str; 6] = [
        "(toDate \"2006-01-02\" \"2024-02-29\")",
        "(toDate \"2006-01-02T15:04:05Z07:00\" \"2024-03-10T01:02:03.5+02:00\")",
        "(toDate \"2006\" \"nope\")",
        "(toDate \"2006-01-02 15:04\" \"1969-07-20 20:17\")",
        "(toDate \"2006-01-02\" \"2030-07-01\")",
        "(toDate \"2006-01-02\" \"9999-12-31\")",
    ];
    random.pick(&times).to_string()
}
