//! A real nameserver whose zone changes: seen by the resolver, by the program, and by a pool over real servers.

use carom::Pool;
use carom::dns::{Dns, DnsOptions, Ipv6};
use carom::resolver::{Resolution, Resolver, ResolverState};
use carom::tcp::Tcp;
use carom_live::knot::{Knot, ZONE};
use carom_live::load::Load;
use carom_live::redis::Redis;
use carom_live::rest::policy;
use carom_live::table::{Table, millis, sum};
use carom_live::{Server, ms, program, seed, until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

fn options(knot: &Knot) -> DnsOptions {
    DnsOptions::default().nameservers([knot.address()]).ipv6(Ipv6::Always).recovery(policy())
}

async fn resolve(knot: &Knot, name: &str) -> Resolution {
    let resolver = Resolver::start(Dns::new(name, options(knot)).unwrap()).unwrap();
    let settled = |known: &Resolution| known.complete && known.state != ResolverState::Starting;
    timeout(ms(10_000), resolver.wait_until(settled)).await.expect("it answers").expect("it runs")
}

fn addresses(resolution: &Resolution) -> Vec<String> {
    resolution.backends.iter().map(|backend| backend.to_string()).collect()
}

/// The first nameserver has the zone, but not the name.
#[tokio::test]
async fn nxdomain_of_one_nameserver_does_not_win_while_another_knows_the_name() {
    let (without, knows) = (Knot::start("other A 192.0.2.9\n").await, Knot::start("a A 192.0.2.1\n").await);
    let options = options(&without).nameservers([without.address(), knows.address()]);
    let resolver = Resolver::start(Dns::new(&format!("a.{ZONE}"), options).unwrap()).unwrap();
    let settled = |known: &Resolution| known.complete && known.state != ResolverState::Starting;
    let known = timeout(ms(10_000), resolver.wait_until(settled)).await.expect("it answers").expect("it runs");
    assert_eq!(addresses(&known), [format!("a.{ZONE} (192.0.2.1:80)")], "{:?}", known.last_error);
}

#[tokio::test]
async fn srv_a_aaaa_and_cname_records_are_understood() {
    let knot = Knot::start(
        "a A 192.0.2.1\na A 192.0.2.2\na AAAA 2001:db8::1\nalias CNAME a\nfar CNAME alias\nlone CNAME nowhere\nb A 192.0.2.3\n\
         _http._tcp.web SRV 10 5 8080 a\n_http._tcp.web SRV 20 0 8081 b\n_none._tcp.web SRV 0 0 0 .\nweb A 192.0.2.9\n",
    )
    .await;
    let name = |name: &str| format!("{name}.{ZONE}");
    assert_eq!(
        addresses(&resolve(&knot, &name("far")).await),
        ["[2001:db8::1]:80", "192.0.2.1:80", "192.0.2.2:80"].map(|address| format!("far.{ZONE} ({address})"))
    );
    let web = resolve(&knot, &name("_http._tcp.web")).await;
    assert_eq!(
        addresses(&web),
        [
            format!("a.{ZONE} ([2001:db8::1]:8080)"),
            format!("a.{ZONE} (192.0.2.1:8080)"),
            format!("a.{ZONE} (192.0.2.2:8080)"),
            format!("b.{ZONE} (192.0.2.3:8081)")
        ]
    );
    assert_eq!(web.backends.iter().map(|one| (one.priority(), one.weight())).next_back(), Some((20, 0)));
    assert_eq!(
        addresses(&resolve(&knot, &format!("_other._tcp.web.{ZONE}:81")).await),
        [format!("web.{ZONE} (192.0.2.9:81)")]
    );
    for (bad, why) in [
        ("nobody", format!("A nobody.{ZONE}: NXDOMAIN from {}", knot.address())),
        ("_none._tcp.web", format!("SRV _none._tcp.web.{ZONE}: not offered, as {} says", knot.address())),
        ("lone", format!("A lone.{ZONE}: NXDOMAIN from {}", knot.address())),
    ] {
        let failed = resolve(&knot, &name(bad)).await;
        assert_eq!(failed.state, ResolverState::Failed, "{bad}");
        let error = failed.last_error.expect("a reason").to_string();
        assert!(error.contains(&why), "{error}");
        println!("{error}");
    }
    let elsewhere = resolve(&knot, "carom.example").await.last_error.expect("a reason").to_string();
    assert!(elsewhere.contains("REFUSED"), "{elsewhere}");
    println!("{elsewhere}");
}

#[tokio::test]
async fn answers_that_do_not_fit_come_over_tcp() {
    let mut records = String::new();
    for i in 0..400 {
        records += &format!("_many._tcp SRV 0 0 {} node-{i}\nnode-{i} A 10.0.{}.{}\n", 1000 + i, i / 200, i % 200);
    }
    let knot = Knot::start(&records).await;
    let began = Instant::now();
    let many = resolve(&knot, &format!("_many._tcp.{ZONE}")).await;
    assert_eq!(many.backends.len(), 400, "{:?}", many.last_error);
    println!("400 targets in {}", millis(began.elapsed()));
}

/// The next line that the program prints, without its timestamp.
async fn next_line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = timeout(ms(10_000), lines.next_line()).await.expect("in time").expect("it can be read").expect("a line");
    println!("  {line}");
    let (time, rest) = line.split_once(' ').expect("a time and an event");
    assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    rest.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_program_follows_a_zone() {
    let mut knot = Knot::start("svc A 192.0.2.1\nsvc A 192.0.2.2\n").await;
    let (server, name) = (knot.address().to_string(), format!("svc.{ZONE}"));
    println!("carom resolve --follow {name} of a Knot server");
    let mut follow = Command::new(program("carom"))
        .args(["resolve", "--follow", "--timeout", "2s", "--resolvers", &server, &name])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("`make live` has built the program");
    let mut lines = BufReader::new(follow.stdout.take().expect("it is piped")).lines();
    assert_eq!(next_line(&mut lines).await, "added 192.0.2.1:80");
    assert_eq!(next_line(&mut lines).await, "added 192.0.2.2:80");
    knot.change("svc A 192.0.2.2\nsvc A 192.0.2.3\n");
    assert_eq!(next_line(&mut lines).await, "removed 192.0.2.1:80");
    assert_eq!(next_line(&mut lines).await, "added 192.0.2.3:80");
    // SRV records appear: targets and ports of their own.
    knot.change("svc A 192.0.2.2\nsvc A 192.0.2.3\nnode A 192.0.2.4\n_http._tcp.svc SRV 0 0 8080 node\n");
    assert_eq!(next_line(&mut lines).await, "removed 192.0.2.2:80");
    assert_eq!(next_line(&mut lines).await, "removed 192.0.2.3:80");
    assert_eq!(next_line(&mut lines).await, "added 192.0.2.4:8080");
    // Nobody answers: nothing is taken away, and what is new when it is back is seen.
    knot.kill();
    tokio::time::sleep(ms(3000)).await;
    knot.change_while_down("node A 192.0.2.5\n_http._tcp.svc SRV 0 0 8080 node\n");
    knot.restart().await;
    assert_eq!(next_line(&mut lines).await, "removed 192.0.2.4:8080");
    assert_eq!(next_line(&mut lines).await, "added 192.0.2.5:8080");
}

/// SRV records of these servers, each under a name of its own.
fn zone_of(servers: &[&Redis]) -> String {
    let records = servers.iter().map(|server| {
        let port = server.address().port();
        format!("_redis._tcp.cache SRV 0 0 {port} node-{port}\nnode-{port} A 127.0.0.1\n")
    });
    records.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_over_real_servers_follows_a_zone_under_load() {
    let seed = seed();
    println!("CAROM_SEED={seed}");
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(Redis::start(&[]).await);
    }
    let mut knot = Knot::start(&zone_of(&[&servers[0], &servers[1], &servers[2]])).await;
    let resolver = Dns::new(&format!("_redis._tcp.cache.{ZONE}"), options(&knot)).unwrap();
    let builder = Pool::builder(Tcp::default()).name("cache").resolver(resolver).spares(4).maximum(12);
    let pool = builder.recovery(policy()).build().unwrap();
    drop(pool.claim().await.expect("the servers run and the zone says where"));

    let mut load = Load::begin("cache", &pool, 16, &Arc::default(), seed);
    let mut table = Table::new(&["", "took", "connections by server"]);
    let mut round = 0;
    // Each in turn leaves the zone, and the one that left before comes back.
    for (what, members) in
        [("0 1 2", [0, 1, 2]), ("1 2 3", [1, 2, 3]), ("2 3 0", [2, 3, 0]), ("3 0 1", [3, 0, 1]), ("0 1 2", [0, 1, 2])]
    {
        let began = Instant::now();
        knot.change(&zone_of(&members.map(|i| &servers[i])));
        let expected: Vec<SocketAddr> = members.iter().map(|&i| servers[i].address()).collect();
        // A TTL of 1 s, its spread, questions and connects, and something for the machine.
        until(ms(1000 + 200 + 2500), async || {
            let mut counts = Vec::new();
            for server in &servers {
                counts.push(server.connections("cache").await);
            }
            let as_wanted = |(server, count): (&Redis, &usize)| expected.contains(&server.address()) == (*count > 0);
            if servers.iter().zip(&counts).all(as_wanted) { Ok(()) } else { Err(format!("{what}: {}", sum(&counts))) }
        })
        .await;
        let mut counts = Vec::new();
        for server in &servers {
            counts.push(server.connections("cache").await);
        }
        round += 1;
        table.row([format!("{round}. {what}"), millis(began.elapsed()), sum(&counts)]);
    }
    // The nameserver dies: what is known stays, and nobody notices.
    knot.kill();
    tokio::time::sleep(ms(3000)).await;
    load.end().await;
    let figures = load.ledger.figures();
    table.print(&format!(
        "4 redis-servers, 3 at a time in the zone, under load: {} claims, {} failed, longest wait {}",
        figures.begun,
        figures.refused,
        millis(figures.longest_wait)
    ));
    figures.judge("cache");
    assert!(pool.drain(Instant::now() + ms(2000)).await.is_complete());
}
