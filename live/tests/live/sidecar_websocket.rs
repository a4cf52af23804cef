//! A WebSocket through the sidecar's HTTP proxy, with the same third-party package at both ends.

use carom_live::python::{self, Python, Script};
use carom_live::sidecar::Sidecar;

#[tokio::test]
async fn websockets_pass_through_the_http_proxy_both_ways() {
    let (_server, port) = python::start("websocket_echo.py", &["serve"]).await;
    let port: u16 = port.trim().parse().expect("the port it listens on");
    let sidecar = Sidecar::start(&format!("resolve = [\"127.0.0.1:{port}\"]\nprotocol = \"http\"\n")).await;
    let mut client =
        Script::start(Python::Clients, "websocket_echo.py", &["talk", &format!("ws://{}/", sidecar.address())]);
    for said in ["echoed", "streamed", "closed"] {
        client.says(said).await;
    }
    client.ends().await;
    sidecar.stop();
}
