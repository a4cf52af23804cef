//! `carom get` on a terminal: what is no text stays away from it, and lines end where it does.

use crate::program::command;
use crate::terminal::{on_terminal, on_terminal_of};
use testkit::http::{Script, Server};

fn saying(kind: &str, body: &[u8]) -> Script {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    Script::new().request().say(head).say(body.to_vec()).close()
}

#[tokio::test]
async fn what_is_no_text_is_not_shown_unasked() {
    let server = Server::start("alone").await.unwrap();
    for body in [&b"\x89PNG\r\n\x1a\n\0\0"[..], b"harmless, and then \x1b[2J", b"cut short \xe8\x82"] {
        server.script(saying("image/\u{9b}png", body));
        let (code, seen) = on_terminal(command(["get", &server.url("/")])).await;
        assert_eq!(code, Some(1), "{seen:?}");
        assert!(!seen.contains('\u{1b}') && !seen.contains('\0') && !seen.contains('\u{9b}'), "{seen:?}");
        assert!(
            seen.contains("error: the body is no text (image/\\u{9b}png), and not for a terminal: -o FILE"),
            "{seen:?}"
        );
    }
    server.script(saying("text/plain", b"bold: \x1b[1m!\x1b[0m"));
    let (code, seen) = on_terminal(command(["get", "-q", "-o", "-", &server.url("/")])).await;
    assert_eq!((code, &*seen), (Some(0), "bold: \x1b[1m!\x1b[0m"));
}

#[tokio::test]
async fn a_text_is_shown_and_what_follows_begins_a_line() {
    let server = Server::start("alone").await.unwrap();
    for (body, shown) in [("né 股票", "né 股票\r\n"), ("a line\n", "a line\r\n"), ("", "")] {
        server.script(saying("text/plain", body.as_bytes()));
        let (code, seen) = on_terminal(command(["get", &server.url("/")])).await;
        assert_eq!(code, Some(0), "{seen:?}");
        assert!(seen.starts_with(&format!("{shown}200 OK from 127.0.0.1:")), "{seen:?}");
    }
}

#[tokio::test]
async fn headers_cannot_tell_a_terminal_what_to_do() {
    let server = Server::start("alone").await.unwrap();
    server.script(saying("text/\u{9b}2Jplain", b"ok\n"));
    let (code, seen) = on_terminal(command(["get", "-q", "-i", &server.url("/")])).await;
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(seen.contains("content-type: text/\\u{9b}2Jplain\r\n"), "{seen:?}");
}

#[tokio::test]
async fn on_a_narrow_terminal_lines_end_between_two_words() {
    let server = Server::start("alone").await.unwrap();
    for columns in [40, 80] {
        let (code, seen) = on_terminal_of(columns, command(["get", &server.url("/")])).await;
        assert_eq!(code, Some(0), "{seen:?}");
        let lines: Vec<_> = seen.lines().collect();
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= columns.into()), "{columns}: {seen:?}");
    }
}
