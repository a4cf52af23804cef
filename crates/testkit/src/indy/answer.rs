//! What a node answers to what it hears.

use super::Conduct;
use super::world::{Node, World};
use carom_indy::ledger::merkle::{Hash, prove};
use carom_indy::message::LONGEST_MESSAGE;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What is to be said, and how much later; or that the socket is to go.
pub(super) enum Out {
    Say(Duration, String),
    Close,
}

impl World {
    pub(super) fn answer(&mut self, node: usize, text: &[u8]) -> Vec<Out> {
        if text == b"pi" {
            return vec![Out::Say(Duration::ZERO, "po".into())];
        }
        // Nodes drop what is too long, and what they cannot read.
        let Ok(asked) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
        if text.len() > LONGEST_MESSAGE {
            return Vec::new();
        }
        self.nodes[node].heard.push(asked.clone());
        let honest = match asked["op"].as_str() {
            Some("LEDGER_STATUS") => self.nodes[node].status(&asked),
            Some("CATCHUP_REQ") => self.nodes[node].transactions(&asked),
            Some(_) => Vec::new(),
            None => self.request(node, &asked),
        };
        self.nodes[node].conduct.bend(&asked, honest)
    }

    /// A request: perhaps an acknowledgement, and an answer.
    fn request(&mut self, node: usize, asked: &Value) -> Vec<Value> {
        let (Some(req_id), Some(kind)) = (asked["reqId"].as_u64(), asked["operation"]["type"].as_str()) else {
            return Vec::new();
        };
        let (asked_by, operation) = (asked["identifier"].clone(), &asked["operation"]);
        let acknowledged = say(asked, "REQACK", json!({}));
        let reply = |result: Value| json!({"op": "REPLY", "result": result});
        match kind {
            "3" => {
                let found = self.nodes[node].transaction_at(operation);
                let seq_no = operation["data"].clone();
                vec![reply(
                    json!({"identifier": asked_by, "reqId": req_id, "type": "3", "seqNo": seq_no, "data": found}),
                )]
            }
            // Each node adds proofs of its own.
            "105" | "117" => {
                let mut data = json!({"dest": operation["dest"], "revocRegDefId": operation["revocRegDefId"]});
                let proof = json!({"proof_nodes": self.nodes[node].alias, "root_hash": "11111111"});
                if kind == "117" {
                    data["stateProofFrom"] = proof.clone();
                }
                let result = json!({
                    "identifier": asked_by, "reqId": req_id, "type": kind, "data": data, "state_proof": proof,
                });
                vec![acknowledged, reply(result)]
            }
            "1" => {
                let count = self.written.len();
                let result = self.written.entry((asked_by.to_string(), req_id)).or_insert_with(|| {
                    let mut written = operation.clone();
                    written.as_object_mut().map(|written| written.remove("type"));
                    json!({
                        "txn": {"type": "1", "data": written, "metadata": {"from": asked_by, "reqId": req_id}},
                        "txnMetadata": {"seqNo": count + 1}, "ver": "1",
                    })
                });
                vec![acknowledged, reply(result.clone())]
            }
            "119" => {
                let about = json!({"alias": self.nodes[node].alias});
                let result = json!({"identifier": asked_by, "reqId": req_id, "type": "119", "data": about});
                vec![acknowledged, reply(result)]
            }
            kind => vec![say(asked, "REQNACK", json!({"reason": format!("invalid type: {kind}")}))],
        }
    }
}

/// About a request, by its number.
fn say(asked: &Value, op: &str, more: Value) -> Value {
    let mut said = json!({"op": op, "identifier": asked["identifier"], "reqId": asked["reqId"]});
    for (name, value) in more.as_object().into_iter().flatten() {
        said[name] = value.clone();
    }
    said
}

impl Node {
    fn status(&self, asked: &Value) -> Vec<Value> {
        let (theirs, size) = (asked["txnSeqNo"].as_u64().unwrap_or(0) as usize, self.ledger.len());
        if asked["ledgerId"] != 0 {
            return Vec::new();
        }
        if theirs >= size {
            return vec![json!({
                "op": "LEDGER_STATUS", "ledgerId": 0, "txnSeqNo": size, "merkleRoot": self.root(size),
                "viewNo": null, "ppSeqNo": null, "protocolVersion": 2,
            })];
        }
        vec![json!({
            "op": "CONSISTENCY_PROOF", "ledgerId": 0, "seqNoStart": theirs, "seqNoEnd": size, "viewNo": 0, "ppSeqNo": 0,
            "oldMerkleRoot": self.root(theirs), "newMerkleRoot": self.root(size),
            "hashes": encoded(&prove(&self.leaves, theirs)),
        })]
    }

    fn transactions(&self, asked: &Value) -> Vec<Value> {
        let number = |name: &str| asked[name].as_u64().unwrap_or(0) as usize;
        let (start, end, till) = (number("seqNoStart"), number("seqNoEnd"), number("catchupTill"));
        if start < 1 || start > end || end > till || till > self.ledger.len() || asked["ledgerId"] != 0 {
            return Vec::new();
        }
        let most = match self.conduct {
            Conduct::Splitting(most) | Conduct::SplittingSlowly(most, _) => most.max(1),
            _ => end,
        };
        let (mut parts, mut rest) = (Vec::new(), vec![(start, end)]);
        while let Some((start, end)) = rest.pop() {
            let part = self.part(start, end, till);
            let fits = end - start < most && part.to_string().len() <= LONGEST_MESSAGE;
            if fits || start == end {
                parts.push(part);
            } else {
                let middle = start + (end - start) / 2;
                rest.extend([(middle + 1, end), (start, middle)]);
            }
        }
        parts
    }

    fn part(&self, start: usize, end: usize, till: usize) -> Value {
        let last = if self.conduct == Conduct::Lacking { end - 1 } else { end };
        let transactions: Map<_, _> =
            (start..=last).map(|number| (number.to_string(), self.ledger[number - 1].clone())).collect();
        let proof = encoded(&prove(&self.leaves[..till], end));
        json!({"op": "CATCHUP_REP", "ledgerId": 0, "txns": transactions, "consProof": proof})
    }

    /// What GET_TXN says of a transaction; null if there is none.
    fn transaction_at(&self, operation: &Value) -> Value {
        let number = operation["data"].as_u64().unwrap_or(0) as usize;
        let found = number.checked_sub(1).and_then(|index| self.ledger.get(index));
        let Some(found) = found.filter(|_| operation["ledgerId"] == 0) else { return Value::Null };
        let mut found = found.clone();
        found["ledgerSize"] = self.ledger.len().into();
        found["rootHash"] = self.root(self.ledger.len()).into();
        found
    }
}

fn encoded(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(|hash| bs58::encode(hash).into_string()).collect()
}

impl Conduct {
    /// What becomes of an honest answer.
    fn bend(&self, asked: &Value, honest: Vec<Value>) -> Vec<Out> {
        let now = Duration::ZERO;
        let texts = |answers: Vec<Value>| answers.into_iter().map(move |answer| Out::Say(now, answer.to_string()));
        let is_ack = |answer: &Value| answer["op"] == "REQACK";
        let is_request = asked.get("operation").is_some();
        match self {
            Conduct::Honest | Conduct::Splitting(_) | Conduct::Lacking => texts(honest).collect(),
            Conduct::Mute => Vec::new(),
            Conduct::AckOnly if is_request => texts(vec![say(asked, "REQACK", json!({}))]).collect(),
            Conduct::Lying => texts(honest.into_iter().map(lied).collect()).collect(),
            Conduct::Slow(delay) => honest
                .into_iter()
                .map(|answer| Out::Say(if is_ack(&answer) { now } else { *delay }, answer.to_string()))
                .collect(),
            Conduct::SplittingSlowly(_, gap) => {
                let gaps = (1..).map(|parts: u32| *gap * parts);
                gaps.zip(honest).map(|(delay, part)| Out::Say(delay, part.to_string())).collect()
            }
            Conduct::Nack(reason) if is_request => {
                texts(vec![say(asked, "REQNACK", json!({"reason": reason}))]).collect()
            }
            Conduct::Reject(reason) if is_request => {
                texts(vec![say(asked, "REQACK", json!({})), say(asked, "REJECT", json!({"reason": reason}))]).collect()
            }
            Conduct::AckOnly | Conduct::Nack(_) | Conduct::Reject(_) => texts(honest).collect(),
            Conduct::Says(text) => vec![Out::Say(now, text.clone())],
            Conduct::Disconnects => vec![Out::Close],
            Conduct::Twice => honest.iter().chain(&honest).map(|answer| Out::Say(now, answer.to_string())).collect(),
        }
    }
}

/// The same answer with something in it that is not so.
fn lied(mut answer: Value) -> Value {
    let other = bs58::encode([7; 32]).into_string();
    match answer["op"].as_str() {
        Some("LEDGER_STATUS") => answer["merkleRoot"] = other.into(),
        Some("CONSISTENCY_PROOF") => answer["newMerkleRoot"] = other.into(),
        Some("CATCHUP_REP") => {
            for (_, transaction) in answer["txns"].as_object_mut().into_iter().flatten() {
                transaction["txn"]["data"]["data"]["services"] = json!([]);
            }
        }
        Some("REPLY") => answer["result"]["data"] = json!({"lie": true}),
        _ => {}
    }
    answer
}
