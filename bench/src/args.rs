//! What the command line asks for.

use crate::buses::Role;
use crate::fanout::Kind;
use std::net::SocketAddr;

pub const USAGE: &str = "usage: carom-bench [--quick] [--part PART] [--only POOL]
       carom-bench --part faults [--quick] [--rounds ROUNDS] [--only postgres|redis|agent|sidecar] [--fault TEXT] [--docs]";

#[derive(Debug, Default, PartialEq)]
pub struct Args {
    pub quick: bool,
    pub part: Option<String>,
    pub only: Option<String>,
    /// How often each fault is repeated.
    pub rounds: Option<usize>,
    /// Text in the names of the faults to run.
    pub fault: Option<String>,
    /// Whether the table of faults is written to `docs`.
    pub docs: bool,
    /// Set by the run itself, for the process that counts allocations.
    pub memory: bool,
    /// Set by the run itself, for the process that serves a load.
    pub serve: Option<Serve>,
}

/// What a process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    Fanout(Kind),
    /// A bus, or what is on it.
    Bus(Role),
    /// HTTP, at this address.
    Http(SocketAddr),
}

impl Serve {
    fn parse(text: &str) -> Option<Serve> {
        match (text.strip_prefix("http-"), text.strip_prefix("bus-")) {
            (Some(address), _) => address.parse().ok().map(Serve::Http),
            (None, Some(role)) => Role::parse(role).map(Serve::Bus),
            (None, None) => Kind::parse(text).map(Serve::Fanout),
        }
    }
}

impl Args {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => args.quick = true,
                "--part" => args.part = Some(words.next().ok_or("--part needs the name of a part")?),
                "--only" => args.only = Some(words.next().ok_or("--only needs the name of a pool")?),
                "--rounds" => {
                    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).filter(|rounds| *rounds > 0);
                    args.rounds = Some(rounds.ok_or("--rounds needs a number")?);
                }
                "--fault" => args.fault = Some(words.next().ok_or("--fault needs text in the name of a fault")?),
                "--docs" => args.docs = true,
                "--memory" => args.memory = true,
                "--serve" => {
                    let kind = words.next().ok_or("--serve needs what is served")?;
                    args.serve = Some(Serve::parse(&kind).ok_or_else(|| format!("nobody serves {kind:?}"))?);
                }
                _ => return Err(format!("unknown argument {word:?}")),
            }
        }
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn options_are_told_apart() {
        let args = parse("--quick --only bb8 --part claims").unwrap();
        assert!(args.quick);
        assert_eq!(args.only.as_deref(), Some("bb8"));
        assert_eq!(args.part.as_deref(), Some("claims"));
        let args = parse("--part faults --rounds 3 --fault SIGSTOP --docs").unwrap();
        assert_eq!((args.rounds, args.fault.as_deref(), args.docs), (Some(3), Some("SIGSTOP"), true));
        assert_eq!(parse("").unwrap(), Args::default());
        assert_eq!(parse("--serve gateway").unwrap().serve, Some(Serve::Fanout(Kind::Gateway)));
        assert_eq!(parse("--serve floor-32").unwrap().serve, Some(Serve::Fanout(Kind::Floor { at_once: 32 })));
        assert_eq!(parse("--serve bus-zeromq").unwrap().serve, Some(Serve::Bus(Role::GatewayOnZeroMq)));
        assert_eq!(parse("--serve http-127.0.0.1:80").unwrap().serve, Some(Serve::Http(([127, 0, 0, 1], 80).into())));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(parse("--fast").unwrap_err().contains("--fast"));
        assert!(parse("--only").unwrap_err().contains("--only"));
        assert!(parse("--serve tea").unwrap_err().contains("tea"));
        assert!(parse("--rounds 0").unwrap_err().contains("--rounds"));
        assert!(parse("--fault").unwrap_err().contains("--fault"));
        assert!(parse("--part").unwrap_err().contains("--part"));
    }
}
