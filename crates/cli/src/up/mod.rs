//! `carom up`: everything that a config lists, in one process, for as long as nobody ends it.

mod banner;
mod board;
mod demonstration;
mod request;
mod running;
mod services;

pub(crate) use board::{Board, Seen};
pub(crate) use request::Request;

use crate::args;
use crate::failure::{Failure, say};
use crate::gateway;
use crate::notify::Notifier;
use crate::orders::{Order, Orders};
use crate::output::announce;
use running::Running;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use tokio::net::TcpSocket;

/// What people tend to call the file.
const USUAL: &str = "carom.toml";
/// So many may come before the first of them is let in; the system may allow fewer.
const BACKLOG: u32 = 4096;

pub(crate) fn run(args: args::Up) -> Result<(), Failure> {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(crate::cannot_start);
    let Some(file) = args.config else {
        if Path::new(USUAL).exists() {
            say(format_args!(
                "note: there is a {USUAL} here, and this is the demonstration; `carom up -c {USUAL}` runs it"
            ));
        }
        return crate::block_on(runtime()?, demonstration::run());
    };
    let request = Request::read(&file)?;
    allow_clients(&request);
    crate::block_on(runtime()?, serve(file, request))
}

async fn serve(file: PathBuf, request: Request) -> Result<(), Failure> {
    // First of all: a signal that comes early is not to find nobody.
    let mut orders = Orders::watch()?;
    let notifier = Notifier::from_environment();
    let _watchdog = notifier.watchdog();
    let mut running = Running::start(request).await?;
    let begun = tokio::select! {
        begun = running.begin() => begun.map(|()| true)?,
        // Somebody is served already, and may finish.
        () = orders.stop() => false,
    };
    if begun {
        let amount = running.amount();
        announce(&(running.summary() + &format!("carom is up: {amount}; SIGHUP reads {} again\n", file.display())));
        notifier.ready(&amount);
        run_until_told(&mut running, &mut orders, &notifier, &file).await;
    }
    notifier.stopping();
    running.close().await;
    say("stopping");
    tokio::select! {
        () = running.finish() => {}
        // Whoever says it twice means now.
        () = orders.stop() => say("stopped at once"),
    }
    Ok(())
}

async fn run_until_told(running: &mut Running, orders: &mut Orders, notifier: &Notifier, file: &Path) {
    loop {
        tokio::select! {
            order = orders.next() => match order {
                Order::Reload => {
                    notifier.reloading();
                    running.reload(file).await;
                }
                Order::Stop => return,
            },
            () = running.gateway_comes() => {}
        }
        notifier.ready(&running.amount());
    }
}

/// Each client is a file, and most have a connection of a backend.
fn allow_clients(request: &Request) {
    let of_services: usize =
        request.services.iter().map(|service| service.value.max_clients.saturating_add(service.value.maximum)).sum();
    let of_gateway = request.gateway.as_ref().map_or(0, |gateway| gateway.gateway.limits.clients);
    gateway::raise_open_files(
        of_services.saturating_add(of_gateway),
        "the limits of clients and connections add up to",
    );
}

/// A socket that clients can come to.
pub(crate) fn listen(at: SocketAddr, origin: &str, board: &Board) -> Result<TcpListener, Failure> {
    open(at).map_err(|error| {
        let held = (error.kind() == io::ErrorKind::AddrInUse).then(|| board.lock().holder(at)).flatten();
        // It is let go of only after everything else has worked.
        let held =
            held.map(|held| format!("; {held} until the config has been read: restart, or change it in two steps"));
        Failure::Unavailable(format!("cannot listen on {at} ({origin}): {error}{}", held.unwrap_or_default()))
    })
}

fn open(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Elsewhere it would let others take the address away.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::Duration;

    /// More than the 128 that a socket has room for if nobody says otherwise.
    #[tokio::test]
    async fn many_can_come_at_once() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let listener = open("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let come = |_| TcpStream::connect_timeout(&at, Duration::from_secs(30)).expect("there is room to wait");
        let waiting: Vec<TcpStream> = (0..most.min(400)).map(come).collect();
        assert_eq!(waiting.len(), most.min(400), "and nobody was let in yet");
    }
}
