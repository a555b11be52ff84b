//! What others say, and what the machine says, as it is shown.

use std::io;

/// What the machine's error is called in Go.
pub(crate) fn go_words(error: &io::Error) -> String {
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused",
        io::ErrorKind::ConnectionReset => "read: connection reset by peer",
        io::ErrorKind::BrokenPipe => "write: broken pipe",
        io::ErrorKind::TimedOut => "i/o timeout",
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        io::ErrorKind::HostUnreachable => "connect: no route to host",
        io::ErrorKind::UnexpectedEof => "unexpected EOF",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// How much of a server's text is shown.
const SHOWN: usize = 1_024;

/// A text of a server as it may be shown in messages: in one line, cut, without control characters.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for char in text.trim().chars() {
        if shown.len() >= SHOWN {
            shown.push('…');
            break;
        }
        match char {
            '\n' | '\t' => shown.push(' '),
            '\r' => {}
            char if char.is_control() || is_format(char) => shown.push('\u{fffd}'),
            char => shown.push(char),
        }
    }
    shown
}

/// Characters that change how the text around them is shown.
fn is_format(char: char) -> bool {
    matches!(
        char,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_servers_is_cut_and_loses_control_characters() {
        assert_eq!(
            printable(" a\r\nb\tc\x1b[31m\0 "),
            "a b c\u{fffd}[31m\u{fffd}"
        );
        assert_eq!(printable("x\u{202e}y"), "x\u{fffd}y");
        let long = printable(&"ä".repeat(5_000));
        assert!(long.len() <= SHOWN + 4 && long.ends_with('…'));
    }
}
