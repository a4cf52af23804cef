//! What tests of sessions have in common.
use bytes::BytesMut;
use carom_zmtp::ZmtpError;
use carom_zmtp::pubsub::{Event, Limits, Role, Session};

pub(crate) const LIMITS: Limits = Limits { message: 1000, parts: 3 };

/// Gives one what the other has to say.
pub(crate) fn carry(from: &mut Session, to: &mut Session) -> Result<Vec<Event>, ZmtpError> {
    hear(to, from.output().split())
}

/// Gives it these bytes at once, and returns what happened.
pub(crate) fn hear(session: &mut Session, mut bytes: BytesMut) -> Result<Vec<Event>, ZmtpError> {
    let mut events = Vec::new();
    while let Some(event) = session.handle(&mut bytes)? {
        events.push(event);
    }
    Ok(events)
}

/// A publisher and a subscriber whose handshake is over.
pub(crate) fn opened() -> (Session, Session) {
    let (mut publisher, mut subscriber) =
        (Session::new(Role::Publisher, LIMITS), Session::new(Role::Subscriber, LIMITS));
    carry(&mut publisher, &mut subscriber).unwrap();
    assert_eq!(carry(&mut subscriber, &mut publisher), Ok(vec![Event::Open]));
    assert_eq!(carry(&mut publisher, &mut subscriber), Ok(vec![Event::Open]));
    (publisher, subscriber)
}
