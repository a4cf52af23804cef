//! The genesis: the first transactions of a pool's ledger, one JSON text a line, which is what one knows of a pool before asking.

use crate::json;
use crate::ledger::{Cache, Ledger, Transaction};
use crate::node::{Node, Place, Problem, Skipped, Validators, check, validators};
use std::path::Path;

/// Why a text is not the genesis of a pool.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// There is nothing in it.
    #[error("the genesis holds no transactions")]
    Empty,
    /// A line that is not the transaction that is due there. The genesis is the trust anchor, so none of it is used.
    #[error("the genesis is damaged: {0}")]
    Damaged(Skipped),
    /// Nobody to ask.
    #[error("the genesis names no validator that can be used{}", first(skipped))]
    NoNodes {
        /// What was left out, and why.
        skipped: Vec<Skipped>,
    },
}

fn first(skipped: &[Skipped]) -> String {
    skipped.first().map_or_else(String::new, |skipped| format!(" ({skipped})"))
}

/// The first transactions of a ledger, and the nodes that they name.
///
/// ```
/// use carom_indy::Genesis;
///
/// let text = r#"{"reqSignature":{},"txn":{"data":{"data":{"alias":"Node1","client_ip":"10.0.0.1","client_port":9702,
///     "services":["VALIDATOR"]},"dest":"Gw6pDLhcBcoQesN72qfotTgFa7cbuqZpkX3Xo6pLhPhv"},"type":"0"},
///     "txnMetadata":{"seqNo":1},"ver":"1"}"#;
/// let genesis = Genesis::parse(&text.replace('\n', ""))?;
/// assert_eq!(genesis.nodes()[0].alias, "Node1");
/// # Ok::<(), carom_indy::GenesisError>(())
/// ```
#[derive(Debug)]
pub struct Genesis {
    ledger: Ledger,
    nodes: Vec<Node>,
    validators: usize,
    skipped: Vec<Skipped>,
}

impl Genesis {
    /// Reads a genesis. A validator that cannot be used is left out of the [nodes](Self::nodes) with a warning, and still
    /// [counts](Self::validators); see [`skipped`](Self::skipped).
    ///
    /// A file that was cut exactly between two lines cannot be told from a shorter genesis.
    ///
    /// # Errors
    /// When a line is not the transaction that is due there (not JSON, not a transaction, or with another `seqNo`), and when no
    /// validator can be used.
    pub fn parse(text: &str) -> Result<Genesis, GenesisError> {
        let (mut transactions, mut places) = (Vec::new(), Vec::new());
        // Some editors begin a file with a mark that is no JSON.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = Place::Line(number + 1);
            let transaction = transaction(line, transactions.len() as u64 + 1);
            transactions.push(transaction.map_err(|problem| GenesisError::Damaged(Skipped { place, problem }))?);
            places.push(place);
        }
        if transactions.is_empty() {
            return Err(GenesisError::Empty);
        }
        let ledger: Ledger = transactions.into_iter().collect();
        let values = ledger.transactions().iter().map(Transaction::value);
        let Validators { nodes, count, skipped } = validators(places.into_iter().zip(values));
        for skipped in &skipped {
            tracing::warn!("the genesis has a validator that cannot be used, {skipped}");
        }
        if nodes.is_empty() {
            return Err(GenesisError::NoNodes { skipped });
        }
        Ok(Genesis { ledger, nodes, validators: count, skipped })
    }

    /// The ledger to begin with.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// The file in this folder for the ledger that begins so.
    pub fn cache(&self, folder: impl AsRef<Path>) -> Cache {
        Cache::new(folder, self.ledger.head())
    }

    /// The validators that can be used.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many validators there are, usable or not.
    pub fn validators(&self) -> usize {
        self.validators
    }

    /// What was left out, and why.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }
}

/// The transaction with this number.
fn transaction(line: &str, number: u64) -> Result<Transaction, Problem> {
    let value = json::read(line.as_bytes()).map_err(Problem::NotJson)?;
    check(&value, number)?;
    Transaction::new(value).map_err(Problem::NotTransaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KEYS: [&str; 2] =
        ["Gw6pDLhcBcoQesN72qfotTgFa7cbuqZpkX3Xo6pLhPhv", "8ECVSk179mjsjKRLWiQtssMLgp6EPhWXtaYyStWPSGAb"];

    fn line(dest: &str, told: Value) -> Value {
        json!({"txn": {"type": "0", "data": {"dest": dest, "data": told}}, "ver": "1"})
    }

    /// Transactions, numbered.
    fn text(transactions: &[Value]) -> String {
        let lines = transactions.iter().zip(1..).map(|(transaction, number)| {
            let mut transaction = transaction.clone();
            transaction["txnMetadata"]["seqNo"] = number.into();
            format!("{transaction}\r\n")
        });
        lines.collect()
    }

    fn told(alias: &str, port: Value) -> Value {
        json!({"alias": alias, "client_ip": "10.0.0.1", "client_port": port, "services": ["VALIDATOR"]})
    }

    /// Why a validator cannot be used. It counts all the same.
    fn problem(line: Value) -> String {
        let good = self::line(KEYS[1], told("good", json!(1)));
        let genesis = Genesis::parse(&text(&[good, line]).replace('\r', "\n")).unwrap();
        assert_eq!((genesis.nodes().len(), genesis.skipped().len()), (1, 1), "{genesis:?}");
        assert_eq!((genesis.validators(), genesis.ledger().head().size), (2, 2), "{genesis:?}");
        genesis.skipped()[0].to_string()
    }

    #[test]
    fn ports_are_texts_or_numbers_and_later_lines_change_earlier_ones() {
        let lines = [
            line(KEYS[0], told("a", json!("9702"))),
            line(KEYS[1], told("b", json!(9703))),
            line(KEYS[0], json!({"alias": "a", "client_ip": "::1"})),
            json!({"txn": {"type": "1", "data": {}}}),
        ];
        let genesis = Genesis::parse(&text(&lines)).unwrap();
        let nodes: Vec<_> =
            genesis.nodes().iter().map(|node| (node.alias.as_str(), node.address.to_string())).collect();
        assert_eq!(nodes, [("a", "[::1]:9702".to_owned()), ("b", "10.0.0.1:9703".to_owned())]);
        assert_eq!((genesis.ledger().head().size, genesis.skipped().len()), (4, 0));
        let removed = Genesis::parse(&text(&[&lines[..], &[line(KEYS[0], json!({"services": []}))]].concat())).unwrap();
        assert_eq!(removed.nodes().len(), 1);
    }

    #[test]
    fn an_unusable_validator_is_skipped_with_its_line_and_a_reason() {
        let of = |told| problem(line(KEYS[0], told));
        assert!(of(told("a", json!(0))).ends_with("line 3: the client_port of a is not a number from 1 to 65535: 0"));
        assert!(of(told("a", json!("70000"))).ends_with("from 1 to 65535: \"70000\""));
        assert!(of(told("a", json!(null))).ends_with("from 1 to 65535: null"));
        assert!(of(json!({"alias": "a", "client_port": 1, "services": ["VALIDATOR"]})).ends_with("host name: nothing"));
        assert!(of(told("", json!(1))).ends_with("the node has no alias"));
        assert!(of(told("good", json!(1))).ends_with("another node is called \"good\" too"));
        assert!(problem(line("0OIl", told("a", json!(1)))).ends_with("\"0OIl\" is not 32 bytes in base58"));
        let no_point = bs58::encode([2; 32]).into_string();
        assert!(problem(line(&no_point, told("a", json!(1)))).contains("is not a point of the curve"), "{no_point}");
    }

    #[test]
    fn a_host_name_is_an_address_and_anything_else_is_not() {
        let of = |host: &str| {
            let mut told = told("a", json!(9702));
            told["client_ip"] = host.into();
            Genesis::parse(&text(&[line(KEYS[1], self::told("good", json!(1))), line(KEYS[0], told)])).unwrap()
        };
        for host in ["localhost", "node-1.example.org", "node_1.example.org.", "1.example", "xn--bcher-kva.example"] {
            let genesis = of(host);
            assert_eq!(genesis.nodes()[1].address.to_string(), format!("{host}:9702"), "{genesis:?}");
        }
        let long = "a".repeat(64);
        for host in ["", ".", "a..b", "10.0.0.256", "10.0.0", "a b", "a\u{1b}[2J", "b\u{fc}cher", "[::1]", &*long] {
            let genesis = of(host);
            assert_eq!((genesis.nodes().len(), genesis.validators()), (1, 2), "{host:?} is not usable but counts");
            assert!(genesis.skipped()[0].to_string().contains("neither an IP address nor a host name"), "{genesis:?}");
        }
    }

    #[test]
    fn a_long_key_takes_no_longer_and_is_not_shown_in_full() {
        let found = problem(line(&"z".repeat(1 << 20), told("a", json!(1))));
        let shown = format!("\"{}... (1048576 bytes)\" is not 32 bytes in base58", "z".repeat(64));
        assert!(found.ends_with(&shown), "{found}");
        let found = problem(line(KEYS[0], told(&"a".repeat(1 << 20), json!("b".repeat(1 << 20)))));
        assert!(found.len() < 400, "{found}");
    }

    #[test]
    fn services_that_are_not_a_list_of_strings_are_an_error() {
        for services in
            [json!("VALIDATOR"), json!({"VALIDATOR": true}), json!([1]), json!([["VALIDATOR"]]), json!(null)]
        {
            let told = json!({"alias": "b", "client_ip": "10.0.0.1", "client_port": 2, "services": services});
            let lines = text(&[line(KEYS[0], self::told("a", json!(1))), line(KEYS[1], told)]);
            let error = Genesis::parse(&lines).unwrap_err().to_string();
            let wanted = "the genesis is damaged: line 2: the services of the node are not a list of strings: ";
            assert_eq!(error, format!("{wanted}{services}"));
        }
    }

    #[test]
    fn later_transaction_with_malformed_services_counts_as_a_validator() {
        let malformed = json!({"services": "VALIDATOR"});
        let transactions =
            [line(KEYS[0], told("a", json!(1))), line(KEYS[1], told("b", json!(2))), line(KEYS[1], malformed)];
        let found = validators((1..).map(Place::Line).zip(transactions));
        assert_eq!(found.count, 2);
    }

    #[test]
    fn a_line_that_is_not_the_transaction_due_there_is_an_error() {
        let good = line(KEYS[0], told("a", json!(1)));
        let one = text(std::slice::from_ref(&good));
        assert_eq!(Genesis::parse(&one).unwrap().ledger().head().size, 1);
        for bad in ["{", "{}", "42", "null", "\"x\"", "[]", r#"{"txn":{}}"#, r#"{"txn":{"type":"0"}}"#, "// x", "-0"] {
            let error = Genesis::parse(&format!("{one}{bad}")).unwrap_err().to_string();
            assert!(error.starts_with("the genesis is damaged: line 2: "), "{bad}: {error}");
        }
        let two = text(&[good, line(KEYS[1], told("b", json!(1)))]);
        for (end, _) in two.char_indices().filter(|(end, _)| two[one.len()..].trim_end().len() + one.len() > *end) {
            let cut = Genesis::parse(&two[..end]);
            assert!(cut.is_err() || cut.unwrap().ledger().head().size == 1, "cut at {end}");
        }
        let error = Genesis::parse(&two.replace("\"seqNo\":2", "\"seqNo\":3")).unwrap_err().to_string();
        assert_eq!(error, "the genesis is damaged: line 2: its seqNo is 3, and 2 is due");
    }

    #[test]
    fn a_genesis_without_validators_is_an_error_that_says_why() {
        assert_eq!(Genesis::parse("\n \n").unwrap_err().to_string(), "the genesis holds no transactions");
        let error = Genesis::parse("<html>").unwrap_err().to_string();
        assert!(error.starts_with("the genesis is damaged: line 1: not JSON: expected value"), "{error}");
        let none = Genesis::parse(&text(&[line(KEYS[0], json!({"alias": "a"}))])).unwrap_err().to_string();
        assert_eq!(none, "the genesis names no validator that can be used");
    }
}
