//! A terminal on which a few lines are drawn again and again.

use std::io::{self, IsTerminal as _, Write};

/// Draws lines over the ones before.
#[derive(Debug, Default)]
pub struct Screen {
    drawn: usize,
}

impl Screen {
    /// A screen, when standard output is a terminal that can draw.
    pub fn of_terminal() -> Option<Self> {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        (io::stdout().is_terminal() && !dumb).then(Screen::default)
    }

    /// How many lines can be drawn over again.
    pub fn room() -> usize {
        size().1.saturating_sub(1).max(1)
    }

    /// Draws lines, cut to the width; where they are too many for the height, the last ones.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let width = size().0;
        let room = Self::room();
        let skipped = lines.len().saturating_sub(room);
        let mut text = self.up();
        for line in &lines[skipped..] {
            text += &cut(line, width);
            text += "\x1b[0m\x1b[K\n";
        }
        text += "\x1b[J";
        self.drawn = lines.len() - skipped;
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn up(&self) -> String {
        match self.drawn {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A\r"),
        }
    }
}

#[cfg(unix)]
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

#[cfg(not(unix))]
fn size() -> (usize, usize) {
    (80, 24)
}

/// The first characters of a line; colours take no room.
fn cut(line: &str, width: usize) -> String {
    let mut out = String::new();
    let mut left = width;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\x1b' {
            out.push(char);
            for inner in chars.by_ref() {
                out.push(inner);
                if inner.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if left > 0 {
            out.push(char);
            left -= 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn colours_take_no_room() {
        assert_eq!(cut("\x1b[32mabc\x1b[0mdef", 4), "\x1b[32mabc\x1b[0md");
    }
}
