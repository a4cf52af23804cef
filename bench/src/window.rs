//! What windows spare the nodes: sockets open at a node over time, with windows and with connections that are kept, for 1,000
//! clients who send one request a minute each. Simulated, on the machines themselves; time costs nothing.

use crate::bars::{Bar, Limit};
use crate::report;
use carom_core::backend::Backend;
use carom_core::random::Random;
use carom_core::window::{Action, Ask, Key, Machine, Options, Outcome, SocketId, Verdict};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::time::{Duration, Instant};

const CLIENTS: usize = 1_000;
const NODES: usize = 4;
const MINUTE: Duration = Duration::from_secs(60);
/// In the first minute everybody comes for the first time: it is not counted.
const MINUTES: u32 = 6;
/// A node answers after so long, opening the socket included.
const ANSWERED: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
const SAMPLE: Duration = Duration::from_secs(10);

/// Prints and keeps the sockets of a node, by kind of request and design.
pub fn report() -> io::Result<()> {
    println!();
    println!("{CLIENTS} clients, {NODES} nodes, one request a minute each: sockets open at a node");
    println!("{:<30} {:<8} {:>8} {:>8} {:>10} {:>9}", "request", "design", "mean", "peak", "% of kept", "answered");
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (kind, ask) in kinds() {
        let (kept, windows) = (simulate(kept(), &ask), simulate(Options::default(), &ask));
        for (design, figures) in [("kept", &kept), ("windows", &windows)] {
            let share = 100.0 * figures.mean / kept.mean;
            println!(
                "{kind:<30} {design:<8} {:>8.1} {:>8} {share:>10.1} {:>9}",
                figures.mean, figures.peak, figures.answered
            );
            rows.push(figures.to_json(kind, design));
        }
        let what = format!("{kind}, at its peak: windows / kept, %");
        let figure = Some(100.0 * windows.peak as f64 / kept.peak as f64);
        bars.push(Bar { what, figure, limit: Limit::AtMost(10.0) });
    }
    println!();
    bars.iter().for_each(|bar| println!("{bar}"));
    report::write("window.json", rows)
}

/// What clients of a ledger with four nodes ask for.
fn kinds() -> [(&'static str, Ask); 3] {
    [
        ("read, one answer", Ask::any()),
        ("read, 2 equal of 3 asked", Ask { at_once: Some(3), ..Ask::quorum(2) }),
        ("write, 2 equal of all asked", Ask::quorum(2)),
    ]
}

/// Whoever never lets go of a socket ends up with one to every node.
fn kept() -> Options {
    Options { active_for: MINUTE * (MINUTES + 1), request_limit: usize::MAX, ..Options::default() }
}

/// What one of the nodes has seen.
struct Figures {
    mean: f64,
    peak: usize,
    /// Requests of all clients that were answered, and that were made.
    answered: usize,
    asked: usize,
    over_time: Vec<usize>,
}

impl Figures {
    fn to_json(&self, kind: &str, design: &str) -> Value {
        json!({
            "request": kind,
            "design": design,
            "clients": CLIENTS,
            "nodes": NODES,
            "mean": self.mean,
            "peak": self.peak,
            "answered": self.answered,
            "asked": self.asked,
            "every_seconds": SAMPLE.as_secs(),
            "sockets": self.over_time,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks,
    Answers(SocketId, u32),
    Wakes,
}

struct Simulation {
    clients: Vec<Machine<Backend, u32>>,
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    random: Random,
    start: Instant,
    /// Whose sockets lead to the node that is watched.
    sockets: BTreeMap<(usize, SocketId), bool>,
    open: usize,
    answered: usize,
}

fn simulate(options: Options, ask: &Ask) -> Figures {
    let mut random = Random::new(1);
    let node = |n: usize| Backend::new(format!("node-{n}"), ([10, 0, 0, 1], 9_701 + n as u16).into());
    let client =
        |_| Machine::new(options.clone(), (0..NODES).map(node), random.bits()).expect("the options make sense");
    let clients = (0..CLIENTS).map(client).collect();
    let (events, sockets) = (BinaryHeap::new(), BTreeMap::new());
    let mut run = Simulation { clients, events, random, start: Instant::now(), sockets, open: 0, answered: 0 };
    for client in 0..CLIENTS {
        for minute in 0..MINUTES {
            let at = MINUTE * minute + MINUTE.mul_f64(run.random.fraction());
            run.events.push(Reverse((at, client, Event::Asks)));
        }
    }
    let (end, mut figures) =
        (MINUTE * MINUTES, Figures { mean: 0.0, peak: 0, answered: 0, asked: 0, over_time: vec![] });
    let (mut clock, mut tag) = (Duration::ZERO, 0);
    while let Some(Reverse((at, client, event))) = run.events.pop() {
        let counted = at.min(end).saturating_sub(clock.max(MINUTE));
        figures.mean += run.open as f64 * counted.as_secs_f64() / (end - MINUTE).as_secs_f64();
        while SAMPLE * figures.over_time.len() as u32 <= at.min(end) {
            figures.over_time.push(run.open);
        }
        clock = at;
        tag += u32::from(event == Event::Asks);
        run.happen(at, client, event, tag, ask);
        if (MINUTE..end).contains(&at) {
            figures.peak = figures.peak.max(run.open);
        }
    }
    (figures.answered, figures.asked) = (run.answered, tag as usize);
    figures
}

impl Simulation {
    fn happen(&mut self, at: Duration, client: usize, event: Event, tag: u32, ask: &Ask) {
        let now = self.start + at;
        let machine = &mut self.clients[client];
        match event {
            Event::Asks => drop(machine.request(now, tag, ask.clone()).expect("it can succeed")),
            Event::Answers(socket, tag) => drop(machine.handle_answer(now, socket, &tag, Verdict::Counts(Key(0)))),
            Event::Wakes => machine.handle_timeout(now),
        }
        while let Some(action) = machine.poll_action() {
            match action {
                Action::Open { socket, node, .. } => {
                    let watched = node.name() == "node-0";
                    self.sockets.insert((client, socket), watched);
                    self.open += usize::from(watched);
                }
                Action::Send { socket, request } => {
                    // Everybody answers, and in time: nothing is sent but when somebody asks.
                    if machine.handle_sending(now, socket, request) {
                        let (least, most) = ANSWERED;
                        let after = least + (most - least).mul_f64(self.random.fraction());
                        self.events.push(Reverse((at + after, client, Event::Answers(socket, tag))));
                    }
                }
                Action::Close(socket) => {
                    let watched = self.sockets.remove(&(client, socket)).unwrap_or(false);
                    self.open -= usize::from(watched);
                }
                Action::Over(_)
                | Action::Unresponsive(_)
                | Action::Responsive(_)
                | Action::HealthCheck { .. }
                | Action::Unhealthy(_)
                | Action::Healthy(_) => {}
            }
        }
        while let Some(delivery) = machine.poll_delivery() {
            self.answered += usize::from(matches!(delivery.outcome, Outcome::Reached(_)));
        }
        if let Some(wake) = machine.next_timeout() {
            self.events.push(Reverse((wake - self.start, client, Event::Wakes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_less_than_a_tenth_of_what_is_kept_and_give_the_same_answers() {
        for (kind, ask) in kinds() {
            let (kept, windows) = (simulate(kept(), &ask), simulate(Options::default(), &ask));
            assert!(windows.mean < 0.1 * kept.mean, "{kind}: {} of {}", windows.mean, kept.mean);
            assert_eq!((windows.answered, kept.answered), (windows.asked, windows.asked), "{kind}");
        }
    }
}
