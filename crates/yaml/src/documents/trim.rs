//! White space at the ends of bytes, as Go's `unicode.IsSpace` sees it.

/// Bytes without the white space before them.
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let Some((c, width)) = first_char(bytes)
        && c.is_whitespace()
    {
        bytes = &bytes[width..];
    }
    bytes
}

/// The first character, unless it is not UTF-8.
pub(super) fn first_char(bytes: &[u8]) -> Option<(char, usize)> {
    let start = &bytes[..bytes.len().min(4)];
    let c = start.utf8_chunks().next()?.valid().chars().next()?;
    Some((c, c.len_utf8()))
}

/// True if there is nothing but white space.
pub(super) fn is_blank(bytes: &[u8]) -> bool {
    trim_start(bytes).is_empty()
}
