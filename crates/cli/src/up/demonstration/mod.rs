//! The demonstration: everything that `carom up` can run, with nothing but this program.
//!
//! Three nodes, one of which comes and goes, are served through the proxy; a simulated exchange is served through the gateway. A
//! client of each shows what becomes of it, in a line every second or so.

mod asking;
mod following;
mod nodes;
mod story;

use super::Request;
use super::running::Running;
use crate::config::{Admin, Config, DEFAULT_ADMIN, Environment, Layered, Service, Simulated, Upstream};
use crate::failure::{Failure, say};
use crate::gateway;
use crate::orders::{Order, Orders};
use crate::output::print;
use carom_gateway::DEFAULT_LISTEN;
use nodes::Node;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;
use story::{Event, Story};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

const PROXY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// What is followed, and how it is called.
const SYMBOL: (&str, &str) = ("NSE", "SBIN");
/// How long the one that flaps is there, and how long it is not.
const THERE: Duration = Duration::from_secs(7);
const AWAY: Duration = Duration::from_secs(6);
/// What has not been said by then waits no longer.
const UNTOLD: usize = 1024;

pub(super) async fn run() -> Result<(), Failure> {
    let mut orders = Orders::watch()?;
    let mut nodes = Vec::new();
    for name in nodes::NAMES {
        nodes.push(Node::start(name).await.map_err(cannot_start)?);
    }
    let mut running = Running::start(request(&nodes)?).await?;
    running.begin().await?;
    let places = Places::of(&running)?;
    print(&places.banner(&nodes))?;

    let (sender, mut events) = mpsc::channel(UNTOLD);
    let mut tasks = JoinSet::new();
    tasks.spawn(asking::ask(places.proxy, sender.clone()));
    tasks.spawn(following::follow(places.gateway, places.key.clone(), SYMBOL, sender.clone()));
    let flapping = nodes.pop().expect("there are three");
    tasks.spawn(flap(flapping, sender));

    let mut story = Story::begin(std::time::Instant::now(), nodes::FLAPPING);
    loop {
        tokio::select! {
            order = orders.next() => match order {
                Order::Reload => say("there is no config to read again: this is the demonstration"),
                Order::Stop => break,
            },
            Some(event) = events.recv() => {
                if let Some(line) = story.hear(std::time::Instant::now(), event) {
                    print(&line)?;
                }
            }
        }
    }
    tasks.shutdown().await;
    print(&story.end())?;
    running.close().await;
    tokio::select! {
        () = running.finish() => {}
        () = orders.stop() => {}
    }
    Ok(())
}

/// Goes and comes back, again and again.
async fn flap(mut node: Node, tell: mpsc::Sender<Event>) {
    loop {
        sleep(THERE).await;
        node.go();
        let _ = tell.send(Event::Gone).await;
        sleep(AWAY).await;
        // Somebody may have taken its port meanwhile, and may give it back.
        if node.come_back().await.is_ok() {
            let _ = tell.send(Event::Back).await;
        }
    }
}

/// What the demonstration runs, as if a config had listed it.
fn request(nodes: &[Node]) -> Result<Request, Failure> {
    let origin = "the demonstration";
    let backends = nodes.iter().map(Node::address).collect();
    let service = Service::demonstration("demo", free(PROXY, "the proxy"), backends);
    let mut config = Config::read(None, &Environment::default())?;
    config.gateway.listen = Layered::new(free(DEFAULT_LISTEN, "the gateway"), origin);
    for feed in &mut config.feeds {
        feed.upstream = Upstream::Simulated(Simulated::Here { symbols: 100, rate: 200.0, seed: 1 });
    }
    Ok(Request {
        admin: Some(Admin::open(Layered::new(free(DEFAULT_ADMIN, "the dashboard"), origin))),
        services: vec![Layered::new(service, origin)],
        gateway: Some(gateway::Request::of(config.gateway, config.feeds)?),
    })
}

/// This address, or any if somebody has it.
fn free(wanted: SocketAddr, what: &str) -> SocketAddr {
    match TcpListener::bind(wanted) {
        Ok(_) => wanted,
        Err(error) => {
            say(format_args!("note: {wanted} cannot be had for {what} ({error}); another one is taken"));
            ANY
        }
    }
}

/// Where everything is.
struct Places {
    proxy: SocketAddr,
    gateway: SocketAddr,
    admin: SocketAddr,
    key: String,
}

impl Places {
    fn of(running: &Running) -> Result<Places, Failure> {
        let seen = running.board().look();
        let proxy = seen.services.first().map(|service| service.listen);
        let state = running.board().lock();
        let gateway = state.gateway.serving().map(|gateway| gateway.local_addr());
        let key = state.gateway.serving().and_then(|gateway| Some(gateway.made_key()?.to_owned()));
        let all = proxy.zip(gateway).zip(running.admin_address()).zip(key);
        let (((proxy, gateway), admin), key) = all.ok_or_else(|| cannot_start("something of it does not run"))?;
        Ok(Places { proxy, gateway, admin, key })
    }

    fn banner(&self, nodes: &[Node]) -> String {
        let Places { proxy, gateway, admin, key } = self;
        let nodes: Vec<String> = nodes.iter().map(|node| format!("{} ({})", node.name(), node.address())).collect();
        let url = if *gateway == DEFAULT_LISTEN { String::new() } else { format!(" --url ws://{gateway}") };
        let top = if *admin == DEFAULT_ADMIN { String::new() } else { format!(" http://{admin}") };
        let (exchange, symbol) = SYMBOL;
        format!(
            "\
A demonstration. {flapping} comes and goes every few seconds, and nobody who asks the proxy notices.

proxy:   http://{proxy} to {nodes}
gateway: ws://{gateway} to a simulated exchange
admin:   http://{admin}/healthz (also /metrics, /kang/snapshot)

dashboard: http://{admin}/

To try it, elsewhere:
  curl -i http://{proxy}/
  carom get http://{proxy}/
  carom load http://{proxy}/ -c 8 -d 10s
  CAROM_KEY={key} carom watch{url} {exchange}:{symbol}
  carom top{top}
  curl http://{admin}/healthz

Ctrl-C ends it. `carom up --help` says how to run your own services.

",
            flapping = nodes::FLAPPING,
            nodes = nodes.join(", "),
        )
    }
}

fn cannot_start(problem: impl std::fmt::Display) -> Failure {
    Failure::Unavailable(format!("the demonstration cannot start: {problem}"))
}
