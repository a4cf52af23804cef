//! Subjects: what messages of one user at a broker are called on NATS, and back.
//!
//! ```text
//! {prefix}.{broker}.{user}.tick.{epoch}.{TOPIC}      a tick, by whoever owns the upstream in this epoch
//! {prefix}.{broker}.{user}.say.{TOPIC}               order updates, invalidated caches: anybody's word
//! {prefix}.{broker}.{user}.ask.{member}              what one gateway asks of another
//! ```
//!
//! Names come from users and brokers, and NATS takes dots, spaces and wildcards for its own. Everything outside `A-Z`, `a-z`, `0-9`, `_`
//! and `-` is written as `=` and two hexadecimal digits, which key-value buckets allow too; there is one spelling for each name.

use std::borrow::Cow;
use std::fmt::Write;

/// Longer subjects are not sent: a server reads at most 4,096 bytes of a line, which has more in it.
const LONGEST: usize = 1_024;

/// The subjects of one user at a broker.
#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    root: String,
}

/// What a subject is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard<'a> {
    /// A tick of whoever owned the upstream in this epoch.
    Tick { epoch: u64, topic: Cow<'a, str> },
    /// Anything else.
    Said { topic: Cow<'a, str> },
}

impl Subjects {
    pub(crate) fn new(prefix: &str, broker: &str, user: &str) -> Subjects {
        Subjects { root: format!("{prefix}.{}.{}", escape(broker), escape(user)) }
    }

    /// What a tick is called; none if that is too long.
    pub(crate) fn tick(&self, epoch: u64, topic: &str) -> Option<String> {
        Some(format!("{}.tick.{epoch}.{}", self.root, escape(topic))).filter(|subject| subject.len() <= LONGEST)
    }

    /// What everything else is called; none if that is too long.
    pub(crate) fn said(&self, topic: &str) -> Option<String> {
        Some(format!("{}.say.{}", self.root, escape(topic))).filter(|subject| subject.len() <= LONGEST)
    }

    /// Where a member is asked something.
    pub(crate) fn ask(&self, member: &str) -> String {
        format!("{}.ask.{}", self.root, escape(member))
    }

    /// All ticks, and all that is said.
    pub(crate) fn heard(&self) -> [String; 2] {
        [format!("{}.tick.>", self.root), format!("{}.say.>", self.root)]
    }

    /// What a subject is about; none if nobody here would have written it.
    pub(crate) fn parse<'a>(&self, subject: &'a str) -> Option<Heard<'a>> {
        let about = subject.strip_prefix(&*self.root)?.strip_prefix('.')?;
        if let Some(topic) = about.strip_prefix("say.") {
            return Some(Heard::Said { topic: unescape(topic)? });
        }
        let (epoch, topic) = tick(about)?;
        Some(Heard::Tick { epoch, topic: unescape(topic)? })
    }

    /// Of which epoch a tick is; none if it is anything else.
    pub(crate) fn epoch(&self, subject: &str) -> Option<u64> {
        let about = subject.strip_prefix(&*self.root)?.strip_prefix('.')?;
        tick(about).map(|(epoch, _)| epoch)
    }
}

/// The epoch of a tick, and the token of its topic.
fn tick(about: &str) -> Option<(u64, &str)> {
    let (epoch, topic) = about.strip_prefix("tick.")?.split_once('.')?;
    // As it is written here, and no other way.
    let plain = epoch == "0" || !epoch.starts_with(['0', '+']);
    Some((epoch.parse().ok().filter(|_| plain)?, topic))
}

/// A name as one token of a subject, or of a key.
pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.bytes().all(is_plain) {
        return name.into();
    }
    // A token cannot be empty, and no other name is written like this.
    if name.is_empty() {
        return "=".into();
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        match is_plain(byte) {
            true => escaped.push(byte.into()),
            false => write!(escaped, "={byte:02X}").expect("strings take everything"),
        }
    }
    escaped.into()
}

/// The name that is spelt like this; none if none is.
fn unescape(token: &str) -> Option<Cow<'_, str>> {
    match token {
        "" => return None,
        "=" => return Some("".into()),
        _ if token.bytes().all(is_plain) => return Some(token.into()),
        _ => {}
    }
    let (mut name, mut rest) = (Vec::with_capacity(token.len()), token.bytes());
    while let Some(byte) = rest.next() {
        match byte {
            b'=' => {
                let decoded = digit(rest.next()?)? << 4 | digit(rest.next()?)?;
                name.push(Some(decoded).filter(|byte| !is_plain(*byte))?);
            }
            plain if is_plain(plain) => name.push(plain),
            _ => return None,
        }
    }
    String::from_utf8(name).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom_core::random::Random;

    fn subjects() -> Subjects {
        Subjects::new("carom", "zerodha", "a.b c")
    }

    #[test]
    fn subjects_are_spelt_as_documented() {
        let subjects = subjects();
        let root = "carom.zerodha.a=2Eb=20c";
        assert_eq!(subjects.tick(7, "NSE_SBIN_LTP").unwrap(), format!("{root}.tick.7.NSE_SBIN_LTP"));
        assert_eq!(subjects.said("alice_orders").unwrap(), format!("{root}.say.alice_orders"));
        assert_eq!(subjects.tick(7, "NSE_M&M_LTP").unwrap(), format!("{root}.tick.7.NSE_M=26M_LTP"));
        assert_eq!(subjects.ask("one-1f"), format!("{root}.ask.one-1f"));
        assert_eq!(subjects.heard(), [format!("{root}.tick.>"), format!("{root}.say.>")]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut random = Random::new(17);
        for _ in 0..2_000 {
            let letters = (0..random.below(12)).map(|_| char::from_u32(random.below(700) as u32).unwrap_or('.'));
            let topic: String = letters.collect();
            let epoch = random.bits();
            let subject = subjects().tick(epoch, &topic).unwrap();
            assert_eq!(
                subjects().parse(&subject),
                Some(Heard::Tick { epoch, topic: topic.as_str().into() }),
                "{subject}"
            );
            let subject = subjects().said(&topic).unwrap();
            assert_eq!(subjects().parse(&subject), Some(Heard::Said { topic: topic.as_str().into() }), "{subject}");
            assert_eq!(subject.split('.').count(), 5, "{subject}");
            assert!(subject.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'*' | b'>')), "{subject}");
        }
    }

    #[test]
    fn other_spellings_are_nobodys() {
        let root = "carom.zerodha.a=2Eb=20c";
        let others = [
            "",
            "x",
            "tick",
            "tick.",
            "tick.7",
            "tick.7.",
            "tick..NSE",
            "tick.07.NSE",
            "tick.+7.NSE",
            "tick.-7.NSE",
            "tick.18446744073709551616.NSE",
            "tick.7.NSE.SBIN",
            "tick.7.NSE=",
            "tick.7.NSE=2",
            "tick.7.NSE=2e",
            "tick.7.NSE=41",
            "tick.7.=FF",
            "tick.7.N E",
            "say",
            "say.",
            "say.a.b",
            "say.=41",
            "ask.me",
            "other.7.NSE",
        ];
        for other in others {
            assert_eq!(subjects().parse(&format!("{root}.{other}")), None, "{other}");
        }
        assert_eq!(subjects().parse("carom.zerodha.other.tick.7.NSE"), None);
        assert_eq!(subjects().parse("carom.zerodha.a=2Eb=20cd.tick.7.NSE"), None);
    }

    #[test]
    fn what_a_server_would_not_read_is_not_written() {
        assert!(subjects().tick(7, &"S".repeat(900)).is_some());
        assert_eq!(subjects().tick(7, &"S".repeat(1_024)), None);
        assert_eq!(subjects().said(&"&".repeat(400)), None);
    }
}
