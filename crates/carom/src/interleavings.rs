//! The hand-off under explored schedules: callers that claim, wait, give up and release, against a driver.
//!
//! Time stands still; the lock and the threads are shuttle's, so that every point at which they can overtake each other is
//! tried in many orders. A failure prints a schedule that shuttle can replay.

use crate::connect::Connect;
use crate::meter::Timer;
use crate::pool::shared::Shared;
use crate::pool::table::{Asking, Held};
use crate::pool::{Claim, Claiming};
use crate::{Backend, ClaimError};
use carom_core::pool::{Action, Machine, Options, State};
use carom_core::slot::{Phase, SlotRef};
use shuttle::future::block_on;
use shuttle::thread;
use std::io;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const SCHEDULES: usize = 3_000;
/// How long claims may take: nobody waits for that here.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Counts what is open.
#[derive(Clone, Default)]
struct Counting {
    open: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

struct Connection {
    open: Arc<AtomicUsize>,
    in_use: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connect for Counting {
    type Connection = Connection;
    type Error = io::Error;

    async fn connect(&self, _backend: &Backend) -> io::Result<Connection> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { open: Arc::clone(&self.open), in_use: AtomicBool::new(false) })
    }
}

struct World {
    shared: Arc<Shared<Counting>>,
    counting: Counting,
    now: Instant,
}

impl World {
    fn new(maximum: usize) -> World {
        let (now, counting) = (Instant::now(), Counting::default());
        let options = Options { spares: maximum, maximum, ..Options::default() };
        let mut machine = Machine::new(options, 7, now).unwrap();
        machine.handle_backends(now, &[Backend::fixed("10.0.0.1:80".parse().unwrap())]);
        let shared = Arc::new(Shared::new("explored".into(), counting.clone(), machine, PATIENCE, None));
        World { shared, counting, now }
    }

    /// A driver without I/O: connects at once, closes at once.
    fn drive(&self) -> thread::JoinHandle<()> {
        let (shared, now) = (Arc::clone(&self.shared), self.now);
        thread::spawn(move || {
            block_on(async {
                loop {
                    let (actions, state) = shared.driver_step(|table| {
                        table.machine.handle_timeout(now);
                        let actions: Vec<Action> = std::iter::from_fn(|| table.machine.poll_action()).collect();
                        table.machine.arm();
                        (actions, table.machine.state())
                    });
                    if state == State::Stopped {
                        return;
                    }
                    if actions.is_empty() {
                        shared.wake.notified().await;
                    }
                    for action in actions {
                        perform(&shared, now, action).await;
                    }
                }
            });
        })
    }

    fn claiming(&self) -> Claiming<'_, Counting> {
        claiming(&self.shared)
    }

    /// Nobody uses anything any more: the counts say so, and closing leaves nothing behind.
    fn check_end(self, driver: thread::JoinHandle<()>) {
        self.shared.step(|table| {
            assert_eq!((table.machine.counts().of(Phase::Busy), table.machine.waiting()), (0, 0));
            table.machine.close(self.now);
        });
        driver.join().unwrap();
        assert_eq!(self.counting.open.load(Ordering::Relaxed), 0);
    }
}

async fn perform(shared: &Shared<Counting>, now: Instant, action: Action) {
    match action {
        Action::Connect { slot, backend } => {
            let connection = shared.connector.connect(&backend).await.unwrap();
            let held = Box::new(Held { connection, backend, slot, timer: Timer::default() });
            let unwanted = shared.driver_step(|table| {
                let unwanted = table.put(slot, held);
                table.machine.handle_connected(now, slot, false);
                unwanted
            });
            drop(unwanted);
        }
        Action::Close { slot, .. } => {
            let (held, _) = shared.driver_step(|table| table.take(slot));
            drop(held);
            closed(shared, now, slot);
        }
        Action::Abandon { slot, .. } => closed(shared, now, slot),
        Action::Watch { .. }
        | Action::Check { .. }
        | Action::Recycle { .. }
        | Action::Suspect { .. }
        | Action::HealthCheck { .. }
        | Action::Overdue { .. } => {}
    }
}

fn closed(shared: &Shared<Counting>, now: Instant, slot: SlotRef) {
    shared.driver_step(|table| table.machine.handle_closed(now, slot));
}

fn claiming(shared: &Arc<Shared<Counting>>) -> Claiming<'_, Counting> {
    let timeout = PATIENCE;
    Claiming::new(shared, Asking { timeout, error_on_empty: false, avoid: None, site: Location::caller() })
}

/// Uses a connection: nobody else may have it.
fn use_alone(claim: Claim<Counting>) {
    assert!(!claim.in_use.swap(true, Ordering::Relaxed), "held twice");
    thread::yield_now();
    claim.in_use.store(false, Ordering::Relaxed);
}

/// Claims twice in a row.
fn patient(shared: Arc<Shared<Counting>>) {
    for _ in 0..2 {
        use_alone(block_on(claiming(&shared)).unwrap());
    }
}

/// Looks once, and gives up when it would have to wait, perhaps just when it is being served.
fn hasty(shared: Arc<Shared<Counting>>) {
    let mut waiting = pin!(claiming(&shared));
    let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if let std::task::Poll::Ready(claim) = polled {
        use_alone(claim.unwrap());
    }
    thread::yield_now();
}

/// Ends its use in a way that makes the pool open another connection.
fn wasteful(shared: Arc<Shared<Counting>>) {
    block_on(claiming(&shared)).unwrap().discard();
    drop(block_on(claiming(&shared)).unwrap().detach());
}

fn explore(scenario: fn()) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

#[test]
fn nobody_holds_what_another_holds_and_nobody_waits_for_ever() {
    explore(|| {
        let world = World::new(1);
        let driver = world.drive();
        let callers: [fn(Arc<Shared<Counting>>); 3] = [patient, hasty, patient];
        let callers = callers.map(|caller| {
            let shared = Arc::clone(&world.shared);
            thread::spawn(move || caller(shared))
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(world.counting.opened.load(Ordering::Relaxed), 1);
        world.check_end(driver);
    });
}

#[test]
fn what_is_discarded_or_detached_is_replaced_for_those_who_wait() {
    explore(|| {
        let world = World::new(2);
        let driver = world.drive();
        let callers: [fn(Arc<Shared<Counting>>); 3] = [wasteful, patient, wasteful];
        let callers = callers.map(|caller| {
            let shared = Arc::clone(&world.shared);
            thread::spawn(move || caller(shared))
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        world.check_end(driver);
    });
}

#[test]
fn closing_ends_everyone_who_waits_exactly_once() {
    explore(|| {
        let world = World::new(1);
        let driver = world.drive();
        let held = block_on(world.claiming()).unwrap();
        let waiting = {
            let shared = Arc::clone(&world.shared);
            thread::spawn(move || match block_on(claiming(&shared)) {
                Ok(claim) => use_alone(claim),
                Err(error) => assert!(matches!(error, ClaimError::Closed { .. })),
            })
        };
        let closing = {
            let (shared, now) = (Arc::clone(&world.shared), world.now);
            thread::spawn(move || shared.step(|table| table.machine.close(now)))
        };
        drop(held);
        waiting.join().unwrap();
        closing.join().unwrap();
        world.check_end(driver);
    });
}
