//! `carom ledger`, beside nodes that do as they are told.
use crate::program::{Ran, command, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::indy;
use tokio::process::Command;

/// Four nodes, and a folder with their genesis that is gone with the test.
pub(crate) struct Pool {
    pub(crate) nodes: indy::Pool,
    folder: PathBuf,
}

impl Pool {
    pub(crate) async fn start() -> Pool {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = format!("{}/ledger-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        std::fs::create_dir_all(&folder).unwrap();
        let pool = Pool { nodes: indy::Pool::start(4).await.unwrap(), folder: folder.into() };
        pool.file("genesis", &pool.nodes.genesis());
        pool
    }

    /// A file with this text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The program with these arguments and the genesis.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(["ledger", "--genesis"]);
        command.arg(self.folder.join("genesis")).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn ledger(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args)).await
    }

    /// What was asked of all nodes, by its kind.
    pub(crate) fn asked(&self, op: &str) -> usize {
        (0..4).flat_map(|node| self.nodes.heard(node)).filter(|asked| asked["op"] == op).count()
    }

    /// How many requests each node has heard.
    pub(crate) fn requests(&self) -> Vec<usize> {
        let is_request = |asked: &Value| asked.get("reqId").is_some();
        (0..4).map(|node| self.nodes.heard(node).iter().filter(|asked| is_request(asked)).count()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// NYM, signed by nobody that nodes would ask about.
pub(crate) fn nym(req_id: u64) -> Value {
    json!({
        "identifier": "Th7MpTaRZVRYnPiabds81Y", "reqId": req_id, "protocolVersion": 2, "signature": "4TFMixfL",
        "operation": {"type": "1", "dest": format!("did{req_id}")},
    })
}

/// The one line of JSON on stdout, of a run that went well and said nothing else.
pub(crate) fn json_of(ran: &Ran) -> Value {
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert_eq!((ran.stdout.lines().count(), ran.stdout.ends_with('\n')), (1, true), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}
