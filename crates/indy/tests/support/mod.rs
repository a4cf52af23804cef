//! What tests of pools have in common.
#![allow(dead_code, reason = "each test uses its part")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::indy;
use tokio::time::timeout;

/// What takes longer than this comes to nothing.
pub(crate) async fn soon<T>(wanted: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), wanted).await.expect("it came to nothing")
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// GET_TXN of the pool ledger.
pub(crate) fn read(req_id: u64, number: u64) -> Value {
    json!({
        "identifier": "LibindyDid111111111111", "reqId": req_id, "protocolVersion": 2,
        "operation": {"type": "3", "ledgerId": 0, "data": number},
    })
}

/// GET_NYM.
pub(crate) fn read_nym(req_id: u64) -> Value {
    json!({
        "identifier": "LibindyDid111111111111", "reqId": req_id, "protocolVersion": 2,
        "operation": {"type": "105", "dest": "V4SGRU86Z58d6TV7PBUe6f"},
    })
}

/// GET_REVOC_REG_DELTA.
pub(crate) fn read_delta(req_id: u64) -> Value {
    json!({
        "identifier": "LibindyDid111111111111", "reqId": req_id, "protocolVersion": 2,
        "operation": {"type": "117", "revocRegDefId": "registry", "from": 5, "to": 9},
    })
}

/// NYM.
pub(crate) fn write(req_id: u64) -> Value {
    json!({
        "identifier": "Th7MpTaRZVRYnPiabds81Y", "reqId": req_id, "protocolVersion": 2,
        "operation": {"type": "1", "dest": format!("did{req_id}")},
    })
}

/// GET_VALIDATOR_INFO.
pub(crate) fn information(req_id: u64) -> Value {
    json!({
        "identifier": "Th7MpTaRZVRYnPiabds81Y", "reqId": req_id, "protocolVersion": 2, "operation": {"type": "119"},
    })
}

/// How many requests each of four nodes has heard.
pub(crate) fn requests(nodes: &indy::Pool) -> Vec<usize> {
    (0..4).map(|node| nodes.heard(node).iter().filter(|asked| asked.get("reqId").is_some()).count()).collect()
}

/// A folder of its own, gone with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("carom-indy-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        Folder(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
