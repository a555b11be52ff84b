//! What was tried, as SOPS reports it.

/// What became of one recipient.
pub struct Attempt {
    pub recipient: String,
    pub problem: String,
}

/// What became of the groups: `None` for one that worked.
pub fn render(groups: &[Option<Vec<Attempt>>], threshold: usize) -> String {
    let mut out = "Failed to get the data key required to decrypt the SOPS file.".to_owned();
    for (index, group) in groups.iter().enumerate() {
        let Some(attempts) = group else {
            out.push_str(&format!("\n\nGroup {index}: SUCCESS"));
            continue;
        };
        out.push_str(&format!("\n\nGroup {index}: FAILED\n"));
        let attempts = attempts.iter().map(attempt).collect::<Vec<_>>();
        out.push_str(&indent(&attempts.join("\n\n"), "  "));
    }
    let worked = groups.iter().filter(|group| group.is_none()).count();
    let trailer = match threshold {
        0 => "Recovery failed because no master key was able to decrypt the file. In order for \
              SOPS to recover the file, at least one key has to be successful, but none were."
            .to_owned(),
        threshold => format!(
            "Recovery failed because the file was encrypted with a Shamir threshold of {threshold}, \
             but only {worked} part(s) were successfully recovered, one for each successful key \
             group. In order for SOPS to recover the file, at least {threshold} groups have to be \
             successful. In order for a group to be successful, decryption has to succeed with any \
             of the keys in that key group."
        ),
    };
    out.push_str("\n\n");
    out.push_str(&wrap(&trailer, 75));
    out
}

fn attempt(attempt: &Attempt) -> String {
    let mut problem = indent(&wrap(&attempt.problem, 60), "  | ");
    problem.replace_range(..1, "-");
    // The dash stands where the first of the two blanks was.
    format!("{}: FAILED\n{}", attempt.recipient, indent(&problem, "  "))
}

fn indent(text: &str, prefix: &str) -> String {
    let lines = text.lines().map(|line| format!("{prefix}{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Breaks a text between words so that lines have at most so many characters.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let length = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && length > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}
