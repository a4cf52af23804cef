//! A topic moves from broker to broker, and the connections left behind go away: three, then one.
//!
//! ```text
//! cargo run -p carom-pulsar --example moving_topic
//! ```

use carom_pulsar::{Client, Consumer, Producer};
use std::time::{Duration, Instant};
use testkit::pulsar::Cluster;

const NAMES: [&str; 3] = ["A", "B", "C"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::start(3).await?;
    cluster.own("orders", 0);
    // A real client keeps idle connections for a minute (`connection_max_idle`); nobody wants to watch that.
    let client = Client::builder(cluster.url(0))
        .connection_max_idle_of_tests(Duration::from_secs(1))
        .connection_idle_interval(Duration::from_millis(250))
        .build()?;
    let producer = client.producer("orders").await?;
    let mut consumer = client.consumer("orders", "kitchen").await?;
    let began = Instant::now();

    println!("   time   A B C   connections at each broker");
    for (owner, name) in NAMES.iter().enumerate() {
        if owner > 0 {
            cluster.unload("orders", owner);
        }
        exchange(&producer, &mut consumer).await?;
        show(&cluster, began, &format!("the topic is at {name}"));
    }
    let mut seen = open(&cluster);
    while seen.iter().sum::<usize>() > 1 {
        cluster.until(|cluster| open(cluster) != seen).await;
        seen = open(&cluster);
        show(&cluster, began, "one that nobody used was released");
    }
    exchange(&producer, &mut consumer).await?;
    show(&cluster, began, "and messages still go through");

    for connection in client.connections() {
        println!("\n{}: held by {:?}", connection.backend, connection.roles);
    }
    client.close().await;
    Ok(())
}

/// A message there and back.
async fn exchange(producer: &Producer, consumer: &mut Consumer) -> Result<(), carom_pulsar::Error> {
    producer.send("one coffee").await?;
    let message = consumer.next().await?;
    consumer.ack(&message).await
}

fn open(cluster: &Cluster) -> Vec<usize> {
    (0..cluster.brokers()).map(|broker| cluster.connections(broker)).collect()
}

fn show(cluster: &Cluster, began: Instant, what: &str) {
    let counts: Vec<String> = open(cluster).iter().map(usize::to_string).collect();
    println!("{:5.2} s   {}   {what}", began.elapsed().as_secs_f64(), counts.join(" "));
}
