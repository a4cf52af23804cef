//! What tests of pools have in common.
use serde_json::{Value, json};
use testkit::indy;
pub(crate) use testkit::wait::{ms, soon};

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
