//! The story of the demonstration: which of all that happens is worth a line.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Lines about what is always the same come this far apart, of each kind.
const CALM: Duration = Duration::from_secs(2);

/// Something that has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// A request was answered, by whom, and how long that took.
    Answered { node: String, took: Duration },
    /// A request was not, and why.
    Failed(String),
    /// The node that flaps is gone.
    Gone,
    /// It is back.
    Back,
    /// A price came.
    Tick { symbol: String, price: String },
}

/// What has been told so far, and what that was about.
#[derive(Debug)]
pub(super) struct Story {
    began: Instant,
    flapping: &'static str,
    chapter: Chapter,
    answered: BTreeMap<String, u64>,
    failed: u64,
    claim_told: Option<Instant>,
    tick_told: Option<Instant>,
}

/// How it is with the node that flaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chapter {
    /// It is there, and gets its share.
    There,
    /// It has just gone: whoever answers next has stepped in.
    Gone,
    /// It is away, and others have stepped in.
    Away,
    /// It is back, and was not asked yet.
    Back,
}

impl Story {
    pub(super) fn begin(now: Instant, flapping: &'static str) -> Story {
        Story {
            began: now,
            flapping,
            chapter: Chapter::There,
            answered: BTreeMap::new(),
            failed: 0,
            claim_told: None,
            tick_told: None,
        }
    }

    /// The line that this is worth, if any.
    pub(super) fn hear(&mut self, now: Instant, event: Event) -> Option<String> {
        let flapping = self.flapping;
        match event {
            Event::Answered { node, took } => self.answered(now, node, took),
            Event::Failed(why) => {
                self.failed += 1;
                Some(self.line(now, "failed", format_args!("request {}: {why}", self.asked())))
            }
            Event::Gone => {
                self.chapter = Chapter::Gone;
                Some(self.line(now, "down", format_args!("{flapping}: its socket and all its connections are gone")))
            }
            Event::Back => {
                self.chapter = Chapter::Back;
                Some(self.line(now, "up", format_args!("{flapping} listens again")))
            }
            Event::Tick { symbol, price } => {
                if !due(&mut self.tick_told, now) {
                    return None;
                }
                Some(self.line(now, "tick", format_args!("{symbol} {price}")))
            }
        }
    }

    /// What it came to.
    pub(super) fn end(&self) -> String {
        let shares: Vec<String> = self.answered.iter().map(|(node, count)| format!("{node} {count}")).collect();
        format!("\n{} requests, {} failed: {}\n", self.asked(), self.failed, shares.join(", "))
    }

    fn answered(&mut self, now: Instant, node: String, took: Duration) -> Option<String> {
        *self.answered.entry(node.clone()).or_default() += 1;
        let (asked, failed) = (self.asked(), self.failed);
        let answered = format!("request {asked} by {node} in {:.1} ms", took.as_secs_f64() * 1e3);
        match self.chapter {
            // What was on its way when the node went may still come.
            Chapter::Gone if node != self.flapping => {
                self.chapter = Chapter::Away;
                due(&mut self.claim_told, now);
                let so_far = if failed == 0 { "no request has".to_owned() } else { format!("{failed} have") };
                Some(self.line(now, "failover", format_args!("{answered}; {so_far} failed so far")))
            }
            Chapter::Back if node == self.flapping => {
                self.chapter = Chapter::There;
                due(&mut self.claim_told, now);
                Some(self.line(now, "return", format_args!("{answered}, as before")))
            }
            Chapter::There | Chapter::Gone | Chapter::Away | Chapter::Back => {
                due(&mut self.claim_told, now).then(|| self.line(now, "claim", answered))
            }
        }
    }

    fn asked(&self) -> u64 {
        self.answered.values().sum::<u64>() + self.failed
    }

    fn line(&self, now: Instant, kind: &str, text: impl Display) -> String {
        let since = now.saturating_duration_since(self.began).as_secs_f64();
        format!("{since:6.1} s  {kind:<8}  {text}\n")
    }
}

/// Whether such a line was not told lately; then it is now.
fn due(told: &mut Option<Instant>, now: Instant) -> bool {
    let due = told.is_none_or(|told| now.saturating_duration_since(told) >= CALM);
    if due {
        *told = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells it as many answers, a tenth of a second apart, and returns the lines.
    fn ask(story: &mut Story, now: &mut Instant, nodes: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for node in nodes {
            *now += Duration::from_millis(100);
            let event = Event::Answered { node: (*node).to_owned(), took: Duration::from_micros(1234) };
            lines.extend(story.hear(*now, event));
        }
        lines
    }

    #[test]
    fn a_node_goes_others_step_in_and_it_returns() {
        let mut now = Instant::now();
        let mut story = Story::begin(now, "c");
        assert_eq!(ask(&mut story, &mut now, &["a", "b", "c"]), ["   0.1 s  claim     request 1 by a in 1.2 ms\n"]);
        let gone = story.hear(now, Event::Gone).unwrap();
        assert!(gone.contains("down      c: "), "{gone}");
        let lines = ask(&mut story, &mut now, &["c", "b", "a", "b"]);
        assert_eq!(lines, ["   0.5 s  failover  request 5 by b in 1.2 ms; no request has failed so far\n"]);
        assert!(story.hear(now, Event::Back).unwrap().contains("up        c listens again"));
        let lines = ask(&mut story, &mut now, &["a", "b", "c", "c"]);
        assert_eq!(lines, ["   1.0 s  return    request 10 by c in 1.2 ms, as before\n"]);
        assert_eq!(story.end(), "\n11 requests, 0 failed: a 3, b 4, c 4\n");
    }

    #[test]
    fn what_is_always_the_same_is_told_now_and_then_and_failures_always() {
        let mut now = Instant::now();
        let mut story = Story::begin(now, "c");
        let many = ["a"; 100];
        assert_eq!(ask(&mut story, &mut now, &many).len(), 5, "ten seconds");
        let tick = || Event::Tick { symbol: "S".to_owned(), price: "1.5".to_owned() };
        let told: Vec<_> = (0..10).filter_map(|_| story.hear(now, tick())).collect();
        assert_eq!(told, ["  10.0 s  tick      S 1.5\n"]);
        for count in 101..104 {
            let line = story.hear(now, Event::Failed("refused".to_owned())).unwrap();
            assert_eq!(line, format!("  10.0 s  failed    request {count}: refused\n"));
        }
        assert_eq!(story.end(), "\n103 requests, 3 failed: a 100\n");
    }
}
