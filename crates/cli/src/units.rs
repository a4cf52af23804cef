//! Times and sizes in the unit that suits them, for people.

use std::time::Duration;

/// With three digits that count: `0.087 ms`, `12.3 ms`, `1.25 s`, `95.0 s`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.000_999_5 {
        format!("{:.3} ms", seconds * 1e3)
    } else if seconds < 0.999_5 {
        format!("{} ms", digits(seconds * 1e3))
    } else {
        format!("{} s", digits(seconds))
    }
}

/// In milliseconds, with what nanoseconds there are behind the point.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// `532 B`, `4.20 kB`, `1.25 GB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut size = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 999.5 {
            return if unit == "B" { format!("{count} B") } else { format!("{} {unit}", digits(size)) };
        }
        size /= 1000.0;
    }
    format!("{} TB", digits(size))
}

/// At least three of them, and no more behind the point than it takes.
fn digits(number: f64) -> String {
    if number < 9.995 {
        format!("{number:.2}")
    } else if number < 99.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

/// `1 connection`, `2 connections`.
pub(crate) fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (0, "0.000 ms"),
            (86_900, "0.087 ms"),
            (999_600, "1.00 ms"),
            (9_999_000, "10.0 ms"),
            (99_960_000, "100 ms"),
            (999_400_000, "999 ms"),
            (999_600_000, "1.00 s"),
            (1_254_000_000, "1.25 s"),
            (95_000_000_000, "95.0 s"),
            (86_400_000_000_000, "86400 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanoseconds)), text);
        }
        assert_eq!(milliseconds(Duration::from_nanos(1_500)), 0.0015);
    }

    #[test]
    fn sizes_have_three_digits_unless_they_are_bytes() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (4_204, "4.20 kB"),
            (999_500, "1.00 MB"),
            (1_250_000_000, "1.25 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
