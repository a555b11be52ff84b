//! The readers of durations and moments.

use everflow_corpus::hostile::{Reader, texts};
use everflow_time::{Calendar, Duration, Timestamp};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("duration", duration, || {
        texts(&[
            "1h30m",
            "-2ms",
            "1.5s",
            "+0.5us",
            "2562047h47m16.854775807s",
            "0",
        ])
    })
    .tokens(&["h", "1m", ".5", "9999999999", "µs", "-"]),
    Reader::new("timestamp", timestamp, || {
        texts(&[
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.123456789+05:30",
            "0001-01-01T00:00:00Z",
        ])
    })
    .tokens(&["T", ":", ".999999999", "-23:59", "9999-12-31", "0000"]),
];

fn duration(bytes: &[u8]) -> bool {
    let Ok(duration) = Duration::parse(&String::from_utf8_lossy(bytes)) else {
        return false;
    };
    assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
    let _ = duration.unsigned();
    true
}

fn timestamp(bytes: &[u8]) -> bool {
    let Some(moment) = Timestamp::parse(&String::from_utf8_lossy(bytes)) else {
        return false;
    };
    let _ = (moment.rfc3339(), moment.rfc3339_micro());
    let _ = moment.since(Timestamp::from_seconds(0));
    let calendar = Calendar::from_unix(moment.seconds, 0);
    assert_eq!(calendar.unix(), moment.seconds);
    true
}
