//! Numbers of payloads, written straight into a buffer: there may be a hundred thousand payloads a second, of thirty numbers each.

/// Appends a field after others.
pub(crate) fn field(to: &mut String, name: &str, value: i64) {
    key(to, name);
    number(to, value);
}

/// Appends a field after others, whose value has so many digits behind the point.
pub(crate) fn decimal_field(to: &mut String, name: &str, value: i64, decimals: u8) {
    key(to, name);
    decimal(to, value, decimals);
}

/// Appends the name of a field after others.
pub(crate) fn key(to: &mut String, name: &str) {
    to.push_str(",\"");
    to.push_str(name);
    to.push_str("\":");
}

/// Appends a number with so many digits behind the point, of which there is at least one: 81205 is 812.05 with two.
pub(crate) fn decimal(to: &mut String, value: i64, decimals: u8) {
    if value < 0 {
        to.push('-');
    }
    let (value, mut place) = (value.unsigned_abs(), 10_u64.pow(u32::from(decimals)));
    digits(to, value / place);
    to.push('.');
    while place > 1 {
        place /= 10;
        to.push(char::from(b'0' + (value / place % 10) as u8));
    }
}

/// Appends a number.
pub(crate) fn number(to: &mut String, value: i64) {
    if value < 0 {
        to.push('-');
    }
    digits(to, value.unsigned_abs());
}

/// Appends a number. Cheaper than formatting.
pub(crate) fn digits(to: &mut String, mut value: u64) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    for &digit in &buffer[at..] {
        to.push(char::from(digit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        let mut text = String::new();
        for value in [0, 7, 10, -12, i64::MAX, i64::MIN] {
            text.push(' ');
            number(&mut text, value);
        }
        assert_eq!(text, format!(" 0 7 10 -12 {} {}", i64::MAX, i64::MIN));
        text.clear();
        for (value, decimals) in [(0, 2), (5, 2), (95, 2), (81_205, 2), (-45, 2), (832_575_000, 7), (-1, 4)] {
            text.push(' ');
            decimal(&mut text, value, decimals);
        }
        assert_eq!(text, " 0.00 0.05 0.95 812.05 -0.45 83.2575000 -0.0001");
    }
}
