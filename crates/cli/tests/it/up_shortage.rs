//! `carom up` when the system is short of something: clients wait, and people are told.

use crate::serving::{folder, inside};
use crate::up::{Up, ask, http};
use testkit::http::Server;
use tokio::net::TcpStream;
use tokio::process::Command;

const ANY: &str = "127.0.0.1:0";

/// What it is short of is told once for as long as it lasts, not for everybody who waits.
#[tokio::test]
async fn want_of_open_files_is_told_once() {
    let node = Server::start("node-1").await.unwrap();
    let folder = folder("shortage", &[("c.toml", &http("s", ANY, node.address(), ""))]);
    let program = inside(&folder, &["up", "-c", "c.toml"]);
    let program = program.as_std().get_program().to_str().unwrap().to_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n 64; exec '{program}' up -c c.toml")]).current_dir(&folder).kill_on_drop(true);
    let mut up = Up::of(&folder, shell).await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(TcpStream::connect(up.service("s")).await.expect("there is room to wait"));
    }
    let told = up.running.told("cannot be let in").await;
    assert!(told.contains("whose=\"s\""), "{told}");
    drop(clients);
    up.running.told("are let in again").await;
    let (mut cannot, mut again) = (0, 0);
    for line in up.running.heard.lines() {
        cannot += usize::from(line.contains("cannot be let in"));
        again += usize::from(line.contains("are let in again"));
        assert!(cannot == again || cannot == again + 1, "{}", up.running.heard);
    }
    let (status, body) = ask(up.service("s"), "GET /").await;
    assert_eq!((status, &*body), (200, "hello from node-1"));
}
