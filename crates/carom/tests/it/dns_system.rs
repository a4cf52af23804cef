//! What the system says of names, and nameservers that are themselves known by name.

use carom::dns::{BootstrapError, Dns, DnsOptions, Ipv6};
use carom::resolver::{Resolution, Resolver, ResolverState};
use carom::{Monitor, Policy};
use std::error::Error;
use testkit::dns::{Answer, DnsServer, RecordType, Zone};
use testkit::temp_dir::TempDir;
use testkit::wait::{LIMIT, ms, soon};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The system's nameserver, and options that make it that.
struct System {
    server: DnsServer,
    zone: Zone,
    folder: TempDir,
    options: DnsOptions,
}

async fn system(resolv_conf: &str) -> System {
    let server = DnsServer::start().await.unwrap();
    let (zone, folder) = (server.zone(), TempDir::new());
    zone.soa("test", 0, 0);
    let options = DnsOptions::default()
        .resolv_conf(folder.write("resolv.conf", resolv_conf))
        .hosts(folder.write("hosts", "127.0.0.1 localhost\n"))
        .nameserver_port(server.address().port())
        .recovery(policy())
        .min_ttl(ms(50))
        .ipv6(Ipv6::Never);
    System { server, zone, folder, options }
}

fn policy() -> Policy {
    Policy::default().attempts(2).timeout(ms(1000)).max_timeout(ms(1000)).delay(ms(10)).max_delay(ms(100)).spread(0.0)
}

fn start(service: &str, options: &DnsOptions) -> Resolver {
    Resolver::start(Dns::new(service, options.clone()).unwrap()).unwrap()
}

fn addresses(resolution: &Resolution) -> Vec<String> {
    resolution.backends.iter().map(|backend| backend.socket_addr().to_string()).collect()
}

async fn running(resolver: &Resolver, wanted: &[&str]) -> Resolution {
    let fresh = |known: &Resolution| {
        known.state == ResolverState::Running && known.stale_since.is_none() && addresses(known) == wanted
    };
    match timeout(LIMIT, resolver.wait_until(fresh)).await {
        Ok(known) => known.unwrap(),
        Err(_) => panic!("wanted {wanted:?}, known {:?}", resolver.resolution()),
    }
}

async fn failed(resolver: &Resolver) -> String {
    soon(resolver.wait_for(ResolverState::Failed)).await.unwrap().last_error.unwrap().to_string()
}

// The system's files.

#[tokio::test]
async fn names_are_searched_for_as_the_system_says() {
    let System { server, zone, folder: _folder, options } =
        system("nameserver 127.0.0.1\nsearch a.test b.test.\noptions ndots:2\n").await;
    zone.a("db.b.test", 60, ["10.0.0.1"]);
    zone.a("x.db.test", 60, ["10.0.0.2"]);
    zone.a("db", 60, ["10.0.0.3"]);
    let known = running(&start("db", &options), &["10.0.0.1:80"]).await;
    assert_eq!(known.backends[0].name(), "db");
    assert!(known.last_error.is_none());
    assert_eq!(server.asked(), ["db.a.test A", "db.b.test A"]);
    server.clear();
    running(&start("x.db.test", &options), &["10.0.0.2:80"]).await;
    assert_eq!(server.asked(), ["x.db.test A"], "with dots enough the name itself comes first");
    server.clear();
    running(&start("db.", &options), &["10.0.0.3:80"]).await;
    assert_eq!(server.asked(), ["db A"], "a dot at the end rules out searching");
    server.clear();
    let error = failed(&start("none", &options)).await;
    assert!(error.contains("A none: NXDOMAIN from"), "{error}");
    assert_eq!(server.asked()[..3], ["none.a.test A", "none.b.test A", "none A"]);
}

#[tokio::test]
async fn trouble_with_one_domain_does_not_keep_a_name_from_being_found_in_the_next() {
    let System { server, zone, folder: _folder, options } =
        system("nameserver 127.0.0.1\nsearch a1.test a2.test\n").await;
    for trouble in [Answer::SERVFAIL, Answer::REFUSED, Answer::NOTIMP, Answer::Silent] {
        zone.answer("cc.a1.test", RecordType::A, trouble.clone());
        zone.a("cc.a2.test", 60, ["10.0.0.2"]);
        let known = running(&start("cc", &options), &["10.0.0.2:80"]).await;
        assert!(known.last_error.is_none(), "{trouble:?}");
        // While one of them cannot be asked, that the others have nothing is no answer.
        zone.remove("cc.a2.test", RecordType::A);
        let error = failed(&start("cc", &options)).await;
        assert!(error.starts_with("cannot resolve `cc`: A cc.a1.test: "), "{trouble:?}: {error}");
        assert!(error.contains(&server.address().to_string()), "{trouble:?}: {error}");
        assert!(!error.contains("NXDOMAIN"), "{trouble:?}: {error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_not_waited_for() {
    let System { server: _server, zone, folder, options } = system("nameserver 127.0.0.1\n").await;
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    zone.a("api.test", 60, ["10.0.0.1"]);
    running(&start("api.test", &options.hosts(&pipe).resolv_conf(&pipe)), &["10.0.0.1:80"]).await;
}

#[tokio::test]
async fn services_are_searched_for_and_their_targets_are_not() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\nsearch a.test\n").await;
    zone.srv("_http._tcp.api.a.test", 60, [(0, 0, 8080, "one.test"), (0, 0, 8080, "two.test")]);
    zone.a("one.test", 60, ["10.0.0.1"]);
    // Somebody else's name, that the search would find.
    zone.a("two.test.a.test", 60, ["10.6.6.6"]);
    let resolver = start("_http._tcp.api", &options);
    let known = soon(resolver.wait_until(|known| known.complete && !known.backends.is_empty())).await.unwrap();
    assert_eq!(addresses(&known), ["10.0.0.1:8080"]);
    assert_eq!(server.count("two.test.a.test", RecordType::A), 0);
    assert!(server.count("two.test", RecordType::A) > 0);
}

#[tokio::test]
async fn a_name_that_exists_in_one_domain_exists() {
    let System { server: _server, zone, folder: _folder, options } =
        system("nameserver 127.0.0.1\nsearch a.test\noptions ndots:1\n").await;
    zone.a("db.a.test", 0, ["10.0.0.1"]);
    zone.aaaa("db.a.test", 0, ["2001:db8::1"]);
    let resolver = start("db", &options.ipv6(Ipv6::Always));
    running(&resolver, &["[2001:db8::1]:80", "10.0.0.1:80"]).await;
    // The name itself is NXDOMAIN for AAAA, after the domain said no data: the address is gone all the same.
    zone.remove("db.a.test", RecordType::AAAA);
    running(&resolver, &["10.0.0.1:80"]).await;
}

#[tokio::test]
async fn without_a_file_that_can_be_read_the_nameserver_on_this_host_is_asked() {
    for text in ["", "# nothing\n", "nameserver not-an-address\n", "\u{0}\u{1}\u{2} \u{fffd}"] {
        let System { server: _server, zone, folder, options } = system(text).await;
        zone.a("api.test", 60, ["10.0.0.1"]);
        running(&start("api.test", &options), &["10.0.0.1:80"]).await;
        running(&start("api.test", &options.clone().resolv_conf(folder.join("gone"))), &["10.0.0.1:80"]).await;
        running(&start("api.test", &options.resolv_conf(folder.path())), &["10.0.0.1:80"]).await;
    }
}

#[tokio::test]
async fn a_line_that_is_not_understood_does_not_cost_the_others() {
    let text =
        "options from-the-future:1 ndots:2\nnameserver 127.0.0.1\nnameserver 10.0.0.300\nwhat-is-this\nsearch a.test\n";
    let System { server, zone, folder: _folder, options } = system(text).await;
    zone.a("x.db.a.test", 60, ["10.0.0.1"]);
    running(&start("x.db", &options), &["10.0.0.1:80"]).await;
    assert_eq!(server.asked(), ["x.db.a.test A"]);
}

#[tokio::test]
async fn the_hosts_file_answers_before_anybody_is_asked() {
    let System { server, zone, folder, options } = system("nameserver 127.0.0.1\n").await;
    let hosts = "10.0.0.1 Db.test other # api.test\n10.0.0.2 db.test\n2001:db8::1 db.test\n\u{fffd}\u{1} api.test\n";
    let options = options.hosts(folder.write("hosts", hosts));
    running(&start("db.test", &options), &["10.0.0.1:80", "10.0.0.2:80"]).await;
    let both = options.clone().ipv6(Ipv6::Always);
    running(&start("db.test.", &both), &["[2001:db8::1]:80", "10.0.0.1:80", "10.0.0.2:80"]).await;
    assert_eq!(server.questions().len(), 0);
    // Others are asked for, and services too, whose targets may be in the file again.
    zone.a("api.test", 60, ["10.0.0.3"]);
    running(&start("api.test", &options), &["10.0.0.3:80"]).await;
    zone.srv("_http._tcp.db.test", 60, [(0, 0, 8080, "other")]);
    running(&start("_http._tcp.db.test", &options), &["10.0.0.1:8080"]).await;
    assert_eq!(server.asked(), ["api.test A", "_http._tcp.db.test SRV"]);
    let options = options.hosts(folder.write("hosts", "2001:db8::1 db.test\n"));
    let error = failed(&start("db.test", &options)).await;
    assert!(error.starts_with("cannot resolve `db.test`: A db.test: no A address in /"), "{error}");
}

// Nameservers that are known by name.

/// Another nameserver, for `api.test` and for where it is itself.
async fn found(address: &str) -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 0);
    zone.a("api.test", 0, [address]);
    (server, zone)
}

/// Says that the nameservers at `ns.test` are these.
fn point(zone: &Zone, ttl: u32, servers: &[&DnsServer]) {
    zone.srv("_dns._udp.ns.test", ttl, servers.iter().map(|server| (0, 0, server.address().port(), "n.ns.test")));
    zone.a("n.ns.test", ttl, ["127.0.0.1"]);
}

fn bootstraps(server: &DnsServer) -> usize {
    server.count("_dns._udp.ns.test", RecordType::SRV)
}

#[tokio::test]
async fn nameservers_are_found_by_their_service_with_its_port() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let (other, _zone) = found("10.0.0.1").await;
    point(&zone, 60, &[&other]);
    let options = options.nameservers_at("ns.test");
    running(&start("api.test", &options), &["10.0.0.1:80"]).await;
    assert_eq!(server.asked(), ["_dns._udp.ns.test SRV", "n.ns.test A"], "the system's is asked for those alone");
}

#[tokio::test]
async fn nameservers_are_found_by_their_addresses_at_the_port_given() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let other = DnsServer::start_at("127.0.0.2:0".parse().unwrap()).await.unwrap();
    other.zone().a("api.test", 60, ["10.0.0.1"]);
    zone.a("ns.test", 60, ["127.0.0.2"]);
    let options = options.nameservers_at(&format!("ns.test:{}", other.address().port()));
    running(&start("api.test", &options), &["10.0.0.1:80"]).await;
    assert_eq!(server.asked(), ["_dns._udp.ns.test SRV", "ns.test A"]);
    // An address needs no finding.
    let options = options.nameservers_at(&other.address().to_string());
    running(&start("api.test", &options), &["10.0.0.1:80"]).await;
    for bad in ["_dns._udp.ns.test", "ns..test", ""] {
        let error = Dns::new("api.test", options.clone().nameservers_at(bad)).unwrap_err();
        assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
    }
}

#[tokio::test]
async fn all_who_name_them_share_what_is_found() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let (other, _zone) = found("10.0.0.1").await;
    point(&zone, 60, &[&other]);
    let options = options.nameservers_at("ns.test");
    let resolvers: Vec<_> = (0..5).map(|_| start("api.test", &options)).collect();
    for resolver in &resolvers {
        running(resolver, &["10.0.0.1:80"]).await;
    }
    assert_eq!(bootstraps(&server), 1);
    drop(resolvers);
    // Whoever comes when the last has gone begins anew.
    running(&start("api.test", &options), &["10.0.0.1:80"]).await;
    assert!(bootstraps(&server) <= 2);
}

#[tokio::test]
async fn nameservers_are_asked_where_they_are_and_dependents_move_with_them() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let (one, first) = found("10.0.0.1").await;
    let (two, second) = found("10.0.0.2").await;
    point(&zone, 0, &[&one]);
    point(&first, 0, &[&one]);
    let resolver = start("api.test", &options.nameservers_at("ns.test"));
    running(&resolver, &["10.0.0.1:80"]).await;
    soon(one.until(|one| bootstraps(one) >= 6)).await;
    // A machine under load may stand still until the next one is asked as well, but not every time.
    assert!(bootstraps(&server) < bootstraps(&one), "from then on those that were found are asked");
    point(&second, 0, &[&two]);
    point(&first, 0, &[&two]);
    running(&resolver, &["10.0.0.2:80"]).await;
    soon(two.until(|two| bootstraps(two) >= 2)).await;
    // Should they all go silent, the system's knows the way.
    first.answer_all(Answer::SERVFAIL);
    second.answer_all(Answer::SERVFAIL);
    let (three, _third) = found("10.0.0.3").await;
    point(&zone, 60, &[&three]);
    running(&resolver, &["10.0.0.3:80"]).await;
}

#[tokio::test]
async fn nameservers_that_cannot_be_found_are_the_failure_of_all_who_name_them() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    zone.answer_all(Answer::SERVFAIL);
    let options = options.nameservers_at("ns.test");
    let resolvers = [start("api.test", &options), start("api.test:81", &options)];
    for resolver in &resolvers {
        let known = soon(resolver.wait_for(ResolverState::Failed)).await.unwrap();
        let error = known.last_error.unwrap();
        let error = error.downcast_ref::<BootstrapError>().unwrap();
        assert_eq!(error.to_string(), "the nameservers at `ns.test` cannot be found");
        let cause = error.source().unwrap().to_string();
        assert!(cause.starts_with("cannot resolve `_dns._udp.ns.test`: "), "{cause}");
        assert!(cause.contains(&format!("A ns.test: SERVFAIL from {}", server.address())), "{cause}");
    }
}

#[tokio::test]
async fn a_failure_to_find_nameservers_ends_when_they_are_found() {
    let System { server: _server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let other = DnsServer::start_at("127.0.0.2:0".parse().unwrap()).await.unwrap();
    other.zone().a("api.test", 60, ["10.0.0.1"]);
    let slow = Answer::SERVFAIL.times(1, Answer::Records.after(ms(100)));
    other.zone().answer("api.test", RecordType::A, slow);
    let options = options.nameservers_at(&format!("ns.test:{}", other.address().port()));
    let resolver = start("api.test", &options);
    assert_eq!(failed(&resolver).await, "the nameservers at `ns.test` cannot be found");
    let mut states = resolver.subscribe();
    zone.a("ns.test", 60, ["127.0.0.2"]);
    let follow = async {
        loop {
            let known = states.borrow_and_update().clone();
            match known.state {
                ResolverState::Running => return known,
                ResolverState::Failed => assert!(known.last_error.is_some(), "it says why until it has succeeded"),
                other => panic!("{other:?} after Failed"),
            }
            states.changed().await.unwrap();
        }
    };
    let known = soon(follow).await;
    assert_eq!((addresses(&known), known.last_error.is_none()), (vec!["10.0.0.1:80".to_owned()], true));
}

#[tokio::test]
async fn finding_is_seen_where_those_are_seen_who_want_to_know() {
    let System { server: _server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let (other, others) = found("10.0.0.1").await;
    point(&zone, 60, &[&other]);
    point(&others, 60, &[&other]);
    let named = options.nameservers_at("ns.test");
    let mut held = Vec::new();
    for monitor in [Monitor::new(), Monitor::new()] {
        let dns = Dns::new("api.test", named.clone()).unwrap();
        let resolver = Resolver::start_in(&Handle::current(), &monitor, dns);
        running(&resolver, &["10.0.0.1:80"]).await;
        let seen: Vec<_> = monitor.snapshot().objects.into_iter().map(|seen| seen.name).collect();
        assert_eq!(seen, ["api.test", "_dns._udp.ns.test"]);
        held.push(resolver);
    }
}

#[tokio::test]
async fn finding_stops_with_the_last_who_wants_to_know() {
    let System { server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
    let (other, others) = found("10.0.0.1").await;
    point(&zone, 0, &[&other]);
    point(&others, 0, &[&other]);
    let named = options.clone().nameservers_at("ns.test");
    let resolvers = [start("api.test", &named), start("api.test", &named)];
    for resolver in resolvers {
        running(&resolver, &["10.0.0.1:80"]).await;
        let before = bootstraps(&other);
        soon(other.until(|other| bootstraps(other) > before + 1)).await;
        let mut states = resolver.subscribe();
        drop(resolver);
        soon(states.wait_for(|known| known.state == ResolverState::Stopped)).await.unwrap();
    }
    // Another that is still asked as often shows that time has passed.
    zone.a("clock.test", 0, ["10.0.0.9"]);
    let _clock = start("clock.test", &options);
    soon(server.until(|server| server.count("clock.test", RecordType::A) >= 2)).await;
    let before = bootstraps(&other);
    soon(server.until(|server| server.count("clock.test", RecordType::A) >= 8)).await;
    assert_eq!(bootstraps(&other), before);
}

#[test]
fn finding_goes_on_when_the_runtime_of_whoever_began_it_has_ended() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    ours.block_on(async {
        let System { server: _server, zone, folder: _folder, options } = system("nameserver 127.0.0.1\n").await;
        let (one, first) = found("10.0.0.1").await;
        let (two, second) = found("10.0.0.2").await;
        for zone in [&zone, &first, &second] {
            point(zone, 0, &[&one]);
        }
        let options = options.nameservers_at("ns.test");
        let began = Resolver::start_on(theirs.handle(), Dns::new("api.test", options.clone()).unwrap());
        running(&began, &["10.0.0.1:80"]).await;
        let resolver = start("api.test", &options);
        running(&resolver, &["10.0.0.1:80"]).await;
        theirs.shutdown_background();
        assert_eq!(soon(began.wait_for(ResolverState::Stopped)).await.unwrap().state, ResolverState::Stopped);
        for zone in [&zone, &first, &second] {
            point(zone, 0, &[&two]);
        }
        running(&resolver, &["10.0.0.2:80"]).await;
    });
}
