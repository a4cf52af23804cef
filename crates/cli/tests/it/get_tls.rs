//! `carom get` and `carom load` over TLS: whose certificates are believed, and what is spoken then.

use crate::program::Ran;
use crate::web::{file, get, lines_of, load};
use serde_json::json;
use testkit::http::{Authority, Certificate, Server};

/// A server, and the file that vouches for it.
async fn server<const N: usize>(certificate: &Certificate, protocols: [&str; N]) -> (Server, String) {
    let server = Server::start_tls("alone", certificate.serving(protocols)).await.unwrap();
    let url = server.url("/").replace("http:", "https:");
    (server, url)
}

fn ca(pem: &str) -> String {
    let path = file("ca");
    std::fs::write(&path, pem).unwrap();
    path.to_str().unwrap().to_owned()
}

fn refused(ran: &Ran) {
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: tls: https://127.0.0.1:"), "{ran:?}");
}

#[tokio::test]
async fn an_authority_of_ones_own_is_believed_when_it_is_named() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, url) = server(&authority.issue(["127.0.0.1"]), ["http/1.1"]).await;
    let (own, other) = (ca(&authority.pem()), ca(&stranger.pem()));
    let ran = get(&["--ca", &own, &url]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "hello from alone"), "{ran:?}");
    assert!(ran.stderr.contains(", tls ") && ran.stderr.contains("HTTP/1.1"), "{ran:?}");
    refused(&get(&["--ca", &other, &url]).await);
    assert_eq!(server.requests(), 1, "nothing is said to whom nobody vouches for");
    let ran = get(&["--json", "-k", &url]).await;
    assert_eq!((ran.code, lines_of(&ran)[0]["timings"]["tls"].is_number()), (Some(0), true), "{ran:?}");
    let ran = get(&["--json", "--http2", "--ca", &own, &url]).await;
    assert_eq!((ran.code, &lines_of(&ran)[0]["error"]["step"]), (Some(1), &json!("tls")), "{ran:?}");
    for file in [own, other] {
        std::fs::remove_file(file).unwrap();
    }
}

#[tokio::test]
async fn certificates_that_are_over_or_of_others_are_refused() {
    let authority = Authority::new();
    let own = ca(&authority.pem());
    for certificate in [authority.issue_expired(["127.0.0.1"]), authority.issue(["other.test"])] {
        let (server, url) = server(&certificate, []).await;
        refused(&get(&["--ca", &own, &url]).await);
        assert_eq!(server.requests(), 0);
    }
    std::fs::remove_file(own).unwrap();
}

#[tokio::test]
async fn what_is_spoken_is_what_the_server_prefers_unless_one_insists() {
    let certificate = Certificate::self_signed(["127.0.0.1"]);
    let (server, url) = server(&certificate, ["h2", "http/1.1"]).await;
    for (option, protocol) in [("--insecure", "HTTP/2"), ("--http2", "HTTP/2"), ("--http1", "HTTP/1.1")] {
        let args: Vec<_> =
            ["-k", "--json", "-n", "20", &url].into_iter().chain((option != "--insecure").then_some(option)).collect();
        let ran = load(&args).await;
        assert_eq!((ran.code, &lines_of(&ran)[0]["protocols"]), (Some(0), &json!({protocol: 20})), "{option}: {ran:?}");
    }
    assert_eq!(server.requests(), 60);
}
