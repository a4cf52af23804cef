//! From the bytes of a question to the bytes of its answer, without sockets.

use super::Over;
use super::answer::Answer;
use super::zone::{Found, Records, Script};
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use std::time::Duration;

/// What is to be done about a question, one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait(Duration),
    Send(Vec<u8>),
    /// From a UDP port that is not the server's.
    SendFromElsewhere(Vec<u8>),
    /// The connection; over UDP there is none.
    Close,
}

/// What the bytes were.
#[derive(Debug)]
pub(super) enum Heard {
    /// One question to answer.
    Question(Box<Message>),
    /// Something to answer with a code.
    Strange(Box<Message>, ResponseCode),
    /// Something to leave alone.
    Noise,
}

pub(super) fn hear(bytes: &[u8]) -> Heard {
    // A header of 12 bytes is needed to answer to; and to answer an answer could go on forever.
    let Some(header) = bytes.first_chunk::<12>().filter(|header| header[2] & 0x80 == 0) else { return Heard::Noise };
    let Ok(message) = Message::from_vec(bytes) else {
        let id = u16::from_be_bytes([header[0], header[1]]);
        let message = Message::new(id, MessageType::Query, OpCode::Query);
        return Heard::Strange(Box::new(message), ResponseCode::FormErr);
    };
    let message = Box::new(message);
    match &message.queries[..] {
        _ if message.op_code != OpCode::Query => Heard::Strange(message, ResponseCode::NotImp),
        [query] if query.query_class != DNSClass::IN => Heard::Strange(message, ResponseCode::Refused),
        [_] => Heard::Question(message),
        [] | [_, _, ..] => Heard::Strange(message, ResponseCode::FormErr),
    }
}

impl Heard {
    /// The name, the kind, and the client's UDP size.
    pub(super) fn asked(&self) -> Option<(&Name, RecordType, Option<u16>)> {
        match self {
            Heard::Question(message) => {
                let query = &message.queries[0];
                Some((&query.name, query.query_type, message.edns.as_ref().map(Edns::max_payload)))
            }
            Heard::Strange(..) | Heard::Noise => None,
        }
    }

    pub(super) fn reply(&self, over: Over, script: &mut Script) -> Vec<Step> {
        match self {
            Heard::Question(request) => {
                let query = &request.queries[0];
                let (answer, records) = script.answer(&query.name, query.query_type);
                Reply { request, query, over, records }.steps(answer)
            }
            Heard::Strange(request, code) => {
                let mut message = response(request);
                message.metadata.response_code = *code;
                vec![Step::Send(encode(message, over, request.max_payload()))]
            }
            Heard::Noise => Vec::new(),
        }
    }
}

struct Reply<'a> {
    request: &'a Message,
    query: &'a Query,
    over: Over,
    records: &'a Records,
}

impl Reply<'_> {
    /// Counts the question where the answer counts, and says what to do.
    fn steps(&self, answer: &mut Answer) -> Vec<Step> {
        match answer {
            Answer::Records => self.send(self.found()),
            Answer::Code(code) => self.send(self.negative(*code)),
            Answer::NoData => self.send(self.negative(ResponseCode::NoError)),
            Answer::Silent => Vec::new(),
            Answer::Delay(delay, then) => {
                let mut steps = vec![Step::Wait(*delay)];
                steps.extend(self.steps(then));
                steps
            }
            Answer::Truncated => match self.over {
                Over::Udp => self.send(truncated(self.found())),
                Over::Tcp => self.send(self.found()),
            },
            Answer::TruncatedEverywhere => self.send(truncated(self.found())),
            Answer::Garbage(bytes) => vec![Step::Send(bytes.clone())],
            Answer::CutShort => {
                let mut bytes = self.encode(self.found());
                bytes.pop();
                vec![Step::Send(bytes)]
            }
            Answer::WrongId => {
                let mut message = self.found();
                message.metadata.id = message.metadata.id.wrapping_add(1);
                self.send(message)
            }
            Answer::WrongQuestion => {
                let mut message = self.found();
                message.queries[0].name = super::zone::parse("not.asked.invalid");
                self.send(message)
            }
            Answer::WrongSource => match self.over {
                Over::Udp => vec![Step::SendFromElsewhere(self.encode(self.found()))],
                Over::Tcp => self.send(self.found()),
            },
            Answer::CloseTcp => match self.over {
                Over::Udp => self.send(truncated(self.found())),
                Over::Tcp => vec![Step::Close],
            },
            Answer::Over { udp, tcp } => match self.over {
                Over::Udp => self.steps(udp),
                Over::Tcp => self.steps(tcp),
            },
            Answer::Times(0, _, then) => self.steps(then),
            Answer::Times(left, answer, _) => {
                *left -= 1;
                self.steps(answer)
            }
            Answer::Each(answers) => answers.iter_mut().flat_map(|answer| self.steps(answer)).collect(),
            Answer::Edited(edit) => {
                let mut message = self.found();
                (edit.0)(&mut message);
                self.send(message)
            }
        }
    }

    fn found(&self) -> Message {
        let Found { code, answers, authorities, additionals } =
            self.records.find(&self.query.name, self.query.query_type);
        let mut message = response(self.request);
        message.metadata.response_code = code;
        (message.answers, message.authorities, message.additionals) = (answers, authorities, additionals);
        message
    }

    fn negative(&self, code: ResponseCode) -> Message {
        let mut message = response(self.request);
        message.metadata.response_code = code;
        if matches!(code, ResponseCode::NoError | ResponseCode::NXDomain) {
            message.authorities = self.records.soa_above(&self.query.name);
        }
        message
    }

    fn send(&self, message: Message) -> Vec<Step> {
        vec![Step::Send(self.encode(message))]
    }

    fn encode(&self, message: Message) -> Vec<u8> {
        encode(message, self.over, self.request.max_payload())
    }
}

/// Without records. Both authoritative and recursive: it looks like what the client hopes to talk to.
fn response(request: &Message) -> Message {
    let mut message = Message::response(request.id, request.op_code);
    message.metadata = Metadata::response_from_request(&request.metadata);
    message.metadata.authoritative = true;
    message.metadata.recursion_available = true;
    message.queries = request.queries.clone();
    message.edns = request.edns.as_ref().map(|_| Edns::new());
    message
}

fn truncated(mut message: Message) -> Message {
    message.metadata.truncation = true;
    message.answers.truncate(message.answers.len() / 2);
    message.additionals.clear();
    message
}

/// What does not fit goes: at first the additional records, which nobody misses (RFC 2181, section 9), then halves of the
/// answer, which the mark tells of.
fn encode(mut message: Message, over: Over, udp_size: u16) -> Vec<u8> {
    let limit = match over {
        Over::Udp => usize::from(udp_size),
        Over::Tcp => usize::from(u16::MAX),
    };
    loop {
        match message.to_vec() {
            // Past the limit of the protocol the library cuts by itself, and says so in the bytes only.
            Ok(bytes) if bytes.len() <= limit && (bytes[2] & 0x02 != 0) == message.truncation => return bytes,
            Ok(_) if !message.additionals.is_empty() => message.additionals.clear(),
            Ok(_) if !message.answers.is_empty() => message = truncated(message),
            Ok(_) if !message.authorities.is_empty() => message.authorities.clear(),
            Ok(bytes) => return bytes,
            Err(_) => {
                // Only an edit can make a message that cannot be written.
                let code = ResponseCode::ServFail;
                return Message::error_msg(message.id, message.op_code, code).to_vec().unwrap_or_default();
            }
        }
    }
}
