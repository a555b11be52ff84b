//! Lines of the form `NAME=value`.

use everflow_limits::Held;

use crate::error::Fault;
use crate::stores::{Loaded, unflatten};
use crate::tree::{Comment, Entry, Tree};

const PREFIX: &str = "sops_";

/// Reads a file.
pub fn read(content: &[u8]) -> Result<Tree, String> {
    let mut entries = Vec::new();
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        if line.is_empty() {
            continue;
        }
        if let Some(text) = line.strip_prefix('#') {
            entries.push(Entry::Comment(Comment {
                text: text.to_owned(),
                inline: false,
            }));
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| format!("invalid dotenv input line: line {} has no '='", index + 1))?;
        let value = Tree::Text(value.replace("\\n", "\n"));
        entries.push(Entry::Pair(key.to_owned(), value));
    }
    Ok(Tree::Map(entries))
}

/// Takes the metadata out: it is in keys of its own.
pub fn split_metadata(document: Tree, held: &mut Held<'_>) -> Result<Loaded, Fault> {
    let Tree::Map(entries) = document else {
        return Err("sops metadata not found".into());
    };
    let mut rest = Vec::new();
    let mut metadata = Vec::new();
    for entry in entries {
        match entry {
            Entry::Pair(key, value) => match key.strip_prefix(PREFIX) {
                Some(key) => metadata.push((key.to_owned(), value)),
                None => rest.push(Entry::Pair(key, value)),
            },
            comment => rest.push(comment),
        }
    }
    if metadata.is_empty() {
        return Err("sops metadata not found".into());
    }
    Ok(Loaded {
        documents: vec![Tree::Map(rest)],
        metadata: unflatten(metadata, held)?,
    })
}

/// Writes a file.
pub fn write(document: &Tree) -> Result<Vec<u8>, String> {
    let Tree::Map(entries) = document else {
        return Err("a dotenv file is a map".to_owned());
    };
    let mut out = Vec::new();
    for entry in entries {
        match entry {
            Entry::Comment(comment) => {
                out.push(b'#');
                out.extend_from_slice(comment.text.as_bytes());
            }
            Entry::Pair(key, value) => {
                out.extend_from_slice(key.as_bytes());
                out.push(b'=');
                match value {
                    Tree::Bytes(bytes) => out.extend_from_slice(bytes),
                    value => {
                        let text = value.scalar().ok_or_else(|| {
                            format!("cannot use complex value in dotenv file; offending key {key}")
                        })?;
                        out.extend_from_slice(text.replace('\n', "\\n").as_bytes());
                    }
                }
            }
        }
        out.push(b'\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_comments_and_breaks() {
        let text = b"# about\nA=1\nB=two\\nlines=x\n\nC=\n";
        assert_eq!(
            write(&read(text).unwrap()).unwrap(),
            b"# about\nA=1\nB=two\\nlines=x\nC=\n"
        );
        assert!(read(b"nothing").is_err());
    }
}
