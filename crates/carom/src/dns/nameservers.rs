//! One question to several nameservers: the one that answered last first, the others when it fails or takes long.

use super::error::Reason;
use super::exchange::{Rejected, ask};
use super::interpret::Said;
use carom_core::resolver::Kind;
use hickory_proto::rr::{Name, RecordType};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long a nameserver is asked alone before the next is asked as well; less when time is too short for all of them.
const HEAD_START: Duration = Duration::from_millis(300);

/// Which nameserver is asked first.
#[derive(Debug)]
pub(super) enum Preferred {
    /// The first of the list.
    First,
    /// The one that answered last: an index into whatever list there is.
    Last(AtomicUsize),
}

impl Preferred {
    fn index(&self, count: usize) -> usize {
        match self {
            Preferred::First => 0,
            Preferred::Last(index) => index.load(Ordering::Relaxed) % count,
        }
    }

    fn answered(&self, i: usize) {
        match self {
            Preferred::First => {}
            Preferred::Last(index) => index.store(i, Ordering::Relaxed),
        }
    }
}

/// Asks until one of them gives an answer: records, or that there are none. What the others said is among the reasons when
/// none does, with one reason each.
pub(super) async fn ask_any(
    servers: &[SocketAddr],
    preferred: &Preferred,
    name: &Name,
    kind: Kind,
    deadline: Instant,
) -> Result<(SocketAddr, Said), Vec<Reason>> {
    if servers.is_empty() {
        return Err(vec![Reason::NoNameservers]);
    }
    let first = preferred.index(servers.len());
    let mut waiting = (first..servers.len()).chain(0..first);
    // Dropped, it ends them all.
    let mut asking = JoinSet::new();
    let mut under_way: BTreeMap<usize, (Rejected, Instant)> = BTreeMap::new();
    let mut reasons = Vec::new();
    let mut next_at = Instant::now();
    loop {
        if next_at <= Instant::now() || under_way.is_empty() {
            match waiting.next() {
                Some(i) => {
                    let (server, name, rejected) = (servers[i], name.clone(), Rejected::default());
                    under_way.insert(i, (rejected.clone(), Instant::now()));
                    asking.spawn(async move { (i, ask(server, &name, record_type(kind), &rejected).await) });
                    let left = deadline.saturating_duration_since(Instant::now());
                    next_at = Instant::now() + HEAD_START.min(left / (waiting.clone().count() as u32 + 1));
                }
                None if under_way.is_empty() => return Err(reasons),
                None => next_at = deadline,
            }
        }
        tokio::select! {
            Some(ended) = asking.join_next() => {
                // Nothing here aborts one, and one that panics is as good as silent.
                let Ok((i, response)) = ended else { continue };
                under_way.remove(&i);
                let server = servers[i];
                match response.map(|response| response.says(name, kind)) {
                    Ok(Said::Code(code)) => reasons.push(Reason::Code { server, code }),
                    Ok(said) => {
                        preferred.answered(i);
                        return Ok((server, said));
                    }
                    Err(reason) => reasons.push(reason),
                }
                next_at = Instant::now();
            }
            () = sleep_until(next_at.min(deadline)) => {
                if Instant::now() >= deadline {
                    reasons.extend(under_way.into_iter().map(|(i, asked)| out_of_time(servers[i], &asked)));
                    return Err(reasons);
                }
            }
        }
    }
}

fn out_of_time(server: SocketAddr, (rejected, since): &(Rejected, Instant)) -> Reason {
    match rejected.take() {
        Some(problem) => Reason::Unreadable { server, problem },
        None => Reason::TimedOut { server, within: round(since.elapsed()) },
    }
}

/// To be read: 2.0007319s is 2s.
fn round(time: Duration) -> Duration {
    Duration::from_millis((time.as_micros() as u64 + 500) / 1000)
}

fn record_type(kind: Kind) -> RecordType {
    match kind {
        Kind::Srv => RecordType::SRV,
        Kind::Aaaa => RecordType::AAAA,
        Kind::A => RecordType::A,
    }
}
