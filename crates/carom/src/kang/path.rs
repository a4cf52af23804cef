//! Paths: what is asked for.

use super::fields::Kind;
use crate::monitor::Id;
use std::borrow::Cow;
use thiserror::Error;

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Snapshot,
    Types,
    Objects(Kind),
    Object(Kind, Id),
}

/// There is nothing of the kind. What was asked for is not repeated: it may be long, and is known to who asked.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Unknown {
    #[error("there is nothing here; try /kang/snapshot, /kang/types, /kang/objects/<type> or /kang/obj/<type>/<id>")]
    Path,
    #[error("there is no such type; try one of {}", Kind::ALL.map(Kind::name).join(", "))]
    Type,
    #[error("there is no such {}; try /kang/objects/{}", .0.name(), .0.name())]
    Object(Kind),
}

impl Asked {
    pub(super) fn of(path: &str) -> Result<Asked, Unknown> {
        let path = path.split_once(['?', '#']).map_or(path, |(path, _)| path);
        let mut segments = path.strip_prefix("/kang/").ok_or(Unknown::Path)?.split('/');
        let mut next = || segments.next().map(|segment| decoded(segment).ok_or(Unknown::Path)).transpose();
        let first = next()?.unwrap_or_default();
        let asked = match (&*first, next()?, next()?) {
            ("snapshot", None, None) => Asked::Snapshot,
            ("types", None, None) => Asked::Types,
            ("objects", Some(kind), None) => Asked::Objects(kind_of(&kind)?),
            ("obj", Some(kind), Some(id)) => {
                let kind = kind_of(&kind)?;
                Asked::Object(kind, id_of(&id).ok_or(Unknown::Object(kind))?)
            }
            _ => return Err(Unknown::Path),
        };
        if next()?.is_some() { Err(Unknown::Path) } else { Ok(asked) }
    }
}

fn kind_of(name: &str) -> Result<Kind, Unknown> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(Unknown::Type)
}

/// An id has one way to be written: as it is shown.
fn id_of(text: &str) -> Option<Id> {
    let id = Id::of(text.parse().ok()?);
    (id.to_string() == text).then_some(id)
}

/// A segment as it was meant: `%70ool` is `pool`. What is not text is nothing that we know.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(segment.into());
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (high, low) = (hex(*after.first()?)?, hex(*after.get(1)?)?);
        bytes.push(high * 16 + low);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok().map(Cow::from)
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_they_mean() {
        let known = [
            ("/kang/snapshot", Asked::Snapshot),
            ("/kang/snapshot?pretty", Asked::Snapshot),
            ("/kang/types", Asked::Types),
            ("/kang/objects/dns_res", Asked::Objects(Kind::Resolver)),
            ("/kang/objects/%70ool", Asked::Objects(Kind::Pool)),
            ("/kang/obj/set/12", Asked::Object(Kind::Set, Id::of(12))),
            ("/kang/obj/set/%31%32", Asked::Object(Kind::Set, Id::of(12))),
        ];
        for (path, asked) in known {
            assert_eq!(Asked::of(path), Ok(asked), "{path}");
        }
    }

    #[test]
    fn whatever_else_is_asked_for_is_not_there() {
        let long = format!("/kang/obj/pool/{}", "1".repeat(1 << 20));
        let unknown = [
            ("", Unknown::Path),
            ("/", Unknown::Path),
            ("/kang", Unknown::Path),
            ("/kang/", Unknown::Path),
            ("/kang/snapshot/", Unknown::Path),
            ("/kang/snapshot/pool", Unknown::Path),
            ("/kang//snapshot", Unknown::Path),
            ("/kang/objects", Unknown::Path),
            ("/kang/objects/", Unknown::Type),
            ("/kang/objects/pools", Unknown::Type),
            ("/kang/objects/pool/1", Unknown::Path),
            ("/kang/objects/pool%2f", Unknown::Type),
            ("/kang/objects/%", Unknown::Path),
            ("/kang/objects/%7", Unknown::Path),
            ("/kang/objects/%zz", Unknown::Path),
            ("/kang/objects/%ff", Unknown::Path),
            ("/kang/objects/%+1", Unknown::Path),
            ("/kang/obj/pool", Unknown::Path),
            ("/kang/obj/pool/", Unknown::Object(Kind::Pool)),
            ("/kang/obj/pool/one", Unknown::Object(Kind::Pool)),
            ("/kang/obj/pool/+1", Unknown::Object(Kind::Pool)),
            ("/kang/obj/pool/01", Unknown::Object(Kind::Pool)),
            ("/kang/obj/pool/1/", Unknown::Path),
            ("/kang/obj/pool/1/2", Unknown::Path),
            ("/kang/../kang/snapshot", Unknown::Path),
            (&*long, Unknown::Object(Kind::Pool)),
        ];
        for (path, expected) in unknown {
            assert_eq!(Asked::of(path), Err(expected), "{path:.40}");
        }
    }
}
