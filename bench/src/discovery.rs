//! What finding many backends costs: questions, time, and what a set that has not changed costs to hear again.

use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use carom::dns::{Dns, DnsOptions, Ipv6};
use carom::resolver::{Resolution, Resolver};
use carom_core::resolver::{Action, Answer, AskId, Kind, Machine, Options, Target};
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::dns::{DnsServer, Over};

const TTL: Duration = Duration::from_secs(60);
const REPETITIONS: usize = 31;

/// Prints and keeps questions and times.
pub fn report() -> io::Result<()> {
    println!();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = vec![
        runtime.block_on(resolve("1000 targets behind one SRV", 1000, false, 2001.0))?,
        runtime.block_on(resolve("500 targets with additionals", 500, true, 1.0))?,
    ];
    rows.push(unchanged());
    report::write("discovery.json", rows)
}

/// Resolves so many targets from a nameserver on this machine.
async fn resolve(case: &str, targets: usize, additionals: bool, most_questions: f64) -> io::Result<Value> {
    let server = DnsServer::start().await?;
    let zone = server.zone();
    zone.additionals(additionals);
    let name = |i: usize| format!("node-{i}.bench.test");
    let names: Vec<_> = (0..targets).map(name).collect();
    zone.srv("_bench._tcp.bench.test", 60, names.iter().map(|name| (0, 0, 7000, name.as_str())));
    for (i, name) in names.iter().enumerate() {
        zone.a(name, 60, [address(i)]);
    }
    let options = DnsOptions::default().nameservers([server.address()]).ipv6(Ipv6::Always);
    let dns = Dns::new("_bench._tcp.bench.test", options).map_err(io::Error::other)?;
    let start = Instant::now();
    let resolver = Resolver::start(dns).map_err(io::Error::other)?;
    let all = |known: &Resolution| known.complete && known.backends.len() == targets;
    resolver.wait_until(all).await.map_err(io::Error::other)?;
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    let questions = server.questions();
    // What did not fit is asked again over TCP: one question, two exchanges.
    let asked = questions.iter().filter(|question| question.over == Over::Udp).count();
    let over_tcp = questions.len() - asked;
    let what = format!("{case}: questions ({over_tcp} of them again over TCP; {ms:.0} ms)");
    println!("{}", Bar { what, figure: Some(asked as f64), limit: Limit::AtMost(most_questions) });
    Ok(json!({ "case": case, "backends": targets, "questions": asked, "over_tcp": over_tcp, "ms": ms }))
}

/// Hears the same 10,000 backends again. What a pool makes of a set that is published again is measured with planning.
fn unchanged() -> Value {
    const HOSTS: usize = 10;
    const EACH: usize = 1000;
    let mut now = Instant::now();
    let service = Some("_bench._tcp".into());
    let options = Options { service, ipv6: false, max_ttl: TTL, ..Options::new("bench.test") };
    let mut resolver = Machine::new(options, 7, now).expect("options that make sense");
    let mut published = answer_all(&mut resolver, now, HOSTS, EACH);
    assert_eq!((published, resolver.resolution().backends.len()), (1, HOSTS * EACH));
    let times = (0..REPETITIONS).map(|_| {
        now += 2 * TTL;
        let start = Instant::now();
        resolver.handle_timeout(now);
        published += answer_all(&mut resolver, now, HOSTS, EACH);
        start.elapsed().as_secs_f64() * 1000.0
    });
    let resolver_ms = median(times.collect());

    for (what, figure, limit) in [
        ("10000 backends resolved again, unchanged: ms", resolver_ms, 5.0),
        ("  times published", (published - 1) as f64, 0.0),
    ] {
        println!("{}", Bar { what: what.to_owned(), figure: Some(figure), limit: Limit::AtMost(limit) });
    }
    json!({ "case": "unchanged", "backends": HOSTS * EACH, "ms": resolver_ms, "published": published - 1 })
}

/// Answers every question, always the same; how often the machine wanted to publish.
fn answer_all(resolver: &mut Machine, now: Instant, hosts: usize, each: usize) -> usize {
    let mut published = 0;
    while let Some(action) = resolver.poll_action() {
        match action {
            Action::Ask { id, question, .. } => answer(resolver, now, id, question.kind, &question.name, hosts, each),
            Action::Publish => published += 1,
            Action::Cancel(_) => {}
        }
    }
    published
}

fn answer(resolver: &mut Machine, now: Instant, id: AskId, kind: Kind, name: &str, hosts: usize, each: usize) {
    let answer = match kind {
        Kind::Srv => {
            let target =
                |i: usize| Target { priority: 0, name: Arc::from(format!("{i}.bench.test")), port: 7000, weight: 0 };
            Answer::Targets { targets: (0..hosts).map(target).collect(), additional: Vec::new(), whole: true, ttl: TTL }
        }
        Kind::Aaaa | Kind::A => {
            let host: usize = name.split('.').next().and_then(|label| label.parse().ok()).unwrap_or(0);
            Answer::Addresses { addresses: (0..each).map(|i| address(host * each + i)).collect(), ttl: TTL }
        }
    };
    resolver.handle_answer(now, id, answer);
}

fn address(i: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + i as u32))
}
