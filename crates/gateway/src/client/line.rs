//! The line: requests that a client has sent and that were not begun, as they came.
//!
//! They are read when it is their turn: what a request is made of takes several times the memory that its text does.

use bytes::Bytes;
use std::collections::VecDeque;

/// How many requests wait; the socket is not read when there are more.
const MOST: usize = 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Line {
    requests: VecDeque<Bytes>,
    /// How many bytes they are in all.
    bytes: usize,
}

impl Line {
    /// Whether one more may come: not when there are many, nor when they are as large as one message may be.
    pub(super) fn has_room(&self, message_size: usize) -> bool {
        self.requests.len() < MOST && self.bytes < message_size
    }

    pub(super) fn push(&mut self, request: Bytes) {
        self.bytes += request.len();
        self.requests.push_back(request);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let request = self.requests.pop_front()?;
        self.bytes -= request.len();
        Some(request)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Line::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_makes_room_before_the_line_is_empty() {
        let mut line = Line::default();
        line.push(vec![0; 60].into());
        assert!(line.has_room(100));
        line.push(vec![0; 60].into());
        assert!(!line.has_room(100));
        assert_eq!(line.pop().map(|request| request.len()), Some(60));
        assert!(line.has_room(100) && !line.is_empty());
    }

    #[test]
    fn small_ones_are_counted() {
        let mut line = Line::default();
        (0..MOST).for_each(|_| line.push("{}".into()));
        assert!(!line.has_room(usize::MAX));
        line.clear();
        assert!(line.has_room(1));
    }
}
