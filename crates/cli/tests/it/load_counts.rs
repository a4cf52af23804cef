//! `carom load`: what it reports is what the servers saw, however it ends.

use crate::program::Running;
use crate::web::{Service, lines_of, load};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::http::{Script, Server};

/// The report of a run that went well.
fn report(ran: &crate::program::Ran) -> Value {
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let [report] = &lines_of(ran)[..] else { panic!("{ran:?}") };
    report.clone()
}

#[tokio::test]
async fn counts_are_those_of_the_servers() {
    let service = Service::start(3).await;
    let ran = service.carom("load", &["--json", "-n", "600", "-c", "6", "http://api.test/bytes/100"]).await;
    let report = report(&ran);
    let seen = service.requests();
    assert_eq!(seen.iter().sum::<usize>(), 600);
    for (field, count) in [("requests", 600), ("answered", 600), ("failed", 0), ("unfinished", 0), ("not_started", 0)] {
        assert_eq!(report[field], json!(count), "{field}: {report}");
    }
    assert_eq!((&report["statuses"], &report["body_bytes"]), (&json!({"200": 600}), &json!(60_000)));
    assert_eq!((&report["protocols"], &report["connections"]), (&json!({"HTTP/1.1": 600}), &json!(6)));
    let backends = report["backends"].as_array().unwrap();
    assert!(backends.is_sorted_by(|one, next| one["count"].as_u64() >= next["count"].as_u64()), "{report}");
    for (server, seen) in service.nodes.iter().zip(seen) {
        let told = backends.iter().find(|backend| backend["port"] == json!(server.address().port()));
        let told = told.unwrap_or_else(|| panic!("{}: {report}", server.name()));
        assert_eq!((&told["count"], &told["name"]), (&json!(seen), &json!(format!("{}.api.test", server.name()))));
    }
    let spread: u64 = report["spread"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(spread, 600);
    let latency = |name: &str| report["latency_ms"][name].as_f64().unwrap_or_else(|| panic!("{name}: {report}"));
    let rising = ["min", "p50", "p90", "p99", "p99_9", "max"].map(latency);
    assert!(rising.is_sorted() && rising[0] > 0.0, "{report}");
    assert!((rising[0]..=rising[5]).contains(&latency("mean")), "{report}");
    let rate = report["rate"].as_f64().unwrap() * report["seconds"].as_f64().unwrap();
    assert!((rate - 600.0).abs() < 0.01, "{report}");
    let most = service.nodes.iter().map(Server::accepted).sum::<usize>();
    assert!((1..=6).contains(&most), "{most} connections");
}

#[tokio::test]
async fn a_report_for_people_has_it_all() {
    let server = Server::start("alone").await.unwrap();
    server.set_status(503);
    let ran = load(&["-n", "50", "-c", "2", &server.url("/bytes/100")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let shown = &ran.stdout;
    assert!(shown.starts_with(&format!("GET {} over HTTP/1.1\n", server.url("/bytes/100"))), "{shown}");
    for part in [
        "\nrequests    50  in ",
        "\nanswered    50  ",
        "\n  503       50\n",
        "\nfailed       0\n",
        "\nbodies      5.00 kB, ",
    ] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    for part in ["\nlatency\n  min ", "\n  p99.9 ", "\n  max ", "\nspread\n  <= ", " ####"] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    assert!(shown.ends_with(&format!("\nbackends\n  50 100.0 % {}\n", server.address())), "{shown}");
    assert!(!shown.contains("unfinished") && !shown.contains("retried"), "{shown}");
}

#[tokio::test]
async fn failures_are_counted_by_the_step_that_failed() {
    let server = Server::start("alone").await.unwrap();
    let good =
        Script::new().request().say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").close();
    let half = Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").close();
    server.scripts(move |number| if number % 2 == 1 { half.clone() } else { good.clone() });
    let ran = load(&["--json", "-n", "4", "-c", "1", &server.url("/")]).await;
    let report = report(&ran);
    assert_eq!((&report["answered"], &report["failed"]), (&json!(2), &json!(2)), "{report}");
    let [failures] = &report["failures"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&failures["step"], &failures["count"]), (&json!("receive"), &json!(2)), "{report}");
    assert!(failures["example"].as_str().unwrap().contains(&server.address().to_string()), "{report}");
    assert_eq!(server.requests(), 4);
    // For those who say so, that is a failure of the whole, as any bad status is.
    let ran = load(&["--fail", "-n", "4", "-c", "1", &server.url("/")]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("error: 2 requests failed, and 0 "), "{ran:?}");
    assert!(
        ran.stdout.contains("\nfailed      2\n  receive   2\n") && ran.stdout.contains("\nreceive: http://"),
        "{ran:?}"
    );
    server.behave();
    let ran = load(&["--fail", "-n", "4", &server.url("/status/404")]).await;
    assert_eq!((ran.code, ran.stderr.contains("0 requests failed, and 4 ")), (Some(1), true), "{ran:?}");
}

#[tokio::test]
async fn without_one_answer_it_has_failed() {
    let server = Server::start("alone").await.unwrap();
    server.kill().await;
    let ran = load(&["--json", "-n", "3", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(1), "error: not one request was answered\n"), "{ran:?}");
    let report = &lines_of(&ran)[0];
    assert_eq!((&report["failures"][0]["step"], &report["failed"]), (&json!("connect"), &json!(3)), "{report}");
    assert!(report["latency_ms"].is_null() && report["backends"] == json!([]), "{report}");
}

#[tokio::test]
async fn a_node_that_dies_costs_nobody_an_answer() {
    let service = Service::start(3).await;
    let resolvers = service.resolvers();
    let running = Running::start(["load", &resolvers, "--json", "-d", "1m", "-c", "4", "http://api.test/"]);
    let busy = |server: &Server| server.requests() > 50;
    service.nodes[0].until(busy).await;
    service.nodes[1].kill().await;
    let before = service.nodes[2].requests();
    service.nodes[2].until(|server| server.requests() > before + 100).await;
    let ran = running.end("-INT").await;
    let report = report(&ran);
    assert_eq!(report["failed"], json!(0), "{report}");
    // What the dead node had seen and not answered was asked again elsewhere.
    let seen: usize = service.requests().iter().sum();
    let answered = report["answered"].as_u64().unwrap() as usize;
    assert!((answered..=answered + 4).contains(&seen), "{seen}: {report}");
}

#[tokio::test]
async fn a_signal_ends_it_with_the_report() {
    for signal in ["-INT", "-TERM"] {
        let server = Server::start("alone").await.unwrap();
        let running = Running::start(["load", "--json", "-d", "10m", "-c", "3", &server.url("/")]);
        server.until(|server| server.requests() > 100).await;
        let ran = running.end(signal).await;
        let report = report(&ran);
        assert_eq!(report["answered"], json!(server.requests()), "{report}");
        assert_eq!((&report["failed"], &report["unfinished"]), (&json!(0), &json!(0)), "{report}");
    }
}

#[tokio::test]
async fn what_has_no_answer_in_the_end_is_told() {
    let server = Server::start("alone").await.unwrap();
    let running = Running::start(["load", "--json", "-d", "10m", "-c", "3", &server.url("/gate")]);
    server.until(|server| server.at_gate() == 3).await;
    running.signal("-INT").await;
    // A second one does not wait for them.
    let ran = running.end("-INT").await;
    let report = &lines_of(&ran)[0];
    assert_eq!((ran.code, &report["unfinished"], &report["requests"]), (Some(1), &json!(3), &json!(3)), "{ran:?}");
}

#[tokio::test]
async fn it_ends_when_time_is_up() {
    let server = Server::start("alone").await.unwrap();
    let ran = load(&["--json", "-d", "500ms", &server.url("/")]).await;
    let report = report(&ran);
    assert_eq!(report["answered"], json!(server.requests()), "{report}");
    // As many are due in this time as the rate says, and no fewer.
    let ran = load(&["--json", "--rate", "20", "-d", "500ms", &server.url("/")]).await;
    let report = self::report(&ran);
    let counts = ["requests", "not_started"].map(|count| report[count].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 10, "{report}");
}

#[tokio::test]
async fn a_rate_is_kept_and_no_more() {
    let server = Server::start("alone").await.unwrap();
    let ran = load(&["--json", "--rate", "100", "-n", "60", "-c", "4", &server.url("/")]).await;
    let report = report(&ran);
    // The first is due at the very beginning, the last after 590 ms.
    let rate = report["rate"].as_f64().unwrap();
    assert!(rate <= 100.0 * 60.0 / 59.0 + 0.01, "{report}");
    assert_eq!((server.requests(), &report["answered"], &report["rate_wanted"]), (60, &json!(60), &json!(100)));
}

/// One that stalls keeps others from being made; they were due all the same, and have waited.
#[tokio::test]
async fn latencies_count_from_when_a_request_was_due() {
    let server = Server::start("alone").await.unwrap();
    let slow = Script::new().request().wait(Duration::from_millis(400)).answer(200, "ok");
    server.script(slow.times(100, &Script::new().request().answer(200, "ok")));
    let args = ["--json", "--rate", "50", "-n", "20", "-c", "1", &server.url("/")];
    let report = report(&load(&args).await);
    let median = report["latency_ms"]["p50"].as_f64().unwrap();
    // Each of the 20 in these 400 ms was due 20 ms after the one before: the tenth had to wait for 220.
    assert!(median > 150.0, "{report}");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn what_was_due_and_not_made_is_told() {
    let server = Server::start("alone").await.unwrap();
    server.set_delay(Duration::from_millis(300));
    let ran = load(&["--json", "--rate", "100", "-d", "500ms", "-c", "1", &server.url("/")]).await;
    let report = report(&ran);
    let (requests, left) = (report["requests"].as_u64().unwrap(), report["not_started"].as_u64().unwrap());
    assert_eq!((requests, requests + left), (server.requests() as u64, 50), "{report}");
}

#[tokio::test]
async fn http2_takes_one_connection_for_all() {
    let server = Server::start("alone").await.unwrap();
    let ran = load(&["--json", "--http2", "-n", "200", "-c", "8", &server.url("/")]).await;
    let report = report(&ran);
    assert_eq!((&report["protocols"], server.requests()), (&json!({"HTTP/2": 200}), 200), "{report}");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_body_is_sent_with_each() {
    let server = Server::start("alone").await.unwrap();
    let ran = load(&["--json", "-n", "5", "--data", "an order", "-H", "x-one: 1", &server.url("/")]).await;
    assert_eq!(report(&ran)["method"], json!("POST"));
    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|seen| seen.body == b"an order" && seen.header("x-one") == Some("1")), "{seen:?}");
}
