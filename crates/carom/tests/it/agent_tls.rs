//! TLS: whom an agent believes, what servers are told, and what is said when it fails.

use crate::agent::{agent, asked, builder, get, policy, soon};
use carom::agent::{Agent, Error, Origin, OriginError, OriginOptions, Protocol, Step};
use carom::tls::{self, ConnectError, Tls};
use std::error::Error as StdError;
use testkit::http::{Authority, Certificate, Server};

const SECURE: &str = "https://api.test";

async fn server(name: &str, certificate: &Certificate) -> Server {
    Server::start_tls(name, certificate.serving(["http/1.1"])).await.unwrap()
}

/// [`SECURE`], served by these, with settings of its own.
fn origin<'a>(agent: &Agent, tls: tls::Builder, servers: impl IntoIterator<Item = &'a Server>) -> Origin {
    let options = OriginOptions::default().backends(servers.into_iter().map(Server::address)).tls(tls);
    agent.create_pool(SECURE, options).unwrap()
}

fn trusting(authority: &Authority) -> tls::Builder {
    Tls::builder().roots_pem(authority.pem())
}

/// An agent that gives up at the first failure.
fn hasty() -> Agent {
    builder().recovery(policy().attempts(1)).build().unwrap()
}

async fn refused(origin: &Origin) -> Error {
    let error = soon(origin.request(get("/"))).await.unwrap_err();
    assert_eq!(error.step(), Step::Tls, "{error:?}");
    assert_eq!((error.origin(), error.attempts()), (Some(SECURE), 0));
    error
}

fn reason(error: &Error) -> &ConnectError {
    error.source().and_then(|source| source.downcast_ref()).unwrap_or_else(|| panic!("{error:?}"))
}

#[tokio::test]
async fn servers_of_an_own_authority_are_trusted_and_are_told_the_origins_name() {
    let authority = Authority::new();
    let certificate = authority.issue(["api.test"]);
    let server = server("node-1", &certificate).await;
    let agent = agent();
    let origin = origin(&agent, trusting(&authority), [&server]);
    assert_eq!(asked(&origin, get("/orders")).await.1, "hello from node-1");
    assert_eq!(server.seen()[0].header("host"), Some("api.test"));
    assert!(certificate.asked().iter().all(|name| name.as_deref() == Some("api.test")), "{certificate:?}");
}

#[tokio::test]
async fn settings_of_the_agent_hold_for_every_origin() {
    let authority = Authority::new();
    let certificate = authority.issue(["localhost", "127.0.0.1"]);
    let server = server("node-1", &certificate).await;
    let agent = builder().tls(trusting(&authority)).build().unwrap();
    let response = soon(agent.get(format!("https://{}/", server.address()))).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(certificate.asked().first(), Some(&None), "an address is no name to be told");
}

#[tokio::test]
async fn a_name_of_its_own_is_what_servers_are_told_and_must_prove() {
    let authority = Authority::new();
    let certificate = authority.issue(["internal.test"]);
    let server = server("node-1", &certificate).await;
    let agent = agent();
    let options = OriginOptions::default().backends([server.address()]).tls(trusting(&authority));
    let origin = agent.create_pool(SECURE, options.server_name("internal.test")).unwrap();
    asked(&origin, get("/")).await;
    assert_eq!(certificate.asked()[0].as_deref(), Some("internal.test"));
    assert_eq!(server.seen()[0].header("host"), Some("api.test"), "which HTTP knows nothing of");
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let server = server("node-1", &Authority::new().issue(["api.test"])).await;
    let agent = hasty();
    let error = refused(&origin(&agent, trusting(&Authority::new()), [&server])).await;
    assert!(matches!(reason(&error), ConnectError::Untrusted { .. }), "{error:?}");
    assert_eq!(error.backend().unwrap().socket_addr(), server.address());
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    let server = server("node-1", &authority.issue_expired(["api.test"])).await;
    let agent = hasty();
    let error = refused(&origin(&agent, trusting(&authority), [&server])).await;
    assert!(reason(&error).to_string().contains("expired"), "{error:?}");
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let authority = Authority::new();
    let server = server("node-1", &authority.issue(["other.test"])).await;
    let agent = hasty();
    let error = refused(&origin(&agent, trusting(&authority), [&server])).await;
    let said = reason(&error).to_string();
    assert_eq!(said, "certificate is not valid for `api.test`, only for `other.test`");
}

#[tokio::test]
async fn a_self_signed_certificate_is_believed_by_those_alone_who_insist() {
    let server = server("node-1", &Certificate::self_signed(["whoever.test"])).await;
    let agent = hasty();
    let insisting = origin(&agent, Tls::builder().dangerous_accept_any_certificate(), [&server]);
    assert_eq!(asked(&insisting, get("/")).await.0, 200);

    let options = OriginOptions::default().backends([server.address()]).tls(trusting(&Authority::new()));
    let other = agent.create_pool("https://other.test", options).unwrap();
    let error = soon(other.request(get("/"))).await.unwrap_err();
    assert_eq!(error.step(), Step::Tls, "what one origin believes no other does");
}

#[tokio::test]
async fn a_client_shows_its_certificate_where_it_is_wanted() {
    let (authority, clients) = (Authority::new(), Authority::new());
    for protocols in [["h2"], ["http/1.1"]] {
        let config = authority.issue(["api.test"]).serving_those_of(&clients, protocols);
        let server = Server::start_tls("node-1", config).await.unwrap();
        let client = clients.issue(["client.test"]);
        let agent = hasty();
        let shown = trusting(&authority).client_certificate_pem(client.pem(), client.key_pem());
        assert_eq!(asked(&origin(&agent, shown, [&server]), get("/")).await.0, 200);

        let agent = hasty();
        let origin = origin(&agent, trusting(&authority), [&server]);
        let error = soon(origin.request(get("/"))).await.unwrap_err();
        // TLS 1.3 lets the client go on before the server has looked. What it says then may be overtaken by its end.
        let told = error.step() == Step::Tls && format!("{error:?}").contains("CertificateRequired");
        assert!(told || matches!(error.step(), Step::Connect | Step::Send | Step::Receive), "{error:?}");
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_said_to() {
    let plain = Server::start("node-1").await.unwrap();
    let agent = hasty();
    let error = refused(&origin(&agent, trusting(&Authority::new()), [&plain])).await;
    let said = reason(&error).to_string();
    assert!(said.starts_with("the tls handshake failed") || said.contains("ended during the tls handshake"), "{said}");
}

#[tokio::test]
async fn one_bad_certificate_among_good_ones_is_not_the_callers_problem() {
    let authority = Authority::new();
    let good = server("good", &authority.issue(["api.test"])).await;
    let bad = server("bad", &authority.issue_expired(["api.test"])).await;
    for protocol in [Protocol::Negotiate, Protocol::Http1] {
        let agent = builder().protocol(protocol).build().unwrap();
        let origin = origin(&agent, trusting(&authority), [&good, &bad]);
        for _ in 0..20 {
            assert_eq!(asked(&origin, get("/")).await.1, "hello from good");
        }
    }
    assert_eq!(bad.requests(), 0);
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_when_the_origin_is_made() {
    let agent = agent();
    let options = OriginOptions::default().tls(Tls::builder().roots_pem("no certificate"));
    let error = agent.create_pool(SECURE, options).unwrap_err();
    assert!(matches!(error, OriginError::Tls(_)), "{error:?}");
    assert_eq!(error.to_string(), "`roots_pem` holds no certificate");
}
