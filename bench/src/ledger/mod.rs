//! What Indy ledgers cost: requests through windows beside the same on a connection that is kept, and 100,000 transactions
//! verified and appended.

mod appending;
mod requests;

use crate::measure::Effort;
use crate::report;
use std::io;

/// Prints and keeps the figures.
pub fn report(effort: &Effort) -> io::Result<()> {
    let mut rows = requests::report(effort)?;
    rows.extend(appending::report()?);
    report::write("ledger.json", rows)
}
