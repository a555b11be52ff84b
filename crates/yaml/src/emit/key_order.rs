//! The "natural" order in which both libraries print the keys of Go maps.

use crate::Dialect;

/// Above this many keys Go no longer sorts by plain insertion.
const INSERTION_LIMIT: usize = 12;

/// Sorts entries that come sorted by bytes.
///
/// v2's order is not transitive (`a1b`, `a10b` and `a2b` run in a circle), and Go starts from a
/// random order; starting from the byte order makes the answer one of Go's and always the same.
/// The standard library's sort may panic on such an order, so this is our own.
pub(super) fn sort_by_key<T>(entries: &mut Vec<T>, dialect: Dialect, key: impl Fn(&T) -> &str) {
    sort(entries, |a, b| key_less(key(a), key(b), dialect));
}

/// [`sort_by_key`] with an order of the caller's.
pub(super) fn sort<T>(entries: &mut Vec<T>, less: impl Fn(&T, &T) -> bool) {
    if entries.len() <= INSERTION_LIMIT {
        insertion_sort(entries, less);
    } else if entries.windows(2).any(|pair| less(&pair[1], &pair[0])) {
        merge_sort(entries, less);
    }
}

fn insertion_sort<T>(entries: &mut [T], less: impl Fn(&T, &T) -> bool) {
    for end in 1..entries.len() {
        let mut at = end;
        while at > 0 && less(&entries[at], &entries[at - 1]) {
            entries.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Bottom-up, stable, and content with any answers `less` may give.
fn merge_sort<T>(entries: &mut Vec<T>, less: impl Fn(&T, &T) -> bool) {
    let mut runs: Vec<Vec<T>> = entries.drain(..).map(|entry| vec![entry]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, &less),
                None => left,
            });
        }
        runs = merged;
    }
    entries.extend(runs.into_iter().flatten());
}

fn merge<T>(left: Vec<T>, right: Vec<T>, less: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut out = Vec::with_capacity(left.len() + right.len());
    let mut left = left.into_iter().peekable();
    let mut right = right.into_iter().peekable();
    loop {
        let take_right = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => less(b, a),
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return out,
        };
        out.extend(if take_right {
            right.next()
        } else {
            left.next()
        });
    }
}

/// Letters by code point, digits by value, anything else before letters.
pub(super) fn key_less(a: &str, b: &str, dialect: Dialect) -> bool {
    let common = common_prefix(a, b);
    let (a_rest, b_rest) = (&a[common..], &b[common..]);
    let (Some(a_char), Some(b_char)) = (a_rest.chars().next(), b_rest.chars().next()) else {
        return a_rest.len() < b_rest.len();
    };
    if a_char.is_ascii_lowercase() && b_char.is_ascii_lowercase() {
        return a_char < b_char;
    }
    match (a_char.is_alphabetic(), b_char.is_alphabetic()) {
        (true, true) => a_char < b_char,
        (false, false) => digits_less(&a[..common], a_rest, b_rest),
        (a_is_letter, b_is_letter) => {
            let after_digit =
                dialect == Dialect::Kyaml && a[..common].chars().next_back().is_some_and(is_digit);
            if after_digit {
                a_is_letter
            } else {
                b_is_letter
            }
        }
    }
}

fn common_prefix(a: &str, b: &str) -> usize {
    let mut common = a
        .bytes()
        .zip(b.bytes())
        .take_while(|(a_byte, b_byte)| a_byte == b_byte)
        .count();
    while !a.is_char_boundary(common) || !b.is_char_boundary(common) {
        common -= 1;
    }
    common
}

fn digits_less(before: &str, a: &str, b: &str) -> bool {
    // A zero in the middle of a number counts; a leading one does not.
    let zero_at_difference = a.starts_with('0') || b.starts_with('0');
    let inside_number = zero_at_difference
        && before
            .chars()
            .rev()
            .take_while(|&char| is_digit(char))
            .any(|char| char != '0');
    let start = i64::from(inside_number);
    let (a_value, a_digits) = leading_number(a, start);
    let (b_value, b_digits) = leading_number(b, start);
    if a_value != b_value {
        a_value < b_value
    } else if a_digits != b_digits {
        a_digits < b_digits
    } else {
        a.chars().next() < b.chars().next()
    }
}

fn leading_number(text: &str, start: i64) -> (i64, usize) {
    text.chars()
        .take_while(|&char| is_digit(char))
        .fold((start, 0), |(value, digits), char| {
            let digit = i64::from(u32::from(char)) - i64::from(u32::from('0'));
            (value.wrapping_mul(10).wrapping_add(digit), digits + 1)
        })
}

/// Go's `unicode.IsDigit`: decimal digits of any script. Keys hold ASCII; the others are the
/// blocks people really type.
fn is_digit(char: char) -> bool {
    char.is_ascii_digit()
        || matches!(char,
            '\u{660}'..='\u{669}' | '\u{6F0}'..='\u{6F9}' | '\u{966}'..='\u{96F}'
            | '\u{E50}'..='\u{E59}' | '\u{FF10}'..='\u{FF19}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[&str], dialect: Dialect) -> Vec<String> {
        let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        keys.sort();
        sort_by_key(&mut keys, dialect, |key| key);
        keys
    }

    #[test]
    fn numbers_sort_by_value() {
        assert_eq!(
            sorted(&["a10", "a9", "a1"], Dialect::Sigs),
            ["a1", "a9", "a10"]
        );
    }

    #[test]
    fn circles_end_the_same_way_every_time() {
        assert_eq!(
            sorted(&["a2b", "a10b", "a1b"], Dialect::Sigs),
            ["a10b", "a1b", "a2b"]
        );
        assert_eq!(
            sorted(&["a2b", "a10b", "a1b"], Dialect::Kyaml),
            ["a1b", "a2b", "a10b"]
        );
    }

    #[test]
    fn many_keys() {
        let keys: Vec<String> = (0..500).map(|number| format!("key{number}")).collect();
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(sorted(&names, Dialect::Sigs), keys);
    }
}
