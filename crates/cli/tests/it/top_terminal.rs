//! `carom top` on a terminal: what is drawn, what keys do, and that the terminal is as it was in the end.

use crate::program::PATIENCE;
use crate::serving::folder;
use crate::top::{answer, command_of, events, saying, snapshot, view};
use crate::up::{Backend, Up, tcp};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::thread;
use std::time::Duration;
use testkit::http::Script;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The program on a terminal, and what one sees there.
struct Screen {
    child: Child,
    ours: File,
    far: File,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
    raw: Vec<u8>,
}

impl Screen {
    fn start(columns: u16, rows: u16, mut command: Command) -> Screen {
        let (ours, far) = crate::terminal::terminal();
        resize(&ours, columns, rows);
        let side = || far.try_clone().unwrap();
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let (sender, output) = mpsc::unbounded_channel();
        let mut reading = ours.try_clone().unwrap();
        // It ends with the test: there is always one who could write.
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = reading.read(&mut part) {
                if sender.send(part[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { child, ours, far, output, raw: Vec::new() }
    }

    /// Waits until the screen is like that; returns it.
    async fn until(&mut self, like: impl Fn(&str) -> bool) -> String {
        let waiting = async {
            loop {
                let seen = shown(&String::from_utf8_lossy(&self.raw));
                if like(&seen) {
                    return seen;
                }
                self.raw.extend(self.output.recv().await.expect("the terminal is there"));
            }
        };
        let seen = timeout(PATIENCE, waiting).await;
        seen.unwrap_or_else(|_| panic!("not on the screen:\n{}", shown(&String::from_utf8_lossy(&self.raw))))
    }

    async fn shows(&mut self, text: &str) -> String {
        self.until(|seen| seen.contains(text)).await
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    async fn signal(&self, signal: &str) {
        let id = self.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }

    /// Waits until it has ended and the terminal is as it was; what it exits with, and all that was written.
    async fn ends(mut self) -> (Option<i32>, String) {
        let code = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap().code();
        let given_back = |raw: &[u8]| String::from_utf8_lossy(raw).contains("\u{1b}[?1049l\u{1b}[?25h");
        while !given_back(&self.raw) {
            let part = timeout(PATIENCE, self.output.recv()).await.expect("the screen is left");
            self.raw.extend(part.unwrap());
        }
        // What it said last may still be on its way.
        while let Ok(Some(part)) = timeout(Duration::from_millis(200), self.output.recv()).await {
            self.raw.extend(part);
        }
        let modes = tcgetattr(&self.far).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        (code, String::from_utf8(self.raw).unwrap())
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// What a terminal shows that was written this: as much of one as the program makes use of.
fn shown(written: &str) -> String {
    let mut lines: Vec<Vec<char>> = Vec::new();
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                assert_eq!(rest.next().unwrap_or('['), '[', "nothing but CSI: {written:?}");
                let mut order = String::new();
                let end = rest.by_ref().find(|c| {
                    order.push(*c);
                    c.is_ascii_alphabetic()
                });
                let mut numbers = order
                    .trim_end_matches(|c: char| c.is_ascii_alphabetic())
                    .split(';')
                    .map(|n| n.parse().unwrap_or(1));
                match end {
                    Some('H') => (row, column) = (numbers.next().unwrap_or(1) - 1, numbers.next().unwrap_or(1) - 1),
                    Some('J') => lines.clear(),
                    // Colours and modes; or it is not whole yet.
                    Some('m' | 'h' | 'l') | None => {}
                    Some(_) => panic!("{order:?} is not known here"),
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                lines.resize(lines.len().max(row + 1), Vec::new());
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    lines.iter().map(|line| format!("{}\n", line.iter().collect::<String>().trim_end())).collect()
}

#[tokio::test]
async fn it_draws_and_keys_lead_through_it() {
    let server = saying(events(&[view()])).await;
    let mut screen = Screen::start(100, 40, command_of(&[&server.url("")]));
    let seen = screen.shows("? help").await;
    assert!(seen.starts_with("carom up DEGRADED, up ") && seen.contains("BBI IC W"), "{seen}");
    assert!(seen.contains("> orders ") && seen.contains("Resolvers (1)"), "{seen}");
    screen.press("j\r");
    screen.shows("claims timed out  2").await;
    screen.press("\u{1b}");
    screen.shows("    orders h2").await;
    screen.press("/zero");
    screen.until(|seen| seen.contains("/zero_") && seen.contains("zerodha/asha") && !seen.contains("orders")).await;
    screen.press("\r");
    screen.shows("/zero  ? help").await;
    screen.press("\u{1b}");
    screen.shows(">   orders ").await;
    screen.press("s");
    screen.shows("sort: name").await;
    screen.press("p");
    screen.shows("paused ").await;
    screen.press("?");
    screen.shows("Connections of a set").await;
    screen.press("q");
    let (code, raw) = screen.ends().await;
    assert_eq!(code, Some(0), "{raw:?}");
    assert!(raw.contains("\u{1b}[38;5;1;"), "trouble is red: {raw:?}");
    assert_eq!(server.seen()[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn the_terminal_is_given_back_whatever_ends_it() {
    let server = saying(events(&[view()])).await;
    for end in ["\u{3}", "-INT", "-TERM", "-HUP"] {
        let mut screen = Screen::start(80, 24, command_of(&[&server.url("")]));
        screen.shows("? help").await;
        if end.starts_with('-') {
            screen.signal(end).await;
        } else {
            screen.press(end);
        }
        let (code, raw) = screen.ends().await;
        assert_eq!(code, Some(0), "{end:?}: {raw:?}");
    }
    // Whoever is not let in any more ends it as well.
    let refused = answer("401 Unauthorized", "application/json", "{}");
    let once = [events(&[view()]), refused];
    let server = saying(Script::new()).await;
    server.scripts(move |number| once[number.min(1)].clone());
    let mut screen = Screen::start(80, 24, command_of(&[&server.url("")]));
    screen.shows("? help").await;
    server.cut().await;
    let (code, raw) = screen.ends().await;
    assert_eq!(code, Some(1), "{raw:?}");
    assert!(raw.ends_with("the variable CAROM_ADMIN_TOKEN\r\n"), "it is told when one can read it: {raw:?}");
}

#[tokio::test]
async fn a_token_that_was_changed_is_read_again() {
    let node = Backend::start("node").await;
    let any = "127.0.0.1:0";
    let config = format!("[admin]\nlisten = \"{any}\"\ntoken_file = \"token\"\n{}", tcp("billing", any, &node, ""));
    let folder = folder("top-token-changed", &[("c.toml", &config), ("token", "0123456789abcdef\nof May\n")]);
    let file = folder.join("token");
    let mut up = Up::start(&folder).await;
    let args = ["--token-file", file.to_str().unwrap(), &up.admin().to_string()];
    let mut screen = Screen::start(100, 30, command_of(&args));
    screen.shows("billing").await;
    std::fs::write(&file, "fedcba9876543210\nof June\n").unwrap();
    up.reload(&config.replace("billing", "orders")).await;
    screen.shows("orders").await;
    // Without the right one it is over.
    let _ = std::fs::remove_file(&file);
    std::fs::write(folder.join("other"), "0000111122223333\n").unwrap();
    up.reload(&config.replace("\"token\"", "\"other\"")).await;
    let (code, raw) = screen.ends().await;
    assert!(code == Some(1) && raw.ends_with("is not the one that the admin address wants\r\n"), "{code:?}: {raw:?}");
    assert!(!raw.contains("0123456789abcdef") && !raw.contains("fedcba9876543210"), "{raw:?}");
}

#[tokio::test]
async fn it_survives_a_restart_and_says_so() {
    let server = saying(events(&[view()])).await;
    let mut screen = Screen::start(140, 40, command_of(&[&server.url("")]));
    screen.shows("? help").await;
    server.kill().await;
    let seen = screen.shows("connection lost ").await;
    assert!(seen.contains("shown as of 23:59:59 UTC") && seen.contains("BBI IC W"), "{seen}");
    let mut anew = view();
    anew["program"]["started_at_ms"] = json!(1_772_323_190_000_u64);
    let script = events(&[anew]);
    server.scripts(move |_| script.clone());
    server.revive().unwrap();
    let seen = screen.shows("the program was started anew").await;
    assert!(!seen.contains("connection lost"), "{seen}");
    screen.press("q");
    assert_eq!(screen.ends().await.0, Some(0));
}

#[tokio::test]
async fn whoever_is_asked_to_come_again_does_and_nobody_need_know() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 200\n\n";
    let event = format!("event: snapshot\ndata: {}\n\n", view());
    let ended = Script::new().request().say(head).say(event).wait(Duration::from_millis(500)).close();
    let mut other = view();
    other["program"]["host"] = json!("web-8");
    let scripts = [ended, events(&[other])];
    let server = saying(Script::new()).await;
    server.scripts(move |number| scripts[number.min(1)].clone());
    let mut screen = Screen::start(100, 24, command_of(&[&server.url("")]));
    screen.shows("on web-7").await;
    screen.shows("on web-8").await;
    screen.press("q");
    let (code, raw) = screen.ends().await;
    assert!(code == Some(0) && !raw.contains("connection lost"), "{raw:?}");
}

#[tokio::test]
async fn where_too_many_listen_it_asks_until_there_is_a_place() {
    let full = || answer("503 Service Unavailable", "application/json", r#"{"error":"too many listen already"}"#);
    let seen_by = |host: &str| {
        let mut view = view();
        view["program"]["host"] = json!(host);
        view
    };
    let views = ["web-8", "web-9"].map(seen_by);
    let scripts = [full(), snapshot(&view()), full(), snapshot(&views[0]), events(&views[1..])];
    let server = saying(Script::new()).await;
    server.scripts(move |number| scripts[number.min(4)].clone());
    let mut screen = Screen::start(140, 24, command_of(&[&server.url("")]));
    screen.until(|seen| seen.contains("on web-7") && seen.contains("too many listen already: asked every 3 s")).await;
    screen.until(|seen| seen.contains("on web-8") && seen.contains("asked every 3 s")).await;
    screen.until(|seen| seen.contains("on web-9") && !seen.contains("asked every 3 s")).await;
    screen.press("q");
    let (code, raw) = screen.ends().await;
    assert!(code == Some(0) && !raw.contains("connection lost"), "{raw:?}");
    let asked: Vec<String> = server.seen().iter().map(|request| request.target.clone()).collect();
    assert_eq!(asked, ["/api/events", "/api/snapshot", "/api/events", "/api/snapshot", "/api/events"]);
}

#[tokio::test]
async fn names_cannot_tell_the_terminal_what_to_do() {
    let mut evil = view();
    fn spoil(value: &mut Value) {
        match value {
            Value::String(text) if text.contains('.') || text.contains("orders") => {
                *text = format!("\u{1b}]0;owned\u{7}\u{1b}[5m\u{9b}2J\u{202e}{text}");
            }
            Value::Array(values) => values.iter_mut().for_each(spoil),
            Value::Object(fields) => fields.values_mut().for_each(spoil),
            _ => {}
        }
    }
    spoil(&mut evil);
    let server = saying(events(&[evil])).await;
    let mut command = command_of(&[&server.url("")]);
    command.env("NO_COLOR", "1");
    let mut screen = Screen::start(120, 50, command);
    screen.shows("\\u{1b}]0;owned\\u{7}").await;
    screen.press("jj\r");
    screen.shows("Since it was made").await;
    screen.press("q");
    let (code, raw) = screen.ends().await;
    assert_eq!(code, Some(0));
    assert!(!raw.contains("\u{1b}]") && !raw.contains(['\u{7}', '\u{9b}', '\u{202e}']), "{raw:?}");
    assert!(!raw.contains("\u{1b}[5m") && !raw.contains("\u{1b}[38;"), "and no colours: {raw:?}");
}

#[tokio::test]
async fn it_fits_a_terminal_of_another_size() {
    let server = saying(events(&[view()])).await;
    let mut screen = Screen::start(40, 10, command_of(&[&server.url("")]));
    let seen = screen.shows("? help").await;
    assert!(seen.lines().count() == 10 && seen.lines().all(|line| line.chars().count() <= 40), "{seen}");
    assert!(!seen.contains("version 0.1.0"), "{seen}");
    resize(&screen.ours, 100, 45);
    screen.signal("-WINCH").await;
    screen.until(|seen| seen.contains("version 0.1.0") && seen.contains("Resolvers (1)")).await;
    screen.press("q");
    assert_eq!(screen.ends().await.0, Some(0));
}

#[tokio::test]
async fn nobody_there_is_an_error_and_no_screen() {
    let server = saying(Script::new()).await;
    server.kill().await;
    let (code, seen) = crate::terminal::on_terminal(command_of(&[&server.url("")])).await;
    assert_eq!(code, Some(1), "{seen:?}");
    assert!(seen.contains("error: http://") && !seen.contains('\u{1b}'), "{seen:?}");
    let mut dumb = command_of(&[]);
    dumb.env("TERM", "dumb");
    let (code, seen) = crate::terminal::on_terminal(dumb).await;
    assert!(code == Some(2) && seen.contains("--once") && !seen.contains('\u{1b}'), "{seen:?}");
}

#[tokio::test]
async fn a_sidecar_that_runs_is_followed() {
    let node = Backend::start("node").await;
    let any = "127.0.0.1:0";
    let service = tcp("billing", any, &node, "");
    let config = format!("[admin]\nlisten = \"{any}\"\n{service}");
    let mut up = Up::start(&folder("top-terminal", &[("c.toml", &config)])).await;
    let mut screen = Screen::start(100, 30, command_of(&[&up.admin().to_string()]));
    screen.until(|seen| seen.contains("carom up ok") && seen.contains("billing") && seen.contains(" idle")).await;
    up.reload(&config.replace("billing", "orders")).await;
    screen.until(|seen| seen.contains("orders") && !seen.contains("connection lost")).await;
    up.running.signal("-TERM").await;
    screen.shows("connection lost ").await;
    screen.press("q");
    assert_eq!(screen.ends().await.0, Some(0));
}
