//! Agents and origins under tower's layers.

use crate::agent::*;
use carom::agent::{Agent, Body, Error, Origin};
use http::{Request, Response};
use std::time::Duration;
use testkit::http::Server;
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::test]
async fn an_agent_and_an_origin_are_services() {
    async fn through<S>(service: S, uri: &str) -> String
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Error>,
    {
        read(soon(service.oneshot(get(uri))).await.unwrap()).await.unwrap()
    }

    let (agent, node) = (crate::agent::agent(), server("node").await);
    assert_eq!(through(agent.clone(), &node.url("/")).await, "hello from node");
    let origin: Origin = agent.pool(node.url("")).unwrap();
    assert_eq!(through(origin, "/").await, "hello from node");
}

#[tokio::test]
async fn a_limit_of_concurrency_holds_until_the_head() {
    let (agent, node) = (crate::agent::agent(), server("node").await);
    let service = ServiceBuilder::new().concurrency_limit(2).service(origin(&agent, [&node]));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let service = service.clone();
        tasks.spawn(async move { read(service.oneshot(get("/gate")).await.unwrap()).await.unwrap() });
    }
    soon(node.until(|node| node.at_gate() == 2)).await;
    assert_eq!(node.requests(), 2);
    node.open_gate();
    while let Some(done) = soon(tasks.join_next()).await {
        assert_eq!(done.unwrap(), "hello from node");
    }
    assert_eq!(node.requests(), 4);
}

#[tokio::test]
async fn a_timeout_of_tower_gives_everything_back() {
    let (agent, node) = (single(), server("node").await);
    let origin = origin(&agent, [&node]);
    let hasty = ServiceBuilder::new().timeout(Duration::from_millis(30)).service(origin.clone());
    for _ in 0..3 {
        let error = soon(hasty.clone().oneshot(get("/gate"))).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error:?}");
        assert_at_rest(&origin);
    }
    node.open_gate();
    assert_eq!(asked(&origin, get("/gate")).await.0, 200);
    assert_nobody_dead(&origin);
}

#[tokio::test]
async fn requests_and_responses_are_mapped_on_their_way() {
    let (agent, node) = (single(), server("node").await);
    let service = ServiceBuilder::new()
        .map_request(|mut request: Request<String>| {
            request.headers_mut().insert("x-layer", "here".parse().unwrap());
            request
        })
        .map_response(|response: Response<Body>| response.status())
        .service(agent);
    let request = Request::post(node.url("/")).body("text".to_owned()).unwrap();
    assert_eq!(soon(service.oneshot(request)).await.unwrap(), 200);
    let seen = node.seen().pop().unwrap();
    assert_eq!((seen.header("x-layer"), &*seen.body), (Some("here"), &b"text"[..]));
}

#[tokio::test]
async fn a_boxed_service_is_cloned_among_tasks() {
    let servers: [Server; 2] = servers().await;
    let agent = crate::agent::agent();
    let service = origin(&agent, &servers).boxed_clone();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let service = service.clone();
        tasks.spawn(async move {
            let response = soon(service.oneshot(post("/", format!("{number}")))).await.unwrap();
            assert_eq!(read(response).await.unwrap(), format!("{number}"));
        });
    }
    while let Some(done) = soon(tasks.join_next()).await {
        done.unwrap();
    }
}

#[tokio::test]
async fn it_is_always_ready() {
    let mut agent: Agent = crate::agent::agent();
    let ready = soon(ServiceExt::<Request<Body>>::ready(&mut agent)).await;
    assert!(ready.is_ok());
}
