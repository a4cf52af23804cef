//! The fields of a request or of an entry in it, as they are written.

use super::refusal::{Code, Refusal};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Each field that any verb knows, if it is there. What it means is decided by the verb.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) action: Option<&'a RawValue>,
    /// `type`
    pub(super) kind: Option<&'a RawValue>,
    pub(super) api_key: Option<&'a RawValue>,
    pub(super) apikey: Option<&'a RawValue>,
    pub(super) symbols: Option<&'a RawValue>,
    pub(super) symbol: Option<&'a RawValue>,
    pub(super) exchange: Option<&'a RawValue>,
    pub(super) mode: Option<&'a RawValue>,
    pub(super) depth: Option<&'a RawValue>,
    pub(super) request_id: Option<&'a RawValue>,
    pub(super) timestamp: Option<&'a RawValue>,
    /// `_pingId`
    pub(super) ping_id: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Of a message, which is to be one JSON object.
    pub(super) fn read(message: &'a [u8]) -> Result<Fields<'a>, Refusal> {
        let invalid = |error: &dyn fmt::Display| Refusal::new(Code::InvalidJson, format!("Invalid JSON: {error}"));
        let text = std::str::from_utf8(message).map_err(|error| invalid(&error))?;
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| invalid(&error));
        }
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| invalid(&error))?;
        Err(Refusal::new(Code::ServerError, "a request is a JSON object"))
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

// By hand, because a derived one refuses a field that is there twice.
impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key()? {
            let field = match name {
                Name::Action => &mut fields.action,
                Name::Type => &mut fields.kind,
                Name::ApiKey => &mut fields.api_key,
                Name::Apikey => &mut fields.apikey,
                Name::Symbols => &mut fields.symbols,
                Name::Symbol => &mut fields.symbol,
                Name::Exchange => &mut fields.exchange,
                Name::Mode => &mut fields.mode,
                Name::Depth => &mut fields.depth,
                Name::RequestId => &mut fields.request_id,
                Name::Timestamp => &mut fields.timestamp,
                Name::PingId => &mut fields.ping_id,
                Name::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = Some(map.next_value()?);
        }
        Ok(fields)
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Name {
    Action,
    Type,
    ApiKey,
    Apikey,
    Symbols,
    Symbol,
    Exchange,
    Mode,
    Depth,
    RequestId,
    Timestamp,
    #[serde(rename = "_pingId")]
    PingId,
    #[serde(other)]
    Other,
}

/// The string that this is, if it is one.
pub(super) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let written = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if written.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(written))
    }
}

/// Whether it counts as not given, as it does in Python.
pub(super) fn empty(raw: &RawValue) -> bool {
    match raw.get().as_bytes() {
        [b'[', within @ .., b']'] | [b'{', within @ .., b'}'] => within.iter().all(u8::is_ascii_whitespace),
        text => matches!(text, b"null" | b"false" | b"0" | b"\"\""),
    }
}

/// At most so many bytes of it, with a mark where something is left out.
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let kept = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..kept]).into()
}
