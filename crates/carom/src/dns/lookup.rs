//! A lookup: one question from start to end, through the hosts file, the search list, the nameservers and aliases.

use super::error::{LookupError, Reason};
use super::interpret::Said;
use super::message::{display_name, parse_name};
use super::nameservers::{Preference, ask_any};
use super::system::{Configuration, in_hosts};
use carom_core::resolver::{Answer, Kind, Question};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Aliases that are followed from server to server.
const MOST_ALIASES: usize = 8;
/// How long what the hosts file says is believed.
const HOSTS_TTL: Duration = Duration::from_secs(60);

/// Whom to ask and how.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) configuration: Configuration,
    pub(super) preference: Arc<Preference>,
    pub(super) hosts: Arc<Path>,
}

/// How a question ended: what the machine is told, and what people are told when it ended badly.
pub(super) type Ended = (Answer, Option<LookupError>);

/// Asks one question, of names in the search list too if it is `searched`. Ends by the deadline; dropping it ends it earlier.
pub(super) async fn lookup(way: Arc<Way>, question: Question, searched: bool, timeout: Duration) -> Ended {
    if question.kind != Kind::Srv
        && let Some(answer) = look_in_hosts(&way.hosts, &question).await
    {
        let reasons = vec![Reason::Hosts { path: way.hosts.to_path_buf(), kind: question.kind }];
        let error = matches!(answer, Answer::Nothing { .. }).then(|| LookupError::new(question, reasons));
        return (answer, error);
    }
    let deadline = Instant::now() + timeout;
    let mut ended: Option<(Weight, Ended)> = None;
    let mut candidates = way.configuration.candidates(&question.name, searched).into_iter().peekable();
    while let Some(candidate) = candidates.next() {
        let now = Instant::now();
        if ended.is_some() && now >= deadline {
            break;
        }
        // One that gets no answer leaves time for those after it.
        let until = if candidates.peek().is_some() { now + (deadline - now) / 2 } else { deadline };
        let asking = Asking { way: &way, kind: question.kind, deadline: until };
        let (answer, reasons) = asking.follow(&candidate).await;
        let (weight, own) = (Weight::of(&answer), candidate == *question.name);
        let asked = Question { name: candidate.into(), kind: question.kind };
        let error = (!reasons.is_empty()).then(|| LookupError::new(asked, reasons));
        // Of those that say the same, the first trouble is told, or else what the name itself brought.
        let better = match &ended {
            Some((before, _)) if *before == weight => own && weight < Weight::Trouble,
            Some((before, _)) => *before < weight,
            None => true,
        };
        if better {
            ended = Some((weight, (answer, error)));
        }
        if weight == Weight::Found {
            break;
        }
    }
    // The name itself is always among the candidates.
    ended
        .map(|(_, ended)| ended)
        .unwrap_or_else(|| (Answer::Trouble, Some(LookupError::new(question, vec![Reason::NoNameservers]))))
}

/// How much an answer counts among those to the names of a search list. That one of them exists outweighs that others do
/// not, and while one could not be asked nobody knows that there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Missing,
    Empty,
    Trouble,
    Found,
}

impl Weight {
    fn of(answer: &Answer) -> Weight {
        match answer {
            Answer::Nothing { exists: false, .. } => Weight::Missing,
            Answer::Nothing { exists: true, .. } => Weight::Empty,
            Answer::NotImplemented | Answer::Refused | Answer::Trouble => Weight::Trouble,
            Answer::Targets { .. } | Answer::Addresses { .. } | Answer::NotOffered { .. } => Weight::Found,
        }
    }
}

struct Asking<'a> {
    way: &'a Way,
    kind: Kind,
    deadline: Instant,
}

impl Asking<'_> {
    /// Asks for a name and for what it is an alias of.
    async fn follow(&self, name: &str) -> (Answer, Vec<Reason>) {
        let mut name = match parse_name(name) {
            Ok(name) => name,
            Err(error) => return (Answer::Trouble, vec![Reason::Name(error.to_string())]),
        };
        let mut least: Option<Duration> = None;
        let Configuration { nameservers, .. } = &self.way.configuration;
        let mut reason = Reason::NoNameservers;
        for _ in 0..MOST_ALIASES {
            let asked = ask_any(nameservers, &self.way.preference, &name, self.kind, self.deadline).await;
            match asked {
                Ok((server, Said::Answer(answer))) => return self.answered(server, at_most(answer, least)),
                Ok((server, Said::Alias(alias, ttl))) => {
                    least = Some(least.map_or(ttl, |least| least.min(ttl)));
                    reason = Reason::Aliases { server, followed: MOST_ALIASES, last: display_name(&alias) };
                    name = alias;
                }
                Ok((server, Said::Loop(alias))) => {
                    return (Answer::Trouble, vec![Reason::AliasLoop { server, alias: display_name(&alias) }]);
                }
                Ok((server, Said::Code(code))) => return (Answer::Trouble, vec![Reason::Code { server, code }]),
                Err(reasons) => return (verdict(&reasons), reasons),
            }
        }
        (Answer::Trouble, vec![reason])
    }

    fn answered(&self, server: SocketAddr, answer: Answer) -> (Answer, Vec<Reason>) {
        let reasons = match &answer {
            Answer::Nothing { exists: true, .. } => vec![Reason::NoRecords { server, kind: self.kind }],
            Answer::Nothing { exists: false, .. } => vec![Reason::Code { server, code: 3 }],
            Answer::NotOffered { .. } => vec![Reason::NotOffered { server }],
            _ => Vec::new(),
        };
        (answer, reasons)
    }
}

/// An answer found through aliases is good for no longer than they are.
fn at_most(answer: Answer, least: Option<Duration>) -> Answer {
    match (answer, least) {
        (Answer::Addresses { addresses, ttl }, Some(least)) => Answer::Addresses { addresses, ttl: ttl.min(least) },
        (Answer::Targets { targets, additional, whole, ttl }, Some(least)) => {
            Answer::Targets { targets, additional, whole, ttl: ttl.min(least) }
        }
        (answer, _) => answer,
    }
}

/// What it means that no nameserver gave an answer: those that spoke decide if they agree.
fn verdict(reasons: &[Reason]) -> Answer {
    let mut codes = reasons.iter().filter_map(|reason| match reason {
        Reason::Code { code, .. } => Some(*code),
        _ => None,
    });
    let Some(code) = codes.next().filter(|first| codes.all(|code| code == *first)) else { return Answer::Trouble };
    match code {
        4 => Answer::NotImplemented,
        5 => Answer::Refused,
        _ => Answer::Trouble,
    }
}

async fn look_in_hosts(hosts: &Arc<Path>, question: &Question) -> Option<Answer> {
    let (path, name) = (Arc::clone(hosts), Arc::clone(&question.name));
    let found = tokio::task::spawn_blocking(move || in_hosts(&path, &name)).await.ok()??;
    let wanted = found.into_iter().filter(|address| address.is_ipv4() == (question.kind == Kind::A));
    let addresses: Vec<_> = wanted.collect();
    Some(if addresses.is_empty() {
        Answer::Nothing { exists: true, ttl: Some(HOSTS_TTL) }
    } else {
        Answer::Addresses { addresses, ttl: HOSTS_TTL }
    })
}
