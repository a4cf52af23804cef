//! The dashboard of the real program, in a real browser: what happens to backends, feeds and the program itself is seen there.

use carom_live::chromium::Chromium;
use carom_live::process::{Folder, Port};
use carom_live::sidecar::Sidecar;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use testkit::http::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const TOKEN: &str = "a-token-that-nobody-else-knows";

/// Three nodes, a service on HTTP/1 and one on HTTP/2 in front of them, and a gateway with a simulated feed.
struct World {
    nodes: Vec<Server>,
    sidecar: Sidecar,
    orders: Port,
    search: Port,
    gateway: Port,
}

impl World {
    async fn start(admin: &str) -> World {
        let mut nodes = Vec::new();
        for name in ["node-1", "node-2", "node-3"] {
            nodes.push(Server::start(name).await.expect("a node"));
        }
        let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
        let (front, orders, search, gateway) = (Port::chosen(), Port::chosen(), Port::chosen(), Port::chosen());
        let recovery =
            "attempts = 1\nattempt_timeout = \"1s\"\nmax_attempt_timeout = \"1s\"\ndelay = \"1s\"\nmax_delay = \"2s\"";
        let config = format!(
            "[admin]\nlisten = \"{}\"\n{admin}\n\
             [[service]]\nname = \"orders\"\nlisten = \"{}\"\nprotocol = \"http\"\nresolve = {addresses:?}\nspares = 3\n{recovery}\n\
             [[service]]\nname = \"search\"\nlisten = \"{}\"\nprotocol = \"http\"\nhttp2 = \"only\"\nresolve = {addresses:?}\n{recovery}\n\
             [gateway]\nlisten = \"{}\"\n\
             [[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nsymbols = 200\nrate = 200\nmax_topics_per_connection = 40\nmax_connections = 3\n",
            front.address(),
            orders.address(),
            search.address(),
            gateway.address(),
        );
        let folder = Folder::new("dashboard", None);
        folder.write("token", TOKEN);
        let sidecar = Sidecar::of(&config, folder, front).await;
        World { nodes, sidecar, orders, search, gateway }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.sidecar.address())
    }

    /// A page on it that is live.
    async fn page(&self) -> Chromium {
        let mut page = Chromium::start().await;
        page.viewport(1280, 900).await;
        page.open(&self.url()).await;
        page.until("document.body.dataset.link === 'live'").await;
        page
    }

    /// The key that was made for this run.
    fn key(&self) -> String {
        let said = self.sidecar.said();
        let (_, key) = said.split_once("key of demo at simulated: ").unwrap_or_else(|| panic!("no key: {said}"));
        key.split_whitespace().next().expect("a key").to_owned()
    }
}

/// A request through a service, answered.
async fn ask(service: SocketAddr) {
    let mut stream = TcpStream::connect(service).await.expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A client of the gateway that wants these.
async fn subscribe(gateway: SocketAddr, key: &str, symbols: &[Value]) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(gateway).await.expect("it listens");
    let (mut client, _) = client_async(format!("ws://{gateway}/"), stream).await.expect("it speaks WebSocket");
    for message in [
        json!({"action": "authenticate", "api_key": key}),
        json!({"action": "subscribe", "symbols": symbols, "mode": "LTP"}),
    ] {
        client.send(Message::text(message.to_string())).await.expect("it reads");
        client.next().await.expect("an answer").expect("a good one");
    }
    client
}

/// Nothing but the admin address was asked, and nobody complained.
fn assert_well_behaved(world: &World, page: &Chromium) {
    let noted = page.noted();
    let own = |url: &&String| url.starts_with(&world.url()) || *url == "about:blank";
    assert!(noted.requested.iter().all(|url| own(&url)), "{noted:#?}");
    assert!(noted.complaints.is_empty(), "{noted:#?}");
}

const DEAD: &str = "document.querySelectorAll('#services .backend[data-trouble=\"2\"]').length";

#[tokio::test]
async fn a_backend_dies_is_shown_with_its_reason_and_comes_back() {
    let world = World::start("").await;
    let mut page = world.page().await;
    for text in ["orders", "search", "carom up", "gateway"] {
        page.shows(text).await;
    }
    page.until("document.querySelector('#status').textContent === 'ok'").await;
    page.until("document.querySelectorAll('[id^=\"service-orders\"] .cell[data-cell=idle]').length >= 3").await;
    ask(world.orders.address()).await;
    ask(world.search.address()).await;
    page.until("document.querySelector('[id^=\"service-orders\"] .figures').textContent.includes('served1failed')")
        .await;
    assert_eq!(page.eval(DEAD).await, 0);

    world.nodes[1].kill().await;
    let address = world.nodes[1].address();
    // The pool and the set both have it.
    page.until(&format!("{DEAD} === 2")).await;
    page.until("document.querySelector('#status').textContent === 'degraded'").await;
    page.until("document.querySelector('#announced').textContent.startsWith('degraded')").await;
    page.until("document.querySelector('[id^=\"service-orders\"] .reason').textContent.includes('refused')").await;
    let row = page.eval("document.querySelector('[id^=\"service-orders\"] .backend').innerText").await;
    let row = row.as_str().expect("text");
    assert!(row.contains(&address.to_string()) && row.contains("dead") && row.contains("refused"), "{row}");
    page.until("document.querySelector('[id^=\"service-orders\"] .why .next').textContent.startsWith('next attempt ')")
        .await;
    assert!(page.eval("document.title").await.as_str().is_some_and(|title| title.starts_with("degraded: ")));

    world.nodes[1].revive().expect("it is back");
    page.until(&format!("{DEAD} === 0")).await;
    page.until("document.querySelector('#status').textContent === 'ok'").await;
    assert_well_behaved(&world, &page);
    assert!(page.noted().refused.is_empty(), "{:#?}", page.noted());
    world.sidecar.stop();
}

#[tokio::test]
async fn a_feed_fills_up_as_a_client_subscribes_and_the_client_is_seen() {
    let world = World::start("").await;
    let mut page = world.page().await;
    page.until("document.querySelector('#feeds .capacity')?.textContent.startsWith('0 of 120 topics') ?? false").await;
    let names = ["SBIN", "RELIANCE", "TCS", "INFY"];
    let symbols: Vec<Value> = names.iter().map(|name| json!({"exchange": "NSE", "symbol": name})).collect();
    let client = subscribe(world.gateway.address(), &world.key(), &symbols).await;
    page.until("/^[1-4] of 120 topics/.test(document.querySelector('#feeds .capacity').textContent)").await;
    page.until("Number(document.querySelector('#feeds .bar').getAttribute('aria-valuenow')) > 0").await;
    page.until("document.querySelector('#gateways tbody tr') !== null").await;
    page.until("document.querySelector('#feeds .line .tag').textContent === 'up'").await;
    drop(client);
    page.until("document.querySelector('#gateways tbody tr') === null").await;
    let text = page.eval("document.documentElement.outerHTML").await;
    assert!(!text.as_str().expect("text").contains(&world.key()), "keys are never shown");
    assert_well_behaved(&world, &page);
    world.sidecar.stop();
}

#[tokio::test]
async fn it_survives_a_restart_of_the_program_without_being_loaded_again() {
    let mut world = World::start("").await;
    let mut page = world.page().await;
    page.eval("window.same = true").await;
    page.until("document.querySelectorAll('#services .panel').length === 2").await;
    page.eval("document.querySelector('[id^=\"service-orders\"] details').open = true").await;
    world.sidecar = world.sidecar.restart().await;
    page.until("document.body.dataset.link === 'live' && !document.querySelector('#restarted').hidden").await;
    page.shows("The program was restarted.").await;
    page.until("document.querySelector('#lost').hidden").await;
    assert_eq!(page.eval("window.same").await, json!(true));
    assert_eq!(page.eval("document.querySelector('[id^=\"service-orders\"] details').open").await, json!(true));
    // Gone for longer: the page says so, and as of when it shows what it shows.
    let World { nodes, sidecar, orders, search, gateway } = world;
    let url = format!("http://{}/", sidecar.address());
    let (port, folder) = sidecar.stopped();
    page.shows("Connection lost.").await;
    page.until("/Shown as of \\d\\d:\\d\\d:\\d\\d\\./.test(document.querySelector('#lost').textContent)").await;
    let frozen = page.eval("document.querySelector('#age').textContent").await;
    assert!(frozen.as_str().is_some_and(|age| age.starts_with("as of ")), "{frozen}");
    page.until("document.querySelector('#lost-next').textContent.startsWith('Next try in ')").await;
    let sidecar = Sidecar::again(folder, port).await;
    page.eval("document.querySelector('#retry').click()").await;
    page.until("document.body.dataset.link === 'live' && document.querySelector('#lost').hidden").await;
    assert_eq!(page.eval("window.same").await, json!(true));
    assert_eq!(page.eval("location.href").await, json!(url));
    let world = World { nodes, sidecar, orders, search, gateway };
    assert_well_behaved(&world, &page);
    world.sidecar.stop();
}

#[tokio::test]
async fn a_token_is_asked_for_and_works() {
    let world = World::start("token_file = \"token\"").await;
    let mut page = Chromium::start().await;
    page.open(&world.url()).await;
    page.shows("This address wants a token.").await;
    page.until("document.activeElement.id === 'token' && document.activeElement.type === 'password'").await;
    assert_eq!(page.eval("document.querySelectorAll('.panel').length").await, 0, "nothing is shown without it");
    page.type_text("guessed").await;
    page.press("Enter").await;
    page.shows("That one was not accepted.").await;
    page.until("document.activeElement.id === 'token'").await;
    page.type_text(TOKEN).await;
    page.press("Enter").await;
    page.until("document.body.dataset.link === 'live' && document.querySelector('#ask').hidden").await;
    page.shows("orders").await;
    // It lasts for the tab, and is nowhere to be read.
    page.open(&world.url()).await;
    page.until("document.body.dataset.link === 'live'").await;
    assert_eq!(page.eval("document.querySelector('#token').value + location.href").await, json!(world.url()));
    assert!(page.noted().requested.iter().all(|url| !url.contains("token") && !url.contains(TOKEN)));
    assert_well_behaved(&world, &page);
    world.sidecar.stop();
}

#[tokio::test]
async fn it_fits_a_telephone_by_day_and_by_night() {
    let world = World::start("").await;
    let mut page = world.page().await;
    page.until("document.querySelectorAll('.panel').length >= 4").await;
    for light in ["light", "dark"] {
        page.media(&[("prefers-color-scheme", light)]).await;
        page.viewport(360, 740).await;
        page.press("e").await;
        let width = page.eval("document.scrollingElement.scrollWidth").await;
        assert!(width.as_u64().is_some_and(|width| width <= 360), "{width}");
    }
    assert_well_behaved(&world, &page);
    assert!(page.noted().refused.is_empty(), "{:#?}", page.noted());
    world.sidecar.stop();
}
