//! Texts with variables, and values that are texts with variables.

use std::borrow::Cow;

use everflow_corpus::hostile::{Reader, texts};
use everflow_envsubst::substitute;
use everflow_limits::{Budget, Stop};

/// All of them.
pub const ALL: &[Reader] = &[Reader::new("substitute", substituted, seeds)
    .tokens(TOKENS)
    .cases(600)];

const TOKENS: &[&str] = &[
    "$",
    "${",
    "${a",
    "${a}",
    "${a:-",
    "${a:=",
    "${a//",
    "${a/#",
    "${a/%",
    "${a^^}",
    "${a,,}",
    "${#a}",
    "${a:1:2}",
    "${a##*",
    "${a%%*",
    "}",
    "$$",
    "$${a}",
    "${b//x/${a}}",
    "${no:-",
    "*",
    "?",
];

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "a: ${a}\nb: ${b:-none}\nc: ${c:=x}\nd: $${kept}\n",
        "${a/x/y} ${a//x/yy} ${a:1:2} ${#a} ${a^^} ${a,} ${a##*x} ${a%%x*}\n",
        "${a:-${b:-${a}}}",
    ])
}

fn substituted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| match name {
        "a" => Some(Cow::from("xaxbxc")),
        "b" => Some(Cow::from("x".repeat(5_000))),
        _ => None,
    };
    let budget = Budget::new(Stop::new(), 8 << 20);
    substitute(&text, &value, &budget).is_ok()
}
