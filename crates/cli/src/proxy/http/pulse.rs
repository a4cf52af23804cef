//! What a client is doing, so that one can be told that keeps us waiting: whose turn it is, and since what.
//!
//! A connection has a pulse, in which bytes are counted. In HTTP/2 each of its streams has another, in which pieces of bodies are:
//! there a client can keep one request waiting while others go on.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// The pulse of a connection, or of a stream. It is only ever looked at to notice that nothing changes, so no order is kept among
/// its counts.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    begun: AtomicU64,
    under_way: AtomicUsize,
    /// Requests of which more is to come.
    uploading: AtomicUsize,
    read: AtomicU64,
    written: AtomicU64,
    /// There is more to write, and no room for it.
    blocked: AtomicBool,
    /// What came of a request was not the rest of it.
    spoilt: AtomicBool,
    /// When more of a request was last wanted, it was not there.
    awaited: AtomicBool,
    /// The client may still be speaking when the connection is closed, and is heard for a moment.
    lingers: AtomicBool,
    /// Requests come in turn, so that a client may end its side while it waits for an answer.
    in_turn: AtomicBool,
    /// Who is to be told that the client has ended its side, once it has its answer.
    ended: Mutex<Option<Waker>>,
}

/// What a client is to do next, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To send a whole head; so many came before.
    Ask(u64),
    /// To send the rest of a request. So much has passed, either way: whoever hears an answer while it speaks may have nothing to
    /// say for a while.
    Send(u64),
    /// To take its answer; so much was written.
    Take(u64),
}

/// A request, from its head to the end of its answer.
#[derive(Debug)]
pub(super) struct UnderWay {
    connection: Arc<Pulse>,
    /// Where it has a stream of its own.
    stream: Option<Arc<Pulse>>,
}

/// A request of which more is to come, while somebody waits for that.
#[derive(Debug)]
pub(super) struct Uploading {
    pulse: Arc<Pulse>,
    waiting: bool,
}

impl Pulse {
    /// What the client is to do; `None` while it is for a backend to do something.
    pub(super) fn turn(&self) -> Option<Turn> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (under_way, uploading) = (self.under_way.load(Ordering::Relaxed), self.uploading.load(Ordering::Relaxed));
        if under_way == 0 && !self.is_blocked() {
            Some(Turn::Ask(load(&self.begun)))
        } else if self.is_blocked() {
            Some(Turn::Take(load(&self.written)))
        } else if uploading > 0 {
            Some(Turn::Send(load(&self.read).wrapping_add(load(&self.written))))
        } else {
            None
        }
    }

    /// A head has come on this connection, and in this stream of it.
    pub(super) fn begin(self: &Arc<Pulse>, stream: Option<Arc<Pulse>>) -> UnderWay {
        let under_way = UnderWay { connection: Arc::clone(self), stream };
        for pulse in under_way.pulses() {
            pulse.begun.fetch_add(1, Ordering::Relaxed);
            pulse.under_way.fetch_add(1, Ordering::Relaxed);
        }
        under_way.own().awaited.store(false, Ordering::Relaxed);
        under_way
    }

    pub(super) fn read(&self, count: usize) {
        self.read.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn wrote(&self, count: usize) {
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        self.can_write();
    }

    pub(super) fn can_write(&self) {
        if self.is_blocked() {
            self.blocked.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn cannot_write(&self) {
        self.blocked.store(true, Ordering::Relaxed);
    }

    /// The connection is closed while the client may be speaking.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// From now on one request is under way at a time.
    pub(super) fn go_in_turn(&self) {
        self.in_turn.store(true, Ordering::Relaxed);
    }

    /// Whether a client that has ended its side has a whole request under way: its end is to be told when it has the answer.
    pub(super) fn waits_for_answer(&self, waker: &Waker) -> bool {
        let waits = || {
            let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
            self.in_turn.load(Ordering::Relaxed) && of(&self.under_way) > 0 && of(&self.uploading) == 0
        };
        if !waits() {
            return false;
        }
        *self.ended() = Some(waker.clone());
        // The answer may have ended meanwhile.
        waits()
    }

    /// How much was written so far; `None` while the client does not read what there is.
    pub(super) fn written(&self) -> Option<u64> {
        (!self.is_blocked()).then(|| self.written.load(Ordering::Relaxed))
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }
}

impl UnderWay {
    /// For its body.
    pub(super) fn upload(&self) -> Uploading {
        Uploading { pulse: Arc::clone(self.own()), waiting: false }
    }

    /// That of its stream, if it has one.
    pub(super) fn stream(&self) -> Option<&Pulse> {
        self.stream.as_deref()
    }

    /// Whether its body was cut short, or was none.
    pub(super) fn is_spoilt(&self) -> bool {
        self.own().spoilt.load(Ordering::Relaxed)
    }

    /// Whether the rest of it was waited for, to the last, and did not come.
    pub(super) fn is_awaited(&self) -> bool {
        self.own().awaited.load(Ordering::Relaxed)
    }

    /// That of nobody else but itself: on a connection without streams, one request is under way at a time.
    fn own(&self) -> &Arc<Pulse> {
        self.stream.as_ref().unwrap_or(&self.connection)
    }

    fn pulses(&self) -> impl Iterator<Item = &Pulse> {
        [Some(&*self.connection), self.stream.as_deref()].into_iter().flatten()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        for pulse in self.pulses() {
            pulse.under_way.fetch_sub(1, Ordering::Relaxed);
            // Nobody ends one side but of connections without streams.
            if pulse.in_turn.load(Ordering::Relaxed)
                && let Some(waker) = pulse.ended().take()
            {
                waker.wake();
            }
        }
    }
}

impl Uploading {
    /// More of it is wanted, and is there or not.
    pub(super) fn wants(&mut self, is_there: bool) {
        self.pulse.awaited.store(!is_there, Ordering::Relaxed);
        self.waits(!is_there);
    }

    /// Whether somebody waits for more of it now.
    fn waits(&mut self, waiting: bool) {
        match (self.waiting, waiting) {
            (false, true) => self.pulse.uploading.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.pulse.uploading.fetch_sub(1, Ordering::Relaxed),
            (false, false) | (true, true) => return,
        };
        self.waiting = waiting;
    }

    /// A piece of it has come. Where bytes are counted it was counted as such already, which does no harm.
    pub(super) fn came(&self) {
        self.pulse.read(1);
    }

    /// What came was none.
    pub(super) fn spoil(&self) {
        self.pulse.spoilt.store(true, Ordering::Relaxed);
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.waits(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_whose_turn_it_is() {
        let pulse = Arc::new(Pulse::default());
        assert_eq!(pulse.turn(), Some(Turn::Ask(0)));
        pulse.read(30);
        assert_eq!(pulse.turn(), Some(Turn::Ask(0)), "half a head is none, however slowly it comes");

        let request = pulse.begin(None);
        assert_eq!(pulse.turn(), None, "a backend is to answer");
        let mut upload = request.upload();
        upload.wants(false);
        pulse.read(10);
        assert_eq!(pulse.turn(), Some(Turn::Send(40)));
        pulse.wrote(5);
        assert_eq!(pulse.turn(), Some(Turn::Send(45)), "it is spoken to");
        drop(upload);
        assert_eq!(pulse.turn(), None);
        assert!(request.is_awaited(), "nobody wants it any more, but it never came");

        pulse.cannot_write();
        assert_eq!(pulse.turn(), Some(Turn::Take(5)));
        pulse.wrote(1);
        assert_eq!(pulse.turn(), None);
        drop(request);
        assert_eq!(pulse.turn(), Some(Turn::Ask(1)));
    }

    #[test]
    fn streams_wait_for_themselves() {
        let (connection, one, other) = (Arc::new(Pulse::default()), Arc::default(), Arc::default());
        let first = connection.begin(Some(Arc::clone(&one)));
        let second = connection.begin(Some(Arc::clone(&other)));
        let mut upload = first.upload();
        upload.wants(false);
        assert_eq!((one.turn(), other.turn(), connection.turn()), (Some(Turn::Send(0)), None, None));
        upload.came();
        assert_eq!((one.turn(), other.turn()), (Some(Turn::Send(1)), None));
        upload.spoil();
        assert!(first.is_spoilt() && !second.is_spoilt());
        drop((first, upload));
        assert_eq!((one.turn(), connection.turn()), (Some(Turn::Ask(1)), None));
        drop(second);
        assert_eq!(connection.turn(), Some(Turn::Ask(2)));
    }
}
