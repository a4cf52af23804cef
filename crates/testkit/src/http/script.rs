//! What to say on a connection, step by step.

use bytes::Bytes;
use std::time::Duration;

/// Steps, taken one after the other. At the end the connection is [closed](Self::close).
///
/// Whatever the client does out of turn (leaving, or saying what makes no sense) ends the script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Byte,
    Head,
    Body,
    Say(Bytes),
    Answer { status: u16, body: Bytes },
    Endless(Bytes),
    Wait(Duration),
    Gate,
    Echo,
    Hold,
    Again,
    Finish,
    Close,
    Vanish,
    Reset,
}

impl Script {
    /// Nothing yet.
    pub fn new() -> Script {
        Script::default()
    }

    /// So many requests, each answered with 200 and the name of the node.
    pub fn serving(requests: usize) -> Script {
        Script::new().times(requests, &Script::new().request().answer(200, "ok"))
    }

    fn then(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    /// Waits for the first byte of a request, and leaves it unread.
    pub fn byte(self) -> Script {
        self.then(Step::Byte)
    }

    /// Reads the head of a request, and notes it.
    pub fn head(self) -> Script {
        self.then(Step::Head)
    }

    /// Reads the body that belongs to the last head.
    pub fn body(self) -> Script {
        self.then(Step::Body)
    }

    /// Reads a request, head and body.
    pub fn request(self) -> Script {
        self.head().body()
    }

    /// Says these bytes.
    pub fn say(self, bytes: impl Into<Bytes>) -> Script {
        self.then(Step::Say(bytes.into()))
    }

    /// Answers as is usual: with the name of the node in `x-node`, the length of the body, and the body unless it is for HEAD.
    pub fn answer(self, status: u16, body: impl Into<Bytes>) -> Script {
        self.then(Step::Answer { status, body: body.into() })
    }

    /// Says these bytes again and again, until the client goes.
    pub fn endless(self, bytes: impl Into<Bytes>) -> Script {
        self.then(Step::Endless(bytes.into()))
    }

    /// Lets that much time pass. The client may leave in the meantime, which ends the script.
    pub fn wait(self, time: Duration) -> Script {
        self.then(Step::Wait(time))
    }

    /// Waits until the test [opens the gate](super::Server::open_gate).
    pub fn gate(self) -> Script {
        self.then(Step::Gate)
    }

    /// Says back whatever comes, until the client says no more.
    pub fn echo(self) -> Script {
        self.then(Step::Echo)
    }

    /// Takes whatever comes and says nothing, until the client goes.
    pub fn hold(self) -> Script {
        self.then(Step::Hold)
    }

    /// The steps of another script, so many times.
    pub fn times(mut self, times: usize, script: &Script) -> Script {
        for _ in 0..times {
            self.steps.extend(script.steps.iter().cloned());
        }
        self
    }

    /// Starts over.
    pub fn again(self) -> Script {
        self.then(Step::Again)
    }

    /// Says that nothing more will be said, and goes on.
    pub fn finish(self) -> Script {
        self.then(Step::Finish)
    }

    /// Ends in the orderly way: says no more, and takes what comes until the client has ended, too.
    pub fn close(self) -> Script {
        self.then(Step::Close)
    }

    /// Ends as programs do that exit: orderly, unless there are bytes that were not read; then it is a reset.
    pub fn vanish(self) -> Script {
        self.then(Step::Vanish)
    }

    /// Resets the connection.
    pub fn reset(self) -> Script {
        self.then(Step::Reset)
    }
}
