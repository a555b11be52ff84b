/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// 1 to 366.
    pub year_day: u16,
}

const DAY: i128 = 86_400;
/// The distance from the earliest representable instant to 1970. Instants wrap around there.
const UNIX_TO_ABSOLUTE: i128 = 9_223_371_966_579_724_800 + 26_438_400 + 62_135_596_800;

impl Civil {
    pub(crate) fn from_unix(seconds: i64, offset: i32) -> Self {
        let absolute =
            (i128::from(seconds) + i128::from(offset) + UNIX_TO_ABSOLUTE).rem_euclid(1 << 64);
        let seconds = absolute - UNIX_TO_ABSOLUTE;
        let days = seconds.div_euclid(DAY);
        let time = seconds.rem_euclid(DAY) as u32;
        let (year, month, day) = from_days(days);
        let year_day = days - to_days(year, 1, 1) + 1;
        Self {
            year: year as i64,
            month,
            day,
            hour: (time / 3600) as u8,
            minute: (time / 60 % 60) as u8,
            second: (time % 60) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
            year_day: year_day as u16,
        }
    }
}

/// Seconds since 1970 of a date and time of day; parts out of their range carry over.
pub(crate) fn unix_seconds(year: i64, month: u8, day: i64, time: i64) -> i64 {
    let days = to_days(i128::from(year), month, 1) + i128::from(day) - 1;
    (days * DAY + i128::from(time)) as i64
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in(year: i64, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a date, counting years from March.
fn to_days(year: i128, month: u8, day: u8) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i128::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i128::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn from_days(days: i128) -> (i128, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u8;
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip() {
        for seconds in [0, -1, 1_709_164_800, -62_135_596_800, 253_402_300_799] {
            let civil = Civil::from_unix(seconds, 0);
            let time = i64::from(civil.hour) * 3600
                + i64::from(civil.minute) * 60
                + i64::from(civil.second);
            assert_eq!(
                unix_seconds(civil.year, civil.month, i64::from(civil.day), time),
                seconds
            );
        }
        let leap = Civil::from_unix(1_709_164_800, 0);
        assert_eq!(
            (leap.year, leap.month, leap.day, leap.weekday, leap.year_day),
            (2024, 2, 29, 4, 60)
        );
    }
}
