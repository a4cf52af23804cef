//! Messages: what a node says to a client, and what a client says about ledgers, as JSON texts.

use crate::json::{self, JsonError};
use crate::ledger::merkle::{Hash, Head};
use serde_json::{Map, Value, json};

/// The longest message that nodes take: 128 KiB.
pub const LONGEST_MESSAGE: usize = 128 * 1024;
/// The longest message that is taken from a node: 8 MiB. Nodes send replies that are longer than what they take, for example of
/// a revocation registry with 9,000 entries.
pub const LONGEST_REPLY: usize = 8 << 20;
/// The ledger that says who the nodes are.
pub const POOL_LEDGER: u64 = 0;
/// The version of the protocol that is spoken here.
pub const PROTOCOL_VERSION: u64 = 2;

/// What a node says.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// REQACK: it has the request, and works on it.
    Ack {
        /// The request's number.
        req_id: u64,
    },
    /// REQNACK, REJECT: it does not do it.
    Refusal {
        /// The request's number.
        req_id: u64,
        /// Why.
        reason: String,
    },
    /// REPLY: it has done it.
    Reply {
        /// The request's number.
        req_id: u64,
        /// With this result.
        result: Value,
    },
    /// LEDGER_STATUS: how far its ledger goes, which is not beyond the one asked about.
    Status(Head),
    /// CONSISTENCY_PROOF: its ledger goes further.
    Proof(Proof),
    /// CATCHUP_REP: transactions.
    Transactions(Transactions),
    /// Something that nobody asked for, like `po`.
    Other,
}

/// What shows that a ledger is the beginning of a longer one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proof {
    /// The ledger that was asked about.
    pub old: Head,
    /// The one that the node has.
    pub new: Head,
    /// What shows that one is the beginning of the other.
    pub hashes: Vec<Hash>,
}

/// Some transactions of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Transactions {
    /// With their numbers, in order.
    pub transactions: Vec<(u64, Value)>,
    /// What shows that the ledger up to the last of them is the beginning of the one aimed at.
    pub proof: Vec<Hash>,
}

/// Why a text is no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Not JSON, or with a number that would not be the same here.
    #[error(transparent)]
    NotJson(#[from] JsonError),
    /// JSON, but nothing that says what kind of message it is.
    #[error("JSON, but no message")]
    NoMessage,
    /// A message that lacks something, or has something else there.
    #[error("{op} without a good {field:?}")]
    Field {
        /// What kind of message it is.
        op: String,
        /// What is missing.
        field: &'static str,
    },
    /// About another ledger than the pool's.
    #[error("{op} is about ledger {ledger}")]
    Ledger {
        /// What kind of message it is.
        op: String,
        /// The ledger.
        ledger: u64,
    },
}

impl Message {
    /// Reads what a node sent.
    ///
    /// # Errors
    /// When it is no message, or not a good one.
    pub fn parse(text: &[u8]) -> Result<Message, MessageError> {
        if text == b"po" {
            return Ok(Message::Other);
        }
        json::bounded(text)?;
        let value: Value = serde_json::from_slice(text).map_err(JsonError::from)?;
        let Value::Object(mut fields) = value else { return Err(MessageError::NoMessage) };
        let Some(Value::String(op)) = fields.remove("op") else { return Err(MessageError::NoMessage) };
        let mut reader = Reader { op: &op, fields };
        match op.as_str() {
            "REQACK" => Ok(Message::Ack { req_id: reader.req_id()? }),
            "REQNACK" | "REJECT" => {
                let reason = match reader.fields.remove("reason") {
                    Some(Value::String(reason)) => reason,
                    Some(reason) => reason.to_string(),
                    None => "no reason given".to_owned(),
                };
                Ok(Message::Refusal { req_id: reader.req_id()?, reason })
            }
            "REPLY" => reader.reply(),
            "LEDGER_STATUS" => Ok(Message::Status(reader.head("txnSeqNo", "merkleRoot")?)),
            "CONSISTENCY_PROOF" => reader.proof(),
            // These are hashed.
            "CATCHUP_REP" => json::exact(text).map_err(MessageError::from).and_then(|()| reader.transactions()),
            _ => Ok(Message::Other),
        }
    }
}

/// Asks how far a node's pool ledger goes, given how far ours does.
pub fn status_request(head: &Head) -> String {
    json!({
        "op": "LEDGER_STATUS", "ledgerId": POOL_LEDGER, "txnSeqNo": head.size,
        "merkleRoot": head.root_base58(), "viewNo": null, "ppSeqNo": null,
        "protocolVersion": PROTOCOL_VERSION,
    })
    .to_string()
}

/// Asks for the transactions from `start` to `end` of a ledger that goes to `till`.
pub fn catch_up_request(start: u64, end: u64, till: u64) -> String {
    json!({
        "op": "CATCHUP_REQ", "ledgerId": POOL_LEDGER, "seqNoStart": start, "seqNoEnd": end, "catchupTill": till,
    })
    .to_string()
}

struct Reader<'o> {
    op: &'o str,
    fields: Map<String, Value>,
}

impl Reader<'_> {
    fn wrong(&self, field: &'static str) -> MessageError {
        MessageError::Field { op: self.op.to_owned(), field }
    }

    fn number(&self, field: &'static str) -> Result<u64, MessageError> {
        self.fields.get(field).and_then(Value::as_u64).ok_or_else(|| self.wrong(field))
    }

    fn req_id(&self) -> Result<u64, MessageError> {
        let within = || self.fields.get("metadata")?.get("reqId");
        let found = self.fields.get("reqId").or_else(within).and_then(Value::as_u64);
        found.ok_or_else(|| self.wrong("reqId"))
    }

    fn reply(&mut self) -> Result<Message, MessageError> {
        let result = self.fields.remove("result").ok_or_else(|| self.wrong("result"))?;
        // Reads say it themselves, writes have it in the transaction that they made.
        let req_id = result.get("reqId").or_else(|| result.get("txn")?.get("metadata")?.get("reqId"));
        let req_id = req_id.and_then(Value::as_u64).ok_or_else(|| self.wrong("reqId"))?;
        Ok(Message::Reply { req_id, result })
    }

    fn of_pool(&self) -> Result<(), MessageError> {
        match self.number("ledgerId")? {
            POOL_LEDGER => Ok(()),
            ledger => Err(MessageError::Ledger { op: self.op.to_owned(), ledger }),
        }
    }

    fn head(&self, size: &'static str, root: &'static str) -> Result<Head, MessageError> {
        self.of_pool()?;
        let hash = self.fields.get(root).and_then(hash).ok_or_else(|| self.wrong(root))?;
        Ok(Head { size: self.number(size)?, root: hash })
    }

    fn hashes(&self, field: &'static str) -> Result<Vec<Hash>, MessageError> {
        let hashes = self.fields.get(field).and_then(Value::as_array).ok_or_else(|| self.wrong(field))?;
        hashes.iter().map(hash).collect::<Option<_>>().ok_or_else(|| self.wrong(field))
    }

    fn proof(&self) -> Result<Message, MessageError> {
        let (old, new) = (self.head("seqNoStart", "oldMerkleRoot")?, self.head("seqNoEnd", "newMerkleRoot")?);
        Ok(Message::Proof(Proof { old, new, hashes: self.hashes("hashes")? }))
    }

    fn transactions(&mut self) -> Result<Message, MessageError> {
        self.of_pool()?;
        let Some(Value::Object(numbered)) = self.fields.remove("txns") else { return Err(self.wrong("txns")) };
        let numbered = numbered.into_iter().map(|(number, value)| Some((number.parse().ok()?, value)));
        let mut transactions: Vec<(u64, Value)> = numbered.collect::<Option<_>>().ok_or_else(|| self.wrong("txns"))?;
        transactions.sort_unstable_by_key(|(number, _)| *number);
        Ok(Message::Transactions(Transactions { transactions, proof: self.hashes("consProof")? }))
    }
}

fn hash(value: &Value) -> Option<Hash> {
    // Longer texts are no hash, and cost more than they are worth.
    let text = value.as_str().filter(|text| text.len() <= 44)?;
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: Value) -> Result<Message, String> {
        Message::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_integer_that_is_too_large_is_refused_in_what_is_hashed_alone() {
        let reply = br#"{"op":"REPLY","result":{"reqId":7,"data":123456789012345678901234567890}}"#;
        assert!(matches!(Message::parse(reply), Ok(Message::Reply { .. })));
        let hashed =
            br#"{"op":"CATCHUP_REP","ledgerId":0,"consProof":[],"txns":{"1":{"n":123456789012345678901234567890}}}"#;
        let refused = Message::parse(hashed).map_err(|error| error.to_string());
        assert_eq!(refused, Err("the integer 123456789012345678901234567890 cannot be held exactly".into()));
    }

    #[test]
    fn numbers_of_requests_are_found_wherever_nodes_put_them() {
        assert_eq!(parsed(json!({"op": "REQACK", "identifier": "x", "reqId": 7})), Ok(Message::Ack { req_id: 7 }));
        let refusal = Ok(Message::Refusal { req_id: 7, reason: "no".into() });
        assert_eq!(parsed(json!({"op": "REQNACK", "reason": "no", "reqId": 7})), refusal);
        assert_eq!(parsed(json!({"op": "REJECT", "reason": "no", "metadata": {"reqId": 7}})), refusal);
        for result in [json!({"reqId": 7, "data": 1}), json!({"txn": {"metadata": {"reqId": 7}}})] {
            assert_eq!(parsed(json!({"op": "REPLY", "result": result})), Ok(Message::Reply { req_id: 7, result }));
        }
        let error = parsed(json!({"op": "REPLY", "result": {"reqId": -1}}));
        assert_eq!(error, Err("REPLY without a good \"reqId\"".into()));
    }

    #[test]
    fn what_nobody_asked_for_is_no_error() {
        assert!(matches!(Message::parse(b"po"), Ok(Message::Other)));
        assert_eq!(parsed(json!({"op": "BATCH"})), Ok(Message::Other));
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(parsed(json!([1])), Err("JSON, but no message".into()));
        assert_eq!(parsed(json!({"op": 7})), Err("JSON, but no message".into()));
        assert!(matches!(Message::parse(b"pong?"), Err(MessageError::NotJson(_))));
        assert!(matches!(Message::parse("[".repeat(100_000).as_bytes()), Err(MessageError::NotJson(_))));
    }

    #[test]
    fn what_is_said_of_other_ledgers_or_with_bad_hashes_is_refused() {
        let root = bs58::encode([7; 32]).into_string();
        let status = |ledger: u64, root: &str| json!({"op": "LEDGER_STATUS", "ledgerId": ledger, "txnSeqNo": 4, "merkleRoot": root});
        assert_eq!(parsed(status(0, &root)), Ok(Message::Status(Head { size: 4, root: [7; 32] })));
        assert_eq!(parsed(status(1, &root)), Err("LEDGER_STATUS is about ledger 1".into()));
        assert_eq!(parsed(status(0, "abc")), Err("LEDGER_STATUS without a good \"merkleRoot\"".into()));
    }
}
