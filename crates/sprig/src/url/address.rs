//! What is wrong with an IPv6 address, in the words of Go's `net/netip`.

/// A complaint and the part of the address it is about.
type Complaint<'a> = (&'static str, Option<&'a [u8]>);

const GROUPS: usize = 8;

/// The complaint about an address that cannot be read, zone and all.
pub(super) fn complaint(address: &[u8]) -> String {
    let mark = address.iter().find(|b| b".:%".contains(b));
    let (what, at) = match mark {
        Some(b':') => check_v6(address)
            .err()
            .unwrap_or(("unable to parse IP", None)),
        Some(b'%') => ("missing IPv6 address", None),
        _ => ("unable to parse IP", None),
    };
    match at {
        Some(at) => format!("{what} (at {})", everflow_gotemplate::gofmt::quote(at)),
        None => what.to_owned(),
    }
}

fn check_v6(address: &[u8]) -> Result<(), Complaint<'_>> {
    let mut rest = match address.iter().position(|&b| b == b'%') {
        Some(at) if at + 1 == address.len() => {
            return Err(("zone must be a non-empty string", None));
        }
        Some(at) => &address[..at],
        None => address,
    };
    let mut groups = 0;
    let mut gap = false;
    if let Some(tail) = rest.strip_prefix(b"::") {
        gap = true;
        rest = tail;
    }
    while groups < GROUPS && !rest.is_empty() {
        let digits = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if digits == 0 {
            let what = "each colon-separated field must have at least one digit";
            return Err((what, Some(rest)));
        }
        if digits > 4 {
            return Err(("each group must have 4 or fewer digits", Some(rest)));
        }
        if rest.get(digits) == Some(&b'.') {
            return check_embedded(rest, groups, gap);
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(tail) = rest.strip_prefix(b":") else {
            return Err(("unexpected character, want colon", Some(rest)));
        };
        if tail.is_empty() {
            return Err(("colon must be followed by more characters", Some(rest)));
        }
        rest = tail;
        if let Some(tail) = rest.strip_prefix(b":") {
            if gap {
                return Err(("multiple :: in address", Some(rest)));
            }
            gap = true;
            rest = tail;
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", Some(rest)));
    }
    match (groups < GROUPS, gap) {
        (true, false) => Err(("address string too short", None)),
        (false, true) => Err(("the :: must expand to at least one field of zeros", None)),
        _ => Ok(()),
    }
}

/// An IPv4 address as the last two groups.
fn check_embedded(rest: &[u8], groups: usize, gap: bool) -> Result<(), Complaint<'_>> {
    if !gap && groups != GROUPS - 2 {
        let what = "embedded IPv4 address must replace the final 2 fields of the address";
        return Err((what, Some(rest)));
    }
    if groups + 2 > GROUPS {
        let what = "too many hex fields to fit an embedded IPv4 at the end of the address";
        return Err((what, Some(rest)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn error_messages_match_go() {
        for (address, wanted) in [
            (
                ":1",
                "each colon-separated field must have at least one digit (at \":1\")",
            ),
            ("1:2", "address string too short"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("x", "unable to parse IP"),
            (
                "12345::",
                "each group must have 4 or fewer digits (at \"12345::\")",
            ),
        ] {
            assert_eq!(complaint(address.as_bytes()), wanted);
        }
    }
}
