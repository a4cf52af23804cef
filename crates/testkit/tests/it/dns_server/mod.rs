//! The scripted DNS server, asked with messages of a DNS library over plain sockets.

mod answers;
mod client;
mod records;
mod sockets;
