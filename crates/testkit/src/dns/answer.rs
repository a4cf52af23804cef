//! What a server does with one question, instead of answering from its records.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{OPT, SRV};
use hickory_proto::rr::{Name, RData, Record};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a question is answered; see [`Zone::answer`](super::Zone::answer).
#[derive(Clone, Debug)]
pub enum Answer {
    /// As the records say.
    Records,
    /// With this code and without records. NXDOMAIN carries the zone's SOA.
    Code(ResponseCode),
    /// Well, but there is nothing: no error, no records, the zone's SOA.
    NoData,
    /// Not at all. Connections stay open.
    Silent,
    /// After this time; other questions are answered meanwhile, on the same connection too.
    Delay(Duration, Box<Answer>),
    /// Over UDP with the first half of the records and the mark that there are more, over TCP whole.
    Truncated,
    /// With the first half of the records and the mark that there are more, over TCP too.
    TruncatedEverywhere,
    /// With these bytes. A client that looks at their first two sees an id.
    Garbage(Vec<u8>),
    /// As the records say, without the last byte: the id is right and the message cannot be read.
    CutShort,
    /// As the records say, under another id.
    WrongId,
    /// As the records say, to a question that was not asked.
    WrongQuestion,
    /// As the records say, from another UDP port. Over TCP there is no other: as the records say.
    WrongSource,
    /// Over UDP as [`Truncated`](Answer::Truncated), over TCP by closing the connection.
    CloseTcp,
    /// In one way over UDP and in another over TCP.
    Over {
        /// How it is answered over UDP.
        udp: Box<Answer>,
        /// How it is answered over TCP.
        tcp: Box<Answer>,
    },
    /// So many times in one way, later in another. Every question counts, those that come again over TCP too.
    Times(usize, Box<Answer>, Box<Answer>),
    /// With all of these, in turn.
    Each(Vec<Answer>),
    /// As the records say, with changes.
    Edited(Edit),
}

/// Changes a message before it is sent; made by [`Answer::edited`].
#[derive(Clone)]
pub struct Edit(pub(super) Arc<dyn Fn(&mut Message) + Send + Sync>);

impl Answer {
    /// The server cannot read the question.
    pub const FORMERR: Answer = Answer::Code(ResponseCode::FormErr);
    /// The server failed.
    pub const SERVFAIL: Answer = Answer::Code(ResponseCode::ServFail);
    /// The name does not exist.
    pub const NXDOMAIN: Answer = Answer::Code(ResponseCode::NXDomain);
    /// The server does not know this kind of question.
    pub const NOTIMP: Answer = Answer::Code(ResponseCode::NotImp);
    /// The server does not want to.
    pub const REFUSED: Answer = Answer::Code(ResponseCode::Refused);

    /// This answer, after this time.
    pub fn after(self, delay: Duration) -> Answer {
        Answer::Delay(delay, Box::new(self))
    }

    /// This answer so many times, then another.
    pub fn times(self, times: usize, then: Answer) -> Answer {
        Answer::Times(times, Box::new(self), Box::new(then))
    }

    /// One answer over UDP and another over TCP.
    pub fn over(udp: Answer, tcp: Answer) -> Answer {
        Answer::Over { udp: Box::new(udp), tcp: Box::new(tcp) }
    }

    /// What the records say, changed by this function, which runs while the records are locked: it must not touch the zone.
    pub fn edited(edit: impl Fn(&mut Message) + Send + Sync + 'static) -> Answer {
        Answer::Edited(Edit(Arc::new(edit)))
    }

    /// What the records say, with an EDNS record whose name is this label and not the root. Such a message cannot be read.
    pub fn with_edns_name(label: &[u8]) -> Answer {
        let name = Name::from_labels([label]).expect("a label of at most 63 bytes");
        Answer::edited(move |message| {
            let edns = RData::OPT(OPT::new(Vec::new()));
            message.additionals.push(Record::from_rdata(name.clone(), 0, edns));
        })
    }

    /// What the records say, and an SRV record for port 80 of a host with this label below `test`.
    pub fn with_srv_target(label: &[u8]) -> Answer {
        let target = Name::from_labels([label, b"test"]).expect("a label of at most 63 bytes");
        Answer::edited(move |message| {
            let Some(question) = message.queries.first() else { return };
            let service = RData::SRV(SRV::new(0, 0, 80, target.clone()));
            message.answers.push(Record::from_rdata(question.name().clone(), 60, service));
        })
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Edit")
    }
}
