//! PEM blocks.

use crate::encoding::{base64_decode, base64_encode};

/// A named block of bytes.
pub(crate) struct Block {
    pub kind: String,
    pub bytes: Vec<u8>,
}

/// Writes a block with lines of 64 characters.
pub(crate) fn encode(kind: &str, bytes: &[u8]) -> String {
    let body = base64_encode(bytes);
    let mut out = format!("-----BEGIN {kind}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(&format!("-----END {kind}-----\n"));
    out
}

/// The first block in a text.
pub(crate) fn decode(text: &[u8]) -> Option<Block> {
    let text = String::from_utf8_lossy(text);
    let mut rest = text.as_ref();
    loop {
        let start = if rest.starts_with("-----BEGIN ") {
            0
        } else {
            rest.find("\n-----BEGIN ")? + 1
        };
        let after = &rest[start + "-----BEGIN ".len()..];
        let line_end = after.find('\n')?;
        let (line, body) = (&after[..line_end], &after[line_end + 1..]);
        if let Some(kind) = line.trim_end().strip_suffix("-----") {
            let closing = format!("-----END {kind}-----");
            let end = if body.starts_with(&closing) {
                Some(0)
            } else {
                body.find(&format!("\n{closing}"))
            };
            if let Some(bytes) = end.and_then(|end| decode_body(&body[..end])) {
                return Some(Block {
                    kind: kind.to_owned(),
                    bytes,
                });
            }
        }
        rest = body;
    }
}

/// Base64 after optional header lines.
fn decode_body(body: &str) -> Option<Vec<u8>> {
    let data: String = body.lines().skip_while(|line| line.contains(':')).collect();
    let data: String = data.chars().filter(|c| !c.is_whitespace()).collect();
    base64_decode(data.as_bytes()).ok()
}
