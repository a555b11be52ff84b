//! Slash-separated paths.

/// The shortest path that means the same.
pub(crate) fn clean(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(&last) if last != b".." => drop(parts.pop()),
                _ if rooted => {}
                _ => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/".as_slice(), &joined].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

/// The last element.
pub(crate) fn base(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    let end = path
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(0, |last| last + 1);
    let trimmed = &path[..end];
    let name = match trimmed.iter().rposition(|&b| b == b'/') {
        Some(slash) => &trimmed[slash + 1..],
        None => trimmed,
    };
    if name.is_empty() {
        b"/".to_vec()
    } else {
        name.to_vec()
    }
}

/// All but the last element, cleaned.
pub(crate) fn dir(path: &[u8]) -> Vec<u8> {
    let end = path
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |slash| slash + 1);
    clean(&path[..end])
}

/// The suffix of the last element from its last dot on.
pub(crate) fn extension(path: &[u8]) -> Vec<u8> {
    for (index, &byte) in path.iter().enumerate().rev() {
        match byte {
            b'/' => break,
            b'.' => return path[index..].to_vec(),
            _ => {}
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        for (path, cleaned) in [
            ("a//b/../c/.", "a/c"),
            ("/../a", "/a"),
            ("../../a", "../../a"),
            ("a/..", "."),
            ("//", "/"),
        ] {
            assert_eq!(text(clean(path.as_bytes())), cleaned);
        }
        assert_eq!(text(base(b"/a/b/")), "b");
        assert_eq!(text(base(b"///")), "/");
        assert_eq!(text(dir(b"a/b")), "a");
        assert_eq!(text(dir(b"a")), ".");
        assert_eq!(text(extension(b"a.b/c.tar.gz")), ".gz");
        assert_eq!(text(extension(b"a.b/c")), "");
    }
}
