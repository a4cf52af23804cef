//! Integration tests of the Indy client with scripted nodes.

mod ledger_cache;
mod ledger_leaves;
mod pool_ledger;
mod pool_life;
mod pool_requests;
mod pool_sockets;
mod support;
mod wire_fuzz;
