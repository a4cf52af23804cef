//! Four scripted nodes with a ledger of 124 transactions, to ask with `carom ledger`; says how many sockets clients have open.
//!
//! ```text
//! cargo run -p carom-indy --example four_nodes -- genesis.txn &
//! cargo run -- ledger --genesis genesis.txn status
//! ```

use std::io::Error;
use testkit::indy::Pool;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).ok_or_else(|| Error::other("name a file for the genesis"))?;
    let nodes = Pool::start(4).await?;
    nodes.grow(120);
    std::fs::write(&path, nodes.genesis())?;
    println!("four nodes listen, their genesis is in {path}; Ctrl-C ends them");
    let mut sockets = 0;
    loop {
        nodes.until(|nodes| nodes.all_sockets() != sockets).await;
        sockets = nodes.all_sockets();
        println!("sockets: {sockets}");
    }
}
