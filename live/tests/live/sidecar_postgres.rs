//! `psql` through the sidecar's TCP proxy, to a PostgreSQL that is killed and started again.

use carom_live::postgres::{Postgres, USER, programs};
use carom_live::process::{Folder, Port, command};
use carom_live::sidecar::Sidecar;
use carom_live::{Server, ms, until};
use std::net::SocketAddr;
use std::path::Path;
use tokio::process::Command;

/// What psql says to a statement, and whether it went well.
async fn psql(at: SocketAddr, statement: &str) -> Result<String, String> {
    let folder = Folder::new("psql", None);
    let mut psql: Command = command(Path::new("psql"), None, &folder).into();
    psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", "postgres", "--username", USER]);
    psql.args(["--host", &at.ip().to_string(), "--port", &at.port().to_string(), "--command", statement]);
    let output = psql.env("PGCONNECT_TIMEOUT", "10").kill_on_drop(true).output().await.expect("psql runs");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[tokio::test]
async fn psql_reaches_postgres_through_the_tcp_proxy_also_after_it_was_killed() {
    let mut postgres = Postgres::start().await;
    let sidecar = Sidecar::start(&format!(
        "resolve = [\"{}\"]\nprotocol = \"tcp\"\nspares = 2\nmaximum = 8\n",
        postgres.address()
    ))
    .await;
    assert_eq!(psql(sidecar.address(), "select 6 * 7").await.as_deref(), Ok("42"));
    // Much in one direction, and a client that sends no more while it is still being answered.
    let rows = psql(sidecar.address(), "select repeat('x', 1000) from generate_series(1, 5000)").await.expect("rows");
    assert_eq!((rows.lines().count(), rows.len()), (5000, 5000 * 1001 - 1));

    let many = futures(16, sidecar.address()).await;
    assert_eq!(many, 16, "more at once than there may be connections: the rest wait their turn");

    postgres.kill();
    let refused = psql(sidecar.address(), "select 1").await.expect_err("nobody is there");
    println!("while it is down: {}", refused.trim());
    postgres.restart().await;
    let answer = until(ms(30_000), async || psql(sidecar.address(), "select 6 * 7").await).await;
    assert_eq!(answer, "42");
    sidecar.stop();
}

/// So many at once; how many were served.
async fn futures(count: usize, at: SocketAddr) -> usize {
    let all: Vec<_> = (0..count).map(|_| tokio::spawn(psql(at, "select pg_sleep(0.2)"))).collect();
    let mut served = 0;
    for one in all {
        match one.await.expect("it runs to its end") {
            Ok(_) => served += 1,
            Err(problem) => println!("{problem}"),
        }
    }
    served
}

/// PostgreSQL starts a process for each connection, and waits for it when it stops. A connection without a first packet, such as a
/// spare that replaces a closed one, kept it waiting for `authentication_timeout`, 60 s.
#[tokio::test]
async fn postgres_stops_fast_while_the_tcp_proxy_holds_spares() {
    let mut postgres = Postgres::start().await;
    let sidecar = Sidecar::start(&format!("resolve = [\"{}\"]\nprotocol = \"tcp\"\n", postgres.address())).await;
    for clients_come in [false, true] {
        assert_eq!(psql(sidecar.address(), "select 6 * 7").await.as_deref(), Ok("42"));
        until(ms(30_000), async || match postgres.established() {
            0 | 1 => Err("the spares are not open"),
            _ => Ok(()),
        })
        .await;
        // Spares that have been idle for a while, as most are, are watched. Nothing outside shows when that begins.
        tokio::time::sleep(ms(1_000)).await;
        let at = sidecar.address();
        let clients = clients_come.then(|| {
            tokio::spawn(async move {
                loop {
                    let _ = psql(at, "select 1").await;
                }
            })
        });
        let took = tokio::task::spawn_blocking(move || {
            let took = postgres.stop_fast();
            (postgres, took)
        });
        let (stopped, took) = took.await.expect("it stops");
        postgres = stopped;
        println!("with clients: {clients_come}; pg_ctl stop -m fast took {took:?}");
        assert!(took < ms(10_000), "the spares of the proxy delay the shutdown: {took:?}");
        if let Some(clients) = clients {
            clients.abort();
        }
        postgres.restart().await;
        until(ms(30_000), async || psql(sidecar.address(), "select 1").await).await;
    }
    sidecar.stop();
}

/// Sessions of pgbench that last longer than `drain_timeout`, while the config gets a second node.
#[tokio::test]
async fn reload_that_adds_a_node_keeps_the_sessions_of_pgbench() {
    let (first, second) = (Postgres::start().await, Postgres::start().await);
    let (port, folder) = (Port::chosen(), Folder::new("sidecar", None));
    let config = |nodes: &[SocketAddr]| {
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        format!(
            "[[service]]\nname = \"live\"\nlisten = \"{}\"\nprotocol = \"tcp\"\nresolve = {nodes:?}\ndrain_timeout = \"500ms\"\n",
            port.address()
        )
    };
    let (alone, both) = (config(&[first.address()]), config(&[first.address(), second.address()]));
    let sidecar = Sidecar::of(&alone, folder, port).await;

    let folder = Folder::new("pgbench", None);
    let script = folder.write("script.sql", "select pg_sleep(0.01);\n");
    let mut pgbench: Command = command(&programs().join("pgbench"), None, &folder).into();
    pgbench.args(["--no-vacuum", "--client", "4", "--time", "5", "--username", USER, "--file"]).arg(script);
    pgbench.args(["--host", &sidecar.address().ip().to_string(), "--port", &sidecar.address().port().to_string()]);
    let pgbench = tokio::spawn(pgbench.arg("postgres").kill_on_drop(true).output());
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'";
    let observer = first.observer().await;
    until(ms(10_000), async || match observer.query_one(sessions, &[]).await.map(|row| row.get::<_, i64>(0)) {
        Ok(4) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let said = sidecar.reload(&both).await;
    println!("{said}");
    let output = pgbench.await.expect("it is not cancelled").expect("pgbench runs");
    let (text, problems) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}{problems}");
    assert!(output.status.success(), "sessions were cut");
    assert!(text.contains("number of failed transactions: 0 "), "transactions failed");
    assert!(!problems.contains("error"), "sessions broke");

    // New sessions reach the new node.
    until(ms(30_000), async || match psql(sidecar.address(), "select inet_server_port()").await {
        Ok(port) if port == second.address().port().to_string() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    sidecar.stop();
}
