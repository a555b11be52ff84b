//! The proleptic Gregorian calendar.

/// The parts of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    /// The year, which may be negative.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// From 0.
    pub day_of_year: i64,
    /// From 0, which is Sunday.
    pub weekday: i64,
    /// From 0.
    pub hour: i64,
    /// From 0.
    pub minute: i64,
    /// From 0.
    pub second: i64,
}

impl Calendar {
    /// The parts of a number of seconds since 1970, at an offset from UTC in seconds.
    pub fn from_unix(seconds: i64, offset: i64) -> Self {
        let seconds = seconds.saturating_add(offset);
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400);
        let (year, month, day) = date_of(days);
        Calendar {
            year,
            month,
            day,
            day_of_year: days - days_before(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// Seconds since 1970 of these parts in UTC. The day of the year and of the week do not count.
    pub fn unix(&self) -> i64 {
        unix_seconds(
            (self.year, self.month, self.day),
            (self.hour, self.minute, self.second),
        )
    }
}

/// Seconds since 1970 of a year, month and day, and an hour, minute and second in UTC. Months and
/// days count from 1; parts of the time beyond their range carry over.
pub fn unix_seconds(date: (i64, i64, i64), time: (i64, i64, i64)) -> i64 {
    let (year, month, day) = date;
    let (hour, minute, second) = time;
    days_before(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
}

/// Whether the year has a 29th of February.
pub fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days the month has; months count from 1.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date. Years begin in March here, so that the leap day comes last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_round_trips_every_day_of_eight_centuries() {
        let first = days_before(1600, 1, 1);
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for days in first..first + 292_194 {
            assert_eq!(date_of(days), (year, month, day));
            assert_eq!(days_before(year, month, day), days);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn parts_of_a_moment() {
        let parts = Calendar::from_unix(1_794_791_445, 0);
        assert_eq!((parts.year, parts.month, parts.day), (2026, 11, 16));
        assert_eq!((parts.hour, parts.minute, parts.second), (1, 10, 45));
        assert_eq!((parts.weekday, parts.day_of_year), (1, 319));
        assert_eq!(parts.unix(), 1_794_791_445);
    }
}
