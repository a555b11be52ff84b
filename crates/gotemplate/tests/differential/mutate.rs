//! Breaks templates a little.

use crate::Random;

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    " -}}",
    "{{- ",
    "/*",
    "*/",
    "(",
    ")",
    "|",
    "$",
    "$x",
    ".",
    "..",
    ":=",
    "=",
    ",",
    "\"",
    "`",
    "'",
    "\\",
    "nil",
    "end",
    "else",
    "if ",
    "range ",
    "with ",
    "define ",
    "template ",
    "block ",
    "break",
    "continue",
    "\n",
    "\t",
    " ",
    "é",
    "\u{0}",
    "\u{200b}",
    "1",
    "i",
    "e",
    "0x",
    "_",
    "!",
    "@",
    ":",
    "}",
    "{",
    "{{end}}",
    "{{else}}",
    "{{define \"d\"}}",
    "{{define \"main\"}}",
    "{{/* */}}",
    "{{break}}",
    "{{$x := 1}}",
    "{{nil}}",
    "{{.}}",
];

/// Breaks a template a little.
pub fn mutate(random: &mut Random, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 if at < bytes.len() => {
                bytes.remove(at);
            }
            1 => {
                let end = (at + random.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let end = (at + random.below(20)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 if random.below(8) == 0 => {
                let byte = random.below(256) as u8;
                bytes.insert(at, byte);
            }
            _ => {
                let piece = random.pick(PIECES).as_bytes().to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}
