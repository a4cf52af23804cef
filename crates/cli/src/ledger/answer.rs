//! What a pool says, as text or JSON.

use super::status::Status;
use crate::args::LedgerName;
use crate::failure::Failure;
use crate::output::{json_line, printable, printable_json};
use carom_indy::Reply;
use carom_indy::ledger::merkle::Head;
use serde_json::{Value, json};

/// How it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// On a terminal.
    People,
    /// Into something else.
    Pipe,
    /// As `--json` wants it.
    Json,
}

/// How far the pool ledger goes, in words if they are wanted.
pub(super) fn status(status: &Status, layout: Layout) -> String {
    match layout {
        Layout::Json => line(&status.to_json(), layout),
        Layout::People | Layout::Pipe => status.to_string(),
    }
}

/// One transaction of a ledger.
pub(super) fn transaction(
    reply: &Reply,
    number: u64,
    ledger: LedgerName,
    head: &Head,
    layout: Layout,
) -> Result<String, Failure> {
    let data = match reply {
        Reply::Agreed(result) => result.get("data").filter(|data| !data.is_null()),
        Reply::Each(_) => None,
    };
    if let Some(data) = data {
        return Ok(line(data, layout));
    }
    let (name, extent) = match ledger {
        LedgerName::Pool => ("pool", format!("; it has {}", head.size)),
        LedgerName::Domain => ("domain", String::new()),
        LedgerName::Config => ("config", String::new()),
        LedgerName::Audit => ("audit", String::new()),
    };
    Err(Failure::Unavailable(format!("the {name} ledger has no transaction {number}{extent}")))
}

/// What there is to a request.
pub(super) fn reply(reply: Reply, layout: Layout) -> Result<String, Failure> {
    let told = match reply {
        Reply::Agreed(result) => return Ok(line(&result, layout)),
        Reply::Each(told) => told,
    };
    if told.values().all(Result::is_err) {
        let reasons = told.iter().filter_map(|(alias, told)| Some((alias, told.as_ref().err()?)));
        let reasons = reasons.map(|(alias, reason)| format!("\n  {}: {}", printable(alias), printable(reason)));
        return Err(Failure::Unavailable(format!("no node answered{}", reasons.collect::<String>())));
    }
    let each = told.into_iter().map(|(alias, told)| {
        let told = match told {
            Ok(result) => json!({ "result": result }),
            Err(reason) => json!({ "error": reason }),
        };
        (alias, told)
    });
    Ok(line(&Value::Object(each.collect()), layout))
}

/// A value, indented for people.
fn line(value: &Value, layout: Layout) -> String {
    match layout {
        // No string of it has a line end.
        Layout::People => format!("{value:#}").lines().map(|line| printable_json(line) + "\n").collect(),
        Layout::Pipe | Layout::Json => json_line(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_ledger_are_escaped_in_every_layout() {
        let value = json!({"data": {"alias": "\u{9b}2J\u{202e}"}});
        for layout in [Layout::People, Layout::Pipe, Layout::Json] {
            let text = line(&value, layout);
            assert!(text.contains("\\u009b2J\\u202e"), "{text}");
            assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert_eq!(line(&value, Layout::People).lines().count(), 5);
    }
}
