//! What an admin address says, by a server that does as it is told.
use crate::program::{Ran, command, run};
use serde_json::Value;
use std::process::Stdio;
use testkit::http::{Script, Server};
use tokio::process::Command;

/// Something of every kind.
pub(crate) fn view() -> Value {
    serde_json::from_str(include_str!("view.json")).unwrap()
}

/// An answer with this status, of this kind.
pub(crate) fn answer(status: &str, kind: &str, body: &str) -> Script {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    Script::new().request().say(head).say(body.to_owned()).close()
}

/// What is seen, to whoever asks for it once.
pub(crate) fn snapshot(view: &Value) -> Script {
    answer("200 OK", "application/json", &view.to_string())
}

/// Events, and then silence for as long as somebody listens.
pub(crate) fn events(views: &[Value]) -> Script {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 200\n\n: hello\n";
    let script = Script::new().request().say(head);
    let script = views.iter().fold(script, |script, view| script.say(format!("event: snapshot\ndata: {view}\n\n")));
    script.hold()
}

/// A server that says this to everybody.
pub(crate) async fn saying(script: Script) -> Server {
    let server = Server::start("admin").await.unwrap();
    server.scripts(move |_| script.clone());
    server
}

/// `carom top` with these arguments, and nothing in its environment that it reads.
pub(crate) fn command_of(args: &[&str]) -> Command {
    let mut command = command(["top"].iter().chain(args));
    command.env_remove("CAROM_ADMIN_TOKEN").env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command
}

pub(crate) async fn top(args: &[&str]) -> Ran {
    run(command_of(args).stdout(Stdio::piped()).stderr(Stdio::piped())).await
}
