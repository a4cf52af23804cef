//! Numbers: the digits that were written, whether between quotation marks or not.

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;

/// Longest number, in characters. Prices have twenty or so.
const LONGEST: usize = 64;

/// A number as it was written, digit by digit. It is a number of JSON too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a>(&'a str);

/// So many numbers, each of which may have no value now. Those that a list lacks have none, and those that it has beyond are
/// passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a, const N: usize>(pub [Option<Number<'a>>; N]);

impl<'a> Number<'a> {
    /// The number of this text, if it is one as JSON writes them.
    pub fn parse(text: &'a str) -> Option<Number<'a>> {
        is_number(text).then_some(Number(text))
    }

    /// The digits, as they were written.
    pub fn digits(self) -> &'a str {
        self.0
    }
}

/// `-? (0 | [1-9] digit*) (. digit+)? ([eE] [+-]? digit+)?`
fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if text.len() > LONGEST {
        return false;
    }
    let rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let places = digits(fraction);
        if places == 0 {
            return false;
        }
        rest = &fraction[places..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// A number, or none: `null`, and what stands in a number's place without being one, such as `""` or `"NaN"`.
struct Perhaps<'a>(Option<Number<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Perhaps<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Perhaps<'a>, D::Error> {
        let raw = <&'a RawValue>::deserialize(deserializer)?.get();
        match raw.as_bytes().first() {
            Some(b'n') => Ok(Perhaps(None)),
            Some(b'"') => Ok(Perhaps(Number::parse(raw.trim_matches('"')))),
            Some(b'-' | b'0'..=b'9') => Ok(Perhaps(Number::parse(raw))),
            _ => Err(D::Error::custom("not a number")),
        }
    }
}

/// A number, if there is one.
pub(super) fn maybe<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Number<'a>>, D::Error> {
    Perhaps::deserialize(deserializer).map(|Perhaps(number)| number)
}

impl<'de: 'a, 'a> Deserialize<'de> for Number<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number<'a>, D::Error> {
        maybe(deserializer)?.ok_or_else(|| D::Error::custom("no number"))
    }
}

impl<'de: 'a, 'a, const N: usize> Deserialize<'de> for Values<'a, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values<'a, N>, D::Error> {
        struct List<const N: usize>;

        impl<'de, const N: usize> Visitor<'de> for List<N> {
            type Value = [Option<Number<'de>>; N];

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = [None; N];
                for value in &mut values {
                    match list.next_element()? {
                        Some(Perhaps(number)) => *value = number,
                        None => return Ok(values),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(values)
            }
        }

        deserializer.deserialize_seq(List).map(Values)
    }
}

/// Between quotation marks, as the exchange writes them.
impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<const N: usize> Serialize for Values<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(N))?;
        for value in &self.0 {
            list.serialize_element(value)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_json_calls_so() {
        for text in ["0", "-0", "7", "10", "0.50", "-12.000", "1e5", "1.5E-7", "79750.01150815"] {
            assert_eq!(Number::parse(text).map(Number::digits), Some(text));
            assert!(serde_json::from_str::<f64>(text).is_ok(), "{text}");
        }
        let long = "1".repeat(LONGEST + 1);
        for text in
            ["", "-", "+1", "01", "1.", ".5", "1e", "1e+", "NaN", "Infinity", "1 ", " 1", "1,5", "0x1", "١", &long]
        {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }
}
