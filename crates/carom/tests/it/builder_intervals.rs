//! Options that would cause a busy loop are refused by every builder, with the option, the value and the limit.

use carom::agent::{Agent, OriginOptions, Protocol};
use carom::dns::{Dns, DnsOptions};
use carom::{Ejection, Policy, Pool, Recovery, Set};
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::Scripted;

const NANO: Duration = Duration::from_nanos(1);

fn refused<T, E: Display>(built: Result<T, E>, wanted: &str) {
    match built {
        Ok(_) => panic!("accepted: {wanted}"),
        Err(error) => assert!(error.to_string().contains(wanted), "{error}, not {wanted}"),
    }
}

fn pool() -> carom::pool::Builder<Scripted> {
    Pool::builder(Scripted::new()).backends([SocketAddr::from(([10, 0, 0, 1], 80))])
}

fn set() -> carom::set::Builder<Scripted> {
    Set::builder(Scripted::new()).backends([SocketAddr::from(([10, 0, 0, 1], 80))]).eager(true)
}

/// Policies that would try without end, and what is said of them.
fn hasty() -> [(Policy, &'static str); 3] {
    let policy = Policy::default;
    [
        (policy().delay(Duration::ZERO).max_delay(None), "delay must be at least 1ms without a max_delay, not 0ns"),
        (policy().delay(NANO).max_delay(None), "delay must be at least 1ms without a max_delay, not 1ns"),
        (policy().delay(Duration::ZERO).max_delay(NANO), "max_delay must be at least 1ms, not 1ns"),
    ]
}

#[tokio::test]
async fn every_builder_refuses_intervals_below_1_ms() {
    refused(pool().check_after(NANO).build(), "check_after must be at least 1ms, not 1ns");
    refused(pool().decoherence(NANO).build(), "decoherence must be at least 1ms, not 1ns");
    refused(pool().max_idle(NANO).build(), "max_idle must be at least 1ms, not 1ns");
    refused(pool().max_lifetime(NANO).build(), "max_lifetime must be at least 1ms, not 1ns");
    refused(pool().ejection(Ejection::default().time(NANO)).build(), "time must be at least 1ms");
    refused(set().idle_interval(NANO).build(), "idle_interval must be at least 1ms, not 1ns");
    refused(set().decoherence(NANO).build(), "decoherence must be at least 1ms, not 1ns");
    refused(set().max_idle(NANO).build(), "max_idle must be at least 1ms, not 1ns");
    refused(set().ejection(Ejection::default().time(NANO)).build(), "time must be at least 1ms");
    let agent = Agent::builder;
    refused(agent().ping("/").ping_interval(NANO).build(), "ping_interval must be at least 1ms, not 1ns");
    refused(agent().connection_max_idle(NANO).build(), "connection_max_idle must be at least 1ms, not 1ns");
    refused(agent().max_lifetime(NANO).build(), "max_lifetime must be at least 1ms, not 1ns");
    for ttl in [Duration::ZERO, NANO] {
        let wanted = format!("min_ttl must be at least 1ms, not {ttl:?}");
        refused(Dns::new("api.test", DnsOptions::default().min_ttl(ttl)), &wanted);
    }
}

#[tokio::test]
async fn every_builder_refuses_delays_below_1_ms_and_0_without_a_cap() {
    for (policy, wanted) in hasty() {
        refused(pool().recovery(policy.clone()).build(), wanted);
        refused(set().recovery(policy.clone()).build(), wanted);
        refused(Agent::builder().recovery(policy.clone()).build(), wanted);
        refused(Dns::new("api.test", DnsOptions::default().recovery(policy)), wanted);
    }
}

#[tokio::test]
async fn builders_of_eager_sets_refuse_a_delay_below_1_ms_although_it_has_a_cap_and_pools_accept_it() {
    for (delay, wanted) in [(Duration::ZERO, "not 0ns"), (NANO, "not 1ns")] {
        let capped = || Policy::default().delay(delay);
        let wanted =
            |of: &str, policy: &str| format!("recovery of {of}: {policy} policy: delay must be at least 1ms, {wanted}");
        refused(set().recovery(capped()).build(), &wanted("an eager set", "default"));
        refused(set().recovery(Recovery::default().initial(capped())).build(), &wanted("an eager set", "initial"));
        refused(set().recovery(Recovery::default().connect(capped())).build(), &wanted("an eager set", "connect"));
        refused(Agent::builder().recovery(capped()).build(), &wanted("HTTP/2 connections", "default"));
        pool().recovery(capped()).build().unwrap();
        set().eager(false).recovery(capped()).build().unwrap();
        set().recovery(Recovery::default().dns(capped())).build().unwrap();
        Agent::builder().protocol(Protocol::Http1).recovery(capped()).build().unwrap();
    }
}

#[tokio::test]
async fn agent_refuses_a_delay_of_0_for_origins_that_may_speak_http2_alone() {
    let agent = Agent::builder().build().unwrap();
    let created = |uri: &str, protocol| {
        let options = OriginOptions::default().recovery(Policy::default().delay(Duration::ZERO)).protocol(protocol);
        agent.create_pool(uri, options.backends([SocketAddr::from(([10, 0, 0, 1], 80))]))
    };
    let wanted = "recovery of HTTP/2 connections: default policy: delay must be at least 1ms, not 0ns";
    refused(created("https://a.test", Protocol::Negotiate), wanted);
    refused(created("http://b.test", Protocol::Http2), wanted);
    created("http://c.test", Protocol::Negotiate).unwrap();
    created("https://d.test", Protocol::Http1).unwrap();
}
