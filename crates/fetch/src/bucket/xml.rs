//! A small reader of XML: elements and their text, within bounds, and nothing that expands.

/// What a document consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// An element begins.
    Start(&'a str),
    /// An element ends; the text is what stood directly in it.
    End(&'a str, String),
}

const DEEPEST: usize = 32;

/// Reads a document. The error says what is wrong with it.
pub(crate) fn read(
    document: &str,
    visit: &mut dyn FnMut(Event<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = document.trim_start_matches('\u{feff}');
    let mut open: Vec<(&str, String)> = Vec::new();
    let mut seen = false;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        put_text(&mut open, text)?;
        let end = |mark: &str| {
            let found = tag
                .find(mark)
                .map(|at| (&tag[..at], &tag[at + mark.len()..]));
            found.ok_or_else(|| "unexpected EOF".to_owned())
        };
        if let Some(inner) = tag.strip_prefix("<![CDATA[") {
            let (text, after) = inner.split_once("]]>").ok_or("unexpected EOF")?;
            match open.last_mut() {
                Some((_, own)) => own.push_str(text),
                None => return Err("text outside of the root element".to_owned()),
            }
            rest = after;
        } else if tag.starts_with("<!--") {
            rest = end("-->")?.1;
        } else if tag.starts_with("<?") {
            rest = end("?>")?.1;
        } else if tag.starts_with("<!") {
            return Err("declarations of documents are not allowed".to_owned());
        } else if let Some(inner) = tag.strip_prefix("</") {
            let (name, after) = inner.split_once('>').ok_or("unexpected EOF")?;
            let name = local(name.trim_end());
            match open.pop() {
                Some((own, text)) if own == name => visit(Event::End(own, text))?,
                Some((own, _)) => {
                    return Err(format!("element <{own}> closed by </{name}>"));
                }
                None => return Err(format!("unexpected end element </{name}>")),
            }
            rest = after;
        } else {
            let (inner, after) = tag_end(&tag[1..])?;
            let (inner, closed) = match inner.strip_suffix('/') {
                Some(inner) => (inner, true),
                None => (inner, false),
            };
            let name = inner
                .split(|char: char| char.is_ascii_whitespace())
                .next()
                .unwrap_or_default();
            let name = local(name);
            if name.is_empty() || name.contains(['<', '&', '"', '\'', '=']) {
                return Err("expected element name after <".to_owned());
            }
            if open.is_empty() && seen {
                return Err("more than one root element".to_owned());
            }
            if open.len() >= DEEPEST {
                return Err(format!("elements nest deeper than {DEEPEST}"));
            }
            seen = true;
            visit(Event::Start(name))?;
            match closed {
                true => visit(Event::End(name, String::new()))?,
                false => open.push((name, String::new())),
            }
            rest = after;
        }
    }
    put_text(&mut open, rest)?;
    match (open.last(), seen) {
        (None, true) => Ok(()),
        _ => Err("unexpected EOF".to_owned()),
    }
}

/// A tag ends at the first `>` that does not stand in quotes.
fn tag_end(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (None, '>') => return Ok((&text[..at], &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    Err("unexpected EOF".to_owned())
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or_default()
}

fn put_text(open: &mut [(&str, String)], text: &str) -> Result<(), String> {
    let Some((_, own)) = open.last_mut() else {
        return match text.trim().is_empty() {
            true => Ok(()),
            false => Err("text outside of the root element".to_owned()),
        };
    };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        own.push_str(before);
        let (name, after) = after
            .split_once(';')
            .filter(|(name, _)| name.len() <= 10)
            .ok_or("invalid character entity & (no semicolon)")?;
        own.push(entity(name).ok_or_else(|| format!("invalid character entity &{name};"))?);
        rest = after;
    }
    own.push_str(rest);
    Ok(())
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|char| *char != '\0')?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(document: &str) -> Result<String, String> {
        let mut told = String::new();
        read(document, &mut |event| {
            match event {
                Event::Start(name) => told.push_str(&format!("<{name} ")),
                Event::End(name, text) => told.push_str(&format!("{text:?} {name}>")),
            }
            Ok(())
        })?;
        Ok(told)
    }

    #[test]
    fn documents_are_read() {
        let document = "<?xml version=\"1.0\"?>\n<!-- x --><s:R a=\"x>y\"><K>a&amp;b&#x41;</K><E/><C><![CDATA[<&]]></C></s:R>";
        assert_eq!(
            told(document).unwrap(),
            "<R <K \"a&bA\" K><E \"\" E><C \"<&\" C>\"\" R>"
        );
    }

    #[test]
    fn garbage_is_named() {
        for (document, words) in [
            ("", "unexpected EOF"),
            ("plain text", "text outside of the root element"),
            ("<a>", "unexpected EOF"),
            ("<a><b></a>", "element <b> closed by </a>"),
            ("</a>", "unexpected end element </a>"),
            ("<a/><b/>", "more than one root element"),
            ("<a>&lol;</a>", "invalid character entity &lol;"),
            ("<a>&amp</a>", "invalid character entity & (no semicolon)"),
            (
                "<!DOCTYPE x [<!ENTITY a \"b\">]><a/>",
                "declarations of documents are not allowed",
            ),
            ("<a b=\"", "unexpected EOF"),
            ("< a/>", "expected element name after <"),
        ] {
            assert_eq!(told(document).unwrap_err(), words, "{document}");
        }
        let deep = "<a>".repeat(40);
        assert_eq!(told(&deep).unwrap_err(), "elements nest deeper than 32");
    }
}
