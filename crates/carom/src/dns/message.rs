//! DNS messages, written and read with the crate `domain`. A message is read whole, so that a malformed one is rejected at once.

use domain::base::iana::{Class, OptRcode, Rcode};
use domain::base::message_builder::PushError;
use domain::base::name::FromStrError;
use domain::base::wire::ParseError;
use domain::base::{Message as Wire, MessageBuilder, ParsedRecord, ToName};
use domain::rdata::{A, Aaaa, Cname, Soa, Srv};
use std::net::IpAddr;
use std::sync::Arc;

pub(super) use domain::base::Rtype;

/// A domain name; comparison ignores case.
pub(super) type Name = domain::base::Name<Vec<u8>>;

/// Reads a name in presentation format, with or without the dot at its end.
pub(super) fn parse_name(text: &str) -> Result<Name, FromStrError> {
    Name::vec_from_str(text)
}

/// Lower case, without the dot at the end.
pub(super) fn display_name(name: &Name) -> Arc<str> {
    if name.is_root() {
        return "".into();
    }
    name.to_string().to_ascii_lowercase().into()
}

/// A query of one question, with recursion desired; with `payload` as EDNS0's size of a datagram.
pub(super) fn encode_query(id: u16, name: &Name, rtype: Rtype, payload: Option<u16>) -> Result<Vec<u8>, PushError> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    message.header_mut().set_rd(true);
    let mut message = message.question();
    message.push((name, rtype))?;
    let mut message = message.additional();
    if let Some(size) = payload {
        message.opt(|opt| {
            opt.set_udp_payload_size(size);
            Ok(())
        })?;
    }
    Ok(message.finish())
}

/// A message that was received.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) is_response: bool,
    pub(super) truncated: bool,
    /// With the upper bits that EDNS0 adds.
    pub(super) code: u16,
    pub(super) questions: Vec<Question>,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    pub(super) additionals: Vec<Record>,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) rtype: Rtype,
    pub(super) is_internet: bool,
}

/// A record of class IN.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) ttl: u32,
    pub(super) data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Address(IpAddr),
    Alias(Name),
    Service { priority: u16, weight: u16, port: u16, target: Name },
    Authority { minimum: u32 },
    Other,
}

impl Message {
    pub(super) fn parse(bytes: &[u8]) -> Result<Message, ParseError> {
        let wire = Wire::from_octets(bytes).map_err(|_| ParseError::ShortInput)?;
        let questions = wire.question().map(|question| {
            let question = question?;
            Ok(Question {
                name: question.qname().to_name(),
                rtype: question.qtype(),
                is_internet: question.qclass() == Class::IN,
            })
        });
        Ok(Message {
            is_response: wire.header().qr(),
            truncated: wire.header().tc(),
            code: wire.opt_rcode().to_int(),
            questions: questions.collect::<Result<_, ParseError>>()?,
            answers: records(wire.answer()?)?,
            authorities: records(wire.authority()?)?,
            additionals: records(wire.additional()?)?,
        })
    }
}

fn records<'a>(
    section: impl Iterator<Item = Result<ParsedRecord<'a, &'a [u8]>, ParseError>>,
) -> Result<Vec<Record>, ParseError> {
    let read = |record: Result<ParsedRecord<'a, &'a [u8]>, ParseError>| {
        let record = record?;
        let data = data(&record)?;
        Ok((record.class() == Class::IN).then(|| Record {
            name: record.owner().to_name(),
            ttl: record.ttl().as_secs(),
            data,
        }))
    };
    section.map(read).filter_map(Result::transpose).collect()
}

fn data(record: &ParsedRecord<'_, &[u8]>) -> Result<Data, ParseError> {
    if record.rtype() == Rtype::OPT && !record.owner().is_root() {
        return Err(ParseError::form_error("an OPT record with a name"));
    }
    if let Some(record) = record.to_record::<A>()? {
        return Ok(Data::Address(record.data().addr().into()));
    }
    if let Some(record) = record.to_record::<Aaaa>()? {
        return Ok(Data::Address(record.data().addr().into()));
    }
    if let Some(record) = record.to_record::<Cname<_>>()? {
        return Ok(Data::Alias(record.data().cname().to_name()));
    }
    if let Some(record) = record.to_record::<Srv<_>>()? {
        let srv = record.data();
        return Ok(Data::Service {
            priority: srv.priority(),
            weight: srv.weight(),
            port: srv.port(),
            target: srv.target().to_name(),
        });
    }
    if let Some(record) = record.to_record::<Soa<_>>()? {
        return Ok(Data::Authority { minimum: record.data().minimum().as_secs() });
    }
    Ok(Data::Other)
}

/// The number of a response code and its mnemonic.
pub(super) fn display_code(code: u16) -> String {
    format!("code {code} ({})", OptRcode::from_parts(Rcode::masked_from_int(code as u8), (code >> 4) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::{Message as Written, MessageType, OpCode};
    use hickory_proto::rr::{DNSClass, Name, RData, Record, rdata};

    #[test]
    fn records_of_other_classes_are_left_out() {
        let mut written = Written::new(1, MessageType::Response, OpCode::Query);
        let name = Name::from_ascii("n0.test.").unwrap();
        let record = Record::from_rdata(name, 60, RData::A(rdata::A::new(10, 0, 0, 1)));
        written.answers = vec![record.clone(), record];
        written.answers[0].dns_class = DNSClass::CH;
        assert_eq!(Message::parse(&written.to_vec().unwrap()).unwrap().answers.len(), 1);
    }

    #[test]
    fn code_is_displayed_with_its_mnemonic() {
        assert_eq!(display_code(9), "code 9 (NOTAUTH)");
        assert_eq!(display_code(23), "code 23 (BADCOOKIE)");
        assert_eq!(display_code(3000), "code 3000 (3000)");
    }

    #[test]
    fn names_are_displayed_in_lower_case_without_the_dot_at_the_end() {
        for (text, displayed) in [("API.test.", "api.test"), ("api.test", "api.test"), (".", "")] {
            assert_eq!(&*display_name(&parse_name(text).unwrap()), displayed);
        }
    }
}
