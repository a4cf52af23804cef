//! Kinds of requests: who is asked, and how many have to agree.

use serde_json::Value;

/// Who is asked, and how many have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Some nodes; more than may lie have to agree.
    Read,
    /// All nodes; more than may lie have to agree.
    Write,
    /// All nodes, each for itself.
    Each,
}

impl Kind {
    /// By the type of the operation. What is not known is taken for a write, which is right for a read too, and only asks more
    /// nodes than needed.
    pub(super) fn of(operation: &Value) -> Option<Kind> {
        Some(match operation.get("type")?.as_str()? {
            // GET_TXN, GET_TXN_AUTHR_AGRMT, GET_TXN_AUTHR_AGRMT_AML, GET_FROZEN_LEDGERS, GET_ATTR, GET_NYM
            "3" | "6" | "7" | "10" | "104" | "105" => Kind::Read,
            // GET_SCHEMA, GET_CRED_DEF, GET_REVOC_REG_DEF, GET_REVOC_REG, GET_REVOC_REG_DELTA, GET_AUTH_RULE
            "107" | "108" | "115" | "116" | "117" | "121" => Kind::Read,
            // POOL_RESTART, GET_VALIDATOR_INFO
            "118" | "119" => Kind::Each,
            _ => Kind::Write,
        })
    }
}
