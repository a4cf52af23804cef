//! What the log says of requests: each has a span, and nothing that it carries is in there.

use crate::agent::{API, ask, asked, builder, get, server};
use carom::agent::OriginOptions;
use carom::resolver::Fixed;
use http::HeaderValue;
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use testkit::http::Script;
use testkit::logs::Logs;

#[tokio::test]
async fn nothing_that_a_request_carries_is_said() {
    let logs = Logs::capture();
    let (agent, node) = (builder().build().unwrap(), server("node-1").await);
    let origin = agent.create_pool(API, OriginOptions::default().resolver(Fixed::new([node.address()]))).unwrap();
    let secret = || {
        let mut request = get("/orders?token=word-in-query");
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            request.headers_mut().insert(name, HeaderValue::from_static("word-in-header"));
        }
        request
    };
    assert_eq!(asked(&origin, secret()).await.0, 200);
    // One that fails says why.
    node.script(Script::new().request().say("nonsense").close());
    node.reset().await;
    assert!(ask(&origin, secret()).await.is_err());
    assert!(agent.get("http://user:word-in-userinfo@api.test/").await.is_err());
    let said = logs.text();
    assert!(said.contains("request") && said.contains(API) && said.contains("GET"), "{said}");
    assert!(logs.spans().iter().filter(|(name, _)| *name == "request").count() >= 2, "{:?}", logs.spans());
    assert!(!said.contains("word-in"), "{said}");
}
