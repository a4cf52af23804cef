//! What a command line for `carom ledger` means: which pool, how patiently, what to ask, and how to print it.

use super::Layout;
use crate::args::{self, LedgerName};
use crate::failure::Failure;
use crate::files;
use carom_indy::message::{LONGEST_MESSAGE, PROTOCOL_VERSION};
use carom_indy::{Request as Asked, SubmitError};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No genesis comes near; what is longer is something else, perhaps without an end.
const LONGEST_GENESIS: u64 = 64 << 20;
/// Reads need no identity of anybody's, but nodes want one that could be.
const NOBODY: &str = "LibindyDid111111111111";

/// What is to be done.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) genesis: String,
    pub(super) genesis_file: PathBuf,
    pub(super) cache: Option<PathBuf>,
    pub(super) ack_timeout: Duration,
    pub(super) reply_timeout: Duration,
    pub(super) question: Question,
    pub(super) layout: Layout,
}

#[derive(Debug)]
pub(super) enum Question {
    Status,
    Transaction { number: u64, ledger: LedgerName, request: Asked },
    Submit(Asked),
}

impl Request {
    pub(super) fn new(args: args::Ledger) -> Result<Request, Failure> {
        let args::Ledger { genesis, cache, json, ack_timeout, reply_timeout, question } = args;
        let missing = || Failure::Usage("--genesis is missing: the file that a pool is known by".to_owned());
        let genesis_file = genesis.ok_or_else(missing)?;
        if reply_timeout < ack_timeout {
            let problem = format!("--reply-timeout {reply_timeout:?} is below --ack-timeout {ack_timeout:?}");
            return Err(Failure::Usage(format!("{problem}, which is a part of it")));
        }
        let question = match question {
            args::Question::Status => Question::Status,
            args::Question::GetTxn { number, ledger } => {
                Question::Transaction { number, ledger, request: get_txn(number, ledger)? }
            }
            args::Question::Submit { file } => Question::Submit(submitted(&file)?),
        };
        let genesis = files::read(&genesis_file, LONGEST_GENESIS)?;
        let layout = match (json, io::stdout().is_terminal()) {
            (true, _) => Layout::Json,
            (false, true) => Layout::People,
            (false, false) => Layout::Pipe,
        };
        Ok(Request { genesis, genesis_file, cache, ack_timeout, reply_timeout, question, layout })
    }
}

fn get_txn(number: u64, ledger: LedgerName) -> Result<Asked, Failure> {
    // Unlike any that anybody else gives: answers are told apart by it.
    let req_id = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let request = json!({
        "identifier": NOBODY, "reqId": req_id, "protocolVersion": PROTOCOL_VERSION,
        "operation": {"type": "3", "ledgerId": number_of(ledger), "data": number},
    });
    (&request).try_into().map_err(|error: SubmitError| Failure::Input(error.to_string()))
}

fn number_of(ledger: LedgerName) -> u64 {
    match ledger {
        LedgerName::Pool => 0,
        LedgerName::Domain => 1,
        LedgerName::Config => 2,
        LedgerName::Audit => 3,
    }
}

/// The request in a file. Whatever surrounds it is left out.
fn submitted(file: &Path) -> Result<Asked, Failure> {
    // Enough to tell that it is too long.
    let text = files::read(file, LONGEST_MESSAGE as u64 * 2)?;
    Asked::parse(text.trim()).map_err(|error| Failure::Input(files::of_no_use(file, error)))
}
