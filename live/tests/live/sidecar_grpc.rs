//! gRPC through the sidecar, with grpcio (C-core) as client and as server. C-core refuses requests without `te: trailers`.

use carom_live::python::{self, Python, Script};
use carom_live::sidecar::Sidecar;

#[tokio::test]
async fn grpc_calls_of_every_kind_pass_through_the_http_proxy() {
    let (_server, port) = python::start("grpc_echo.py", &["serve"]).await;
    let port: u16 = port.trim().parse().expect("the port of the server");
    let service = format!("resolve = [\"127.0.0.1:{port}\"]\nprotocol = \"http\"\nhttp2 = \"only\"\n");
    let sidecar = Sidecar::start(&service).await;
    let address = sidecar.address().to_string();
    let mut client = Script::start(Python::Clients, "grpc_echo.py", &["call", &address]);
    for done in ["unary", "client stream", "server stream", "both streams", "status", "cancelled", "deadline"] {
        client.says(done).await;
    }
    client.ends().await;
    sidecar.stop();
}
