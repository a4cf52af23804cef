//! The genesis: the first transactions of a pool's ledger, one JSON text a line, which is what one knows of a pool before asking.

use crate::json;
use crate::ledger::merkle::Hash;
use crate::ledger::{Cache, Ledger, Transaction};
use crate::node::{Node, Place, Problem, Skipped, Validators, about_node, validators};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Why a text is not the genesis of a pool.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// There is nothing in it.
    #[error("the genesis holds no transactions")]
    Empty,
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
///     "services":["VALIDATOR"]},"dest":"Gw6pDLhcBcoQesN72qfotTgFa7cbuqZpkX3Xo6pLhPhv"},"type":"0"},"ver":"1"}"#;
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
    /// The hash of the text, if there were lines that are no transactions.
    lacking: Option<Hash>,
}

impl Genesis {
    /// Reads a genesis. What is of no use is left out, with a warning that names its line; see [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// When no node is left.
    pub fn parse(text: &str) -> Result<Genesis, GenesisError> {
        let mut skipped = Vec::new();
        let (mut transactions, mut places) = (Vec::new(), Vec::new());
        // Some editors begin a file with a mark that is no JSON.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = Place::Line(number + 1);
            match transaction(line) {
                Ok(transaction) => {
                    transactions.push(transaction);
                    places.push(place);
                }
                Err(problem) => skipped.push(Skipped { place, problem }),
            }
        }
        let whole = skipped.is_empty();
        if transactions.is_empty() && whole {
            return Err(GenesisError::Empty);
        }
        let ledger: Ledger = transactions.into_iter().collect();
        let values = ledger.transactions().iter().map(Transaction::value);
        let Validators { nodes, count, skipped: unusable } = validators(places.into_iter().zip(values));
        skipped.extend(unusable);
        for skipped in &skipped {
            tracing::warn!("the genesis has an entry that is of no use, {skipped}");
        }
        if nodes.is_empty() {
            return Err(GenesisError::NoNodes { skipped });
        }
        let lacking = (!whole).then(|| Sha256::digest(text).into());
        Ok(Genesis { ledger, nodes, validators: count, skipped, lacking })
    }

    /// Whether every line is a transaction.
    pub fn is_whole(&self) -> bool {
        self.lacking.is_none()
    }

    /// The ledger to begin with. With lines left out nobody knows what its beginning was, and it is empty: then all of it is asked of
    /// the nodes.
    pub fn ledger(&self) -> Ledger {
        if self.is_whole() { self.ledger.clone() } else { Ledger::default() }
    }

    /// The file in this folder for the ledger that begins so. With lines left out it is known by the text, to the letter.
    pub fn cache(&self, folder: impl AsRef<Path>) -> Cache {
        match self.lacking {
            None => Cache::new(folder, self.ledger.head()),
            Some(text) => Cache::without_beginning(folder, text),
        }
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

/// A line that is JSON and no transaction was never in a ledger: it is no better than one that is not JSON.
fn transaction(line: &str) -> Result<Transaction, Problem> {
    let value = json::read(line.as_bytes()).map_err(Problem::NotJson)?;
    about_node(&value)?;
    Transaction::new(value).map_err(Problem::NotTransaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KEYS: [&str; 2] =
        ["Gw6pDLhcBcoQesN72qfotTgFa7cbuqZpkX3Xo6pLhPhv", "8ECVSk179mjsjKRLWiQtssMLgp6EPhWXtaYyStWPSGAb"];

    fn line(dest: &str, told: Value) -> String {
        json!({"txn": {"type": "0", "data": {"dest": dest, "data": told}}, "ver": "1"}).to_string()
    }

    fn told(alias: &str, port: Value) -> Value {
        json!({"alias": alias, "client_ip": "10.0.0.1", "client_port": port, "services": ["VALIDATOR"]})
    }

    fn problem(line: &str) -> String {
        let good = self::line(KEYS[1], told("good", json!(1)));
        let genesis = Genesis::parse(&format!("{good}\n\n{line}\n")).unwrap();
        assert_eq!((genesis.nodes().len(), genesis.skipped().len()), (1, 1), "{genesis:?}");
        genesis.skipped()[0].to_string()
    }

    #[test]
    fn ports_are_texts_or_numbers_and_later_lines_change_earlier_ones() {
        let text = [
            line(KEYS[0], told("a", json!("9702"))),
            line(KEYS[1], told("b", json!(9703))),
            line(KEYS[0], json!({"alias": "a", "client_ip": "::1"})),
            json!({"txn": {"type": "1", "data": {}}}).to_string(),
        ];
        let genesis = Genesis::parse(&text.join("\r\n")).unwrap();
        let nodes: Vec<_> =
            genesis.nodes().iter().map(|node| (node.alias.as_str(), node.address.to_string())).collect();
        assert_eq!(nodes, [("a", "[::1]:9702".to_owned()), ("b", "10.0.0.1:9703".to_owned())]);
        assert_eq!((genesis.ledger().head().size, genesis.skipped().len()), (4, 0));
        let removed =
            Genesis::parse(&[&text[..], &[line(KEYS[0], json!({"services": []}))]].concat().join("\n")).unwrap();
        assert_eq!(removed.nodes().len(), 1);
    }

    #[test]
    fn every_bad_entry_is_skipped_with_its_line_and_a_reason() {
        let of = |told| problem(&line(KEYS[0], told));
        assert!(problem("{\"txn\":").starts_with("line 3: not JSON: EOF while parsing"), "{}", problem("{"));
        assert_eq!(problem("{}"), "line 3: not a transaction of protocol version 2: it has no \"txn\"");
        assert!(of(told("a", json!(0))).ends_with("the client_port of a is not a number from 1 to 65535: 0"));
        assert!(of(told("a", json!("70000"))).ends_with("from 1 to 65535: \"70000\""));
        assert!(of(told("a", json!(null))).ends_with("from 1 to 65535: null"));
        assert!(of(json!({"alias": "a", "client_port": 1, "services": ["VALIDATOR"]})).ends_with("host name: nothing"));
        assert!(of(told("", json!(1))).ends_with("the node has no alias"));
        assert!(of(told("good", json!(1))).ends_with("another node is called \"good\" too"));
        assert!(problem(&line("0OIl", told("a", json!(1)))).ends_with("\"0OIl\" is not 32 bytes in base58"));
        let no_point = bs58::encode([2; 32]).into_string();
        assert!(problem(&line(&no_point, told("a", json!(1)))).contains("is not a point of the curve"), "{no_point}");
    }

    #[test]
    fn a_host_name_is_an_address_and_anything_else_is_not() {
        let of = |host: &str| {
            let mut told = told("a", json!(9702));
            told["client_ip"] = host.into();
            let text = [line(KEYS[1], self::told("good", json!(1))), line(KEYS[0], told)].join("\n");
            Genesis::parse(&text).unwrap()
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
        let found = problem(&line(&"z".repeat(1 << 20), told("a", json!(1))));
        let shown = format!("\"{}... (1048576 bytes)\" is not 32 bytes in base58", "z".repeat(64));
        assert!(found.ends_with(&shown), "{found}");
        let found = problem(&line(KEYS[0], told(&"a".repeat(1 << 20), json!("b".repeat(1 << 20)))));
        assert!(found.len() < 400, "{found}");
    }

    #[test]
    fn with_a_line_left_out_the_ledger_begins_empty() {
        let good = line(KEYS[0], told("a", json!(1)));
        assert_eq!(Genesis::parse(&good).unwrap().ledger().head().size, 1);
        for left_out in
            ["{", "{}", "42", "null", "\"x\"", "[]", r#"{"txn":{}}"#, r#"{"txn":{"type":"0"}}"#, "// x", "-0"]
        {
            let genesis = Genesis::parse(&format!("{good}\n{left_out}")).unwrap();
            assert_eq!((genesis.ledger().head().size, genesis.skipped().len()), (0, 1), "{left_out}");
        }
        // A bad node is a transaction all the same.
        let bad = line("x", told("b", json!(1)));
        assert_eq!(Genesis::parse(&format!("{good}\n{bad}")).unwrap().ledger().head().size, 2);
    }

    #[test]
    fn nobody_to_ask_is_an_error_that_says_why() {
        assert_eq!(Genesis::parse("\n \n").unwrap_err().to_string(), "the genesis holds no transactions");
        let error = Genesis::parse("<html>").unwrap_err().to_string();
        assert!(
            error.starts_with("the genesis names no validator that can be used (line 1: not JSON: expected value"),
            "{error}"
        );
        let none = Genesis::parse(&line(KEYS[0], json!({"alias": "a"}))).unwrap_err().to_string();
        assert_eq!(none, "the genesis names no validator that can be used");
    }
}
