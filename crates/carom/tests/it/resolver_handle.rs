//! A resolver as a handle: its states, its end, its changes, what it remembers, and who shares it.

use carom::dns::{Dns, DnsOptions, Ipv6};
use carom::pool::State;
use carom::resolver::{
    BackendKey, Change, Fixed, Publisher, Resolve, Resolver, ResolverEnded, ResolverState, StartError, Stopped,
};
use carom::tcp::Tcp;
use carom::{Backend, Policy, Pool};
use futures_core::Stream;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};
use testkit::backends::EchoServer;
use testkit::dns::DnsServer;
use testkit::wait::{ms, soon};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

fn backend(last: u8) -> Backend {
    Backend::new(format!("node-{last}"), SocketAddr::from(([10, 0, 0, last], 80)))
}

pub(crate) fn backends(lasts: &[u8]) -> Vec<Backend> {
    lasts.iter().map(|last| backend(*last)).collect()
}

/// A resolver that does what a test tells it to, and says when it has.
pub(crate) struct Told(pub(crate) mpsc::UnboundedReceiver<(Tell, oneshot::Sender<()>)>);

#[derive(Debug)]
pub(crate) enum Tell {
    Publish(Vec<Backend>),
    Stale(Vec<Backend>, Instant),
    Fail(&'static str),
    Panic,
}

impl Resolve for Told {
    async fn run(mut self, publisher: Publisher) {
        while let Some((tell, done)) = self.0.recv().await {
            match tell {
                Tell::Publish(backends) => publisher.publish(backends),
                Tell::Stale(backends, since) => publisher.publish_stale(backends, since),
                Tell::Fail(why) => publisher.fail(why),
                Tell::Panic => panic!("as told"),
            }
            let _ = done.send(());
        }
    }
}

pub(crate) struct Teller(mpsc::UnboundedSender<(Tell, oneshot::Sender<()>)>);

impl Teller {
    pub(crate) fn new() -> (Teller, Told) {
        let (tell, told) = mpsc::unbounded_channel();
        (Teller(tell), Told(told))
    }

    pub(crate) async fn tell(&self, tell: Tell) {
        let (done, is_done) = oneshot::channel();
        self.0.send((tell, done)).expect("the resolver runs");
        let _ = soon(is_done).await;
    }

    pub(crate) async fn publish(&self, lasts: &[u8]) {
        self.tell(Tell::Publish(backends(lasts))).await;
    }
}

fn told() -> (Teller, Resolver) {
    let (teller, told) = Teller::new();
    (teller, Resolver::start(told).unwrap())
}

pub(crate) fn dns(server: SocketAddr) -> Dns {
    dns_within(server, ms(5000))
}

/// Gives the server so long for an answer.
fn dns_within(server: SocketAddr, timeout: Duration) -> Dns {
    let policy = Policy::default().attempts(1).timeout(timeout).max_timeout(timeout);
    let policy = policy.delay(ms(10)).max_delay(ms(50)).spread(0.0);
    let options = DnsOptions::default().nameservers([server]).recovery(policy).min_ttl(ms(50)).ipv6(Ipv6::Never);
    Dns::new("api.test", options.hosts("/nonexistent/hosts")).unwrap()
}

async fn stopped(resolver: &Resolver) {
    soon(resolver.wait_for(ResolverState::Stopped)).await.unwrap();
}

// States.

#[tokio::test]
async fn states_follow_what_is_published() {
    let (teller, resolver) = told();
    assert_eq!((resolver.state(), resolver.backends().len()), (ResolverState::Starting, 0));
    teller.tell(Tell::Fail("first")).await;
    assert_eq!(resolver.state(), ResolverState::Failed);
    assert_eq!(resolver.last_error().unwrap().to_string(), "first");
    teller.publish(&[1]).await;
    assert_eq!((resolver.state(), resolver.last_error().is_none()), (ResolverState::Running, true));
    // Once it runs it never fails: it grows stale.
    teller.tell(Tell::Fail("later")).await;
    let known = resolver.resolution();
    assert_eq!((known.state, &known.backends[..]), (ResolverState::Running, &backends(&[1])[..]));
    assert!(known.stale_since.is_some() && known.last_error.is_some());
    teller.tell(Tell::Fail("and later")).await;
    assert_eq!(resolver.resolution().stale_since, known.stale_since, "since the first trouble");
    let since = Instant::now();
    teller.tell(Tell::Stale(backends(&[2]), since)).await;
    assert_eq!(resolver.resolution().stale_since, Some(since));
    teller.publish(&[]).await;
    let known = resolver.resolution();
    assert_eq!((known.state, known.backends.len(), known.stale_since), (ResolverState::Running, 0, None));
}

#[tokio::test]
async fn waiting_ends_with_the_state_or_with_the_resolver() {
    let (teller, resolver) = told();
    let waiting = tokio::spawn({
        let resolver = resolver.clone();
        async move { resolver.wait_until(|known| known.backends.len() == 2).await }
    });
    teller.publish(&[1]).await;
    teller.publish(&[1, 2]).await;
    assert_eq!(soon(waiting).await.unwrap().unwrap().backends.len(), 2);
    let never = resolver.wait_for(ResolverState::Failed);
    resolver.stop();
    assert_eq!(soon(never).await.unwrap_err(), Stopped);
    // What it knew can still be waited for, and read.
    assert_eq!(soon(resolver.wait_until(|known| known.backends.len() == 2)).await.unwrap().backends.len(), 2);
    assert_eq!(soon(resolver.wait_for(ResolverState::Stopped)).await.unwrap().state, ResolverState::Stopped);
    assert_eq!(Stopped.to_string(), "the resolver has stopped");
}

#[tokio::test]
async fn the_same_again_wakes_nobody() {
    let (teller, resolver) = told();
    teller.publish(&[1, 2]).await;
    let mut receiver = resolver.subscribe();
    receiver.mark_unchanged();
    teller.publish(&[1, 2]).await;
    assert!(!receiver.has_changed().unwrap());
    let weighed = vec![backend(1), backend(2).with_priority(1, 7)];
    teller.tell(Tell::Publish(weighed)).await;
    assert!(receiver.has_changed().unwrap(), "another priority or weight is news");
}

#[tokio::test]
async fn a_resolver_that_returns_keeps_what_it_said_and_one_that_panics_has_stopped() {
    let fixed = Resolver::start(Fixed::new(backends(&[1]))).unwrap();
    soon(fixed.wait_for(ResolverState::Running)).await.unwrap();
    let (teller, resolver) = told();
    teller.publish(&[1]).await;
    teller.tell(Tell::Panic).await;
    stopped(&resolver).await;
    assert_eq!(resolver.backends().len(), 1);
    assert!(resolver.resolution().stale_since.is_some(), "nobody keeps it true any more");
    assert_eq!((fixed.state(), fixed.resolution().stale_since), (ResolverState::Running, None));
    let (teller, resolver) = told();
    teller.tell(Tell::Panic).await;
    stopped(&resolver).await;
    assert_eq!(resolver.resolution().stale_since, None, "nothing was true before");
}

#[tokio::test]
async fn a_resolver_that_returns_without_a_word_has_failed() {
    struct Mute;

    impl Resolve for Mute {
        async fn run(self, _publisher: Publisher) {}
    }

    let resolver = Resolver::start(Mute).unwrap();
    let known = soon(resolver.wait_for(ResolverState::Failed)).await.unwrap();
    assert!(known.last_error.unwrap().is::<ResolverEnded>());
    assert_eq!(resolver.last_error().unwrap().to_string(), "the resolver ended without an answer");
    // One that said why keeps its reason.
    let (teller, resolver) = told();
    teller.tell(Tell::Fail("why")).await;
    drop(teller);
    assert_eq!(soon(resolver.wait_for(ResolverState::Failed)).await.unwrap().last_error.unwrap().to_string(), "why");
}

#[test]
fn without_a_runtime_there_is_an_error() {
    assert_eq!(Resolver::start(Fixed::new(backends(&[1]))).unwrap_err(), StartError);
}

// The end.

#[tokio::test]
async fn stopping_during_a_lookup_does_not_wait_for_its_answer_and_closes_the_socket() {
    let nameserver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let hour = Duration::from_secs(3600);
    let resolver = Resolver::start(dns_within(nameserver.local_addr().unwrap(), hour)).unwrap();
    let (_, client) = soon(nameserver.recv_from(&mut [0; 512])).await.unwrap();
    resolver.stop();
    stopped(&resolver).await;
    // A port that nobody listens on is refused by the system.
    let probe = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    probe.connect(client).await.unwrap();
    let refused = async {
        loop {
            let sent = probe.send(b"?").await;
            let heard = timeout(ms(20), probe.recv(&mut [0; 8])).await;
            let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
            if sent.is_err_and(refused) || heard.is_ok_and(|heard| heard.is_err_and(refused)) {
                return;
            }
        }
    };
    soon(refused).await;
}

#[tokio::test]
async fn stopping_between_lookups_does_not_wait_for_the_next_and_nothing_is_asked_after() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("api.test", 3600, ["10.0.0.1"]);
    let resolver = Resolver::start(dns(server.address())).unwrap();
    soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    resolver.stop();
    assert!(matches!(resolver.state(), ResolverState::Stopping | ResolverState::Stopped));
    resolver.stop();
    stopped(&resolver).await;
    resolver.stop();
    assert_eq!((resolver.state(), resolver.backends().len()), (ResolverState::Stopped, 1));
    assert_eq!(server.questions().len(), 1);
}

/// Never says anything but that it has failed.
struct Failing;

impl Resolve for Failing {
    async fn run(self, publisher: Publisher) {
        publisher.fail("no answer");
    }
}

#[tokio::test]
async fn replaced_resolver_keeps_known_backends_until_the_new_one_answers() {
    let resolver = Resolver::start(Fixed::new(backends(&[1, 2]))).unwrap();
    soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    resolver.replace(Failing);
    let known = soon(resolver.wait_until(|known| known.last_error.is_some())).await.unwrap();
    assert_eq!((known.state, &*known.backends), (ResolverState::Running, &*backends(&[1, 2])));
    assert!(known.stale_since.is_some());
    resolver.replace(Fixed::new(backends(&[2, 3])));
    let known = soon(resolver.wait_until(|known| known.last_error.is_none())).await.unwrap();
    assert_eq!((&*known.backends, known.stale_since), (&*backends(&[2, 3]), None));
    resolver.stop();
    resolver.replace(Fixed::new(backends(&[4])));
    stopped(&resolver).await;
    assert_eq!(&*resolver.backends(), &*backends(&[2, 3]));
}

#[tokio::test]
async fn it_stops_with_its_last_holder() {
    let (teller, resolver) = told();
    teller.publish(&[1]).await;
    let (other, weak, mut states) = (resolver.clone(), resolver.downgrade(), resolver.subscribe());
    drop(resolver);
    teller.publish(&[2]).await;
    assert_eq!(weak.upgrade().unwrap().state(), ResolverState::Running);
    drop(other);
    soon(states.wait_for(|known| known.state == ResolverState::Stopped)).await.unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn it_stops_with_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    let (teller, told) = Teller::new();
    let handle = theirs.handle().clone();
    let resolver = Resolver::start_on(&handle, told);
    ours.block_on(async {
        teller.publish(&[1]).await;
        let (mut changes, waiting) = (resolver.changes(), resolver.wait_for(ResolverState::Failed));
        theirs.shutdown_background();
        assert_eq!(soon(waiting).await.unwrap_err(), Stopped);
        assert!(matches!(soon(changes.next()).await, Some(Change::Insert(_))));
        assert_eq!(soon(changes.next()).await, None);
        // One that never got to run has stopped too.
        stopped(&Resolver::start_on(&handle, Fixed::new(backends(&[1])))).await;
    });
}

#[tokio::test]
async fn pools_share_it_and_closing_one_only_lets_go() {
    let (one, two) = (EchoServer::start().await.unwrap(), EchoServer::start().await.unwrap());
    let (teller, resolver) = told();
    teller.tell(Tell::Publish(vec![one.addr().into()])).await;
    let pool = || Pool::builder(Tcp::default()).resolver(resolver.clone()).spares(1).build().unwrap();
    let (first, second) = (pool(), pool());
    let mut states = resolver.subscribe();
    drop(resolver);
    assert!(first.claim().await.is_ok() && second.claim().await.is_ok());
    first.close();
    soon(first.states().wait_for(|state| *state == State::Stopped)).await.unwrap();
    assert_eq!(states.borrow().state, ResolverState::Running);
    // The other still follows.
    teller.tell(Tell::Publish(vec![two.addr().into()])).await;
    soon(two.until(|two| two.connections() > 0)).await;
    assert_eq!(second.claim().await.unwrap().backend().socket_addr(), two.addr());
    second.close();
    soon(states.wait_for(|known| known.state == ResolverState::Stopped)).await.unwrap();
}

#[tokio::test]
async fn one_that_has_stopped_still_says_what_it_knew_to_a_pool() {
    let server = EchoServer::start().await.unwrap();
    let resolver = Resolver::start(Fixed::new([server.addr()])).unwrap();
    soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    resolver.stop();
    stopped(&resolver).await;
    let pool = Pool::builder(Tcp::default()).resolver(resolver.clone()).build().unwrap();
    assert!(soon(pool.claim()).await.is_ok());
    let again = Resolver::start(resolver).unwrap();
    let known = soon(again.wait_for(ResolverState::Running)).await.unwrap();
    assert!(known.stale_since.is_some(), "what nobody follows grows old");
}

// Changes.

fn removed(last: u8) -> Option<Change> {
    Some(Change::Remove(BackendKey::of(&backend(last))))
}

fn inserted(last: u8) -> Option<Change> {
    Some(Change::Insert(backend(last)))
}

#[tokio::test]
async fn changes_tell_what_went_before_what_came() {
    let (teller, resolver) = told();
    let mut changes = resolver.changes();
    teller.publish(&[1, 2]).await;
    assert_eq!((soon(changes.next()).await, soon(changes.next()).await), (inserted(1), inserted(2)));
    teller.publish(&[3, 2, 3]).await;
    assert_eq!((soon(changes.next()).await, soon(changes.next()).await), (removed(1), inserted(3)));
    // Trouble is no change.
    teller.tell(Tell::Fail("trouble")).await;
    assert!(timeout(ms(1), changes.next()).await.is_err(), "cancelled, it has lost nothing");
    teller.publish(&[]).await;
    assert_eq!((soon(changes.next()).await, soon(changes.next()).await), (removed(3), removed(2)));
    resolver.stop();
    assert_eq!((soon(changes.next()).await, soon(changes.next()).await), (None, None));
}

#[tokio::test]
async fn a_slow_reader_misses_history_and_not_the_outcome() {
    let (teller, resolver) = told();
    let (mut slow, mut late) = (resolver.changes(), resolver.changes());
    teller.publish(&[1]).await;
    assert_eq!(soon(slow.next()).await, inserted(1));
    for last in 2..100 {
        teller.publish(&[last, 200]).await;
    }
    let told = [soon(slow.next()).await, soon(slow.next()).await, soon(slow.next()).await];
    assert_eq!(told, [removed(1), inserted(99), inserted(200)]);
    resolver.stop();
    stopped(&resolver).await;
    assert_eq!(soon(slow.next()).await, None);
    // What is known at the end is told even to one who has never asked.
    assert_eq!(
        (soon(late.next()).await, soon(late.next()).await, soon(late.next()).await),
        (inserted(99), inserted(200), None)
    );
}

#[tokio::test]
async fn changes_are_a_stream() {
    let (teller, resolver) = told();
    let mut changes = resolver.changes();
    let mut next = async || soon(std::future::poll_fn(|context| Pin::new(&mut changes).poll_next(context))).await;
    teller.publish(&[1]).await;
    assert_eq!(next().await, inserted(1));
    drop(resolver);
    assert_eq!((next().await, next().await), (None, None));
}

#[test]
fn fixed_addresses_are_read_or_refused_by_name() {
    let fixed = Fixed::parse(["10.0.0.1", "::1", "[::1]:8080"], 443).unwrap();
    let shown: Vec<_> = fixed.backends().iter().map(|backend| backend.socket_addr().to_string()).collect();
    assert_eq!(shown, ["10.0.0.1:443", "[::1]:443", "[::1]:8080"]);
    assert_eq!(Fixed::parse(Vec::<&str>::new(), 80).unwrap().backends().len(), 0);
    for (bad, problem) in [
        ("db.example.com", "`db.example.com`: is not an IP address"),
        ("10.0.0.1:99999", "`10.0.0.1:99999`: the port 99999 is above 65535"),
        ("", "``: the name is missing"),
        ("10.0.0", "`10.0.0`: this looks like an IPv4 address, but is none"),
    ] {
        assert_eq!(Fixed::parse(["10.0.0.1", bad, "10.0.0.2"], 80).unwrap_err().to_string(), problem);
    }
}

#[test]
fn a_key_is_of_the_name_the_port_and_the_address_alone() {
    let key = |backend: &Backend| BackendKey::of(backend);
    let one = backend(1);
    assert_eq!(key(&one), key(&one.clone().with_priority(9, 9)));
    let others = [
        backend(2),
        Backend::new("node-1", "10.0.0.1:81".parse().unwrap()),
        Backend::new("node-1", "10.0.0.2:80".parse().unwrap()),
        Backend::new("node-2", "10.0.0.1:80".parse().unwrap()),
        Backend::fixed("10.0.0.1:80".parse().unwrap()),
    ];
    assert!(others.iter().all(|other| key(other) != key(&one)));
    assert_eq!((key(&one).to_string().len(), format!("{:>30}", key(&one)).len()), (28, 30));
    assert_eq!(format!("{:?}", key(&one)), format!("BackendKey({})", key(&one)));
}
