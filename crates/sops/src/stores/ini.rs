//! Sections of keys with values.

use everflow_limits::Held;

use crate::error::Fault;
use crate::stores::{Loaded, unflatten};
use crate::tree::{Comment, Entry, Tree};

const METADATA: &str = "sops";
/// The section of keys that stand before the first one.
const DEFAULT: &str = "DEFAULT";

/// Reads a file.
pub fn read(content: &[u8]) -> Result<Tree, String> {
    let text = String::from_utf8_lossy(content);
    let mut sections: Vec<(String, Vec<Entry>)> = vec![(DEFAULT.to_owned(), Vec::new())];
    let mut comments: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with(['#', ';']) {
            comments.push(line);
            continue;
        }
        let comment = take_comment(&mut comments);
        if let Some(rest) = line.strip_prefix('[') {
            let end = rest
                .rfind(']')
                .ok_or_else(|| wrong(index, "unclosed section"))?;
            sections.push((rest[..end].to_owned(), comment.into_iter().collect()));
            continue;
        }
        let (key, value) = line
            .split_once(['=', ':'])
            .ok_or_else(|| wrong(index, "key-value delimiter not found"))?;
        let Some((_, entries)) = sections.last_mut() else {
            continue;
        };
        let value = Tree::Text(unquote(value.trim()).to_owned());
        entries.push(Entry::Pair(key.trim().to_owned(), value));
        entries.extend(comment);
    }
    let sections = sections
        .into_iter()
        .map(|(name, entries)| Entry::Pair(name, Tree::Map(entries)));
    Ok(Tree::Map(sections.collect()))
}

fn wrong(index: usize, what: &str) -> String {
    format!(
        "Could not unmarshal input data: {what} in line {}",
        index + 1
    )
}

fn take_comment(comments: &mut Vec<&str>) -> Option<Entry> {
    let joined = std::mem::take(comments).join("\n");
    let text = match joined.chars().next()? {
        ';' => joined.trim_start_matches([';', ' ']),
        _ => joined.trim_start_matches(['#', ' ']),
    };
    Some(Entry::Comment(Comment {
        text: text.to_owned(),
        inline: false,
    }))
}

fn unquote(value: &str) -> &str {
    for quote in ["\"\"\"", "\"", "'", "`"] {
        let inner = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    value
}

/// Takes the metadata out: it is a section with flat keys.
pub fn split_metadata(document: Tree, held: &mut Held<'_>) -> Result<Loaded, Fault> {
    let Tree::Map(entries) = document else {
        return Err("sops metadata not found".into());
    };
    let mut metadata = None;
    let mut rest = Vec::new();
    for entry in entries {
        match entry {
            Entry::Pair(name, Tree::Map(keys)) if name == METADATA => metadata = Some(keys),
            other => rest.push(other),
        }
    }
    let pairs = metadata.ok_or("sops metadata not found")?.into_iter();
    let pairs = pairs.filter_map(|entry| match entry {
        Entry::Pair(key, Tree::Text(text)) => Some((key, Tree::Text(text.replace("\\n", "\n")))),
        Entry::Pair(key, value) => Some((key, value)),
        Entry::Comment(_) => None,
    });
    Ok(Loaded {
        metadata: unflatten(pairs.collect(), held)?,
        documents: vec![Tree::Map(rest)],
    })
}

/// What a document takes when it is written: a long key widens all others of its section.
pub fn printed(document: &Tree) -> usize {
    let Tree::Map(sections) = document else {
        return 0;
    };
    let padding = |section: &Entry| match section {
        Entry::Pair(_, Tree::Map(keys)) => keys.len() * widest(keys),
        _ => 0,
    };
    document.printed() + sections.iter().map(padding).sum::<usize>()
}

/// How many letters the longest key has.
fn widest(keys: &[Entry]) -> usize {
    let length = |entry: &Entry| match entry {
        Entry::Pair(key, _) => key.chars().count(),
        Entry::Comment(_) => 0,
    };
    keys.iter().map(length).max().unwrap_or(0)
}

/// Writes a file as go-ini does: equal signs of a section in one column.
pub fn write(document: &Tree) -> Result<Vec<u8>, String> {
    let Tree::Map(sections) = document else {
        return Err("an INI file is a map of sections".to_owned());
    };
    let mut out = String::new();
    let mut is_first = true;
    for section in sections {
        let Entry::Pair(name, keys) = section else {
            continue;
        };
        let Tree::Map(keys) = keys else {
            return Err(
                "Error encoding section: Section values should always be TreeBranches".to_owned(),
            );
        };
        write_section(name, keys, is_first, &mut out)?;
        is_first = false;
    }
    Ok(out.into_bytes())
}

fn write_section(
    name: &str,
    keys: &[Entry],
    is_first: bool,
    out: &mut String,
) -> Result<(), String> {
    let mut pairs = keys.iter().filter(|entry| matches!(entry, Entry::Pair(..)));
    if !out.is_empty() {
        out.push('\n');
    }
    if is_first && name == DEFAULT {
        if pairs.next().is_none() {
            return Ok(());
        }
    } else {
        if let Some(Entry::Comment(comment)) = keys.first() {
            put_comment(&comment.text, out);
        }
        out.push_str(&format!("[{name}]\n"));
    }
    let widest = widest(keys);
    for (index, entry) in keys.iter().enumerate() {
        let Entry::Pair(key, value) = entry else {
            continue;
        };
        if let Some(Entry::Comment(comment)) = keys.get(index + 1) {
            put_comment(&comment.text, out);
        }
        let value = value
            .scalar()
            .ok_or_else(|| format!("Error encoding key: {key} is no single value"))?;
        let padding = " ".repeat(widest - key.chars().count());
        out.push_str(&format!("{key}{padding} = {}\n", quote(&value)));
    }
    Ok(())
}

fn put_comment(text: &str, out: &mut String) {
    for line in text.lines() {
        match line.split_at_checked(1) {
            Some((mark @ ("#" | ";"), rest)) => {
                out.push_str(&format!("{mark} {}\n", rest.trim()));
            }
            _ => out.push_str(&format!("; {line}\n")),
        }
    }
}

fn quote(value: &str) -> String {
    if value.contains(['\n', '`']) {
        format!("\"\"\"{value}\"\"\"")
    } else if value.contains(['#', ';']) {
        format!("`{value}`")
    } else if value.trim() != value {
        format!("\"{value}\"")
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_and_comments() {
        let text = b"; top\n[db]\nuser = admin\n# secret\npassword = a;b\n\n[empty]\n";
        let written = write(&read(text).unwrap()).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "; top\n[db]\nuser     = admin\n; secret\npassword = `a;b`\n\n[empty]\n"
        );
        assert!(read(b"nothing").is_err());
    }
}
