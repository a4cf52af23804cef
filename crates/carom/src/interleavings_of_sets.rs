//! Sharing under explored schedules: callers that lease, give up and let go, against releases, far sides and ends.
//!
//! The lock and the threads are shuttle's; the driver is one without I/O, whose clock each turn moves on, so that it looks for
//! idle connections again and again. A failure prints a schedule that shuttle can replay.

use crate::connect::Connect;
use crate::set::shared::{Cell, Shared, Standing};
use crate::set::{Lease, LeaseOptions, Leasing};
use crate::{Backend, LeaseError, Policy, Share};
use carom_core::set::{Action, ConnectionId, Machine, Options, State};
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const SCHEDULES: usize = 3_000;
const INTERVAL: Duration = Duration::from_secs(1000);

/// The longest delay between two dials.
const BACKOFF: Duration = Duration::from_millis(1);
/// A timer that is due within this time is a backoff. Callers read the real clock, which runs ahead of the driver's on a busy machine.
const SOON: Duration = Duration::from_secs(500);

/// Counts what is open, and what was shut.
#[derive(Clone, Default)]
struct Counting {
    open: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    shut: Arc<AtomicUsize>,
}

struct Connection {
    open: Arc<AtomicUsize>,
    shut: AtomicBool,
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
        Ok(Connection { open: Arc::clone(&self.open), shut: AtomicBool::new(false) })
    }
}

impl Share for Counting {
    fn shut(&self, connection: &Connection) {
        assert!(!connection.shut.swap(true, Ordering::Relaxed), "shut twice");
        self.shut.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    shared: Arc<Shared<Counting>>,
    counting: Counting,
    start: Instant,
    /// What the far side has closed, for the driver to find out.
    ended: Arc<Mutex<Vec<ConnectionId>>>,
}

impl World {
    fn new() -> World {
        let (start, counting) = (Instant::now(), Counting::default());
        let options = Options {
            max_idle: Some(INTERVAL),
            idle_interval: Some(INTERVAL),
            lease_timeout: 1000 * INTERVAL,
            // The driver waits for backoffs, and for no other timers.
            recovery: Policy::default().delay(Duration::ZERO).max_delay(BACKOFF).into(),
            ..Options::default()
        };
        let mut machine = Machine::new(options, 7, start).unwrap();
        machine.handle_backends(start, &[backend()]);
        let shared = Arc::new(Shared::new("explored".into(), counting.clone(), machine, None));
        World { shared, counting, start, ended: Arc::default() }
    }

    /// A driver that moves its clock on for so many turns, and then waits to be woken.
    fn drive(&self, mut looks: u32) -> thread::JoinHandle<()> {
        let (shared, ended, mut now) = (Arc::clone(&self.shared), Arc::clone(&self.ended), self.start);
        thread::spawn(move || {
            let mut dials = VecDeque::new();
            loop {
                shared.step(|table| table.machine.handle_timeout(now));
                let (actions, next, state) = {
                    let mut table = shared.lock();
                    // The driver logs these; as long as there are any, it is woken.
                    while table.machine.poll_news().is_some() {}
                    (std::mem::take(&mut table.actions), table.machine.next_timeout(), table.machine.state())
                };
                let soon = next.filter(|at| *at <= now + SOON);
                let idle = actions.is_empty() && dials.is_empty() && next.is_none_or(|at| at > now);
                for action in actions {
                    perform(&shared, &mut dials, action);
                }
                if state == State::Stopped {
                    return;
                }
                let gone = std::mem::take(&mut *ended.lock().unwrap());
                let quiet = gone.is_empty();
                gone.into_iter().for_each(|id| shared.ended(now, id));
                if let Some((id, backend)) = dials.pop_front() {
                    thread::yield_now();
                    arrive(&shared, now, id, backend);
                } else if let (Some(at), true) = (soon, idle && quiet) {
                    now = at;
                } else if idle && quiet && looks > 0 {
                    looks -= 1;
                    now += INTERVAL;
                } else if idle && quiet {
                    block_on(shared.wake.notified());
                }
            }
        })
    }

    /// Nobody uses anything any more: the counts say so, and closing leaves nothing behind.
    fn check_end(self, driver: thread::JoinHandle<()>, killed: usize) {
        self.shared.step(|table| {
            let snapshot = table.machine.snapshot();
            assert_eq!((snapshot.leases, snapshot.waiting), (0, 0));
            table.machine.close(self.start);
        });
        driver.join().unwrap();
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        assert_eq!(count(&self.counting.open), 0);
        assert_eq!(count(&self.counting.shut) + killed, count(&self.counting.opened));
    }

    fn spawn(&self, caller: fn(Arc<Shared<Counting>>)) -> thread::JoinHandle<()> {
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || caller(shared))
    }
}

fn backend() -> Backend {
    Backend::fixed("10.0.0.1:6650".parse().unwrap())
}

fn perform(shared: &Shared<Counting>, dials: &mut VecDeque<(ConnectionId, Arc<Backend>)>, action: Action) {
    match action {
        Action::Dial { connection, backend, .. } => dials.push_back((connection, backend)),
        Action::Abort(id) => dials.retain(|(dial, _)| *dial != id),
        Action::Shut(id) => shared.shut(id),
        Action::Drain(id) => {
            let cell = shared.lock().cell(id);
            if let Some(cell) = cell {
                cell.worsen(Standing::Draining);
            }
        }
        Action::Added(_) | Action::Removed(_) | Action::HealthCheck { .. } => {}
    }
}

fn arrive(shared: &Arc<Shared<Counting>>, now: Instant, id: ConnectionId, backend: Arc<Backend>) {
    let connection = block_on(shared.connector.connect(&backend)).unwrap();
    let standing = watch::Sender::new(Standing::Up);
    let cell = Arc::new(Cell { id, backend, place: OnceLock::new(), connection, standing });
    if !shared.arrived(now, &cell) {
        shared.end(cell);
    }
}

fn leasing(shared: &Arc<Shared<Counting>>) -> Leasing<'_, Counting> {
    Leasing::new(shared, LeaseOptions::default().role("caller"))
}

/// Uses a connection: nobody may shut it meanwhile.
fn use_whole(lease: &Lease<Counting>) {
    assert!(!lease.shut.load(Ordering::Relaxed), "shut when it was leased");
    thread::yield_now();
    assert!(!lease.shut.load(Ordering::Relaxed) && !lease.is_closed(), "shut while it was leased");
}

/// Leases twice in a row.
fn patient(shared: Arc<Shared<Counting>>) {
    for _ in 0..2 {
        use_whole(&block_on(leasing(&shared)).unwrap());
    }
}

/// Looks once, and gives up when it would have to wait, perhaps just when it is being served.
fn hasty(shared: Arc<Shared<Counting>>) {
    let mut waiting = pin!(leasing(&shared));
    if let Poll::Ready(lease) = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        use_whole(&lease.unwrap());
    }
    thread::yield_now();
}

fn explore(scenario: fn()) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

#[test]
fn a_lease_and_an_idle_release_never_both_win() {
    explore(|| {
        let world = World::new();
        let driver = world.drive(8);
        let callers = [world.spawn(patient), world.spawn(patient)];
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        world.check_end(driver, 0);
    });
}

#[test]
fn who_gives_up_while_being_served_leaves_nothing_behind() {
    explore(|| {
        let world = World::new();
        let driver = world.drive(0);
        let callers = [world.spawn(hasty), world.spawn(patient), world.spawn(hasty)];
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        world.check_end(driver, 0);
    });
}

#[test]
fn every_holder_learns_of_a_far_side_that_closes_and_the_next_lease_is_of_another() {
    explore(|| {
        let world = World::new();
        let driver = world.drive(0);
        let first = block_on(leasing(&world.shared)).unwrap();
        let holders = [(); 2].map(|()| {
            let (shared, dead) = (Arc::clone(&world.shared), first.id());
            thread::spawn(move || {
                let lease = block_on(leasing(&shared)).unwrap();
                if lease.id() != dead {
                    return;
                }
                block_on(lease.closed());
                assert!(lease.is_closed() && !lease.shut.load(Ordering::Relaxed));
                let next = block_on(leasing(&shared)).unwrap();
                assert!(next.id() != dead && !next.is_closed());
            })
        });
        let far_side = {
            let (shared, ended, id) = (Arc::clone(&world.shared), Arc::clone(&world.ended), first.id());
            thread::spawn(move || {
                ended.lock().unwrap().push(id);
                shared.wake.notify_one();
            })
        };
        block_on(first.draining());
        drop(first);
        far_side.join().unwrap();
        holders.into_iter().for_each(|holder| holder.join().unwrap());
        world.check_end(driver, 1);
    });
}

#[test]
fn closing_while_a_dial_ends_refuses_or_serves_and_shuts_it_once() {
    explore(|| {
        let world = World::new();
        let driver = world.drive(0);
        let callers = [(); 2].map(|()| {
            let shared = Arc::clone(&world.shared);
            thread::spawn(move || match block_on(leasing(&shared)) {
                Ok(lease) => use_whole(&lease),
                Err(error) => assert!(matches!(error, LeaseError::Closed { .. })),
            })
        });
        let closing = {
            let (shared, start) = (Arc::clone(&world.shared), world.start);
            thread::spawn(move || shared.step(|table| table.machine.close(start)))
        };
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        closing.join().unwrap();
        world.check_end(driver, 0);
    });
}
