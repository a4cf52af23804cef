//! What a broker does with a command instead of what it should.

use carom_pulsar::wire::{CommandType, ServerError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where an [`Answer`] is given. What is said about a connection goes before what is said about a topic, then a broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// The connection of this id; see [`Connection::id`](super::Connection::id).
    Connection(u64),
    /// All that names this topic, or belongs to a producer or consumer of it.
    Topic(String),
    /// All that this broker hears.
    Broker(usize),
    /// Everything.
    Anywhere,
}

impl On {
    /// The topic of this name, which may be short.
    pub fn topic(name: &str) -> On {
        On::Topic(super::topic::full_name(name))
    }
}

/// How a command is answered; see [`Cluster::answer`](super::Cluster::answer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As it should be.
    Normal,
    /// It is done, and nobody says so. A PONG, for one, is withheld.
    Silent,
    /// It is neither done nor answered.
    Ignored,
    /// It is not done, and the answer is this error, in the form that the command has for it. The connection stays, but for
    /// CONNECT. A command that has no answer is just not done.
    Error(ServerError),
    /// It is not done; the connection is closed.
    Close,
    /// It is done; the connection is closed instead of an answer.
    DoneAndClose,
    /// It is done; these bytes go out instead of the answer.
    Bytes(Vec<u8>),
    /// It is done; the message that goes out has a wrong checksum. What has no checksum goes out as it is.
    BadChecksum,
    /// It is done at once; the answer goes out after this time. Others go out meanwhile.
    Delay(Duration, Box<Answer>),
    /// So many times in one way, later in another.
    Times(usize, Box<Answer>, Box<Answer>),
}

impl Answer {
    /// This answer, after this time.
    pub fn after(self, delay: Duration) -> Answer {
        Answer::Delay(delay, Box::new(self))
    }

    /// This answer so many times, then another.
    pub fn times(self, times: usize, then: Answer) -> Answer {
        Answer::Times(times, Box::new(self), Box::new(then))
    }

    /// A frame that claims to be of almost 2 GiB.
    pub fn oversized() -> Answer {
        Answer::Bytes(vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 5])
    }

    /// A frame of the right length whose command is not protobuf.
    pub fn garbage() -> Answer {
        Answer::Bytes([&[0, 0, 0, 12, 0, 0, 0, 8][..], &[0xff; 8]].concat())
    }

    /// A frame with a well-formed command of a type that nobody knows.
    pub fn unknown_command() -> Answer {
        Answer::Bytes(vec![0, 0, 0, 7, 0, 0, 0, 3, 0x08, 0xe7, 0x07])
    }

    /// A frame whose command is longer than the frame.
    pub fn cut_short() -> Answer {
        Answer::Bytes(vec![0, 0, 0, 6, 0, 0, 0, 100, 0x08, 19])
    }
}

/// The answer to one command, when counting is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Play {
    pub(super) delay: Duration,
    /// Neither a delay nor a count.
    pub(super) answer: Answer,
}

impl Play {
    pub(super) const NORMAL: Play = Play { delay: Duration::ZERO, answer: Answer::Normal };
}

/// What is to be answered where; a command type of `None` is any.
#[derive(Debug, Default)]
pub(super) struct Script {
    answers: BTreeMap<(On, Option<CommandType>), Answer>,
}

impl Script {
    pub(super) fn set(&mut self, on: On, command: Option<CommandType>, answer: Answer) {
        self.answers.insert((on, command), answer);
    }

    pub(super) fn clear(&mut self) {
        self.answers.clear();
    }

    /// Nothing is said about anything.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Counts the command where the answer counts.
    pub(super) fn play(&mut self, places: &[On], command: Option<CommandType>) -> Play {
        let exact = places.iter().map(|on| (on.clone(), command));
        let any = places.iter().map(|on| (on.clone(), None));
        // Messages go out by themselves: only who names them means them.
        let any = any.filter(|_| command != Some(CommandType::Message));
        let mut play = Play::NORMAL;
        for key in exact.chain(any) {
            if let Some(mut answer) = self.answers.get_mut(&key) {
                loop {
                    answer = match answer {
                        Answer::Delay(delay, then) => {
                            play.delay += *delay;
                            then
                        }
                        Answer::Times(0, _, then) => then,
                        Answer::Times(left, first, _) => {
                            *left -= 1;
                            first
                        }
                        plain => {
                            play.answer = plain.clone();
                            return play;
                        }
                    }
                }
            }
        }
        play
    }
}
