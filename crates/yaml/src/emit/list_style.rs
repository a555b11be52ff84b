//! How a text indents its lists, so that it can be written back the same way.

use super::Indent;

/// The style of the first list under a key, as kyaml's reader finds it when it is asked to keep
/// the style of a file; [`Indent::Compact`] when there is none to go by.
pub fn list_indent_of(text: &str) -> Indent {
    let lines: Vec<&str> = text.split('\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, _)) = line.split_once("- ") else {
            continue;
        };
        if before.bytes().any(|byte| byte != b' ') {
            continue;
        }
        let Some(key_line) = key_line_before(&lines[..index]) else {
            continue;
        };
        let trimmed = key_line.trim_matches(' ');
        // Anything but `key:` means that the dash stands in a text of several lines.
        if !trimmed.ends_with(':') || trimmed.matches(':').count() != 1 {
            continue;
        }
        let key_indent = key_line.len() - key_line.trim_start_matches(' ').len();
        if before.len() == key_indent {
            return Indent::Compact;
        }
        if before.len() == key_indent + 2 {
            return Indent::Wide;
        }
    }
    Indent::Compact
}

/// The nearest line above that is no comment, without its trailing comment.
fn key_line_before<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let line = lines
        .iter()
        .rev()
        .find(|line| !line.trim_matches(' ').starts_with('#'))?;
    let key_line = line.split('#').next().unwrap_or_default();
    (!key_line.is_empty()).then_some(key_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_list_decides() {
        assert_eq!(list_indent_of("a:\n- b\nc:\n  - d\n"), Indent::Compact);
        assert_eq!(list_indent_of("a:\n  - b\nc:\n- d\n"), Indent::Wide);
        assert_eq!(list_indent_of("a: # note\n  # more\n  - b\n"), Indent::Wide);
    }

    #[test]
    fn without_a_list_it_is_compact() {
        assert_eq!(list_indent_of(""), Indent::Compact);
        assert_eq!(list_indent_of("a: b\n"), Indent::Compact);
        assert_eq!(list_indent_of("- a\n"), Indent::Compact);
        assert_eq!(list_indent_of("a: |\n  x: y\n  - b\n"), Indent::Compact);
    }
}
