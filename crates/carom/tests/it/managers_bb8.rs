//! Managers written for bb8: one for each backend, asked what they are there for.

use carom::managers::bb8::{FromManagers, Managed, from_managers, try_from_managers};
use carom::pool::{BackendSnapshot, BackendState};
use carom::{Backend, ClaimError, Ejection, Policy, Pool};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::backends::Told;
use testkit::logs::{Level, Logs};
use testkit::wait::ms;
use tokio::sync::watch;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// What has happened, and what is to happen.
#[derive(Default)]
struct Log {
    /// Managers made, by backend, and those forgotten again.
    made: BTreeMap<SocketAddr, usize>,
    forgotten: Vec<SocketAddr>,
    /// Where connections went to, in order: the first is connection 1.
    connected: Vec<SocketAddr>,
    checks: usize,
    broken: Vec<usize>,
    invalid: Vec<usize>,
    /// A server that has died: it cannot be connected to, and none of its connections is valid.
    dead: Option<SocketAddr>,
    refuse: bool,
    /// Asked whether it has broken, a broken one panics.
    panics: bool,
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

    fn manager(&self, backend: &Backend) -> Manager {
        let server = backend.socket_addr();
        self.change(|log| *log.made.entry(server).or_default() += 1);
        Manager { server, world: self.clone() }
    }

    fn connector(&self) -> FromManagers<Manager> {
        let world = self.clone();
        from_managers(move |backend| world.manager(backend))
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
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("refused with code {0}")]
struct Refused(u32);

impl bb8::ManageConnection for Manager {
    type Connection = Connection;
    type Error = Refused;

    async fn connect(&self) -> Result<Connection, Refused> {
        let server = self.server;
        self.world.change(|log| {
            if log.refuse || log.dead == Some(server) {
                return Err(Refused(53300));
            }
            log.connected.push(server);
            Ok(Connection { id: log.connected.len(), server })
        })
    }

    async fn is_valid(&self, connection: &mut Connection) -> Result<(), Refused> {
        assert_eq!(connection.server, self.server, "asked of the manager that made it");
        self.world.change(|log| {
            log.checks += 1;
            if log.invalid.contains(&connection.id) || log.dead == Some(connection.server) {
                Err(Refused(8006))
            } else {
                Ok(())
            }
        })
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        assert_eq!(connection.server, self.server, "asked of the manager that made it");
        let (broken, panics) = {
            let log = self.world.0.borrow();
            (log.broken.contains(&connection.id), log.panics)
        };
        assert!(!broken || !panics, "as told");
        broken
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.world.change(|log| log.forgotten.push(self.server));
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
    let log = world.0.borrow();
    assert_eq!(log.made, BTreeMap::from(nodes.map(|node| (node, 1))));
    assert_eq!((log.connected.len(), log.forgotten.len()), (18, 0));
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_not_lent_again() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    tokio::time::sleep(ms(200)).await;
    world.change(|log| log.broken.push(claim.id));
    drop(claim);
    let claim = pool.claim().await.unwrap();
    assert_eq!(claim.id, 2, "noticed at release");
    drop(claim);
    tokio::time::sleep(ms(600)).await;
    world.change(|log| log.broken.push(2));
    assert_eq!(pool.claim().await.unwrap().id, 3, "noticed at claim, after idling");
}

/// The manager never says that a connection has broken, as that of bb8-redis. Uses of a dead node fail at once, so its connections
/// are idle most of the time.
#[tokio::test(start_paused = true)]
async fn dead_node_gets_few_claims_though_its_connections_never_look_broken() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends((1..=3).map(address)).build().unwrap();
    let start = tokio::time::Instant::now();
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (pool, world) = (pool.clone(), world.clone());
        users.spawn(async move {
            let mut got = Vec::new();
            while start.elapsed() < ms(10_000) {
                let claim = pool.claim().await.unwrap();
                let fails = world.0.borrow().dead == Some(claim.server);
                got.push((start.elapsed(), claim.server));
                tokio::time::sleep(if fails { ms(1) } else { ms(10) }).await;
            }
            got
        });
    }
    tokio::time::sleep(ms(3_000)).await;
    world.change(|log| log.dead = Some(address(1)));
    let got: Vec<_> = users.join_all().await.into_iter().flatten().collect();
    let share = |from: u64, until: u64| {
        let window: Vec<_> = got.iter().filter(|(at, _)| (ms(from)..ms(until)).contains(at)).collect();
        window.iter().filter(|(_, server)| *server == address(1)).count() as f64 / window.len() as f64
    };
    assert!((0.25..0.45).contains(&share(500, 3_000)), "{:.3} while it was alive", share(500, 3_000));
    assert!(share(4_000, 10_000) < 0.02, "{:.3} after it died", share(4_000, 10_000));
}

#[tokio::test(start_paused = true)]
async fn connection_is_validated_at_most_every_500_ms_of_use() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let start = tokio::time::Instant::now();
    while start.elapsed() < ms(10_000) {
        let _claim = pool.claim().await.unwrap();
        tokio::time::sleep(ms(1)).await;
    }
    drop(pool);
    world.until(|log| log.forgotten.len() == 1).await;
    let checks = world.0.borrow().checks;
    assert!((10..=20).contains(&checks), "{checks} in 10 s");
    let connector = world.connector().validate_every(None);
    let pool = Pool::builder(connector).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    for _ in 0..3 {
        let _claim = pool.claim().await.unwrap();
        tokio::time::sleep(ms(1_000)).await;
    }
    assert_eq!(world.0.borrow().checks, checks, "turned off");
}

/// The manager never says that a connection has broken, and none is due for its validation: the first use that fails at once tells.
#[tokio::test(start_paused = true)]
async fn restart_of_a_node_fails_one_use_though_its_connections_never_look_broken() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(3).maximum(3).build().unwrap();
    for _ in 0..2 {
        let claims = [pool.claim().await.unwrap(), pool.claim().await.unwrap(), pool.claim().await.unwrap()];
        tokio::time::sleep(ms(20)).await;
        drop(claims);
    }
    world.change(|log| log.invalid = vec![1, 2, 3]);
    assert!(pool.claim().await.unwrap().id <= 3, "it is handed out");
    world.until(|log| log.connected.len() > 3).await;
    for _ in 0..6 {
        assert!(pool.claim().await.unwrap().id > 3, "its use ended at once, so the others were validated");
    }
}

/// It closes each connection after three uses, and the manager never says so.
#[tokio::test(start_paused = true)]
async fn node_that_closes_connections_after_use_fails_one_use_and_is_not_blamed() {
    let world = World::new();
    let ejection = Ejection::default().consecutive(2);
    let pool = Pool::builder(world.connector()).backends([address(1), address(2)]).ejection(ejection).build().unwrap();
    let mut failed = 0;
    for _ in 0..300 {
        let claim = pool.claim().await.unwrap();
        if world.0.borrow().invalid.contains(&claim.id) {
            failed += 1;
            continue;
        }
        tokio::time::sleep(ms(5)).await;
        if claim.server == address(1) && claim.uses() == 3 {
            world.change(|log| log.invalid.push(claim.id));
        }
    }
    let healthy = |backend: &BackendSnapshot| backend.state == BackendState::Healthy;
    let snapshot = pool.snapshot();
    assert!(snapshot.pool.backends.iter().all(healthy), "{snapshot:?}");
    let closed = world.0.borrow().invalid.len();
    assert!(failed == 1 && closed > 10, "{failed} failed, {closed} were closed");
}

#[tokio::test(start_paused = true)]
async fn ejection_has_the_reason_that_validations_failed_or_that_connections_were_closed_during_use() {
    for (closes, reason) in
        [(false, "validation failed: refused with code 8006"), (true, "connection closed during use")]
    {
        let (logs, world) = (Logs::capture(), World::new());
        let builder = Pool::builder(world.connector()).backends([address(1), address(2)]).spares(2).maximum(2);
        let pool = builder.ejection(Ejection::default().consecutive(1)).build().unwrap();
        for _ in 0..3 {
            let claims = [pool.claim().await.unwrap(), pool.claim().await.unwrap()];
            tokio::time::sleep(ms(20)).await;
            drop(claims);
        }
        // Its use is much shorter than the others: it has failed.
        let claim = pool.claim().await.unwrap();
        let backend = claim.backend().to_string();
        world.change(|log| if closes { &mut log.broken } else { &mut log.invalid }.push(claim.id));
        drop(claim);
        tokio::time::sleep(ms(1)).await;
        let warnings = logs.at(Level::WARN);
        let [ejected] = &warnings[..] else { panic!("{warnings:#?}") };
        assert!(ejected.says("backend ejected") && ejected.has("backend", &backend), "{ejected:?}");
        assert!(ejected.has("reason", reason), "{ejected:?}");
    }
}

/// As with bb8 itself; with one attempt, which any blame would use up.
#[tokio::test(start_paused = true)]
async fn a_manager_whose_connections_break_at_every_use_is_served_all_the_same() {
    for panics in [false, true] {
        let world = World::new();
        world.change(|log| (log.broken, log.panics) = ((1..100).collect(), panics));
        let policy = Policy::default().attempts(1);
        let pool =
            Pool::builder(world.connector()).backends([address(1)]).spares(0).maximum(1).recovery(policy).build();
        let (pool, start) = (pool.unwrap(), tokio::time::Instant::now());
        for served in 1..=30 {
            let claim = pool.claim().await.unwrap();
            tokio::time::sleep(ms(5)).await;
            assert_eq!(claim.id, served);
        }
        assert!(start.elapsed() < ms(300), "nobody waits for a delay: {:?}", start.elapsed());
        assert!(pool.snapshot().cause.is_none(), "nothing has failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_panics_when_asked_at_a_claim_takes_nobody_with_it() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    for id in [1, 2] {
        tokio::time::sleep(ms(600)).await;
        world.change(|log| (log.broken, log.panics) = (vec![id], true));
        let next = match id {
            1 => pool.claim().await,
            _ => match pool.try_claim() {
                Err(ClaimError::Busy { .. }) => pool.claim().await,
                other => panic!("it is closed: {other:?}"),
            },
        };
        assert_eq!(next.unwrap().id, id + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_is_not_valid_is_replaced() {
    let world = World::new();
    let pool = Pool::builder(world.connector())
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .check_after(ms(500))
        .build()
        .unwrap();
    assert_eq!(pool.claim().await.unwrap().id, 1);
    world.until(|log| log.checks == 2).await;
    assert_eq!(pool.claim().await.unwrap().id, 1, "it is valid");
    world.change(|log| log.invalid.push(1));
    world.until(|log| log.connected.len() == 2).await;
    let claim = pool.claim().await.unwrap();
    assert_eq!((claim.id, claim.uses()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn what_the_manager_said_is_the_source() {
    let world = World::new();
    world.change(|log| log.refuse = true);
    let policy = Policy::default().attempts(2);
    let pool = Pool::builder(world.connector()).name("orders").backends([address(1)]).recovery(policy).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(matches!(error, ClaimError::Failed { .. }), "{error}");
    assert!(error.to_string().ends_with("last connect error: 10.0.0.1:80: refused with code 53300"), "{error}");
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&Refused(53300)));
    assert_eq!(world.0.borrow().made[&address(1)], 1, "one manager for all attempts");
}

#[tokio::test(start_paused = true)]
async fn making_a_manager_may_fail_and_is_tried_again() {
    #[derive(Debug, thiserror::Error)]
    enum SetupError {
        #[error("no secret")]
        Secret(#[source] io::Error),
        #[error("{0}")]
        Manager(#[from] Refused),
    }
    let world = World::new();
    let (ready, is_ready) = watch::channel(false);
    let connector = try_from_managers({
        let world = world.clone();
        move |backend: &Backend| match *is_ready.borrow() {
            false => Err(SetupError::Secret(io::ErrorKind::NotFound.into())),
            true => Ok(world.manager(backend)),
        }
    });
    let policy = Policy::default().attempts(1).max_delay(ms(1000));
    let pool = Pool::builder(connector).backends([address(1)]).recovery(policy).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    let SetupError::Secret(missing) = error.source().unwrap().downcast_ref().unwrap() else { panic!("{error}") };
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    ready.send_replace(true);
    world.until(|log| !log.connected.is_empty()).await;
    assert_eq!(pool.claim().await.unwrap().server, address(1));
}

/// A manager whose errors are not errors.
struct Laconic;

impl bb8::ManageConnection for Laconic {
    type Connection = ();
    type Error = ();

    async fn connect(&self) -> Result<(), ()> {
        Err(())
    }

    async fn is_valid(&self, _connection: &mut ()) -> Result<(), ()> {
        Ok(())
    }

    fn has_broken(&self, _connection: &mut ()) -> bool {
        false
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
    assert!(error.source().unwrap().is::<Unexplained>(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_detached_connection_is_the_managers_own() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1)]).build().unwrap();
    let managed: Managed<Manager> = pool.claim().await.unwrap().detach();
    assert_eq!(Managed::manager(&managed).server, address(1));
    let connection: Connection = Managed::into_inner(managed);
    assert_eq!(connection, Connection { id: 1, server: address(1) });
}

#[tokio::test(start_paused = true)]
async fn the_manager_of_a_removed_backend_is_forgotten() {
    let world = World::new();
    let backends = |numbers: &[u8]| numbers.iter().map(|&number| Backend::fixed(address(number))).collect::<Vec<_>>();
    let (tell, told) = Told::new(backends(&[1, 2]));
    let pool = Pool::builder(world.connector()).resolver(told).spares(2).maximum(4).build().unwrap();
    world.until(|log| log.connected.len() == 2).await;
    tell.send_replace(backends(&[1]));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(300)).await;
        // Managers are looked through when something is dialled.
        let connected = world.0.borrow().connected.len();
        pool.claim().await.unwrap().discard();
        world.until(|log| log.connected.len() > connected).await;
    }
    assert_eq!(world.0.borrow().forgotten, [address(2)]);
    tell.send_replace(backends(&[1, 2]));
    world.until(|log| log.made[&address(2)] == 2).await;
    assert_eq!(world.0.borrow().made[&address(1)], 1);
}

#[tokio::test(start_paused = true)]
async fn all_managers_go_with_the_pool() {
    let world = World::new();
    let pool = Pool::builder(world.connector()).backends([address(1), address(2)]).build().unwrap();
    world.until(|log| log.connected.len() == 2).await;
    drop(pool);
    world.until(|log| log.forgotten.len() == 2).await;
}
