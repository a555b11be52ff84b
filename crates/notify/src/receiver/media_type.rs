//! Media types in the header `Content-Type`.

/// The media type in lower case, as Go's mime package reads it; none when the header is malformed.
pub(super) fn parse(header: &str) -> Option<String> {
    let (kind, mut rest) = match header.find(';') {
        Some(at) => header.split_at(at),
        None => (header, ""),
    };
    let kind = kind.trim().to_ascii_lowercase();
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    let is_kind = match kind.split_once('/') {
        Some((kind, subtype)) => is_token(kind) && is_token(subtype),
        None => is_token(&kind),
    };
    if !is_kind {
        return None;
    }
    while !rest.is_empty() {
        rest = parameter(rest)?;
    }
    Some(kind)
}

/// Behind one parameter: `; name=value`. A semicolon without one may stand at the end.
fn parameter(text: &str) -> Option<&str> {
    let text = text.trim_start().strip_prefix(';')?.trim_start();
    if text.is_empty() {
        return Some("");
    }
    let (name, rest) = token(text);
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    if name.is_empty() {
        return None;
    }
    let rest = match rest.strip_prefix('"') {
        Some(quoted) => behind_quotes(quoted)?,
        None => {
            let (value, rest) = token(rest);
            (!value.is_empty()).then_some(rest)?
        }
    };
    Some(rest.trim_start())
}

fn token(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !is_token_byte(byte));
    text.split_at(end.unwrap_or(text.len()))
}

fn behind_quotes(text: &str) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some(&text[at + 1..]),
            '\\' => {
                chars.next()?;
            }
            '\r' | '\n' => return None,
            _ => {}
        }
    }
    None
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}

/// Whether one of the types that the header lists, up to the first malformed one, is JSON.
pub(super) fn is_json(header: &str) -> bool {
    let listed = header.split(',').map_while(parse);
    listed.into_iter().any(|kind| kind == "application/json")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn media_types_are_read_with_their_parameters() {
        for (header, kind) in [
            ("application/json", Some("application/json")),
            (
                " Application/JSON ; charset=utf-8;",
                Some("application/json"),
            ),
            ("a/b; x=\"y;\\\"z\"; q=1", Some("a/b")),
            ("", None),
            ("a/b/c", None),
            ("a/b; x", None),
            ("a/b; x=\"y", None),
        ] {
            assert_eq!(parse(header).as_deref(), kind, "{header}");
        }
        assert!(is_json("text/plain, application/json"));
        assert!(!is_json("text/plain") && !is_json("") && !is_json("/, application/json"));
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(header in "[a-z/;=\"\\\\ ,]{0,40}") {
            let _ = (parse(&header), is_json(&header));
        }
    }
}
