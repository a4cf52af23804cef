//! Managers written for deadpool: one for each backend, recycling after use, told when a connection leaves.

use carom::managers::deadpool::{FromManagers, Managed, ManagerError, from_managers, try_from_managers};
use carom::pool::BackendState;
use carom::{Backend, ClaimError, Connect, Ejection, Policy, Pool};
use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use std::collections::BTreeMap;
use std::error::Error;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::logs::{Level, Logs};
use testkit::wait::ms;
use tokio::sync::watch;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// What has happened, and what is to happen.
#[derive(Default)]
struct Log {
    /// Managers made, by backend.
    made: BTreeMap<SocketAddr, usize>,
    /// Where connections went to, in order: the first is connection 1.
    created: Vec<SocketAddr>,
    /// Connections as they were recycled or detached.
    recycled: Vec<usize>,
    detached: Vec<usize>,
    on_recycle: OnRecycle,
    refuse: bool,
    panic_at_detach: bool,
}

#[derive(Clone, Copy, Default)]
enum OnRecycle {
    #[default]
    Pass,
    Fail,
    Refuse,
    Hang,
}

#[derive(Clone)]
struct World(Arc<watch::Sender<Log>>);

impl World {
    fn new() -> World {
        World(Arc::new(watch::Sender::new(Log::default())))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Log) -> R) -> R {
        let mut result = None;
        self.0.send_modify(|log| result = Some(change(log)));
        result.unwrap()
    }

    /// Waits until it happens, soon.
    async fn until(&self, happened: impl FnMut(&Log) -> bool) {
        let mut log = self.0.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(60), log.wait_for(happened)).await;
        assert!(matches!(waited, Ok(Ok(_))), "it did not happen within a minute");
    }

    fn connector(&self) -> FromManagers<Manager> {
        let world = self.clone();
        from_managers(move |backend| {
            let server = backend.socket_addr();
            world.change(|log| *log.made.entry(server).or_default() += 1);
            Manager { server, world: world.clone() }
        })
    }
}

struct Manager {
    server: SocketAddr,
    world: World,
}

#[derive(Debug, PartialEq)]
struct Connection {
    id: usize,
    server: SocketAddr,
    /// Left behind by its user.
    dirty: bool,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("refused with code {0}")]
struct Refused(u32);

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Refused;

    async fn create(&self) -> Result<Connection, Refused> {
        let server = self.server;
        self.world.change(|log| {
            if log.refuse {
                return Err(Refused(53300));
            }
            log.created.push(server);
            Ok(Connection { id: log.created.len(), server, dirty: false })
        })
    }

    async fn recycle(&self, connection: &mut Connection, _metrics: &Metrics) -> RecycleResult<Refused> {
        assert_eq!(connection.server, self.server, "asked of the manager that made it");
        let on_recycle = self.world.change(|log| {
            log.recycled.push(connection.id);
            log.on_recycle
        });
        match on_recycle {
            OnRecycle::Pass => {
                connection.dirty = false;
                Ok(())
            }
            OnRecycle::Fail => Err(RecycleError::Backend(Refused(8006))),
            OnRecycle::Refuse => Err(RecycleError::message("connection closed")),
            OnRecycle::Hang => pending().await,
        }
    }

    fn detach(&self, connection: &mut Connection) {
        assert_eq!(connection.server, self.server, "asked of the manager that made it");
        let panics = self.world.change(|log| {
            log.detached.push(connection.id);
            log.panic_at_detach
        });
        assert!(!panics, "as told");
    }
}

#[tokio::test(start_paused = true)]
async fn backends_share_the_load_with_one_manager_each_made_once() {
    let world = World::new();
    let nodes = [address(1), address(2), address(3)];
    let pool = Pool::builder(world.connector()).backends(nodes).spares(0).maximum(6).build().unwrap();
    for _ in 0..3 {
        let mut claims = Vec::new();
        for _ in 0..6 {
            claims.push(pool.claim().await.unwrap());
        }
        let mut servers: Vec<_> = claims.iter().map(|claim| claim.server).collect();
        servers.sort_unstable();
        assert_eq!(servers, nodes.map(|node| [node, node]).concat());
        claims.into_iter().for_each(|claim| claim.discard());
    }
    assert_eq!(world.0.borrow().made, BTreeMap::from(nodes.map(|node| (node, 1))));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_recycled_after_use_before_the_next_gets_it() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let mut claim = pool.claim().await.unwrap();
    assert!(world.0.borrow().recycled.is_empty(), "a new one is clean");
    claim.dirty = true;
    drop(claim);
    let mut claim = pool.claim().await.unwrap();
    assert_eq!((claim.id, claim.dirty, Managed::metrics(&claim).recycle_count), (1, false, 1));
    claim.dirty = true;
    // One who waits already gets it no dirtier.
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim().await.map(|claim| (claim.id, claim.dirty)) }
    });
    tokio::task::yield_now().await;
    drop(claim);
    assert_eq!(waiting.await.unwrap().unwrap(), (1, false));
    world.until(|log| log.recycled == [1, 1, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn recycling_needs_nobody_to_wait_for_it() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    world.until(|log| log.recycled == [1]).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_recycled_is_replaced() {
    let world = World::new();
    let pool = Pool::builder(world.connector())
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .check_timeout(ms(200))
        .build()
        .unwrap();
    for (before, on_recycle) in [(1, OnRecycle::Fail), (2, OnRecycle::Refuse), (3, OnRecycle::Hang)] {
        let claim = pool.claim().await.unwrap();
        assert_eq!(claim.id, before);
        world.change(|log| log.on_recycle = on_recycle);
        drop(claim);
        world.until(|log| log.detached.contains(&before)).await;
        world.change(|log| log.on_recycle = OnRecycle::Pass);
    }
    assert_eq!(pool.claim().await.unwrap().id, 4);
    assert_eq!(world.0.borrow().detached, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn failed_recycles_are_counted_with_their_cause_and_a_warning_is_logged() {
    let (logs, world) = (Logs::capture(), World::new());
    // A single connection: no other becomes suspect when its recycle fails.
    let builder = Pool::builder(world.connector()).name("orders").backends([address(1)]);
    let pool = builder.spares(1).maximum(1).build().unwrap();
    let uses = async |many: usize| {
        for _ in 0..many {
            let ended = pool.snapshot().checks.ended;
            drop(pool.claim().await.unwrap());
            while pool.snapshot().checks.ended == ended {
                tokio::time::sleep(ms(1)).await;
            }
        }
    };
    uses(20).await;
    assert_eq!((pool.snapshot().checks.ended, pool.snapshot().checks.failed), (20, 0));
    world.change(|log| log.on_recycle = OnRecycle::Fail);
    uses(10).await;
    assert_eq!(pool.snapshot().checks.failed, 10);
    let warnings = || logs.at(Level::WARN);
    assert!(warnings().is_empty(), "half of the last 20 failed: {:?}", warnings());
    uses(5).await;
    let [warning] = &warnings()[..] else { panic!("{:?}", warnings()) };
    assert!(warning.says("checks and recycles") && warning.has("pool", "orders"), "{warning:?}");
    assert!(warning.has("failed", "11") && warning.has("error", "refused with code 8006"), "{warning:?}");
    let cause = pool.snapshot().checks.cause.expect("it is kept");
    assert_eq!(cause.to_string(), "last failed recycle: 10.0.0.1:80: recycling failed: refused with code 8006");
    tokio::time::sleep(Duration::from_secs(60)).await;
    uses(1).await;
    assert_eq!(warnings().len(), 2, "once a minute");
}

/// As with deadpool itself; with one attempt, which any blame would use up.
#[tokio::test(start_paused = true)]
async fn a_manager_that_refuses_every_recycle_is_served_all_the_same() {
    for on_recycle in [OnRecycle::Fail, OnRecycle::Refuse] {
        for (use_time, spares, maximum) in [(5, 0, 1), (5, 2, 16), (150, 0, 1)] {
            let world = World::new();
            world.change(|log| log.on_recycle = on_recycle);
            let pool = Pool::builder(world.connector())
                .backends([address(1)])
                .spares(spares)
                .maximum(maximum)
                .recovery(Policy::default().attempts(1))
                .build()
                .unwrap();
            let start = tokio::time::Instant::now();
            for _ in 0..30 {
                let _claim = pool.claim().await.unwrap();
                tokio::time::sleep(ms(use_time)).await;
            }
            assert!(start.elapsed() < ms(30 * (use_time + 5)), "nobody waits for a delay: {:?}", start.elapsed());
            assert!(pool.snapshot().cause.is_none(), "nothing has failed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_recycle_counts_towards_ejection_and_is_its_reason() {
    let (logs, world) = (Logs::capture(), World::new());
    world.change(|log| log.on_recycle = OnRecycle::Fail);
    let pool = Pool::builder(world.connector())
        .backends((1..=2).map(address))
        .ejection(Ejection::default().consecutive(3))
        .build()
        .unwrap();
    let ejected = || pool.snapshot().pool.backends.iter().any(|backend| backend.state == BackendState::Ejected);
    for _ in 0..20 {
        drop(pool.claim().await.unwrap());
        tokio::time::sleep(ms(5)).await;
    }
    assert!(ejected(), "{:?}", pool.snapshot());
    let reason = "recycle failed: recycling failed: refused with code 8006";
    assert!(logs.count(&["WARN", "backend ejected", reason]) > 0, "{}", logs.text());
}

/// As when its server has closed it after this use.
#[tokio::test(start_paused = true)]
async fn failed_recycle_of_a_connection_that_has_served_counts_after_a_short_use_only() {
    for (use_time, ejected) in [(20, false), (1, true)] {
        let world = World::new();
        let pool = Pool::builder(world.connector())
            .backends((1..=2).map(address))
            .ejection(Ejection::default().consecutive(1))
            .build()
            .unwrap();
        for last in [false, false, false, false, true] {
            let claims = [pool.claim().await.unwrap(), pool.claim().await.unwrap()];
            tokio::time::sleep(ms(if last { use_time } else { 20 })).await;
            world.change(|log| log.on_recycle = if last { OnRecycle::Refuse } else { OnRecycle::Pass });
            drop(claims);
            tokio::time::sleep(ms(1)).await;
        }
        let snapshot = pool.snapshot();
        let is_ejected = snapshot.pool.backends.iter().any(|backend| backend.state == BackendState::Ejected);
        assert_eq!(is_ejected, ejected, "{use_time} ms: {snapshot:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_check_of_an_idle_connection_recycles_it() {
    let world = World::new();
    let pool = Pool::builder(world.connector())
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .check_after(ms(500))
        .build()
        .unwrap();
    world.until(|log| log.recycled == [1, 1]).await;
    world.change(|log| log.on_recycle = OnRecycle::Refuse);
    world.until(|log| log.detached == [1]).await;
    world.change(|log| log.on_recycle = OnRecycle::Pass);
    assert_eq!(pool.claim().await.unwrap().id, 2);
}

/// Without a pool: what the connector itself answers.
#[tokio::test(start_paused = true)]
async fn recycle_counts_and_reports_why_it_failed() {
    let (world, backend) = (World::new(), Backend::fixed(address(1)));
    let connector = world.connector();
    let mut managed = connector.connect(&backend).await.unwrap();
    assert_eq!((managed.id, Managed::manager(&managed).server), (1, address(1)));
    assert!(Managed::metrics(&managed).recycled.is_none());
    for count in 1..=2 {
        connector.recycle(&mut managed).unwrap().await.unwrap();
        let metrics = Managed::metrics(&managed);
        assert_eq!(metrics.recycle_count, count);
        assert!(metrics.recycled.is_some_and(|recycled| recycled >= metrics.created));
    }
    world.change(|log| log.on_recycle = OnRecycle::Fail);
    let error = connector.recycle(&mut managed).unwrap().await.unwrap_err();
    assert!(matches!(error, ManagerError::Recycle(Refused(8006))));
    assert_eq!(error.to_string(), "recycling failed: refused with code 8006");
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&Refused(8006)));
    world.change(|log| log.on_recycle = OnRecycle::Refuse);
    let error = connector.recycle(&mut managed).unwrap().await.unwrap_err();
    assert_eq!(error.to_string(), "recycling failed: connection closed");
    assert!(error.source().is_none());
    assert_eq!(Managed::metrics(&managed).recycle_count, 2, "failures do not count");
}

#[tokio::test(start_paused = true)]
async fn what_the_manager_said_is_among_the_sources() {
    let world = World::new();
    world.change(|log| log.refuse = true);
    let policy = Policy::default().attempts(2);
    let pool = Pool::builder(world.connector()).backends([address(1)]).recovery(policy).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(matches!(error, ClaimError::Failed { .. }), "{error}");
    assert!(error.to_string().ends_with("last connect error: 10.0.0.1:80: refused with code 53300"), "{error}");
    let said = error.source().unwrap().downcast_ref::<ManagerError<Refused>>().unwrap();
    assert!(matches!(said, ManagerError::Create(Refused(53300))));
    assert_eq!(said.source().unwrap().downcast_ref(), Some(&Refused(53300)));
    assert_eq!(world.0.borrow().made[&address(1)], 1, "one manager for all attempts");
}

/// A manager whose errors are not errors.
struct Laconic;

impl managed::Manager for Laconic {
    type Type = ();
    type Error = ();

    async fn create(&self) -> Result<(), ()> {
        Err(())
    }

    async fn recycle(&self, _connection: &mut (), _metrics: &Metrics) -> RecycleResult<()> {
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it did not say why")]
struct Unexplained;

impl From<()> for Unexplained {
    fn from((): ()) -> Unexplained {
        Unexplained
    }
}

#[tokio::test(start_paused = true)]
async fn errors_that_are_none_can_be_converted() {
    let connector = try_from_managers(|_: &Backend| Ok::<_, Unexplained>(Laconic));
    let pool = Pool::builder(connector).backends([address(1)]).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(error.source().unwrap().source().unwrap().is::<Unexplained>(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_detached_once_when_it_leaves() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(0).maximum(1).build().unwrap();
    pool.claim().await.unwrap().discard();
    world.until(|log| log.detached == [1]).await;

    pool.claim().await.unwrap().fail("it answered nonsense");
    assert_eq!(world.0.borrow().detached, [1, 2]);

    let managed = pool.claim().await.unwrap().detach();
    assert_eq!(world.0.borrow().detached, [1, 2], "it is still of its manager");
    let connection = Managed::into_inner(managed);
    assert_eq!(world.0.borrow().detached, [1, 2, 3]);
    assert_eq!(connection.id, 3);

    drop(pool.claim().await.unwrap());
    drop(pool);
    world.until(|log| log.detached == [1, 2, 3, 4]).await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_panics_at_detaching_takes_nothing_down() {
    let world = World::new();
    world.change(|log| log.panic_at_detach = true);
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    pool.claim().await.unwrap().fail("dropped by its user");
    pool.claim().await.unwrap().discard(); // dropped by a task of the driver
    let claim = pool.claim().await.unwrap();
    assert_eq!((claim.id, world.0.borrow().detached.len()), (3, 2));
}
