//! What a service manager is told when it asks to be: that the program is ready, reads its config again, ends, or is alive.
//!
//! This is systemd's protocol: datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. Without that variable
//! nothing is sent.

use crate::failure::say;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Whom to tell.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<socket::Socket>,
    /// How often a sign of life is expected.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the variables say. What is wrong with them is said, and goes no further: the program works without.
    pub(crate) fn from_environment() -> Notifier {
        let socket = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            let failed =
                |error: io::Error| say(format_args!("warning: NOTIFY_SOCKET {name:?} cannot be used: {error}"));
            socket::Socket::to(&name).map_err(failed).ok()
        });
        let own = |name: &str| env::var_os(name).and_then(|value| value.to_str()?.parse::<u64>().ok());
        // It may be meant for whoever started this.
        let meant = env::var_os("WATCHDOG_PID").is_none() || own("WATCHDOG_PID") == Some(std::process::id().into());
        let watchdog = own("WATCHDOG_USEC").filter(|every| *every > 0 && meant).map(Duration::from_micros);
        Notifier { socket, watchdog }
    }

    /// Everything that is to run does.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS=serving {status}\n"));
    }

    /// The config is being read again; [`ready`](Notifier::ready) follows.
    pub(crate) fn reloading(&self) {
        let now = socket::monotonic_microseconds();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reading the config again\n"));
    }

    /// It has been told to end.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing what is under way\n");
    }

    /// Signs of life twice as often as they are expected, for as long as this is held and the runtime gets to its tasks.
    pub(crate) fn watchdog(&self) -> JoinSet<()> {
        let mut task = JoinSet::new();
        let copy = self.socket.as_ref().map(socket::Socket::try_clone).and_then(Result::ok);
        if let Some((every, socket)) = self.watchdog.zip(copy) {
            task.spawn(async move {
                let mut ticks = interval(every / 2);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let _ = socket.send("WATCHDOG=1\n");
                }
            });
        }
        task
    }

    fn send(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state)) {
            say(format_args!("warning: the service manager cannot be told: {error}"));
        }
    }
}

#[cfg(unix)]
mod socket {
    use super::{OsStr, io};
    use rustix::time::{ClockId, clock_gettime};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    /// Where datagrams go.
    #[derive(Debug)]
    pub(super) struct Socket {
        to: SocketAddr,
        own: UnixDatagram,
    }

    impl Socket {
        /// `/a/path`, or `@name` for one that is in no file system.
        pub(super) fn to(name: &OsStr) -> io::Result<Socket> {
            let to = match name.as_bytes().split_first() {
                Some((b'@', name)) => abstract_name(name)?,
                Some((b'/', _)) => SocketAddr::from_pathname(name)?,
                _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor a name after @")),
            };
            let own = UnixDatagram::unbound()?;
            // A manager that does not read is not waited for.
            own.set_nonblocking(true)?;
            Ok(Socket { to, own })
        }

        pub(super) fn try_clone(&self) -> io::Result<Socket> {
            Ok(Socket { to: self.to.clone(), own: self.own.try_clone()? })
        }

        pub(super) fn send(&self, state: &str) -> io::Result<()> {
            self.own.send_to_addr(state.as_bytes(), &self.to).map(drop)
        }
    }

    #[cfg(target_os = "linux")]
    fn abstract_name(name: &[u8]) -> io::Result<SocketAddr> {
        use std::os::linux::net::SocketAddrExt;
        SocketAddr::from_abstract_name(name)
    }

    #[cfg(not(target_os = "linux"))]
    fn abstract_name(_: &[u8]) -> io::Result<SocketAddr> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no sockets but in its file system"))
    }

    /// The time that managers compare with.
    pub(super) fn monotonic_microseconds() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
    }
}

/// There is no such manager.
#[cfg(not(unix))]
mod socket {
    use super::{OsStr, io};

    #[derive(Debug)]
    pub(super) enum Socket {}

    impl Socket {
        pub(super) fn to(_: &OsStr) -> io::Result<Socket> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn try_clone(&self) -> io::Result<Socket> {
            match *self {}
        }

        pub(super) fn send(&self, _: &str) -> io::Result<()> {
            match *self {}
        }
    }

    pub(super) fn monotonic_microseconds() -> u64 {
        0
    }
}
