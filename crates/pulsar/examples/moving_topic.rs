//! A topic moves from broker to broker under load, and the connections left behind go away: three, then one.
//!
//! ```text
//! cargo run -p carom-pulsar --example moving_topic
//! ```

use carom_pulsar::{Client, Consumer, Error, Producer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::pulsar::Cluster;

const NAMES: [&str; 3] = ["A", "B", "C"];
const MAX_IDLE: Duration = Duration::from_secs(1);
const LAST: &[u8] = b"that was all";
const INTERVAL: Duration = Duration::from_millis(250);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::start(3).await?;
    cluster.own("orders", 0);
    // A real client keeps unused connections for a minute (`connection_max_idle`); nobody wants to watch that.
    let client = Client::builder(cluster.url(0))
        .connection_max_idle_of_tests(MAX_IDLE)
        .connection_idle_interval(INTERVAL)
        .build()?;
    println!(
        "Three brokers, and a client that looks every {INTERVAL:?} for connections that nobody has used for {MAX_IDLE:?}:"
    );
    println!("what it does not use goes {MAX_IDLE:?} to {:?} after its last use.\n", MAX_IDLE + 2 * INTERVAL);

    let enough = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(read(client.consumer("orders", "kitchen").await?));
    let sender = tokio::spawn(send(client.producer("orders").await?, Arc::clone(&enough)));
    let began = Instant::now();
    println!("   time   A B C   connections at each broker");
    for (owner, name) in NAMES.iter().enumerate() {
        if owner > 0 {
            cluster.unload("orders", owner);
        }
        let stored = cluster.written("orders");
        cluster.until(|cluster| cluster.written("orders") >= stored + 200).await;
        show(&cluster, began, &format!("the topic is at {name}, and messages go through"));
    }
    let mut seen = open(&cluster);
    while seen.iter().sum::<usize>() > 1 {
        cluster.until(|cluster| open(cluster) != seen).await;
        let now = open(&cluster);
        let released = (0..3).filter(|broker| now[*broker] < seen[*broker]).map(|broker| NAMES[broker]);
        show(&cluster, began, &format!("released: {}", released.collect::<Vec<_>>().join(" and ")));
        seen = now;
    }
    enough.store(true, Ordering::Relaxed);
    let ((_producer, sent), (_consumer, read)) = (sender.await??, reader.await??);
    let stored: Vec<_> = cluster.payloads("orders").into_iter().filter(|payload| payload != LAST).collect();
    println!("\n{sent} messages were sent meanwhile.");
    for (what, numbers) in [("stored", stored), ("read", read)] {
        let in_order = numbers.iter().enumerate().all(|(at, number)| at.to_string().as_bytes() == number);
        let how = if in_order && numbers.len() == sent { "each once and in order" } else { "which is wrong" };
        println!("{} were {what}, {how}.", numbers.len());
    }
    for connection in client.connections() {
        println!("The connection to {} is held by {:?}.", connection.backend, connection.roles);
    }
    client.close().await;
    Ok(())
}

/// Sends numbers, ten at a time, until it is enough. The producer, and how many.
async fn send(producer: Producer, enough: Arc<AtomicBool>) -> Result<(Producer, usize), Error> {
    let mut sent = 0;
    while !enough.load(Ordering::Relaxed) {
        let ten: Vec<_> = (sent..sent + 10).map(|number| producer.send(number.to_string())).collect();
        for sending in ten {
            sending.await?;
        }
        sent += 10;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    producer.send(LAST).await?;
    Ok((producer, sent))
}

/// Reads until it is told that that was all. The consumer, and what it has read.
async fn read(mut consumer: Consumer) -> Result<(Consumer, Vec<Vec<u8>>), Error> {
    let mut read = Vec::new();
    loop {
        let message = consumer.next().await?;
        consumer.ack(&message).await?;
        if message.payload == LAST {
            return Ok((consumer, read));
        }
        read.push(message.payload.to_vec());
    }
}

fn open(cluster: &Cluster) -> Vec<usize> {
    (0..cluster.brokers()).map(|broker| cluster.connections(broker)).collect()
}

fn show(cluster: &Cluster, began: Instant, what: &str) {
    let counts: Vec<String> = open(cluster).iter().map(usize::to_string).collect();
    println!("{:5.2} s   {}   {what}", began.elapsed().as_secs_f64(), counts.join(" "));
}
