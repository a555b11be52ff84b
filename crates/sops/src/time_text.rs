//! Moments as YAML writes them.

/// The moment in the form that Go prints: RFC 3339 without needless fractions. `None` when the text
/// is none of the forms that YAML knows.
pub fn normal_form(text: &str) -> Option<String> {
    let date = text.get(..10).filter(|date| is_date(date));
    let Some(date) = date else {
        return loose_date(text).map(|date| format!("{date}T00:00:00Z"));
    };
    let rest = &text[10..];
    if rest.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let clock = rest.trim_start_matches(['T', 't', ' ', '\t']);
    if clock.len() == rest.len() {
        return None;
    }
    let end = clock
        .find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'))
        .unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(end);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':').map(|part| part.parse::<u8>().ok());
    let hour = parts.next()??;
    let minute = parts.next()??;
    let second = parts.next()??;
    let fraction = match fraction.trim_end_matches('0') {
        "" => String::new(),
        digits => format!(".{digits}"),
    };
    let zone = zone_of(zone.trim())?;
    Some(format!(
        "{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    ))
}

fn is_date(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    })
}

/// `2001-1-5`.
fn loose_date(text: &str) -> Option<String> {
    let mut parts = text.split('-').map(|part| part.parse::<u16>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    parts
        .next()
        .is_none()
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn zone_of(zone: &str) -> Option<String> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some("Z".to_owned());
    }
    let sign = zone.chars().next().filter(|c| *c == '+' || *c == '-')?;
    let (hours, minutes) = match zone[1..].split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if zone.len() == 5 => (zone.get(1..3)?, zone.get(3..)?),
        None => (&zone[1..], "0"),
    };
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(match (hours, minutes) {
        (0, 0) => "Z".to_owned(),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_yaml() {
        for (text, expected) in [
            ("2001-12-14", "2001-12-14T00:00:00Z"),
            ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
            (
                "2001-12-14t21:59:43.10-05:00",
                "2001-12-14T21:59:43.1-05:00",
            ),
            ("2001-12-14 21:59:43.10 -5", "2001-12-14T21:59:43.1-05:00"),
            ("2001-12-15 2:59:43.10", "2001-12-15T02:59:43.1Z"),
            ("2001-1-5", "2001-01-05T00:00:00Z"),
        ] {
            assert_eq!(normal_form(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(normal_form("tomorrow"), None);
    }
}
