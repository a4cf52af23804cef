//! Resolvers that remember their last backends in a file.

use crate::resolver_handle::{Tell, Teller, Told, backends, dns};
use carom::Policy;
use carom::dns::{Dns, DnsOptions, Ipv6};
use carom::resolver::{Fixed, Remembered, Resolution, Resolver, ResolverState};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::dns::{Answer, DnsServer, RecordType};
use testkit::logs::Logs;
use testkit::temp_dir::TempDir;
use testkit::wait::{ms, soon, until};
use tokio::sync::mpsc;

/// Waits for a file to hold a set that begins with this name. Writers say nothing when they are done.
async fn holds(path: &Path, name: &str) {
    let read =
        || fs::read_to_string(path).is_ok_and(|text| text.lines().nth(1).is_some_and(|line| line.ends_with(name)));
    let held = async {
        while !read() {
            tokio::time::sleep(ms(5)).await;
        }
    };
    soon(held).await;
}

/// Waits for a warning that names this file.
async fn warned(logs: &Logs, path: &Path, of: &str) {
    let path = path.display().to_string();
    until("a warning about the file", || logs.count(&["WARN", &path, of]) > 0).await;
}

fn fresh(known: &Resolution) -> bool {
    known.state == ResolverState::Running && known.stale_since.is_none()
}

#[tokio::test]
async fn a_good_set_is_at_hand_after_a_restart_without_nameservers() {
    let folder = TempDir::new();
    let mut server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.a("api.test", 0, ["10.0.0.1", "10.0.0.2"]);
    let start =
        |server: &DnsServer| Resolver::start(Remembered::new(dns(server.address()), folder.join("backends"))).unwrap();
    let resolver = start(&server);
    soon(resolver.wait_until(fresh)).await.unwrap();
    holds(&folder.join("backends"), "api.test").await;
    drop(resolver);

    server.stop().await;
    let resolver = start(&server);
    let known = soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    assert_eq!(known.backends.len(), 2);
    assert!(known.stale_since.is_some(), "it has not been confirmed");
    // The nameserver fails: that is told, and the set stays.
    let known = soon(resolver.wait_until(|known| known.last_error.is_some())).await.unwrap();
    assert_eq!((known.state, known.backends.len()), (ResolverState::Running, 2));
    assert!(known.stale_since.is_some());

    zone.a("api.test", 0, ["10.0.0.3"]);
    server.restart().await.unwrap();
    let known = soon(resolver.wait_until(fresh)).await.unwrap();
    assert_eq!(known.backends[0].socket_addr().to_string(), "10.0.0.3:80");
    assert_eq!((known.backends.len(), known.last_error.is_none()), (1, true));
}

#[tokio::test]
async fn only_good_sets_are_remembered_and_the_latest_wins() {
    let folder = TempDir::new();
    let (teller, told) = Teller::new();
    let resolver = Resolver::start(Remembered::new(told, folder.join("backends"))).unwrap();
    teller.tell(Tell::Fail("trouble")).await;
    soon(resolver.wait_for(ResolverState::Failed)).await.unwrap();
    assert!(!folder.join("backends").exists());
    teller.publish(&[1]).await;
    holds(&folder.join("backends"), "node-1").await;
    for last in 2..50 {
        teller.publish(&[last]).await;
    }
    holds(&folder.join("backends"), "node-49").await;
    // Neither a stale set nor an empty one replaces it.
    teller.tell(Tell::Stale(backends(&[60]), Instant::now())).await;
    teller.publish(&[]).await;
    soon(resolver.wait_until(|known| known.backends.is_empty())).await.unwrap();
    teller.publish(&[61]).await;
    holds(&folder.join("backends"), "node-61").await;
    assert_eq!(folder.names(), ["backends"], "nothing is left beside it");
}

#[tokio::test]
async fn one_that_ends_is_remembered_too() {
    let folder = TempDir::new();
    let resolver = Resolver::start(Remembered::new(Fixed::new(backends(&[7])), folder.join("backends"))).unwrap();
    soon(resolver.wait_until(fresh)).await.unwrap();
    holds(&folder.join("backends"), "node-7").await;
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_ignored_with_a_warning() {
    let logs = Logs::of_process();
    let good = {
        let folder = TempDir::new();
        let _resolver = Resolver::start(Remembered::new(Fixed::new(backends(&[7])), folder.join("backends"))).unwrap();
        holds(&folder.join("backends"), "node-7").await;
        fs::read(folder.join("backends")).unwrap()
    };
    let torn = good[..good.len() - 3].to_vec();
    let newer =
        String::from_utf8(good.clone()).unwrap().replacen("carom backends 1", "carom backends 2", 1).into_bytes();
    let cases: [(Vec<u8>, &str, bool); 7] = [
        (torn, "cut short or damaged", true),
        (newer, "not a file of remembered backends", false),
        (b"[backends]\nnone = true\n".to_vec(), "not a file of remembered backends", false),
        (vec![], "not a file of remembered backends", true),
        (b"carom back".to_vec(), "not a file of remembered backends", true),
        (vec![0xff; 1000], "cannot be used", false),
        (b"carom backends 1\n".to_vec(), "cut short", true),
    ];
    for (bytes, problem, ours) in cases {
        let folder = TempDir::new();
        fs::write(folder.join("backends"), &bytes).unwrap();
        let (teller, told) = Teller::new();
        let resolver = Resolver::start(Remembered::new(told, folder.join("backends"))).unwrap();
        warned(&logs, &folder.join("backends"), problem).await;
        assert_eq!(resolver.state(), ResolverState::Starting);
        teller.publish(&[1]).await;
        soon(resolver.wait_until(fresh)).await.unwrap();
        if ours {
            holds(&folder.join("backends"), "node-1").await;
            continue;
        }
        warned(&logs, &folder.join("backends"), "could not be remembered").await;
        for last in 2..20 {
            teller.publish(&[last]).await;
            tokio::task::yield_now().await;
        }
        soon(resolver.wait_until(|known| known.backends[..] == backends(&[19]))).await.unwrap();
        let path = folder.join("backends").display().to_string();
        assert_eq!(logs.count(&["WARN", &path, "could not be remembered"]), 1, "logged once");
        assert_eq!(fs::read(folder.join("backends")).unwrap(), bytes, "what is not ours stays as it is");
        // When it is gone, the next set is written.
        fs::remove_file(folder.join("backends")).unwrap();
        let written = async {
            for last in (20..200).cycle() {
                teller.publish(&[last]).await;
                if folder.join("backends").exists() {
                    break;
                }
                tokio::time::sleep(ms(5)).await;
            }
        };
        soon(written).await;
    }
}

#[test]
fn a_set_that_is_short_of_what_could_not_be_asked_replaces_nothing() {
    // Files are written by one thread, one after the other: what was to be written before is written when that has had a turn.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(short_set_replaces_nothing());
}

async fn short_set_replaces_nothing() {
    let folder = TempDir::new();
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    let names = ["a.api.test", "b.api.test", "c.api.test"];
    zone.srv("_http._tcp.api.test", 0, names.map(|name| (0, 0, 80, name)));
    for (i, name) in names.iter().enumerate() {
        zone.a(name, 0, [format!("10.0.0.{}", i + 1)]);
    }
    let policy = Policy::default().attempts(1).timeout(ms(5000)).delay(ms(10)).max_delay(ms(50)).spread(0.0);
    let options = DnsOptions::default().nameservers([server.address()]).recovery(policy).min_ttl(ms(50));
    let options = options.ipv6(Ipv6::Never).hosts("/nonexistent/hosts");
    let start = || {
        let dns = Dns::new("_http._tcp.api.test", options.clone()).unwrap();
        Resolver::start(Remembered::new(dns, folder.join("backends"))).unwrap()
    };
    let resolver = start();
    soon(resolver.wait_until(|known| fresh(known) && known.backends.len() == 3)).await.unwrap();
    holds(&folder.join("backends"), "a.api.test").await;
    drop(resolver);
    let whole = fs::read(folder.join("backends")).unwrap();

    for name in &names[1..] {
        zone.answer(name, RecordType::A, Answer::SERVFAIL);
    }
    let resolver = start();
    let partial = |known: &Resolution| fresh(known) && known.complete && known.last_error.is_some();
    assert_eq!(soon(resolver.wait_until(partial)).await.unwrap().backends.len(), 1);
    tokio::task::spawn_blocking(|| {}).await.unwrap();
    assert_eq!(fs::read(folder.join("backends")).unwrap(), whole);
    for name in &names[1..] {
        zone.answer(name, RecordType::A, Answer::Records);
    }
    soon(resolver.wait_until(|known| fresh(known) && known.backends.len() == 3)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_written_or_read_is_no_more_than_a_warning() {
    let logs = Logs::of_process();
    let folder = TempDir::new();
    // A folder where the file should be, a folder that is missing, and a path that names no file.
    fs::create_dir(folder.join("backends")).unwrap();
    for path in [folder.join("backends"), folder.join("missing/backends"), folder.join("..")] {
        let (teller, told) = Teller::new();
        let resolver = Resolver::start(Remembered::new(told, &path)).unwrap();
        teller.publish(&[1]).await;
        soon(resolver.wait_until(fresh)).await.unwrap();
        warned(&logs, &path, "could not be remembered").await;
        teller.publish(&[2]).await;
        let known = soon(resolver.wait_until(|known| known.backends[..] == backends(&[2]))).await.unwrap();
        assert!(fresh(&known));
    }
    until("nothing is left beside it", || folder.names() == ["backends"]).await;
}

#[tokio::test]
async fn writers_do_not_spoil_each_others_files() {
    let logs = Logs::of_process();
    let folder = TempDir::new();
    let tellers: Vec<_> = (0..8)
        .map(|_| {
            let (teller, told) = Teller::new();
            (teller, Resolver::start(Remembered::new(told, folder.join("backends"))).unwrap())
        })
        .collect();
    for round in 0..20 {
        for (i, (teller, _)) in tellers.iter().enumerate() {
            teller.publish(&[(round * 8 + i as u8) % 200 + 1]).await;
        }
        // Whenever one looks, the file is whole.
        if folder.join("backends").exists() {
            let reader =
                Resolver::start(Remembered::new(Told(mpsc::unbounded_channel().1), folder.join("backends"))).unwrap();
            soon(reader.wait_for(ResolverState::Running)).await.unwrap();
        }
    }
    for (i, (teller, resolver)) in tellers.iter().enumerate() {
        teller.publish(&[201 + i as u8]).await;
        let last = backends(&[201 + i as u8]);
        soon(resolver.wait_until(|known| known.backends[..] == last)).await.unwrap();
    }
    let path = folder.join("backends").display().to_string();
    assert_eq!(logs.count(&[&path]), 0, "{}", logs.text());
}

#[tokio::test]
async fn what_is_remembered_grows_old_from_when_it_was_written() {
    let folder = TempDir::new();
    {
        let _resolver = Resolver::start(Remembered::new(Fixed::new(backends(&[7])), folder.join("backends"))).unwrap();
        holds(&folder.join("backends"), "node-7").await;
    }
    let file = fs::File::options().write(true).open(folder.join("backends")).unwrap();
    let (begun, age) = (Instant::now(), Duration::from_secs(5));
    file.set_modified(std::time::SystemTime::now() - age).unwrap();
    let server = DnsServer::start().await.unwrap();
    server.zone().answer("api.test", RecordType::ANY, Answer::Silent);
    let resolver = Resolver::start(Remembered::new(dns(server.address()), folder.join("backends"))).unwrap();
    let known = soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    // As precisely as files tell it, however long it took to be read.
    let (written, precision) = (known.stale_since.unwrap() + age, ms(100));
    let range = begun - precision..Instant::now() + precision;
    assert!(range.contains(&written), "{written:?} is not in {range:?}");
}
