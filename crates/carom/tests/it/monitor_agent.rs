//! What the monitor sees of an agent: the pools, sets and resolvers of its origins, and nothing that requests carry.

use crate::agent::{API, asked, builder, get, server, soon, until};
use carom::agent::{Agent, Origin, OriginOptions, Protocol};
use carom::monitor::{BackendState, Id, Monitor, Object, Phase, State};
use carom::resolver::Fixed;
use carom::tls::Tls;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderValue, Request};
use testkit::http::{Authority, Server};

fn watched(monitor: &Monitor) -> Agent {
    builder().monitor(monitor).build().unwrap()
}

fn kinds(monitor: &Monitor) -> Vec<(String, &'static str)> {
    let kind = |object: &Object| match object {
        Object::Pool(_) => "pool",
        Object::Set(_) => "set",
        Object::Resolver(_) => "resolver",
        other => panic!("an agent has none of these: {other:?}"),
    };
    monitor.snapshot().objects.iter().map(|seen| (seen.name.clone(), kind(&seen.object))).collect()
}

fn object(monitor: &Monitor, id: Id) -> Object {
    monitor.object(id).expect("it is there").object
}

#[tokio::test]
async fn the_pool_of_an_origin_is_seen_with_its_resolver() {
    let (monitor, node) = (Monitor::new(), server("node-1").await);
    let agent = watched(&monitor);
    assert!(monitor.snapshot().objects.is_empty(), "nobody has asked for anything");
    let options = OriginOptions::default().resolver(Fixed::new([node.address()]));
    let origin = agent.create_pool(API, options).unwrap();
    let [id] = origin.ids()[..] else { panic!("{:?}", origin.ids()) };
    assert_eq!(asked(&origin, get("/status/204")).await.0, 204);
    until("the connection is back", || match object(&monitor, id) {
        Object::Pool(pool) => pool.backends[0].slots.iter().any(|slot| slot.phase == Phase::Idle),
        other => panic!("this is no pool: {other:?}"),
    })
    .await;
    let seen = monitor.object(id).unwrap();
    let Object::Pool(pool) = seen.object else { panic!("this is no pool") };
    assert_eq!((seen.name.as_str(), pool.state, pool.counters.claims), (API, State::Running, 1));
    assert_eq!(pool.backends[0].state, BackendState::Healthy);
    let resolver = pool.resolver.map(|id| object(&monitor, id));
    assert!(matches!(resolver, Some(Object::Resolver(resolver)) if resolver.backends.len() == 1));
    assert_eq!(kinds(&monitor).len(), 2, "{:?}", kinds(&monitor));

    agent.close();
    drop((agent, origin));
    until("nothing is seen", || monitor.snapshot().objects.is_empty()).await;
}

#[tokio::test]
async fn origins_of_one_name_are_told_apart_by_what_they_are_called() {
    let (monitor, node) = (Monitor::new(), server("node-1").await);
    let (one, other) = (watched(&monitor), watched(&monitor));
    let options = || OriginOptions::default().backends([node.address()]);
    let named = one.create_pool(API, options().name("orders")).unwrap();
    let plain = other.create_pool(API, options()).unwrap();
    let called = |origin: &Origin| monitor.object(origin.ids()[0]).expect("it is seen").name;
    assert_eq!((called(&named).as_str(), called(&plain).as_str()), ("orders", API));
    assert_eq!(named.name(), API, "requests go there all the same");
}

async fn secure(monitor: &Monitor) -> (Agent, Origin, Server) {
    let authority = Authority::new();
    let certificate = authority.issue(["api.test"]).serving(["h2"]);
    let node = Server::start_tls("node-1", certificate).await.unwrap();
    let agent = watched(monitor);
    let options = OriginOptions::default().tls(Tls::builder().roots_pem(authority.pem())).backends([node.address()]);
    let origin = agent.create_pool("https://api.test", options).unwrap();
    (agent, origin, node)
}

#[tokio::test]
async fn an_origin_that_speaks_http2_is_seen_as_a_set() {
    let monitor = Monitor::new();
    let (_agent, origin, _node) = secure(&monitor).await;
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    assert_eq!(origin.protocol(), Some(Protocol::Http2));
    let [id] = origin.ids()[..] else { panic!("{:?}", origin.ids()) };
    let Object::Set(set) = object(&monitor, id) else { panic!("this is no set") };
    assert_eq!((set.state, set.counters.leases, set.backends[0].connections.len()), (State::Running, 1, 1));
    assert!(set.backends[0].connections[0].kept);
    // The set that found out what is spoken is over.
    until("the set alone is seen", || kinds(&monitor).iter().filter(|(_, kind)| *kind != "resolver").count() == 1)
        .await;
}

#[tokio::test]
async fn nothing_that_requests_carry_is_seen() {
    let (monitor, node) = (Monitor::new(), server("node-1").await);
    let agent = watched(&monitor);
    let origin = crate::agent::origin(&agent, [&node]);
    let mut request: Request<_> = get("/gate?token=word-in-query");
    request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer word-in-header"));
    request.headers_mut().insert(COOKIE, HeaderValue::from_static("session=word-in-cookie"));
    let asking = tokio::spawn({
        let origin = origin.clone();
        async move { soon(origin.request(request)).await }
    });
    until("it is under way", || !node.seen().is_empty()).await;
    let seen = format!("{:?}", monitor.snapshot());
    assert!(seen.contains("Busy") && !seen.contains("word-in"), "{seen}");
    let refused = agent.get("http://user:word-in-userinfo@api.test/").await.unwrap_err();
    let seen = format!("{:?} {refused:?} {refused}", monitor.snapshot());
    assert!(!seen.contains("word-in"), "{seen}");
    asking.abort();
}
