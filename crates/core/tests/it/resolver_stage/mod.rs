//! A small stage for the resolver: the machine, a clock that is moved by hand, and a nameserver that says what it is told to.

pub(crate) use crate::time::ms;
use carom_core::recovery::{Policy, Recovery};
use carom_core::resolver::{Action, Answer, AskId, Machine, Options, Resolution, Target};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The question for the service.
pub(crate) const SRV: &str = "SRV _http._tcp.svc";
/// The questions for the domain itself.
pub(crate) const AAAA: &str = "AAAA svc";
pub(crate) const A: &str = "A svc";

/// Answers without content; a timeout is told as SERVFAIL is.
pub(crate) const NOTIMP: Answer = Answer::NotImplemented;
pub(crate) const REFUSED: Answer = Answer::Refused;
pub(crate) const SERVFAIL: Answer = Answer::Trouble;

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Exact waits, and room for every question. The two policies differ in everything, so that each is seen to be the one used.
pub(crate) fn options() -> Options {
    Options {
        concurrency: 100,
        recovery: Recovery::default().dns(policy()).dns_srv(srv_policy()),
        ..Options::new("svc")
    }
}

/// 3 attempts of 1 s and 2 s, 100 ms and 200 ms apart; longest delay 10 s.
pub(crate) fn policy() -> Policy {
    Policy::default().timeout(ms(1_000)).max_timeout(ms(2_000)).spread(0.0)
}

/// 2 attempts of 400 ms and 800 ms, 50 ms apart; longest delay 5 s.
pub(crate) fn srv_policy() -> Policy {
    Policy::default().attempts(2).timeout(ms(400)).delay(ms(50)).max_delay(ms(5_000)).spread(0.0)
}

/// As `options`, with a service.
pub(crate) fn service() -> Options {
    Options { service: Some("_http._tcp".into()), ..options() }
}

/// As `service`, where IPv6 is of no use.
pub(crate) fn service_v4() -> Options {
    Options { ipv6: false, ..service() }
}

/// As `options`, where IPv6 is of no use: one question.
pub(crate) fn domain_v4() -> Options {
    Options { ipv6: false, ..options() }
}

pub(crate) fn addresses(addresses: &[&str], ttl: u64) -> Answer {
    Answer::Addresses { addresses: addresses.iter().map(|address| ip(address)).collect(), ttl: secs(ttl) }
}

/// Targets as `name:port`, `name:port/priority` or `name:port/priority/weight`.
pub(crate) fn targets(targets: &[&str], ttl: u64) -> Answer {
    targets_with(targets, &[], ttl)
}

/// With addresses that come along.
pub(crate) fn targets_with(targets: &[&str], additional: &[(&str, &str)], ttl: u64) -> Answer {
    let targets = targets.iter().map(|text| target(text)).collect();
    let additional = additional.iter().map(|(name, address)| ((*name).into(), ip(address))).collect();
    Answer::Targets { targets, additional, whole: true, ttl: secs(ttl) }
}

/// With some of the addresses: for others there was no room.
pub(crate) fn targets_cut(names: &[&str], additional: &[(&str, &str)], ttl: u64) -> Answer {
    match targets_with(names, additional, ttl) {
        Answer::Targets { targets, additional, ttl, .. } => Answer::Targets { targets, additional, whole: false, ttl },
        other => other,
    }
}

/// Where two targets are.
pub(crate) const SERVICE: [(&str, &str); 2] = [("a", "10.0.0.1"), ("b", "10.0.0.2")];

/// Two targets, each with an IPv4 address, all good for 200 s.
pub(crate) fn two_targets() -> Stage {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets(&["a:1", "b:1"], 200));
    for (name, address) in SERVICE {
        stage.answer(&format!("A {name}"), addresses(&[address], 86_000));
    }
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)", "b (10.0.0.2:1)"]);
    stage
}

pub(crate) fn nxdomain(ttl: Option<u64>) -> Answer {
    Answer::Nothing { exists: false, ttl: ttl.map(secs) }
}

pub(crate) fn nodata(ttl: Option<u64>) -> Answer {
    Answer::Nothing { exists: true, ttl: ttl.map(secs) }
}

fn target(text: &str) -> Target {
    let mut figures = text.split('/');
    let (name, port) = figures.next().unwrap().split_once(':').unwrap();
    let mut figure = || figures.next().map_or(0, |figure| figure.parse().unwrap());
    Target { name: name.into(), port: port.parse().unwrap(), priority: figure(), weight: figure() }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    /// Questions under way.
    under_way: Vec<(AskId, String, Duration)>,
    /// Every question asked so far.
    pub(crate) asked: Vec<String>,
    pub(crate) cancelled: Vec<String>,
    /// How often something was published.
    pub(crate) published: usize,
}

impl Stage {
    pub(crate) fn new(options: Options) -> Stage {
        Stage::seeded(options, 1)
    }

    #[allow(clippy::disallowed_methods)]
    pub(crate) fn seeded(options: Options, seed: u64) -> Stage {
        let start = Instant::now();
        let mut stage = Stage {
            machine: Machine::new(options, seed, start).unwrap(),
            start,
            now: start,
            under_way: Vec::new(),
            asked: Vec::new(),
            cancelled: Vec::new(),
            published: 0,
        };
        stage.collect();
        stage
    }

    /// Does what the machine asks for.
    pub(crate) fn collect(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Ask { id, question, timeout } => {
                    self.asked.push(question.to_string());
                    self.under_way.push((id, question.to_string(), timeout));
                }
                Action::Cancel(id) => {
                    let at = self.under_way.iter().position(|(other, ..)| *other == id).expect("it is under way");
                    self.cancelled.push(self.under_way.remove(at).1);
                }
                Action::Publish => self.published += 1,
            }
        }
    }

    /// The questions under way, in the order they were asked.
    pub(crate) fn asking(&self) -> Vec<&str> {
        self.under_way.iter().map(|(_, question, _)| question.as_str()).collect()
    }

    pub(crate) fn is_asking(&self, question: &str) -> bool {
        self.asking().contains(&question)
    }

    /// How many questions have been asked since this was called last, and which.
    pub(crate) fn newly_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }

    /// How a question under way is named, and how long it may take.
    pub(crate) fn ask(&self, question: &str) -> (AskId, Duration) {
        let found = self.under_way.iter().find(|(_, other, _)| other == question);
        let (id, _, timeout) = found.unwrap_or_else(|| panic!("{question} is not asked: {:?}", self.asking()));
        (*id, *timeout)
    }

    pub(crate) fn answer(&mut self, question: &str, answer: Answer) {
        let (id, _) = self.ask(question);
        self.under_way.retain(|(other, ..)| *other != id);
        self.machine.handle_answer(self.now, id, answer);
        self.collect();
    }

    /// Fails a question until its attempts have run out.
    pub(crate) fn exhaust(&mut self, question: &str, attempts: usize) {
        for _ in 1..attempts {
            self.answer(question, SERVFAIL);
            self.next_ask(question);
        }
        self.answer(question, SERVFAIL);
        assert!(!self.is_asking(question));
    }

    /// Lets time pass until a question is asked: how long that took.
    pub(crate) fn next_ask(&mut self, question: &str) -> Duration {
        let from = self.now;
        while !self.is_asking(question) {
            let at = self.machine.next_timeout().unwrap_or_else(|| panic!("{question} will never be asked"));
            self.wake_at(at);
        }
        self.now - from
    }

    /// Lets time pass, with the machine woken when it wants to be.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.machine.next_timeout().filter(|at| *at <= until) {
            self.wake_at(at);
        }
        self.now = until;
    }

    fn wake_at(&mut self, at: Instant) {
        self.now = at.max(self.now);
        self.machine.handle_timeout(self.now);
        self.collect();
        assert!(self.machine.next_timeout().is_none_or(|next| next > self.now), "a timeout that has been handled");
    }

    pub(crate) fn restored(&mut self) {
        self.machine.handle_restored(self.now);
        self.collect();
    }

    pub(crate) fn ipv6(&mut self, ipv6: bool) {
        self.machine.set_ipv6(self.now, ipv6);
        self.collect();
    }

    pub(crate) fn resolution(&self) -> &Resolution {
        self.machine.resolution()
    }

    pub(crate) fn backends(&self) -> Vec<String> {
        self.resolution().backends.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.resolution().troubles.iter().map(ToString::to_string).collect()
    }

    /// Since when the set is stale, from the start.
    pub(crate) fn stale_since(&self) -> Option<Duration> {
        self.resolution().stale_since.map(|since| since - self.start)
    }
}
