//! MessagePack, as far as ledgers are hashed in it: JSON's values, keys in order at every level, numbers as short as they go.

use serde_json::{Map, Number, Value};

/// JSON is not read deeper than this either.
const DEEPEST: usize = 128;
/// How much memory a value may take for each of its bytes, and how much besides. A list of small numbers takes 32 times its bytes, a
/// map with one short entry 200 times: many of those are no transaction, but an attack.
const MEMORY_PER_BYTE: usize = 64;
const MEMORY_BESIDES: usize = 64 * 1024;
/// What a map takes that is not empty, for each 11 entries or part of them, and what each value takes.
const MEMORY_OF_MAP: usize = 640;
const MEMORY_OF_VALUE: usize = size_of::<Value>();

/// Why bytes are no value, or a value has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MsgpackError {
    /// Lists and maps within each other.
    #[error("nested deeper than {DEEPEST} levels")]
    TooDeep,
    /// Many values in few bytes.
    #[error("takes {memory} bytes of memory with {packed}, which no transaction does")]
    TooMany {
        /// How much memory its value takes, as far as that was counted.
        memory: usize,
        /// How many bytes it has.
        packed: usize,
    },
    /// The bytes end too early, or announce more than there is.
    #[error("cut short")]
    Short,
    /// Bytes behind the value.
    #[error("{0} bytes behind the end")]
    Trailing(usize),
    /// Something that JSON does not have: binary, extensions, keys that are no texts, infinite numbers.
    #[error("holds what JSON does not have (type {0:#04x})")]
    Foreign(u8),
    /// A text that is not UTF-8.
    #[error("holds a text that is not UTF-8")]
    NotText,
    /// A key twice in one map.
    #[error("holds the key {0:?} twice")]
    Twice(String),
}

/// The bytes of a value. Whatever has bytes can be [unpacked](unpack).
///
/// # Errors
/// When it is nested too deep, or of so many small parts that it could not be unpacked.
pub fn pack(value: &Value) -> Result<Vec<u8>, MsgpackError> {
    let mut bytes = Vec::new();
    let mut memory = 0;
    put(value, &mut bytes, &mut memory, 0)?;
    Memory { packed: bytes.len(), taken: 0 }.take(memory)?;
    Ok(bytes)
}

/// The value of bytes. Takes no more memory than 64 times theirs and 64 KiB, whatever they announce.
///
/// # Errors
/// When they are no value, or not one of JSON.
pub fn unpack(bytes: &[u8]) -> Result<Value, MsgpackError> {
    let mut rest = bytes;
    let value = take(&mut rest, &mut Memory { packed: bytes.len(), taken: 0 }, 0)?;
    if rest.is_empty() { Ok(value) } else { Err(MsgpackError::Trailing(rest.len())) }
}

/// The memory that a value of so many bytes has taken so far.
struct Memory {
    packed: usize,
    taken: usize,
}

impl Memory {
    fn take(&mut self, more: usize) -> Result<(), MsgpackError> {
        self.taken = self.taken.saturating_add(more);
        if self.taken > MEMORY_BESIDES + MEMORY_PER_BYTE * self.packed {
            return Err(MsgpackError::TooMany { memory: self.taken, packed: self.packed });
        }
        Ok(())
    }
}

/// What a map of so many entries takes besides them.
fn memory_of_map(count: usize) -> usize {
    MEMORY_OF_MAP.saturating_mul(count.div_ceil(11))
}

fn put(value: &Value, bytes: &mut Vec<u8>, memory: &mut usize, depth: usize) -> Result<(), MsgpackError> {
    if depth > DEEPEST {
        return Err(MsgpackError::TooDeep);
    }
    *memory += MEMORY_OF_VALUE;
    match value {
        Value::Null => bytes.push(0xc0),
        Value::Bool(truth) => bytes.push(0xc2 + u8::from(*truth)),
        Value::Number(number) => put_number(number, bytes),
        Value::String(text) => put_text(text, bytes),
        Value::Array(items) => {
            put_count(items.len(), 0x90, 0xdc, bytes);
            for item in items {
                put(item, bytes, memory, depth + 1)?;
            }
        }
        Value::Object(map) => {
            put_count(map.len(), 0x80, 0xde, bytes);
            *memory += memory_of_map(map.len());
            // In order by themselves only as long as nobody in the build asks serde_json for another order.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                put_text(key, bytes);
                put(value, bytes, memory, depth + 1)?;
            }
        }
    }
    Ok(())
}

fn put_number(number: &Number, bytes: &mut Vec<u8>) {
    if let Some(number) = number.as_u64() {
        match number {
            0..=0x7f => bytes.push(number as u8),
            0x80..=0xff => bytes.extend([0xcc, number as u8]),
            0x100..=0xffff => put_tagged(0xcd, &(number as u16).to_be_bytes(), bytes),
            0x1_0000..=0xffff_ffff => put_tagged(0xce, &(number as u32).to_be_bytes(), bytes),
            0x1_0000_0000.. => put_tagged(0xcf, &number.to_be_bytes(), bytes),
        }
    } else if let Some(number) = number.as_i64() {
        match number {
            -0x20.. => bytes.push(number as u8),
            -0x80..-0x20 => bytes.extend([0xd0, number as u8]),
            -0x8000..-0x80 => put_tagged(0xd1, &(number as i16).to_be_bytes(), bytes),
            -0x8000_0000..-0x8000 => put_tagged(0xd2, &(number as i32).to_be_bytes(), bytes),
            ..-0x8000_0000 => put_tagged(0xd3, &number.to_be_bytes(), bytes),
        }
    } else {
        let number = number.as_f64().unwrap_or(f64::NAN);
        put_tagged(0xcb, &number.to_be_bytes(), bytes);
    }
}

fn put_tagged(tag: u8, rest: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(tag);
    bytes.extend_from_slice(rest);
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    match text.len() {
        size @ 0..=0x1f => bytes.push(0xa0 | size as u8),
        size @ 0x20..=0xff => bytes.extend([0xd9, size as u8]),
        size @ 0x100..=0xffff => put_tagged(0xda, &(size as u16).to_be_bytes(), bytes),
        size => put_tagged(0xdb, &(size as u32).to_be_bytes(), bytes),
    }
    bytes.extend_from_slice(text.as_bytes());
}

/// `short` for up to 15, `long` with 16 bits, and the tag behind it with 32.
fn put_count(count: usize, short: u8, long: u8, bytes: &mut Vec<u8>) {
    match count {
        0..=0xf => bytes.push(short | count as u8),
        0x10..=0xffff => put_tagged(long, &(count as u16).to_be_bytes(), bytes),
        _ => put_tagged(long + 1, &(count as u32).to_be_bytes(), bytes),
    }
}

fn take(bytes: &mut &[u8], memory: &mut Memory, depth: usize) -> Result<Value, MsgpackError> {
    if depth > DEEPEST {
        return Err(MsgpackError::TooDeep);
    }
    memory.take(MEMORY_OF_VALUE)?;
    let tag = take_number(bytes, 1)? as u8;
    Ok(match tag {
        0x00..=0x7f => tag.into(),
        0x80..=0x8f => take_map(bytes, usize::from(tag & 0xf), memory, depth)?,
        0x90..=0x9f => take_list(bytes, usize::from(tag & 0xf), memory, depth)?,
        0xa0..=0xbf | 0xd9..=0xdb => Value::String(take_text(bytes, tag)?),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => Value::Bool(tag == 0xc3),
        0xca => float(f32::from_bits(take_number(bytes, 4)? as u32).into(), tag)?,
        0xcb => float(f64::from_bits(take_number(bytes, 8)?), tag)?,
        0xcc..=0xcf => take_number(bytes, 1 << (tag - 0xcc))?.into(),
        0xd0 => (take_number(bytes, 1)? as i8).into(),
        0xd1 => (take_number(bytes, 2)? as i16).into(),
        0xd2 => (take_number(bytes, 4)? as i32).into(),
        0xd3 => (take_number(bytes, 8)? as i64).into(),
        0xdc | 0xdd => {
            let count = take_number(bytes, 2 << (tag - 0xdc))? as usize;
            take_list(bytes, count, memory, depth)?
        }
        0xde | 0xdf => {
            let count = take_number(bytes, 2 << (tag - 0xde))? as usize;
            take_map(bytes, count, memory, depth)?
        }
        0xe0..=0xff => (tag as i8).into(),
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(MsgpackError::Foreign(tag)),
    })
}

fn float(number: f64, tag: u8) -> Result<Value, MsgpackError> {
    Number::from_f64(number).map(Value::Number).ok_or(MsgpackError::Foreign(tag))
}

/// Each item is a byte at least, so nothing is set aside for those that cannot be there.
fn take_list(bytes: &mut &[u8], count: usize, memory: &mut Memory, depth: usize) -> Result<Value, MsgpackError> {
    if count > bytes.len() {
        return Err(MsgpackError::Short);
    }
    let items: Result<Vec<_>, _> = (0..count).map(|_| take(bytes, memory, depth + 1)).collect();
    items.map(Value::Array)
}

fn take_map(bytes: &mut &[u8], count: usize, memory: &mut Memory, depth: usize) -> Result<Value, MsgpackError> {
    if count > bytes.len() / 2 {
        return Err(MsgpackError::Short);
    }
    memory.take(memory_of_map(count))?;
    let mut map = Map::new();
    for _ in 0..count {
        let tag = take_number(bytes, 1)? as u8;
        let key = take_text(bytes, tag)?;
        let value = take(bytes, memory, depth + 1)?;
        if map.insert(key.clone(), value).is_some() {
            return Err(MsgpackError::Twice(key));
        }
    }
    Ok(Value::Object(map))
}

fn take_text(bytes: &mut &[u8], tag: u8) -> Result<String, MsgpackError> {
    let size = match tag {
        0xa0..=0xbf => u64::from(tag & 0x1f),
        0xd9..=0xdb => take_number(bytes, 1 << (tag - 0xd9))?,
        _ => return Err(MsgpackError::Foreign(tag)),
    };
    let text = take_bytes(bytes, size as usize)?;
    String::from_utf8(text.to_vec()).map_err(|_| MsgpackError::NotText)
}

fn take_number(bytes: &mut &[u8], size: usize) -> Result<u64, MsgpackError> {
    Ok(take_bytes(bytes, size)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn take_bytes<'b>(bytes: &mut &'b [u8], size: usize) -> Result<&'b [u8], MsgpackError> {
    let (taken, rest) = bytes.split_at_checked(size).ok_or(MsgpackError::Short)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_have_the_bytes_that_the_format_says() {
        let value = json!({"b": [1, -1, 127, 128, 65535, 65536], "a": {"z": null, "y": true}, "c": 1.5, "ä": "x"});
        let expected = [
            &b"\x84\xa1a\x82\xa1y\xc3\xa1z\xc0"[..],
            b"\xa1b\x96\x01\xff\x7f\xcc\x80\xcd\xff\xff\xce\x00\x01\x00\x00",
            b"\xa1c\xcb\x3f\xf8\0\0\0\0\0\0\xa2\xc3\xa4\xa1x",
        ];
        assert_eq!(pack(&value).unwrap(), expected.concat());
        assert_eq!(pack(&json!([1.0, 1])).unwrap(), b"\x92\xcb\x3f\xf0\0\0\0\0\0\0\x01");
    }

    #[test]
    fn values_of_every_size_come_back() {
        for size in [0_usize, 15, 16, 31, 32, 255, 256, 65535, 65536] {
            let map: Map<_, _> = (0..size.min(300)).map(|i| (format!("k{i}"), json!(i))).collect();
            let value = json!(["x".repeat(size), vec![0; size], map]);
            assert_eq!(unpack(&pack(&value).unwrap()), Ok(value));
        }
        for number in [0, 1, -1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, i64::MIN, i64::MAX] {
            assert_eq!(unpack(&pack(&json!(number)).unwrap()), Ok(json!(number)));
        }
        assert_eq!(unpack(&pack(&json!(u64::MAX)).unwrap()), Ok(json!(u64::MAX)));
    }

    #[test]
    fn bombs_are_refused_and_cost_nothing() {
        assert_eq!(unpack(b"\xdd\xff\xff\xff\xff\xc0"), Err(MsgpackError::Short));
        assert_eq!(unpack(b"\xdf\xff\xff\xff\xff\xa0\xc0"), Err(MsgpackError::Short));
        assert_eq!(unpack(b"\xdb\xff\xff\xff\xff"), Err(MsgpackError::Short));
        assert_eq!(unpack(&[0x91; 1_000_000]), Err(MsgpackError::TooDeep));
        let maps = [&[0xdd, 0, 0, 0x40, 0][..], &[0x81, 0xa0, 0xc0].repeat(0x4000)].concat();
        assert!(matches!(unpack(&maps), Err(MsgpackError::TooMany { packed: 49157, .. })));
        let maps = Value::Array(vec![json!({"": null}); 0x4000]);
        assert!(matches!(pack(&maps), Err(MsgpackError::TooMany { packed: 49155, .. })), "nor is it made");
        assert_eq!(unpack(b"\xc4\x01x"), Err(MsgpackError::Foreign(0xc4)));
        assert_eq!(unpack(b"\x81\x01\x01"), Err(MsgpackError::Foreign(0x01)));
        assert_eq!(unpack(b"\x82\xa1a\x01\xa1a\x01"), Err(MsgpackError::Twice("a".into())));
        assert_eq!(unpack(b"\xcb\x7f\xf0\0\0\0\0\0\0"), Err(MsgpackError::Foreign(0xcb)));
        assert_eq!(unpack(b"\xa1\xff"), Err(MsgpackError::NotText));
        assert_eq!(unpack(b"\xc0\xc0"), Err(MsgpackError::Trailing(1)));
        let mut deep = Value::Null;
        for _ in 0..DEEPEST + 1 {
            deep = Value::Array(vec![deep]);
        }
        assert_eq!(pack(&deep), Err(MsgpackError::TooDeep));
    }
}
