//! The gateway, used by OpenAlgo's own Python package as it is published: it is to notice nothing but the speed.

use carom_live::process::{Folder, Port, Running, command, signal, tail};
use carom_live::python::{Python, Script};
use carom_live::{ms, program, until};
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
    if Python::OpenAlgo2.is_left_out() {
        println!("openalgo 2 needs Python 3.12, and there is none here: nothing is shown");
        return;
    }
    uses_the_gateway_and_comes_back_after_its_restart(Python::OpenAlgo2).await;
}
