//! Shell patterns as Go's `filepath.Match` reads them.

/// The pattern cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Whether the whole of `name` matches `pattern`: `*` and `?` do not match `/`, `[a-z]` and
/// `[^a-z]` are classes, a backslash takes the next character as it is.
pub fn path_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    match_from(&pattern, &name)
}

fn match_from(mut pattern: &[char], mut name: &[char]) -> Result<bool, BadPattern> {
    while !pattern.is_empty() {
        let stars = pattern.iter().take_while(|c| **c == '*').count();
        pattern = &pattern[stars..];
        let (chunk, rest) = pattern.split_at(chunk_length(pattern));
        pattern = rest;
        if stars > 0 && chunk.is_empty() {
            return Ok(!name.contains(&'/'));
        }
        match match_chunk(chunk, name)? {
            // With more pattern to come any rest will do; at its end the name must be used up.
            Some(left) if left.is_empty() || !pattern.is_empty() => {
                name = left;
                continue;
            }
            _ => {}
        }
        match stars > 0 {
            true => match skip_to_chunk(chunk, name, pattern.is_empty())? {
                Some(left) => name = left,
                None => return check_rest(pattern),
            },
            false => return check_rest(pattern),
        }
    }
    Ok(name.is_empty())
}

/// After a star: the first later place where the chunk matches.
fn skip_to_chunk<'n>(
    chunk: &[char],
    name: &'n [char],
    last: bool,
) -> Result<Option<&'n [char]>, BadPattern> {
    for start in 0..name.len() {
        if name[start] == '/' {
            return Ok(None);
        }
        match match_chunk(chunk, &name[start + 1..])? {
            Some(left) if left.is_empty() || !last => return Ok(Some(left)),
            _ => {}
        }
    }
    Ok(None)
}

/// A name that does not match still reports a pattern that cannot be read.
fn check_rest(mut pattern: &[char]) -> Result<bool, BadPattern> {
    while !pattern.is_empty() {
        let stars = pattern.iter().take_while(|c| **c == '*').count();
        pattern = &pattern[stars..];
        let (chunk, rest) = pattern.split_at(chunk_length(pattern));
        match_chunk(chunk, &[])?;
        pattern = rest;
    }
    Ok(false)
}

/// Up to the next star that is not in a class.
fn chunk_length(pattern: &[char]) -> usize {
    let mut in_class = false;
    let mut index = 0;
    while index < pattern.len() {
        match pattern[index] {
            '\\' => index += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '*' if !in_class => return index,
            _ => {}
        }
        index += 1;
    }
    pattern.len()
}

/// Matches a chunk without stars at the start of `name`; gives what is left of the name.
fn match_chunk<'n>(
    mut chunk: &[char],
    mut name: &'n [char],
) -> Result<Option<&'n [char]>, BadPattern> {
    // After a failure the rest is only checked for its form.
    let mut failed = false;
    while let Some((first, rest)) = chunk.split_first() {
        failed = failed || name.is_empty();
        match first {
            '[' => {
                let (matches, after) = match_class(rest, name.first().copied(), failed)?;
                if !failed {
                    name = &name[1..];
                    failed = !matches;
                }
                chunk = after;
                continue;
            }
            '?' => {
                if !failed {
                    failed = name[0] == '/';
                    name = &name[1..];
                }
            }
            _ => {
                let (literal, after) = match (first, rest.split_first()) {
                    ('\\', None) => return Err(BadPattern),
                    ('\\', Some((escaped, after))) => (escaped, after),
                    _ => (first, rest),
                };
                if !failed {
                    failed = name[0] != *literal;
                    name = &name[1..];
                }
                chunk = after;
                continue;
            }
        }
        chunk = rest;
    }
    Ok((!failed).then_some(name))
}

fn match_class(
    mut pattern: &[char],
    found: Option<char>,
    failed: bool,
) -> Result<(bool, &[char]), BadPattern> {
    let negated = pattern.first() == Some(&'^');
    if negated {
        pattern = &pattern[1..];
    }
    let mut matches = false;
    let mut ranges = 0;
    loop {
        if ranges > 0 && pattern.first() == Some(&']') {
            pattern = &pattern[1..];
            break;
        }
        let (low, after) = class_character(pattern)?;
        pattern = after;
        let mut high = low;
        if pattern.first() == Some(&'-') {
            let (end, after) = class_character(&pattern[1..])?;
            high = end;
            pattern = after;
        }
        matches |= !failed && found.is_some_and(|c| low <= c && c <= high);
        ranges += 1;
    }
    Ok((matches != negated, pattern))
}

fn class_character(pattern: &[char]) -> Result<(char, &[char]), BadPattern> {
    let (found, rest) = match pattern {
        [] | ['-' | ']', ..] | ['\\'] => return Err(BadPattern),
        ['\\', escaped, rest @ ..] => (*escaped, rest),
        [found, rest @ ..] => (*found, rest),
    };
    if rest.is_empty() {
        return Err(BadPattern);
    }
    Ok((found, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_go_path_match() {
        let cases: &[(&str, &str, Result<bool, BadPattern>)] = &[
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "a", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "abc/b", Ok(true)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", Ok(false)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Ok(false)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[^c]", "abc", Ok(false)),
            ("ab[^b-d]", "abe", Ok(true)),
            ("a\\*b", "a*b", Ok(true)),
            ("a\\*b", "ab", Ok(false)),
            ("a?b", "a/b", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[\\-x]", "-", Ok(true)),
            ("[]a]", "]", Err(BadPattern)),
            ("[-]", "-", Err(BadPattern)),
            ("[x-]", "x", Err(BadPattern)),
            ("a[", "a", Err(BadPattern)),
            ("a[", "ab", Err(BadPattern)),
            ("[", "a", Err(BadPattern)),
            ("*x", "xxx", Ok(true)),
            ("templates/.?*", "templates/.keep", Ok(true)),
            ("templates/.?*", "templates/a", Ok(false)),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(path_match(pattern, name), *want, "{pattern} on {name}");
        }
    }
}
