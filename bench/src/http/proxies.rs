//! The sidecar beside nginx, in rounds that take turns.

use super::Extent;
use super::node::Node;
use super::sidecar::{self, Proxy, Round};
use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

const PROXIES: &str = "
The sidecar and nginx as reverse proxies before the same node: wrk with 64 connections. per CPU s: answers for each second of processor
that the proxy spent; KiB: its memory after the load.
";

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    let rows = measure(extent)?;
    println!("\n{}", bar(&rows));
    report::write("sidecar.json", rows.iter().map(Proxied::to_json).collect())
}

struct Proxied {
    proxy: Proxy,
    round: Round,
}

impl Proxied {
    fn to_json(&self) -> Value {
        let Round { rps, p99_us, per_cpu_s, kib, failed } = self.round;
        json!({
            "what": "reverse proxy",
            "proxy": self.proxy.name(),
            "rps": rps,
            "p99_us": p99_us,
            "requests_per_cpu_s": per_cpu_s,
            "memory_kib": kib,
            "failed": failed,
        })
    }
}

/// Nothing where what it takes is missing.
fn measure(extent: &Extent) -> io::Result<Vec<Proxied>> {
    println!("{PROXIES}");
    if let Some(missing) = sidecar::missing() {
        println!("left out, as this is missing: {missing}");
        return Ok(Vec::new());
    }
    println!("{:<12} {:>10} {:>10} {:>12} {:>10} {:>8}", "proxy", "rps", "p99 us", "per CPU s", "KiB", "failed");
    let node = Node::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let (mut carom, mut nginx) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds.div_ceil(2) {
        carom.push(sidecar::run(Proxy::Carom, &node, extent.lead, extent.proxied)?);
        nginx.push(sidecar::run(Proxy::Nginx, &node, extent.lead, extent.proxied)?);
    }
    let rows: Vec<Proxied> = [(Proxy::Carom, carom), (Proxy::Nginx, nginx)]
        .map(|(proxy, rounds)| Proxied { proxy, round: middle(&rounds) })
        .into();
    for Proxied { proxy, round: Round { rps, p99_us, per_cpu_s, kib, failed } } in &rows {
        println!("{:<12} {rps:>10.0} {p99_us:>10.0} {per_cpu_s:>12.0} {kib:>10.0} {failed:>8}", proxy.name());
    }
    Ok(rows)
}

fn middle(rounds: &[Round]) -> Round {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    Round {
        rps: of(|round| round.rps),
        p99_us: of(|round| round.p99_us),
        per_cpu_s: of(|round| round.per_cpu_s),
        kib: of(|round| round.kib),
        failed: rounds.iter().map(|round| round.failed).sum(),
    }
}

fn bar(rows: &[Proxied]) -> Bar {
    let per_cpu_s = |wanted| rows.iter().find(|row| row.proxy == wanted).map(|row| row.round.per_cpu_s);
    Bar {
        what: "rps per CPU second: carom up / nginx".into(),
        figure: per_cpu_s(Proxy::Carom).zip(per_cpu_s(Proxy::Nginx)).map(|(carom, nginx)| carom / nginx),
        limit: Limit::AtLeast(1.0),
    }
}
