//! One question to several nameservers: the first configured one that works first, the others when it fails, takes long or
//! does not know the name.

use super::error::Reason;
use super::exchange::{Rejected, ask};
use super::interpret::Said;
use super::message::{Name, Rtype};
use carom_core::resolver::{Answer, Kind};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long a nameserver is asked alone before the next is asked as well; less when time is too short for all of them.
const HEAD_START: Duration = Duration::from_millis(300);

/// How long the others have to contradict a nameserver that does not know the name.
const GRACE: Duration = Duration::from_secs(1);
/// How long a nameserver that failed is asked after the others.
const RETRY: Duration = Duration::from_secs(30);
/// The code of a nameserver that could not find out.
const SERVFAIL: u16 = 2;
/// The code of a nameserver that does not know the name.
const NXDOMAIN: u16 = 3;

/// Which nameservers failed lately. The first configured one that works is asked first; failed ones are retried.
#[derive(Debug, Default)]
pub(super) struct Preference {
    failed: Mutex<BTreeMap<SocketAddr, Instant>>,
}

impl Preference {
    /// The nameservers in the order to ask them, by index, and whether each failed lately.
    fn order(&self, servers: &[SocketAddr], now: Instant) -> Vec<(usize, bool)> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, since| now < *since + RETRY);
        let mut order: Vec<_> = (0..).zip(servers).map(|(i, server)| (i, failed.contains_key(server))).collect();
        order.sort_by_key(|(_, failed)| *failed);
        order
    }

    fn worked(&self, server: SocketAddr) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).remove(&server);
    }

    fn failed(&self, server: SocketAddr, now: Instant) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(server, now);
    }
}

/// A question to one nameserver.
struct Pending {
    rejected: Rejected,
    since: Instant,
    /// When the next nameserver is asked as well.
    overtaken_at: Instant,
    failed_lately: bool,
}

/// A nameserver's answer that there are no such records.
struct Absence {
    server: SocketAddr,
    /// NODATA, not NXDOMAIN.
    exists: bool,
    ttl: Option<Duration>,
}

/// Asks until one of them has records. That there are none is concluded when all have answered or had their time: see
/// [`conclude`]. If there is no answer, there is a reason for each nameserver.
pub(super) async fn ask_any(
    servers: &[SocketAddr],
    preference: &Preference,
    name: &Name,
    kind: Kind,
    deadline: Instant,
) -> Result<(SocketAddr, Said), Vec<Reason>> {
    let asked = |server: SocketAddr, rejected: Rejected| {
        let name = name.clone();
        async move { ask(server, &name, record_type(kind), &rejected).await.map(|response| response.says(&name, kind)) }
    };
    ask_in_turn(servers, preference, deadline, asked).await
}

/// [`ask_any`], where `ask` asks one of them.
async fn ask_in_turn<F>(
    servers: &[SocketAddr],
    preference: &Preference,
    deadline: Instant,
    ask: impl Fn(SocketAddr, Rejected) -> F,
) -> Result<(SocketAddr, Said), Vec<Reason>>
where
    F: Future<Output = Result<Said, Reason>> + Send + 'static,
{
    if servers.is_empty() {
        return Err(vec![Reason::NoNameservers]);
    }
    let mut waiting = preference.order(servers, Instant::now()).into_iter();
    // Dropped, it ends them all.
    let mut asking = JoinSet::new();
    let mut under_way: BTreeMap<usize, Pending> = BTreeMap::new();
    let (mut reasons, mut absences) = (Vec::new(), Vec::new());
    let (mut next_at, mut absent_since) = (Instant::now(), None);
    loop {
        // All at once when one of them does not know the name: another has to say so, or that it does.
        while next_at <= Instant::now() || under_way.is_empty() || absent_since.is_some() {
            let Some((i, failed_lately)) = waiting.next() else {
                next_at = deadline;
                break;
            };
            let (since, rejected) = (Instant::now(), Rejected::default());
            let left = deadline.saturating_duration_since(since);
            next_at = since + HEAD_START.min(left / (waiting.len() as u32 + 1));
            under_way.insert(i, Pending { rejected: rejected.clone(), since, overtaken_at: next_at, failed_lately });
            let asked = ask(servers[i], rejected);
            asking.spawn(async move { (i, asked.await) });
        }
        let concluded_at = absent_since.map(|since: Instant| {
            let all_failed_lately = under_way.values().all(|pending| pending.failed_lately);
            since + if all_failed_lately { HEAD_START } else { GRACE }
        });
        let give_up_at = concluded_at.map_or(deadline, |at| at.min(deadline));
        if under_way.is_empty() || Instant::now() >= give_up_at {
            for (i, pending) in under_way {
                preference.failed(servers[i], Instant::now());
                reasons.push(out_of_time(servers[i], &pending));
            }
            return conclude(absences, reasons);
        }
        tokio::select! {
            Some(ended) = asking.join_next() => {
                // Nothing here aborts one, and one that panics is as good as silent.
                let Ok((i, said)) = ended else { continue };
                under_way.remove(&i);
                let (server, now) = (servers[i], Instant::now());
                match said {
                    Ok(Said::Code(code)) => {
                        preference.failed(server, now);
                        reasons.push(Reason::Code { server, code });
                    }
                    Ok(Said::Answer(Answer::Nothing { exists, ttl })) => {
                        preference.worked(server);
                        absences.push(Absence { server, exists, ttl });
                        absent_since.get_or_insert(now);
                    }
                    Ok(said) => {
                        preference.worked(server);
                        let overtaken = under_way.iter().filter(|(_, pending)| pending.overtaken_at <= now);
                        let wrong = absences.iter().map(|absence| absence.server);
                        for server in overtaken.map(|(i, _)| servers[*i]).chain(wrong) {
                            preference.failed(server, now);
                        }
                        return Ok((server, said));
                    }
                    Err(reason) => {
                        preference.failed(server, now);
                        reasons.push(reason);
                    }
                }
                next_at = now;
            }
            () = sleep_until(next_at.min(give_up_at)) => {}
        }
    }
}

/// No nameserver has records. One that says NODATA knows the name, and is believed. NXDOMAIN is believed if a majority of those
/// that responded agree; one that responded with SERVFAIL may know the name.
fn conclude(absences: Vec<Absence>, mut reasons: Vec<Reason>) -> Result<(SocketAddr, Said), Vec<Reason>> {
    let failed = reasons.iter().filter(|reason| matches!(reason, Reason::Code { code: SERVFAIL, .. })).count();
    let exists = absences.iter().any(|absence| absence.exists);
    if exists || absences.len() > failed {
        let mut agreeing = absences.iter().filter(|absence| absence.exists == exists);
        if let Some(&Absence { server, ttl, .. }) = agreeing.next() {
            let ttl = agreeing.filter_map(|absence| absence.ttl).chain(ttl).min();
            return Ok((server, Said::Answer(Answer::Nothing { exists, ttl })));
        }
    }
    reasons.extend(absences.into_iter().map(|Absence { server, .. }| Reason::Code { server, code: NXDOMAIN }));
    Err(reasons)
}

fn out_of_time(server: SocketAddr, pending: &Pending) -> Reason {
    match pending.rejected.take() {
        Some(problem) => Reason::Unreadable { server, problem },
        None => Reason::TimedOut { server, within: round(pending.since.elapsed()) },
    }
}

/// To be read: 2.0007319s is 2s.
fn round(time: Duration) -> Duration {
    Duration::from_millis((time.as_micros() as u64 + 500) / 1000)
}

fn record_type(kind: Kind) -> Rtype {
    match kind {
        Kind::Srv => Rtype::SRV,
        Kind::Aaaa => Rtype::AAAA,
        Kind::A => Rtype::A,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> [SocketAddr; 3] {
        [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 53)))
    }

    #[tokio::test(start_paused = true)]
    async fn first_configured_nameserver_that_works_is_preferred_and_failed_ones_are_retried() {
        let (preference, servers) = (Preference::default(), servers());
        let order = || preference.order(&servers, Instant::now()).into_iter().map(|(i, _)| i).collect::<Vec<_>>();
        assert_eq!(order(), [0, 1, 2]);
        preference.failed(servers[0], Instant::now());
        assert_eq!(order(), [1, 2, 0]);
        tokio::time::advance(RETRY / 2).await;
        preference.failed(servers[1], Instant::now());
        assert_eq!(order(), [2, 0, 1]);
        tokio::time::advance(RETRY / 2).await;
        assert_eq!(order(), [0, 2, 1], "the first is asked first again");
        preference.worked(servers[1]);
        assert_eq!(order(), [0, 1, 2]);
    }

    /// What a nameserver does at once when it is asked.
    #[derive(Clone, Copy)]
    enum Does {
        Answer,
        Fail,
        Nothing,
    }

    /// Asks three nameservers. Who had addresses, and when each was asked.
    async fn ask_three(script: [Does; 3]) -> (SocketAddr, Vec<Duration>) {
        let (start, times) = (Instant::now(), Mutex::new(Vec::new()));
        let ask = |server: SocketAddr, _: Rejected| {
            times.lock().unwrap().push(start.elapsed());
            let does = script[servers().iter().position(|known| *known == server).unwrap()];
            async move {
                match does {
                    Does::Answer => Ok(Said::Answer(Answer::Addresses { addresses: Vec::new(), ttl: RETRY })),
                    Does::Fail => Ok(Said::Code(SERVFAIL)),
                    Does::Nothing => std::future::pending::<Result<Said, Reason>>().await,
                }
            }
        };
        let deadline = start + Duration::from_secs(3600);
        let (server, _) = ask_in_turn(&servers(), &Preference::default(), deadline, ask).await.unwrap();
        (server, times.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_nameserver_is_overtaken_after_its_head_start() {
        let (server, times) = ask_three([Does::Nothing, Does::Answer, Does::Nothing]).await;
        assert_eq!((server, times), (servers()[1], vec![Duration::ZERO, HEAD_START]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_nameserver_that_fails_is_overtaken_at_once() {
        let (server, times) = ask_three([Does::Fail, Does::Answer, Does::Nothing]).await;
        assert_eq!((server, times), (servers()[1], vec![Duration::ZERO; 2]));
        // While another is still waited for, too.
        let (server, times) = ask_three([Does::Nothing, Does::Fail, Does::Answer]).await;
        assert_eq!((server, times), (servers()[2], vec![Duration::ZERO, HEAD_START, HEAD_START]));
    }

    #[test]
    fn absence_needs_a_majority_of_the_responses_unless_the_name_exists() {
        let concluded = |exists: &[bool], codes: &[u16]| {
            let absence = |(server, exists)| Absence { server, exists, ttl: Some(Duration::from_secs(9)) };
            let absences = servers().into_iter().zip(exists.iter().copied()).map(absence).collect();
            let reason = |(server, code)| Reason::Code { server, code };
            let reasons = servers().into_iter().zip(codes.iter().copied()).map(reason).collect();
            match conclude(absences, reasons) {
                Ok((_, Said::Answer(Answer::Nothing { exists, .. }))) => Some(exists),
                Ok(other) => panic!("{other:?}"),
                Err(_) => None,
            }
        };
        assert_eq!(concluded(&[false], &[]), Some(false));
        assert_eq!(concluded(&[false], &[2]), None);
        assert_eq!(concluded(&[false, false], &[2]), Some(false));
        assert_eq!(concluded(&[false, false], &[2, 2]), None);
        assert_eq!(concluded(&[false], &[5, 4]), Some(false), "REFUSED and NOTIMP say nothing of the name");
        assert_eq!(concluded(&[false, true], &[2]), Some(true), "the name exists");
        assert_eq!(concluded(&[], &[2, 5]), None);
    }
}
