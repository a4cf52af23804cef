//! What a simulated exchange is told: its size, its limits, its pace, and the faults that come by themselves.

use super::token::Token;
use carom_core::options::OptionsError;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What a simulated exchange is told. Every option has a default; [`Exchange::start`](super::Exchange::start) refuses what makes
/// no sense.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `Exchange::start`"]
pub struct Options {
    pub(super) listen: SocketAddr,
    pub(super) token: Option<Token>,
    pub(super) seed: u64,
    pub(super) symbols: usize,
    pub(super) rate: f64,
    pub(super) max_connections: usize,
    pub(super) max_topics_per_connection: usize,
    pub(super) max_batch: usize,
    pub(super) heartbeat: Duration,
    pub(super) patience: Duration,
    pub(super) ack_delay: Duration,
    pub(super) kill_every: Option<Duration>,
}

/// Port chosen by the system on loopback, any token, seed 1, 3,000 symbols, 1,000 ticks/s, 3 connections of 1,000 topics, no
/// faults.
impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token: None,
            seed: 1,
            symbols: 3_000,
            rate: 1_000.0,
            max_connections: 3,
            max_topics_per_connection: 1_000,
            max_batch: 1_000,
            heartbeat: Duration::from_secs(1),
            patience: Duration::from_secs(60),
            ack_delay: Duration::ZERO,
            kill_every: None,
        }
    }
}

impl Options {
    /// Where it listens; port 0 lets the system choose one. Default `127.0.0.1:0`.
    pub fn listen(mut self, address: SocketAddr) -> Options {
        self.listen = address;
        self
    }

    /// What connections must present, as `Authorization: Bearer ..`. `None` takes everybody. Default `None`.
    pub fn token(mut self, token: impl Into<Option<String>>) -> Options {
        self.token = token.into().map(Token::new);
        self
    }

    /// What every price follows from. Default 1.
    pub fn seed(mut self, seed: u64) -> Options {
        self.seed = seed;
        self
    }

    /// How many symbols are listed: well-known names first, then made-up ones. At most 1,000,000. Default 3,000.
    pub fn symbols(mut self, symbols: usize) -> Options {
        self.symbols = symbols;
        self
    }

    /// Ticks per second in all, shared evenly by the symbols that somebody has subscribed to, of which each gets at most about 100;
    /// what is sent when a subscription begins comes on top. 0 sends nothing but that. At most 1,000,000. Default 1,000.
    pub fn rate(mut self, ticks_per_second: f64) -> Options {
        self.rate = ticks_per_second;
        self
    }

    /// Most connections at a time; another one is answered with 429. Default 3.
    pub fn max_connections(mut self, max_connections: usize) -> Options {
        self.max_connections = max_connections;
        self
    }

    /// Most symbols on one connection; each one above is refused with a reason. Default 1,000.
    pub fn max_topics_per_connection(mut self, max_topics_per_connection: usize) -> Options {
        self.max_topics_per_connection = max_topics_per_connection;
        self
    }

    /// Most symbols in one request; a longer one ends its connection. Default 1,000.
    pub fn max_batch(mut self, max_batch: usize) -> Options {
        self.max_batch = max_batch;
        self
    }

    /// How often a connection hears that the exchange lives. Default 1 s.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Options {
        self.heartbeat = heartbeat;
        self
    }

    /// A connection that says nothing, or takes nothing, for this long is ended. Default 60 s.
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// How long requests wait for their answers; see [`Exchange::delay_acks`](super::Exchange::delay_acks). Default zero.
    pub fn ack_delay(mut self, ack_delay: Duration) -> Options {
        self.ack_delay = ack_delay;
        self
    }

    /// A connection, chosen by chance, is cut this often. Default `None`: never.
    pub fn kill_every(mut self, kill_every: impl Into<Option<Duration>>) -> Options {
        self.kill_every = kill_every.into();
        self
    }

    pub(super) fn validate(&self) -> Result<(), OptionsError> {
        let counts = [
            ("symbols", self.symbols, 1_000_000),
            ("max_connections", self.max_connections, 10_000),
            ("max_topics_per_connection", self.max_topics_per_connection, 1_000_000),
            ("max_batch", self.max_batch, 10_000),
        ];
        for (option, count, most) in counts {
            if !(1..=most).contains(&count) {
                return Err(OptionsError::new(option, format!("must be from 1 to {most}, not {count}")));
            }
        }
        if !(0.0..=1e6).contains(&self.rate) {
            return Err(OptionsError::new("rate", format!("must be from 0 to 1000000, not {}", self.rate)));
        }
        let times = [
            ("heartbeat", Some(self.heartbeat)),
            ("patience", Some(self.patience)),
            ("kill_every", self.kill_every),
            ("ack_delay", Some(self.ack_delay).filter(|delay| !delay.is_zero())),
        ];
        let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(86_400));
        for (option, time) in times {
            if let Some(time) = time.filter(|time| !(shortest..=longest).contains(time)) {
                return Err(OptionsError::new(option, format!("must be from 1ms to a day, not {time:?}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let cases = [
            (Options::default().symbols(0), "symbols"),
            (Options::default().max_connections(0), "max_connections"),
            (Options::default().rate(f64::NAN), "rate"),
            (Options::default().rate(-1.0), "rate"),
            (Options::default().heartbeat(Duration::ZERO), "heartbeat"),
            (Options::default().kill_every(Duration::ZERO), "kill_every"),
        ];
        assert_eq!(Options::default().validate(), Ok(()));
        for (options, names) in cases {
            assert_eq!(options.validate().unwrap_err().option(), names);
        }
    }
}
