//! What a DNS message says, in the machine's words.

use super::message::{Data, Message, Name, Record, display_name};
use carom_core::resolver::{Answer, Kind, Target};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub(super) const NOERROR: u16 = 0;
pub(super) const NXDOMAIN: u16 = 3;

/// Aliases that are followed within one answer, each a search of all its records. If there are more, the last is asked for.
const MOST_ALIASES: usize = 16;

/// What a message says.
#[derive(Debug)]
pub(super) enum Said {
    /// This.
    Answer(Answer),
    /// That the name is another name for this one, of which it says nothing; good for so long.
    Alias(Name, Duration),
    /// That the name is, by other names or by none, another name for itself; the name at which that shows.
    Loop(Name),
    /// That something is wrong: the code, as DNS numbers them.
    Code(u16),
}

/// Reads a response to a question.
pub(super) fn interpret(message: &Message, name: &Name, kind: Kind) -> Said {
    match message.code {
        NOERROR => {}
        NXDOMAIN => return Said::Answer(Answer::Nothing { exists: false, ttl: negative_ttl(message) }),
        code => return Said::Code(code),
    }
    let (name, alias_ttl, looped) = follow_aliases(message, name);
    let records: Vec<_> = message.answers.iter().filter(|record| record.name == name).collect();
    let said = match kind {
        Kind::Srv => targets(message, &records, alias_ttl),
        Kind::Aaaa | Kind::A => addresses(&records, kind, alias_ttl),
    };
    match (said, alias_ttl) {
        (Some(answer), _) => Said::Answer(answer),
        (None, _) if looped => Said::Loop(name),
        (None, Some(ttl)) if negative_ttl(message).is_none() => Said::Alias(name, ttl),
        (None, _) => Said::Answer(Answer::Nothing { exists: true, ttl: negative_ttl(message) }),
    }
}

/// Where the aliases in the answer lead, how long they are good for if there are any, and whether they lead back.
fn follow_aliases(message: &Message, name: &Name) -> (Name, Option<Duration>, bool) {
    let (mut name, mut least) = (name.clone(), None);
    let mut seen = HashSet::from([name.clone()]);
    for _ in 0..MOST_ALIASES {
        let next = message.answers.iter().find_map(|record| match &record.data {
            Data::Alias(alias) if record.name == name => Some((alias.clone(), ttl(record))),
            _ => None,
        });
        let Some((alias, record_ttl)) = next else { break };
        if !seen.insert(alias.clone()) {
            return (name, least, true);
        }
        least = Some(least.map_or(record_ttl, |least: Duration| least.min(record_ttl)));
        name = alias;
    }
    (name, least, false)
}

fn targets(message: &Message, records: &[&Record], alias_ttl: Option<Duration>) -> Option<Answer> {
    let services: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.data {
            Data::Service { priority, weight, port, target } => Some((target, *port, *priority, *weight, ttl(record))),
            _ => None,
        })
        .collect();
    let mut least = services.iter().map(|(.., ttl)| *ttl).chain(alias_ttl).min()?;
    let targets: Vec<_> = services
        .into_iter()
        // Nobody can be connected to at port 0: as little an offer as the root.
        .filter(|(target, port, ..)| !target.is_root() && *port != 0)
        .map(|(target, port, priority, weight, _)| Target { priority, name: display_name(target), port, weight })
        .collect();
    if targets.is_empty() {
        // Without SRV records there is nothing to say; with none but those left out there is.
        let none_offered = records.iter().any(|record| matches!(record.data, Data::Service { .. }));
        return none_offered.then_some(Answer::NotOffered { ttl: least });
    }
    let names: HashSet<_> = targets.iter().map(|target| Arc::clone(&target.name)).collect();
    let mut additional = Vec::new();
    for record in &message.additionals {
        let Some(address) = address(record) else { continue };
        let name = display_name(&record.name);
        if names.contains(&name) {
            additional.push((name, address));
            least = least.min(ttl(record));
        }
    }
    // Whether there was room for all of them depends on how the message came.
    Some(Answer::Targets { targets, additional, whole: false, ttl: least })
}

fn addresses(records: &[&Record], kind: Kind, alias_ttl: Option<Duration>) -> Option<Answer> {
    let wanted = |address: &IpAddr| address.is_ipv4() == (kind == Kind::A);
    let found: Vec<_> =
        records.iter().filter_map(|record| Some((address(record).filter(wanted)?, ttl(record)))).collect();
    let least = found.iter().map(|(_, ttl)| *ttl).min()?;
    let ttl = alias_ttl.map_or(least, |alias_ttl| alias_ttl.min(least));
    Some(Answer::Addresses { addresses: found.into_iter().map(|(address, _)| address).collect(), ttl })
}

fn address(record: &Record) -> Option<IpAddr> {
    match record.data {
        Data::Address(address) => Some(address),
        Data::Alias(_) | Data::Service { .. } | Data::Authority { .. } | Data::Other => None,
    }
}

/// How long "there is nothing" holds: the lower of the SOA record's TTL and its minimum (RFC 2308).
fn negative_ttl(message: &Message) -> Option<Duration> {
    message.authorities.iter().find_map(|record| match record.data {
        Data::Authority { minimum } => Some(ttl(record).min(seconds(minimum))),
        _ => None,
    })
}

fn ttl(record: &Record) -> Duration {
    seconds(record.ttl)
}

/// A TTL with its highest bit set counts as zero (RFC 2181).
fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(if ttl > i32::MAX as u32 { 0 } else { ttl.into() })
}

#[cfg(test)]
mod tests {
    use super::super::message::parse_name;
    use super::*;

    fn name(text: &str) -> Name {
        parse_name(text).unwrap()
    }

    fn message(answers: impl IntoIterator<Item = (String, u32, Data)>) -> Message {
        let record = |(owner, ttl, data): (String, _, _)| Record { name: name(&owner), ttl, data };
        Message {
            is_response: true,
            truncated: false,
            code: NOERROR,
            questions: Vec::new(),
            answers: answers.into_iter().map(record).collect(),
            authorities: Vec::new(),
            additionals: Vec::new(),
        }
    }

    fn alias(i: usize) -> (String, u32, Data) {
        (format!("n{i}.test."), 60, Data::Alias(name(&format!("n{}.test.", i + 1))))
    }

    fn address() -> Data {
        Data::Address([10, 0, 0, 1].into())
    }

    fn service(port: u16, target: &str) -> Data {
        Data::Service { priority: 0, weight: 0, port, target: name(target) }
    }

    #[test]
    fn a_chain_of_thousands_of_aliases_is_followed_a_few_at_a_time() {
        let message = message((0..4000).rev().map(alias));
        let Said::Alias(next, ttl) = interpret(&message, &name("n0.test."), Kind::A) else { panic!() };
        assert_eq!((next, ttl), (name("n16.test."), Duration::from_secs(60)));
    }

    #[test]
    fn records_of_other_names_are_no_answer() {
        let other = message([("other.test.".to_owned(), 60, address())]);
        let said = interpret(&other, &name("n0.test."), Kind::A);
        assert!(matches!(said, Said::Answer(Answer::Nothing { exists: true, ttl: None })), "{said:?}");
    }

    #[test]
    fn the_root_among_targets_is_left_out_and_alone_says_that_nothing_is_offered() {
        let srv = |target: &str, ttl| ("s.test.".to_owned(), ttl, service(80, target));
        let said = interpret(&message([srv(".", 5), srv("A.test.", 9)]), &name("S.test."), Kind::Srv);
        let Said::Answer(Answer::Targets { targets, ttl, .. }) = said else { panic!("{said:?}") };
        assert_eq!((targets.len(), &*targets[0].name, ttl), (1, "a.test", Duration::from_secs(5)));
        let said = interpret(&message([srv(".", 5)]), &name("s.test."), Kind::Srv);
        assert!(matches!(said, Said::Answer(Answer::NotOffered { ttl }) if ttl == Duration::from_secs(5)), "{said:?}");
    }

    #[test]
    fn a_target_at_port_0_is_no_more_than_the_root() {
        let srv = |port, target: &str| ("s.test.".to_owned(), 5, service(port, target));
        let said = interpret(&message([srv(0, "a.test."), srv(80, "b.test.")]), &name("s.test."), Kind::Srv);
        let Said::Answer(Answer::Targets { targets, .. }) = said else { panic!("{said:?}") };
        assert_eq!((targets.len(), &*targets[0].name), (1, "b.test"));
        let said = interpret(&message([srv(0, "a.test.")]), &name("s.test."), Kind::Srv);
        assert!(matches!(said, Said::Answer(Answer::NotOffered { .. })), "{said:?}");
    }

    #[test]
    fn an_alias_of_itself_is_a_loop_unless_there_is_an_answer_too() {
        let to_itself = ("n0.test.".to_owned(), 60, Data::Alias(name("N0.test.")));
        let said = interpret(&message([to_itself.clone()]), &name("n0.test."), Kind::A);
        assert!(matches!(&said, Said::Loop(at) if *at == name("n0.test.")), "{said:?}");
        let address = ("n0.test.".to_owned(), 60, address());
        let said = interpret(&message([to_itself, address]), &name("n0.test."), Kind::A);
        assert!(matches!(said, Said::Answer(Answer::Addresses { .. })), "{said:?}");
    }
}
