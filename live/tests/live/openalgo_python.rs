//! The gateway, used by OpenAlgo's own Python package as it is published: it is to notice nothing but the speed.

use carom::feed::Feed;
use carom_gateway::Gateway as Library;
use carom_gateway::bus::Outside;
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_live::process::{Folder, Port, Running, command, signal, tail};
use carom_live::python::{Python, Script};
use carom_live::{ms, program, until};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::net::TcpStream;

/// The program, on a port that stays its own.
struct Gateway {
    folder: Folder,
    port: Port,
    keys: PathBuf,
    running: Option<Running>,
}

impl Gateway {
    /// With one key, which is returned.
    async fn start() -> (Gateway, String) {
        let (folder, port) = (Folder::new("gateway", None), Port::chosen());
        let keys = folder.path().join("keys.toml");
        let made = Command::new(program("carom"))
            .args(["key", "new", "--user", "demo", "--broker", "simulated", "--file"])
            .arg(&keys)
            .output()
            .expect("`make live` has built the program");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let key = String::from_utf8(made.stdout).expect("a key is text").trim().to_owned();
        let mut gateway = Gateway { folder, port, keys, running: None };
        gateway.restart().await;
        (gateway, key)
    }

    fn url(&self) -> String {
        format!("ws://{}", self.port.address())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// As an operator would: SIGTERM, and it ends by itself.
    fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        signal("TERM", &[running.id()]);
        running.wait(ms(15_000));
        let ended = running.ended().unwrap_or_else(|| panic!("it does not end:\n{}", tail(&self.log())));
        assert!(ended.success(), "{ended}:\n{}", tail(&self.log()));
    }

    async fn restart(&mut self) {
        let mut command = command(Path::new(&program("carom")), None, &self.folder);
        command.args(["gateway", "--listen", &self.port.address().to_string(), "--keys"]).arg(&self.keys);
        self.running = Some(Running::start(command, &self.log()));
        until(ms(15_000), async || TcpStream::connect(self.port.address()).await.map(drop)).await;
    }
}

async fn uses_the_gateway_and_comes_back_after_its_restart(python: Python) {
    let (mut gateway, key) = Gateway::start().await;
    let mut script = Script::start(python, "openalgo_feed.py", &[&gateway.url(), &key]);
    script.says("a wrong key does not let in").await;
    script.says("streaming").await;
    gateway.stop();
    gateway.restart().await;
    script.says("streaming again").await;
    script.says("what was unsubscribed is silent").await;
    script.ends().await;
    gateway.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_uses_the_gateway_and_comes_back_after_its_restart() {
    uses_the_gateway_and_comes_back_after_its_restart(Python::OpenAlgo1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_uses_the_gateway_and_comes_back_by_itself_after_its_restart() {
    if has_version_2() {
        uses_the_gateway_and_comes_back_after_its_restart(Python::OpenAlgo2).await;
    }
}

fn has_version_2() -> bool {
    let has = !Python::OpenAlgo2.is_left_out();
    if !has {
        testkit::skip("no Python 3.12, which openalgo 2 needs");
    }
    has
}

/// A gateway within this process. The test publishes its ticks.
struct Ticking {
    gateway: Library,
    key: NewKey,
}

impl Ticking {
    async fn start() -> Ticking {
        let key = NewKey::generate().expect("a random key");
        let gateway = Library::builder()
            .listen((Ipv4Addr::LOCALHOST, 0))
            .keys(Keys::in_memory([(Identity::new("outside", "asha"), key.sha256())]))
            .feed("outside", "asha", Feed::builder(Outside).build().expect("a feed"))
            .start()
            .await
            .expect("a gateway");
        Ticking { gateway, key }
    }

    /// Starts a role of the script, and waits until it has so many subscriptions.
    async fn subscribed(&self, python: Python, role: &str, count: usize) -> Script {
        let url = format!("ws://{}", self.gateway.local_addr());
        let script = Script::start(python, "openalgo_ticks.py", &[role, &url, self.key.reveal()]);
        until(ms(60_000), async || {
            let subscriptions = self.gateway.snapshot().subscriptions;
            (subscriptions == count).then_some(()).ok_or(subscriptions)
        })
        .await;
        script
    }

    fn publish(&self, topic: &str, payload: impl Into<String>) {
        let bus = self.gateway.bus("outside", "asha").expect("a bus");
        bus.publish(topic, payload.into());
    }
}

/// Missing fields, nulls, and NaN, which Python writes.
async fn receives_ticks_that_lack_fields(python: Python) {
    let ticking = Ticking::start().await;
    let mut script = ticking.subscribed(python, "sparse", 3).await;
    ticking.publish("NSE_INDEX_NIFTY_LTP", r#"{"ltp":25000.5,"timestamp":null,"data":null}"#);
    ticking.publish("NSE_INDEX_NIFTY_QUOTE", r#"{"ltp":25000.5,"volume":null,"change":NaN}"#);
    let book = r#"{"buy":[{"price":25000.0,"quantity":75,"orders":null}],"sell":null}"#;
    ticking.publish("NSE_INDEX_NIFTY_DEPTH", format!(r#"{{"ltp":25000.5,"depth":{book}}}"#));
    script.says("delivered").await;
    script.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_receives_ticks_that_lack_fields() {
    receives_ticks_that_lack_fields(Python::OpenAlgo1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_receives_ticks_that_lack_fields() {
    if has_version_2() {
        receives_ticks_that_lack_fields(Python::OpenAlgo2).await;
    }
}

async fn receives_every_tick_of_a_burst(python: Python) {
    let ticking = Ticking::start().await;
    let mut script = ticking.subscribed(python, "burst", 1).await;
    (1..=50).for_each(|price| ticking.publish("NSE_INDEX_NIFTY_LTP", format!(r#"{{"ltp":{price}}}"#)));
    script.says("delivered").await;
    script.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_receives_every_tick_of_a_burst() {
    receives_every_tick_of_a_burst(Python::OpenAlgo1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_receives_every_tick_of_a_burst() {
    if has_version_2() {
        receives_every_tick_of_a_burst(Python::OpenAlgo2).await;
    }
}
