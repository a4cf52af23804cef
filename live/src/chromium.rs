//! Chromium without a window, driven over its DevTools protocol: what a page shows, what it asks for, and what it complains of.

use crate::process::{Folder, Running, command, tail};
use crate::{ms, until};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Machines that run this can be slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// It is to ask nobody for anything but what the page asks for.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
];

type Socket = WebSocketStream<TcpStream>;

/// A browser with one page. Its drop ends it.
pub struct Chromium {
    sink: SplitSink<Socket, Message>,
    shared: Arc<Mutex<Shared>>,
    session: String,
    next: u64,
    _reader: JoinSet<()>,
    _running: Running,
    _folder: Folder,
}

#[derive(Default)]
struct Shared {
    asked: HashMap<u64, oneshot::Sender<Value>>,
    noted: Noted,
}

/// What the page did by the way.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Every address that was asked for.
    pub requested: Vec<String>,
    /// Exceptions, complaints on the console, and what the browser forbade.
    pub complaints: Vec<String>,
    /// Requests that failed or were answered with an error.
    pub refused: Vec<String>,
}

impl Chromium {
    pub async fn start() -> Chromium {
        let folder = Folder::new("chromium", None);
        let profile = folder.path().join("profile");
        let mut command = command(Path::new("chromium"), None, &folder);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.env("HOME", folder.path());
        let log = folder.path().join("log");
        let mut running = Running::start(command, &log);
        let (port, path) = until(PATIENCE, async || {
            if let Some(status) = running.ended() {
                panic!("it ended ({status}):\n{}", tail(&log));
            }
            let text = fs::read_to_string(profile.join("DevToolsActivePort")).map_err(|error| error.to_string())?;
            let mut lines = text.lines();
            let port = lines.next().and_then(|line| line.parse::<u16>().ok());
            port.zip(lines.next().map(str::to_owned)).ok_or_else(|| format!("no port yet: {text:?}"))
        })
        .await;
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        // Pictures are long messages.
        let config = WebSocketConfig::default().max_message_size(Some(64 << 20)).max_frame_size(Some(64 << 20));
        let opened = client_async_with_config(format!("ws://127.0.0.1:{port}{path}"), stream, Some(config)).await;
        let (sink, source) = opened.expect("it speaks WebSocket").0.split();
        let shared = Arc::default();
        let mut reader = JoinSet::new();
        reader.spawn(read(source, Arc::clone(&shared)));
        let session = String::new();
        let mut this = Chromium { sink, shared, session, next: 0, _reader: reader, _running: running, _folder: folder };
        let target = this.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = this.call("Target.attachToTarget", attach).await;
        this.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            this.call(&format!("{domain}.enable"), json!({})).await;
        }
        this
    }

    pub async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url})).await;
        self.until("document.readyState === 'complete'").await;
    }

    /// Every page from now on runs this before anything of its own.
    pub async fn prepare(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})).await;
    }

    /// What this expression comes to.
    pub async fn eval(&mut self, expression: &str) -> Value {
        self.try_eval(expression).await.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The same; an error if the page is left before the browser has the value.
    async fn try_eval(&mut self, expression: &str) -> Result<Value, Value> {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut evaluated = self.try_call("Runtime.evaluate", ask).await?;
        assert!(evaluated.get("exceptionDetails").is_none(), "{expression}: {:#}", evaluated["exceptionDetails"]);
        Ok(evaluated["result"]["value"].take())
    }

    /// Waits until this expression comes to true, also across a reload; if that takes too long, with what the page shows.
    pub async fn until(&mut self, expression: &str) {
        let looking = async {
            while self.try_eval(expression).await != Ok(Value::Bool(true)) {
                tokio::time::sleep(ms(30)).await;
            }
        };
        if timeout(PATIENCE, looking).await.is_err() {
            let text = self.eval("document.body.innerText").await;
            panic!("it does not come to {expression}:\n{}\n{:#?}", text.as_str().unwrap_or_default(), self.noted());
        }
    }

    /// Waits until the page shows this text.
    pub async fn shows(&mut self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    pub async fn viewport(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// What media queries find, by feature; all that is not named is as usual.
    pub async fn media(&mut self, features: &[(&str, &str)]) {
        let features: Vec<Value> = features.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// A key by its name, such as `Tab` or `?`.
    pub async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            " " => (32, " "),
            typed => (u32::from(typed.chars().next().unwrap_or_default().to_ascii_uppercase()), typed),
        };
        let mut down = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", down.clone()).await;
        down["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", down).await;
    }

    /// Types into whatever has the focus.
    pub async fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// What is in view, as a PNG.
    pub async fn picture(&mut self) -> Vec<u8> {
        let told = self.call("Page.captureScreenshot", json!({"format": "png", "optimizeForSpeed": false})).await;
        BASE64_STANDARD.decode(told["data"].as_str().expect("a picture")).expect("base64")
    }

    pub fn noted(&self) -> Noted {
        self.shared.lock().expect("nobody panics with it").noted.clone()
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let (tell, told) = oneshot::channel();
        self.shared.lock().expect("nobody panics with it").asked.insert(self.next, tell);
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.sink.send(Message::text(message.to_string())).await.expect("it listens");
        let mut response = timeout(PATIENCE, told).await.expect("it answers").expect("it is there");
        match response.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(response["result"].take()),
        }
    }
}

async fn read(mut source: SplitStream<Socket>, shared: Arc<Mutex<Shared>>) {
    while let Some(Ok(message)) = source.next().await {
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).expect("it speaks JSON");
        let mut shared = shared.lock().expect("nobody panics with it");
        match message["id"].as_u64() {
            // Whoever asked may be gone.
            Some(id) => drop(shared.asked.remove(&id).map(|asked| asked.send(message))),
            None => shared.noted.take(&message),
        }
    }
}

impl Noted {
    fn take(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.requested.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if ["error", "warning", "assert"].iter().any(|bad| params["type"] == *bad) => {
                self.complaints.push(params["args"].to_string());
            }
            "Log.entryAdded" if params["entry"]["source"] == "network" => {
                self.refused.push(params["entry"].to_string())
            }
            "Log.entryAdded" if params["entry"]["level"] != "verbose" => {
                self.complaints.push(params["entry"].to_string())
            }
            _ => {}
        }
    }
}
