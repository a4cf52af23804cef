//! Which adapter speaks to a broker: the key `adapter`, or what the broker's name says, and which keys go with it.

use carom_gateway::tables::{Table, TableError, Value};

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adapter {
    Simulated,
    Kite,
    Delta,
    Outside,
}

use Adapter::{Delta, Kite, Outside, Simulated};

/// What can be written.
const NAMES: [(&str, Adapter); 4] = [("simulated", Simulated), ("kite", Kite), ("delta", Delta), ("outside", Outside)];
/// Brokers whose adapter goes without saying: OpenAlgo's names of them, and the adapters' own.
const BROKERS: [(&str, Adapter); 5] =
    [("simulated", Simulated), ("zerodha", Kite), ("kite", Kite), ("deltaexchange", Delta), ("delta", Delta)];
/// Those that are connected to somebody.
const CONNECTED: &[Adapter] = &[Simulated, Kite, Delta];
/// Keys that mean something to some adapters alone.
const KEYS: [(&str, &[Adapter]); 18] = [
    ("symbols", &[Simulated]),
    ("rate", &[Simulated]),
    ("seed", &[Simulated]),
    ("api_key", &[Kite]),
    ("credential", &[Simulated, Kite]),
    ("credential_file", &[Simulated, Kite]),
    ("credential_command", &[Simulated, Kite]),
    ("instruments", &[Kite, Delta]),
    ("ca", &[Kite, Delta]),
    ("url", CONNECTED),
    ("max_topics_per_connection", CONNECTED),
    ("max_connections", CONNECTED),
    ("linger", CONNECTED),
    ("stall_after", CONNECTED),
    ("attempt_timeout", CONNECTED),
    ("max_attempt_timeout", CONNECTED),
    ("delay", CONNECTED),
    ("max_delay", CONNECTED),
];

impl Adapter {
    /// The one of a feed at this broker; every key that is there is one of its own.
    pub(super) fn take(table: &mut Table, broker: &str) -> Result<Adapter, TableError> {
        let accepted = accepted();
        let adapter = match table.read("adapter", &accepted, adapter)? {
            Some(adapter) => adapter,
            None => named(&BROKERS, broker).ok_or_else(|| {
                let why = format!("as `{}` is no broker whose adapter is known", broker.escape_debug());
                table.missing("adapter", format_args!("{accepted}, {why}"))
            })?,
        };
        if let Some((key, whose)) = KEYS.iter().find(|(key, whose)| table.has(key) && !whose.contains(&adapter)) {
            let whose: Vec<_> = whose.iter().map(|whose| whose.name()).collect();
            let problem =
                format_args!("means nothing to the adapter {}; accepted: with {}", adapter.name(), whose.join(", "));
            return Err(table.wrong(key, problem));
        }
        Ok(adapter)
    }

    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, adapter)| *adapter == self).map_or("", |(name, _)| name)
    }
}

fn adapter(value: Value) -> Result<Adapter, String> {
    let text = value.text()?;
    named(&NAMES, &text).ok_or_else(|| format!("`{}` is no adapter", text.escape_debug()))
}

fn named(names: &[(&str, Adapter)], name: &str) -> Option<Adapter> {
    names.iter().find(|(known, _)| *known == name).map(|(_, adapter)| *adapter)
}

fn accepted() -> String {
    let names: Vec<_> = NAMES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    names.join(", ")
}
