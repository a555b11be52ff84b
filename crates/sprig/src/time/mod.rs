//! Go's `time`: instants, durations, zones, layouts.

mod civil;
mod duration;
mod layout;
mod parse;
mod zone;

pub(crate) use civil::Civil;
pub use duration::Duration;
pub(crate) use layout::{MONTHS, WEEKDAYS};
pub(crate) use zone::{Zone, load_zone};

/// An instant in a zone: Go's `time.Time`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970, UTC.
    pub(crate) seconds: i64,
    /// Nanoseconds within the second.
    pub(crate) nanos: u32,
    pub(crate) zone: Zone,
    /// Nanoseconds since the start of the process, for an instant that was read off the clock.
    pub(crate) monotonic: Option<i64>,
}

/// Seconds from the first of January of year 1 to 1970.
const YEAR_ONE: i64 = -62_135_596_800;

impl Time {
    /// An instant from Unix seconds and nanoseconds, in UTC.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self {
            seconds,
            nanos,
            zone: Zone::utc(),
            monotonic: None,
        }
    }

    /// The zero time: the first of January of year 1.
    pub fn zero() -> Self {
        Self::from_unix(YEAR_ONE, 0)
    }

    /// Seconds since 1970.
    pub fn unix(&self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub fn subsecond_nanos(&self) -> u32 {
        self.nanos
    }

    /// Whether this is [`Time::zero`].
    pub(crate) fn is_zero(&self) -> bool {
        self.seconds == YEAR_ONE && self.nanos == 0
    }

    /// The same instant in another zone.
    pub(crate) fn in_zone(&self, zone: Zone) -> Self {
        Self {
            zone,
            monotonic: None,
            ..self.clone()
        }
    }

    /// The instant some time later.
    pub(crate) fn add(&self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.0 % 1_000_000_000;
        let seconds = self
            .seconds
            .wrapping_add(duration.0 / 1_000_000_000)
            .wrapping_add(nanos.div_euclid(1_000_000_000));
        Self {
            seconds,
            nanos: nanos.rem_euclid(1_000_000_000) as u32,
            zone: self.zone.clone(),
            monotonic: self.monotonic.and_then(|at| at.checked_add(duration.0)),
        }
    }

    /// The same time of day some years, months and days later.
    pub(crate) fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let civil = self.civil();
        let (_, offset) = self.zone.at(self.seconds);
        let months = i64::from(civil.month) - 1 + months;
        let year = civil
            .year
            .saturating_add(years)
            .saturating_add(months.div_euclid(12));
        let month = months.rem_euclid(12) as u8 + 1;
        let time =
            i64::from(civil.hour) * 3600 + i64::from(civil.minute) * 60 + i64::from(civil.second)
                - i64::from(offset);
        let day = i64::from(civil.day).saturating_add(days);
        let seconds = civil::unix_seconds(year, month, day, time);
        Self {
            seconds,
            monotonic: None,
            ..self.clone()
        }
    }

    /// The time from `earlier` to this, as far as a duration can hold it.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        let nanos = seconds * 1_000_000_000 + i128::from(self.nanos) - i128::from(earlier.nanos);
        Duration(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    /// Date and time of day in the time's zone.
    pub(crate) fn civil(&self) -> Civil {
        let (_, offset) = self.zone.at(self.seconds);
        Civil::from_unix(self.seconds, offset)
    }

    /// The time written by a layout.
    pub fn format(&self, layout: &[u8]) -> Vec<u8> {
        layout::format(self, layout)
    }

    /// Reads a time by a layout; without a zone in it, in UTC.
    pub fn parse(layout: &[u8], text: &[u8]) -> Result<Self, String> {
        parse::parse(layout, text)
    }

    /// What Go prints for the value.
    pub(crate) fn display(&self) -> String {
        let mut out =
            String::from_utf8_lossy(&self.format(b"2006-01-02 15:04:05.999999999 -0700 MST"))
                .into_owned();
        if let Some(monotonic) = self.monotonic {
            let sign = if monotonic < 0 { '-' } else { '+' };
            let nanos = monotonic.unsigned_abs();
            out.push_str(&format!(
                " m={sign}{}.{:09}",
                nanos / 1_000_000_000,
                nanos % 1_000_000_000
            ));
        }
        out
    }
}

/// The way Go's `time` quotes texts in its errors: everything but printable ASCII as bytes.
fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..0x80 => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}
