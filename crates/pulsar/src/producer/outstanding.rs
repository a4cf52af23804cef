//! Outstanding messages: in line until each has its receipt, its error, or no time left.
//!
//! ```text
//!  push -> | sent, no receipt yet | not sent |     receipts come in order, from the front
//!          ^ front                ^ unsent         after a move everything is unsent again
//! ```

use std::collections::VecDeque;
use std::time::Instant;

/// A line of messages, each with a number and what is to become of it.
#[derive(Debug)]
pub(super) struct Outstanding<T> {
    next: u64,
    line: VecDeque<Entry<T>>,
    /// How many of the line have been sent.
    sent: usize,
    /// The highest number that has a receipt.
    stored: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Entry<T> {
    pub(super) sequence: u64,
    pub(super) deadline: Instant,
    pub(super) what: T,
}

/// What a receipt is for.
#[derive(Debug, PartialEq)]
pub(super) enum Receipted<T> {
    /// The first in line.
    First(Entry<T>),
    /// Nobody: it had its receipt, or its time ran out.
    Nobody,
    /// One further back: receipts before it are missing.
    Ahead(Entry<T>),
}

impl<T> Outstanding<T> {
    pub(super) fn new() -> Outstanding<T> {
        Outstanding { next: 0, line: VecDeque::new(), sent: 0, stored: None }
    }

    /// The first message of a producer that goes on where another of its name has ended.
    pub(super) fn begin_after(&mut self, last: i64) {
        self.next = self.next.max(u64::try_from(last).map_or(0, |last| last + 1));
    }

    /// The number of the next message.
    pub(super) fn push(&mut self, deadline: Instant, what: T) {
        let sequence = self.next;
        self.next += 1;
        self.line.push_back(Entry { sequence, deadline, what });
    }

    /// The next message that has not been sent.
    pub(super) fn unsent(&mut self) -> Option<&mut Entry<T>> {
        self.line.get_mut(self.sent)
    }

    /// It has been sent.
    pub(super) fn mark_sent(&mut self) {
        self.sent += 1;
        debug_assert!(self.sent <= self.line.len());
    }

    /// Whatever has been sent has to be sent again.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Takes out the message that has been sent under this number: it is stored.
    pub(super) fn receipt(&mut self, sequence: u64) -> Receipted<T> {
        let known = self.line.iter().take(self.sent).position(|entry| entry.sequence == sequence);
        let Some((at, entry)) = known.and_then(|at| Some((at, self.remove(at)?))) else { return Receipted::Nobody };
        self.stored = self.stored.max(Some(sequence));
        if at == 0 { Receipted::First(entry) } else { Receipted::Ahead(entry) }
    }

    /// The message that has been sent under this number and is in line.
    pub(super) fn sent(&mut self, sequence: u64) -> Option<&mut T> {
        let sent = self.line.iter_mut().take(self.sent);
        sent.into_iter().find(|entry| entry.sequence == sequence).map(|entry| &mut entry.what)
    }

    /// Takes out those of a kind that a later message was stored before.
    pub(super) fn take_passed_over(&mut self, kind: impl Fn(&T) -> bool) -> Vec<Entry<T>> {
        let over = |entry: &Entry<T>| Some(entry.sequence) < self.stored && kind(&entry.what);
        let passed: Vec<u64> = self.line.iter().filter(|entry| over(entry)).map(|entry| entry.sequence).collect();
        passed.into_iter().filter_map(|sequence| self.take(sequence)).collect()
    }

    /// Takes out one message, wherever it is.
    pub(super) fn take(&mut self, sequence: u64) -> Option<Entry<T>> {
        let at = self.line.iter().position(|entry| entry.sequence == sequence)?;
        self.remove(at)
    }

    /// Takes out the first whose time has run out.
    pub(super) fn expired(&mut self, now: Instant) -> Option<Entry<T>> {
        // Deadlines are in order, as all are given the same time.
        match self.line.front() {
            Some(first) if first.deadline <= now => self.remove(0),
            Some(_) | None => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.line.front().map(|first| first.deadline)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Takes out all of them.
    pub(super) fn take_all(&mut self) -> VecDeque<Entry<T>> {
        self.sent = 0;
        std::mem::take(&mut self.line)
    }

    fn remove(&mut self, at: usize) -> Option<Entry<T>> {
        let entry = self.line.remove(at)?;
        if at < self.sent {
            self.sent -= 1;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn line(count: u64) -> (Outstanding<u64>, Instant) {
        let (mut line, now) = (Outstanding::new(), Instant::now());
        (0..count).for_each(|what| line.push(now + Duration::from_secs(what), what));
        (line, now)
    }

    fn send_all(line: &mut Outstanding<u64>) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(entry) = line.unsent() {
            sent.push(entry.sequence);
            line.mark_sent();
        }
        sent
    }

    fn first(receipted: Receipted<u64>) -> Option<u64> {
        match receipted {
            Receipted::First(entry) => Some(entry.what),
            Receipted::Ahead(_) | Receipted::Nobody => None,
        }
    }

    #[test]
    fn what_has_no_receipt_is_sent_again_in_order_with_the_same_numbers() {
        let (mut line, _) = line(4);
        assert_eq!(send_all(&mut line), [0, 1, 2, 3]);
        assert_eq!(first(line.receipt(0)), Some(0));
        line.rewind();
        assert_eq!(send_all(&mut line), [1, 2, 3]);
    }

    #[test]
    fn a_second_receipt_is_nobodys_and_one_that_comes_early_is_kept() {
        let (mut line, _) = line(3);
        assert_eq!(line.receipt(0), Receipted::Nobody, "not sent yet");
        send_all(&mut line);
        assert!(matches!(line.receipt(1), Receipted::Ahead(entry) if entry.what == 1));
        assert_eq!(line.receipt(1), Receipted::Nobody);
        assert_eq!(line.receipt(99), Receipted::Nobody);
        line.rewind();
        assert_eq!(send_all(&mut line), [0, 2], "what has its receipt is not sent again");
        assert_eq!(first(line.receipt(0)), Some(0));
        assert_eq!(line.receipt(0), Receipted::Nobody);
        assert_eq!(first(line.receipt(2)), Some(2));
    }

    #[test]
    fn what_a_later_message_was_stored_before_can_be_taken_out() {
        let (mut line, _) = line(5);
        send_all(&mut line);
        assert!(line.take_passed_over(|_| true).is_empty(), "nothing is stored yet");
        line.receipt(3);
        let passed = line.take_passed_over(|what| what % 2 == 0);
        assert_eq!(passed.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 2]);
        line.rewind();
        assert_eq!(send_all(&mut line), [1, 4]);
    }

    #[test]
    fn time_runs_out_from_the_front() {
        let (mut line, now) = line(3);
        line.unsent().unwrap();
        line.mark_sent();
        assert_eq!(line.expired(now).map(|entry| entry.sequence), Some(0));
        assert_eq!(line.expired(now), None);
        assert_eq!(line.unsent().map(|entry| entry.sequence), Some(1));
        assert_eq!(line.take(2).map(|entry| entry.what), Some(2));
        assert_eq!(send_all(&mut line), [1]);
        assert_eq!(line.receipt(0), Receipted::Nobody);
    }

    #[test]
    fn a_producer_goes_on_where_one_of_its_name_ended() {
        let mut line = Outstanding::new();
        line.begin_after(-1);
        line.push(Instant::now(), ());
        assert_eq!(line.unsent().unwrap().sequence, 0);
        let mut line = Outstanding::new();
        line.begin_after(41);
        line.push(Instant::now(), ());
        assert_eq!(line.unsent().unwrap().sequence, 42);
    }

    #[test]
    fn the_last_number_there_is_does_no_harm() {
        let mut line = Outstanding::new();
        line.begin_after(i64::MAX);
        line.push(Instant::now(), ());
        assert_eq!(line.unsent().unwrap().sequence, 1 << 63);
    }
}
