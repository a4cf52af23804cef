//! A moment, as ISO 8601 writes it in UTC: `2026-02-28T23:59:59.999Z`.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp {
    milliseconds: u64,
}

impl Timestamp {
    pub(crate) fn now() -> Timestamp {
        // A clock from before 1970 is no clock.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { milliseconds: since.as_millis() as u64 }
    }

    /// So long after 1970 began.
    pub(crate) fn from_milliseconds(milliseconds: u64) -> Timestamp {
        Timestamp { milliseconds }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.milliseconds / 1000, self.milliseconds % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
    }
}

/// The date so many days after 1 January 1970. Years are taken to begin in March, so that the leap day is the last of one.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // Days since 1 March of the year 0.
    let days = days + 719_468;
    let (era, of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_what_the_calendar_says() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_772_323_199_999, "2026-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp { milliseconds }.to_string(), text);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = date(0);
        for days in 1..400 * 366 {
            let (year, month, day) = date(days);
            let follows = (year, month, day) == (before.0, before.1, before.2 + 1)
                || (day == 1 && before.2 >= 28 && (year, month) == (before.0, before.1 + 1))
                || (month, day) == (1, 1) && (before.1, before.2) == (12, 31) && year == before.0 + 1;
            assert!(follows, "{before:?} and then {:?}", (year, month, day));
            before = (year, month, day);
        }
    }
}
