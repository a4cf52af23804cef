//! Load on a pool, with a ledger: every claim that was begun, how it ended and when, and what its connection was good for.

use crate::echo::{Echo, is_impatience};
use crate::ms;
use crate::storm::Kills;
use carom::{Claim, ClaimError, Connect, Pool};
use carom_core::random::Random;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What most claims may take. As long as a server lives, none of these fails.
pub const PATIENCE: Duration = ms_const(3000);
/// A use that takes longer hangs.
const USE: Duration = ms_const(10_000);
/// Texts that are kept, of those that should not be.
const KEPT: usize = 5;

const fn ms_const(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What became of the claims of one pool.
#[derive(Debug)]
pub struct Ledger {
    pub name: &'static str,
    figures: Mutex<Figures>,
}

/// Begun claims are granted, refused, hurried or cancelled; granted ones are used, broken, or one of those that should not be.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub begun: u64,
    pub granted: u64,
    /// Patient claims that failed, and why.
    pub refused: u64,
    pub refusals: Vec<String>,
    /// Claims with next to no time that timed out.
    pub hurried: u64,
    /// Claims whose future was dropped while they waited.
    pub cancelled: u64,
    /// Of those granted: the longest wait.
    pub longest_wait: Duration,
    /// Of all: how far past its deadline the latest ended.
    pub latest: Duration,
    pub used: u64,
    /// Uses that failed because their server had been killed.
    pub broken: u64,
    /// Uses given up by an impatient client while the server may only have been slow.
    pub impatient: u64,
    /// Uses that failed although their server lived.
    pub unexplained: Vec<String>,
    /// Replies to somebody else's request.
    pub mixed_up: Vec<String>,
    pub hung: u64,
    /// When a server last served, and for how long at most one that was killed was missed after it was back.
    served: BTreeMap<SocketAddr, Instant>,
    pub longest_missed: Duration,
}

impl Ledger {
    fn new(name: &'static str) -> Ledger {
        Ledger { name, figures: Mutex::default() }
    }

    pub fn figures(&self) -> Figures {
        self.lock().clone()
    }

    /// Whether a server has served since then; if so, that it was missed until now.
    pub fn notes_return(&self, server: SocketAddr, since: Instant) -> bool {
        let mut figures = self.lock();
        let Some(&at) = figures.served.get(&server).filter(|&&at| at > since) else { return false };
        figures.longest_missed = figures.longest_missed.max(at - since);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().expect("nobody panics with the ledger open")
    }

    fn ended(&self, since: Instant, within: Duration) {
        let mut figures = self.lock();
        figures.latest = figures.latest.max(since.elapsed().saturating_sub(within));
    }
}

impl Figures {
    /// Everything that must hold of any load while a server lives.
    pub fn judge(&self, name: &str) {
        let Figures { begun, granted, refused, hurried, cancelled, .. } = *self;
        assert_eq!(begun, granted + refused + hurried + cancelled, "{name}: a claim is lost: {self:?}");
        let uses = self.used + self.broken + self.impatient + self.unexplained.len() as u64;
        assert_eq!(granted, uses + self.mixed_up.len() as u64 + self.hung, "{name}: a use is lost: {self:?}");
        assert!(granted > 100 && hurried + cancelled > 0, "{name}: that was no load: {self:?}");
        assert_eq!(refused, 0, "{name}: claims failed although a server lived: {:#?}", self.refusals);
        assert!(self.unexplained.is_empty(), "{name}: uses failed although the server lived: {:#?}", self.unexplained);
        assert!(self.mixed_up.is_empty(), "{name}: replies to others: {:#?}", self.mixed_up);
        assert_eq!(self.hung, 0, "{name}: uses hung");
    }
}

/// Users of a pool, until they are told to stop.
pub struct Load {
    pub ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    users: JoinSet<()>,
}

impl Load {
    pub fn begin<C>(name: &'static str, pool: &Pool<C>, users: u64, kills: &Arc<Kills>, seed: u64) -> Load
    where
        C: Connect,
        C::Connection: Echo,
    {
        let (ledger, stop) = (Arc::new(Ledger::new(name)), Arc::new(AtomicBool::new(false)));
        let mut load = Load { ledger, stop, users: JoinSet::new() };
        for number in 0..users {
            let user = User {
                pool: pool.clone(),
                ledger: Arc::clone(&load.ledger),
                kills: Arc::clone(kills),
                random: Random::new(seed.wrapping_mul(1000) + number),
                number,
            };
            load.users.spawn(user.run(Arc::clone(&load.stop)));
        }
        load
    }

    /// Everybody ends what they are at. Nobody hangs.
    pub async fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let longest = PATIENCE + USE + Duration::from_secs(5);
        let ended = timeout(longest, async {
            while self.users.join_next().await.transpose().expect("no user panics").is_some() {}
        });
        assert!(ended.await.is_ok(), "{}: {} users hang", self.ledger.name, self.users.len());
    }
}

struct User<C: Connect> {
    pool: Pool<C>,
    ledger: Arc<Ledger>,
    kills: Arc<Kills>,
    random: Random,
    number: u64,
}

impl<C> User<C>
where
    C: Connect,
    C::Connection: Echo,
{
    async fn run(mut self, stop: Arc<AtomicBool>) {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            if let Some(claim) = self.claim().await {
                self.use_it(claim, turn).await;
            }
            if self.random.below(2) == 0 {
                sleep(ms(1)).await;
            }
        }
    }

    /// Most are patient; one in 16 has next to no time, one in 16 leaves before it is served.
    async fn claim(&mut self) -> Option<Claim<C>> {
        let (hurries, leaves) = (self.random.below(16) == 0, self.random.below(16) == 0);
        let within = if hurries { ms(1 + self.random.below(10) as u64) } else { PATIENCE };
        self.ledger.lock().begun += 1;
        let since = Instant::now();
        let claiming = self.pool.claim_within(within);
        let result = if leaves {
            let Ok(result) = timeout(ms(1 + self.random.below(5) as u64), claiming).await else {
                self.ledger.lock().cancelled += 1;
                return None;
            };
            result
        } else {
            claiming.await
        };
        self.ledger.ended(since, within);
        let mut figures = self.ledger.lock();
        match result {
            Ok(claim) => {
                figures.granted += 1;
                figures.longest_wait = figures.longest_wait.max(since.elapsed());
                return Some(claim);
            }
            Err(ClaimError::TimedOut { .. }) if hurries => figures.hurried += 1,
            Err(error) => {
                figures.refused += 1;
                keep(&mut figures.refusals, error.to_string());
            }
        }
        None
    }

    async fn use_it(&mut self, mut claim: Claim<C>, turn: u64) {
        let (server, born) = (claim.backend().socket_addr(), Instant::now().checked_sub(claim.age()));
        let word = format!("{}-{}-{turn}", self.ledger.name, self.number);
        sleep(ms(self.random.below(3) as u64)).await;
        let echoed = timeout(USE, claim.echo(&word)).await;
        let mut figures = self.ledger.lock();
        match echoed {
            Ok(Ok(echoed)) if echoed == word => {
                figures.used += 1;
                figures.served.insert(server, Instant::now());
                drop(figures);
                // Now and then somebody closes what still works.
                if self.random.below(200) == 0 { claim.discard() } else { drop(claim) }
            }
            Ok(Ok(other)) => {
                figures.mixed_up.push(format!("{server}: {other:?} for {word:?}"));
                claim.discard();
            }
            Ok(Err(error)) => {
                if born.is_some_and(|born| self.kills.since(server, born)) {
                    figures.broken += 1;
                } else if is_impatience(&error) {
                    figures.impatient += 1;
                } else {
                    figures.unexplained.push(format!(
                        "{server}, age {:?}, used {}: {error:?}",
                        claim.age(),
                        claim.uses()
                    ));
                }
                drop(figures);
                claim.fail(error);
            }
            Err(_) => {
                figures.hung += 1;
                drop(figures);
                claim.fail("no reply");
            }
        }
    }
}

fn keep(texts: &mut Vec<String>, text: String) {
    if texts.len() < KEPT {
        texts.push(text);
    }
}

/// How late a bare timer is on this machine, at worst: what no pool can be blamed for.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    _watching: JoinSet<()>,
}

impl Stalls {
    pub fn watch() -> Stalls {
        let (worst, mut watching) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        let noted = Arc::clone(&worst);
        watching.spawn(async move {
            loop {
                let start = Instant::now();
                sleep(ms(5)).await;
                let late = start.elapsed().saturating_sub(ms(5));
                noted.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        Stalls { worst, _watching: watching }
    }

    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst.load(Ordering::Relaxed))
    }
}
