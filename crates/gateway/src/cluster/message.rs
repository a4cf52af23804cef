//! What members ask the owner of an upstream, and what it answers, as JSON.

use carom::feed::{Change, Instrument, Level, Mode, Pending, Refused};
use serde::{Deserialize, Serialize};

/// Longest name of an exchange or a symbol.
const LONGEST_NAME: usize = 256;

/// Which answers who asks like this understands: all that there are here. Before there was such a number it was 0, and
/// [`Answer::Stands`] was not understood.
pub(super) const VERSION: u32 = 1;

/// What a member asks.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    #[serde(default)]
    pub(super) version: u32,
    /// Of the owner in this epoch, and of no other.
    pub(super) epoch: u64,
    pub(super) session: Session,
    pub(super) what: What,
}

/// A connection of a member to the owner, as the owner sees it. None is ever used again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) member: String,
    pub(super) number: u64,
}

/// What is asked of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Whether it is there.
    Hello,
    /// To begin.
    Open,
    /// To go on.
    Beat,
    /// That the session has these from now on.
    Change(Vec<Wanted>),
    /// To end.
    Bye,
}

/// How much of an instrument a session is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    exchange: String,
    symbol: String,
    /// 1 to 3; none is nothing.
    mode: Option<u8>,
    depth: u16,
}

/// What the owner answers.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It is done, but for these.
    Done(Vec<RefusedAt>),
    /// It is done, and this is how things stand.
    Stands(Stands),
    /// It is not the owner in that epoch, or knows of no such session.
    NotHere,
}

/// Something that is not to be had.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedAt {
    pub(super) at: usize,
    pub(super) reason: String,
}

/// How things stand with what a session has.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stands {
    /// What was asked for just now, and is not to be had.
    #[serde(default)]
    pub(super) refused: Vec<RefusedAt>,
    /// Higher in each later answer to the same session: answers may overtake each other.
    #[serde(default)]
    pub(super) turn: u64,
    /// What was asked for just now, and what has changed since that was last said.
    #[serde(default)]
    pub(super) turned: Vec<Turned>,
    /// Whether more has changed than fits.
    #[serde(default)]
    pub(super) more: bool,
    /// Why the owner cannot have what it has not.
    #[serde(default)]
    pub(super) reason: Option<String>,
}

impl Stands {
    /// Whether something is not carried.
    pub(super) fn lacks(&self) -> bool {
        self.turned.iter().any(|turned| turned.pending.is_some())
    }
}

/// How it stands with an instrument.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turned {
    exchange: String,
    symbol: String,
    /// Why it is not carried; none if it is.
    #[serde(default)]
    pending: Option<Why>,
}

/// Why the owner has not what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    Down,
    Credential,
    NoCredential,
    /// Or something that is not known here.
    #[serde(other)]
    Unanswered,
}

impl Turned {
    pub(super) fn new(instrument: &Instrument, pending: Option<Pending>) -> Turned {
        let (exchange, symbol) = (instrument.exchange().to_owned(), instrument.symbol().to_owned());
        let pending = pending.map(|pending| match pending {
            Pending::Down => Why::Down,
            Pending::Credential => Why::Credential,
            Pending::NoCredential => Why::NoCredential,
            Pending::Unanswered => Why::Unanswered,
        });
        Turned { exchange, symbol, pending }
    }

    /// What it is about, and why that is not carried; none if there is nothing of such a name.
    pub(super) fn meant(self) -> Option<(Instrument, Option<Pending>)> {
        let Turned { exchange, symbol, pending } = self;
        let pending = pending.map(|why| match why {
            Why::Down => Pending::Down,
            Why::Credential => Pending::Credential,
            Why::NoCredential => Pending::NoCredential,
            Why::Unanswered => Pending::Unanswered,
        });
        are_names([&exchange, &symbol]).then(|| (Instrument::new(exchange, symbol), pending))
    }
}

impl Wanted {
    /// None if there is nothing of such a name.
    pub(super) fn of(change: &Change) -> Option<Wanted> {
        let (exchange, symbol) = (change.instrument.exchange(), change.instrument.symbol());
        let (mode, depth) = change.to.map_or((None, 0), |level| (Some(level.mode.number()), level.depth));
        are_names([exchange, symbol]).then(|| Wanted { exchange: exchange.into(), symbol: symbol.into(), mode, depth })
    }

    /// What it is about, and how much of it; none if there is no such mode, or nothing of such a name.
    pub(super) fn meant(self) -> Option<(Instrument, Option<Level>)> {
        let Wanted { exchange, symbol, mode, depth } = self;
        let level = match mode {
            None => None,
            Some(mode) => Some(Level { mode: Mode::from_number(mode.into())?, depth }),
        };
        are_names([&exchange, &symbol]).then(|| (Instrument::new(exchange, symbol), level))
    }
}

fn are_names(names: [&str; 2]) -> bool {
    names.iter().all(|name| (1..=LONGEST_NAME).contains(&name.len()))
}

impl From<RefusedAt> for Refused {
    fn from(RefusedAt { at, reason }: RefusedAt) -> Refused {
        Refused { position: at, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::feed::Topic;

    #[test]
    fn what_is_asked_has_a_shape_that_others_can_read() {
        let topic = Topic::new("NSE", "SBIN", Mode::Depth).depth(20);
        let change = |to| Change { instrument: topic.instrument.clone(), from: None, to };
        let changes = [change(Some(topic.level)), change(None)];
        let ask = Ask {
            version: VERSION,
            epoch: 7,
            session: Session { member: "one-1f".into(), number: 3 },
            what: What::Change(changes.iter().map(|change| Wanted::of(change).unwrap()).collect()),
        };
        let text = serde_json::to_string(&ask).unwrap();
        let wanted = r#"[{"exchange":"NSE","symbol":"SBIN","mode":3,"depth":20},{"exchange":"NSE","symbol":"SBIN","mode":null,"depth":0}]"#;
        assert_eq!(
            text,
            format!(
                r#"{{"version":1,"epoch":7,"session":{{"member":"one-1f","number":3}},"what":{{"change":{wanted}}}}}"#
            )
        );
        let read: Ask = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ask);
        let What::Change(read) = read.what else { panic!("{read:?}") };
        let meant: Vec<_> = read.into_iter().map(|wanted| wanted.meant().unwrap()).collect();
        assert_eq!(meant, [(topic.instrument.clone(), Some(topic.level)), (topic.instrument, None)]);
    }

    #[test]
    fn what_is_answered_has_a_shape_that_others_can_read() {
        let sbin = Instrument::new("NSE", "SBIN");
        let turned = [
            None,
            Some(Pending::Down),
            Some(Pending::Credential),
            Some(Pending::NoCredential),
            Some(Pending::Unanswered),
        ];
        let stands = Stands {
            turn: 5,
            turned: turned.iter().map(|pending| Turned::new(&sbin, *pending)).collect(),
            reason: Some("it is closed".into()),
            ..Stands::default()
        };
        let text = serde_json::to_string(&Answer::Stands(stands)).unwrap();
        let of = |pending: &str| format!(r#"{{"exchange":"NSE","symbol":"SBIN","pending":{pending}}}"#);
        let turns = ["null", r#""down""#, r#""credential""#, r#""no_credential""#, r#""unanswered""#].map(of).join(",");
        assert_eq!(
            text,
            format!(
                r#"{{"stands":{{"refused":[],"turn":5,"turned":[{turns}],"more":false,"reason":"it is closed"}}}}"#
            )
        );
        let Ok(Answer::Stands(read)) = serde_json::from_str(&text) else { panic!("{text}") };
        let meant: Vec<_> = read.turned.into_iter().map(|turned| turned.meant().unwrap()).collect();
        assert_eq!(meant, turned.map(|pending| (sbin.clone(), pending)));
    }

    #[test]
    fn what_is_said_by_others_than_this_version_is_read_as_far_as_it_is_known() {
        let ask: Ask = serde_json::from_str(
            r#"{"epoch":7,"session":{"member":"one","number":3,"since":1},"what":"beat","later":[]}"#,
        )
        .unwrap();
        assert_eq!((ask.version, ask.what), (0, What::Beat));
        let Ok(Answer::Stands(stands)) = serde_json::from_str(
            r#"{"stands":{"turned":[{"exchange":"NSE","symbol":"SBIN","pending":"asleep","until":9}],"mood":"good"}}"#,
        ) else {
            panic!("it is not read");
        };
        let meant = stands.turned.into_iter().map(Turned::meant).collect::<Vec<_>>();
        assert_eq!(meant, [Some((Instrument::new("NSE", "SBIN"), Some(Pending::Unanswered)))]);
    }

    #[test]
    fn names_that_nothing_has_are_not_asked_for() {
        let change = |symbol: &str| Change { instrument: Instrument::new("NSE", symbol), from: None, to: None };
        assert_eq!(Wanted::of(&change("")), None);
        assert_eq!(Wanted::of(&change(&"S".repeat(257))), None);
        assert!(Wanted::of(&change(&"S".repeat(256))).is_some());
        let unknown: Wanted = serde_json::from_str(r#"{"exchange":"NSE","symbol":"SBIN","mode":4,"depth":5}"#).unwrap();
        assert_eq!(unknown.meant(), None);
        for symbol in ["", &"S".repeat(257)] {
            let text = format!(r#"{{"exchange":"NSE","symbol":"{symbol}","mode":1,"depth":0}}"#);
            let unnamed: Wanted = serde_json::from_str(&text).unwrap();
            assert_eq!(unnamed.meant(), None, "{symbol}");
        }
    }
}
