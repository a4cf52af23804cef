//! What reading Kite's packets costs, beside Zerodha's own client in Python.

use crate::bars::{Bar, Limit};
use crate::measure::{Effort, median};
use crate::report;
use carom_gateway::kite::packet::{self, Message};
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Packets in a message.
const PACKETS: u32 = 100;

/// A message of so many packets of each kind.
fn messages() -> [(&'static str, Vec<u8>); 3] {
    ["ltp", "quote", "full"].map(|mode| {
        let bodies: Vec<_> = (0..PACKETS).map(|at| testkit::kite::packet(257 + at * 256, mode, 81_205)).collect();
        (mode, testkit::kite::packets(&bodies))
    })
}

/// Prints and keeps packets per second, of carom and of Zerodha's client if it is installed.
pub fn report(effort: &Effort) -> io::Result<()> {
    println!();
    let messages = messages();
    let python = python(&messages, effort)?;
    if python.is_none() {
        println!("kiteconnect is not there, which bench/install.sh installs: it is not measured");
    }
    println!("{:<8} {:>20} {:>20}", "packets", "carom packets/s", "kiteconnect packets/s");
    let mut rows = Vec::new();
    for (mode, message) in &messages {
        let rounds = (0..effort.rounds.max(3)).map(|_| carom(message, effort.period));
        let own = median(rounds.collect());
        let other = python.as_ref().and_then(|figures| figures[mode].as_f64());
        println!("{mode:<8} {own:>20.0} {:>20}", other.map_or("-".to_owned(), |figure| format!("{figure:.0}")));
        rows.push(json!({ "mode": mode, "carom_packets_s": own, "kiteconnect_packets_s": other }));
    }
    let full =
        rows.last().and_then(|row| Some(row["carom_packets_s"].as_f64()? / row["kiteconnect_packets_s"].as_f64()?));
    println!(
        "{}",
        Bar { what: "full packets: carom / kiteconnect".to_owned(), figure: full, limit: Limit::AtLeast(20.0) }
    );
    report::write("kite.json", rows)
}

/// Packets per second, each of them looked at.
fn carom(message: &[u8], period: Duration) -> f64 {
    let (start, mut read) = (Instant::now(), 0_u64);
    while start.elapsed() < period {
        // The clock is not looked at for each message.
        for _ in 0..100 {
            let Ok(Message::Packets(packets)) = packet::read(black_box(message)) else { return 0.0 };
            for packet in packets {
                black_box(&packet);
                read += u64::from(packet.is_ok());
            }
        }
    }
    read as f64 / start.elapsed().as_secs_f64()
}

/// Packets per second by mode; none without Zerodha's client.
fn python(messages: &[(&str, Vec<u8>)], effort: &Effort) -> io::Result<Option<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = folder.join("../target/bench-venv/bin/python");
    if !python.exists() {
        return Ok(None);
    }
    let asked = json!({
        "rounds": effort.rounds.max(3),
        "seconds": effort.period.as_secs_f64(),
        "packets": PACKETS,
        "messages": messages.iter().map(|(mode, bytes)| (mode.to_string(), hex(bytes))).collect::<serde_json::Map<_, _>>(),
    });
    let mut child = Command::new(python)
        .arg(folder.join("src/kite/peer.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(asked.to_string().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other("kiteconnect cannot be measured"));
    }
    Ok(Some(serde_json::from_slice(&output.stdout)?))
}

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_read() {
        for (mode, message) in messages() {
            let Ok(Message::Packets(packets)) = packet::read(&message) else { panic!("packets") };
            assert_eq!(packets.filter(|packet| packet.is_ok()).count(), PACKETS as usize, "{mode}");
        }
    }
}
