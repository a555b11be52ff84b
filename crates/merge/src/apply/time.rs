//! Times of ownership entries, in whole seconds.

/// The seconds since 1970 of an RFC 3339 time; none when the text is no such time.
pub(crate) fn unix_seconds(text: &str) -> Option<i64> {
    everflow_time::Timestamp::parse(text).map(|moment| moment.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(unix_seconds("2026-11-15T12:00:00Z"), Some(1_794_744_000));
        assert_eq!(
            unix_seconds("2024-02-29T23:59:59.5+01:00"),
            Some(1_709_247_599)
        );
        assert_eq!(unix_seconds("1969-12-31T23:59:59Z"), Some(-1));
        for bad in [
            "",
            "2026",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00",
            "x026-01-01T00:00:00Z",
        ] {
            assert_eq!(unix_seconds(bad), None, "{bad}");
        }
    }
}
