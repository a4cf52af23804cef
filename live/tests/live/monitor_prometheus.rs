//! Prometheus reads what the program measures: its linter finds nothing amiss, and its server scrapes it.

use carom_live::process::{Folder, Port, Running, command, tail};
use carom_live::sidecar::Sidecar;
use carom_live::{admin, ms, until};
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program with a service that was used.
async fn used() -> (Sidecar, SocketAddr) {
    let backend = admin::echo().await;
    let sidecar = Sidecar::start(&format!("resolve = [\"{backend}\"]\nprotocol = \"tcp\"\n")).await;
    let address = admin::address(&sidecar).await;
    admin::say(sidecar.address()).await.expect("it is served");
    (sidecar, address)
}

#[tokio::test]
async fn promtool_has_nothing_to_say_but_that_opentelemetry_calls_a_gauge_count() {
    let (sidecar, address) = used().await;
    let text = until(ms(30_000), async || {
        let text = admin::get(address, "/metrics").await.map_err(|error| error.to_string())?;
        let used = text
            .lines()
            .any(|line| line.starts_with("db_client_connection_use_time_seconds_count{") && !line.ends_with(" 0"));
        if used { Ok(text) } else { Err(format!("nothing was used:\n{text}")) }
    })
    .await;

    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut linter = promtool.spawn().expect("`make live` installs prometheus");
    linter.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
    let output = linter.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // The name is OpenTelemetry's, and not ours to change: whoever knows it from elsewhere is to find it here.
    let ours: Vec<&str> = said.lines().filter(|line| !line.starts_with("db_client_connection_count ")).collect();
    assert!(ours.is_empty(), "{said}");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {said}", output.status);
    sidecar.stop();
}

#[tokio::test]
async fn prometheus_scrapes_it() {
    let (sidecar, address) = used().await;
    let (folder, port) = (Folder::new("prometheus", None), Port::chosen());
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: carom\n    static_configs:\n      - targets: [\"{address}\"]\n"
    );
    let config = folder.write("prometheus.yml", &config);
    let mut server = command(Path::new("prometheus"), None, &folder);
    server.arg(format!("--config.file={}", config.display()));
    server.arg(format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()));
    server.arg(format!("--web.listen-address={}", port.address()));
    let log = folder.path().join("log");
    let _running = Running::start(server, &log);

    let query = "/api/v1/query?query=db_client_connection_wait_time_seconds_count";
    let labels = until(ms(60_000), async || {
        let answer = admin::get(port.address(), query).await.map_err(|error| format!("{error}\n{}", tail(&log)))?;
        // Long answers come in pieces, each after a line with its length.
        let json = answer.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        let answer: Value = serde_json::from_str(json).map_err(|error| format!("{error}: {answer}"))?;
        let found = answer["data"]["result"][0]["metric"].as_object().cloned();
        found.ok_or(format!("it has not scraped that yet: {answer}\n{}", tail(&log)))
    })
    .await;
    assert_eq!(labels["job"], "carom");
    assert!(labels["db_client_connection_pool_name"].as_str().is_some_and(|name| !name.is_empty()), "{labels:?}");
    assert!(labels["carom_backend"].as_str().is_some_and(|name| name.starts_with("127.0.0.1:")), "{labels:?}");
    sidecar.stop();
}
