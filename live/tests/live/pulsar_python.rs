//! The scripted Pulsar cluster of `testkit`, used by the published Python client: that it works shows that the cluster speaks
//! the real protocol, so that what carom's own client does with it means something.

use carom_live::process::Folder;
use carom_live::python;
use testkit::pulsar::Cluster;

async fn roundtrip(scenario: &str, cluster: &Cluster) {
    print!("{}", python::run("pulsar_roundtrip.py", &[scenario, &cluster.url(0)]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_does_not_come_again() {
    let cluster = Cluster::start(2).await.unwrap();
    roundtrip("acks", &cluster).await;
    let (single, batched) = (cluster.log("acks-False"), cluster.log("acks-True"));
    println!("100 messages are {} entries without batching, {} with it", single.len(), batched.len());
    assert!(single.len() == 100 && batched.len() < 100 && batched.iter().all(|entry| entry.batch));
    assert_eq!(cluster.payloads("acks-False"), cluster.payloads("acks-True"));
    roundtrip("shared", &cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_spread_over_brokers() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.partitions("partitioned", 4);
    cluster.redirect_lookups(true);
    roundtrip("partitioned", &cluster).await;
    let owners: Vec<_> = (0..4).map(|number| cluster.owner(&format!("partitioned-partition-{number}"))).collect();
    println!("owners {owners:?}");
    assert!(owners.contains(&Some(0)) && owners.contains(&Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_a_topic_moves_and_when_its_owner_dies() {
    for (scenario, batching) in [("unload-False", false), ("unload-True", true)] {
        let cluster = Cluster::start(3).await.unwrap();
        cluster.own(scenario, 0);
        let written = |count: usize| move |cluster: &Cluster| cluster.written(scenario) >= count;
        let moves = async {
            cluster.until(written(500)).await;
            cluster.unload(scenario, 1);
            cluster.until(written(1000)).await;
            cluster.unload_assigned(scenario, 2);
            cluster.until(written(1500)).await;
            cluster.stop(2).await;
            cluster.until(written(2000)).await;
            cluster.unload(scenario, 1);
        };
        tokio::join!(roundtrip(scenario, &cluster), moves);
        let log = cluster.log(scenario);
        let ledgers: Vec<_> = log.chunk_by(|a, b| a.position.ledger == b.position.ledger).map(<[_]>::len).collect();
        println!("{} messages in the log; entries of each owner {ledgers:?}", cluster.written(scenario));
        assert_eq!(ledgers.len(), 5, "it moved four times");
        assert!(log.iter().all(|entry| entry.batch == batching));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_seek_and_patterns_find_topics() {
    let cluster = Cluster::start(2).await.unwrap();
    roundtrip("reader", &cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lets_in() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.require_token("secret");
    roundtrip("token", &cluster).await;
    println!("{} connections, {} message in the log", cluster.accepted(0), cluster.written("token"));
    assert_eq!(cluster.written("token"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_served_over_tls() {
    let cluster = Cluster::start_tls(2).await.unwrap();
    cluster.partitions("partitioned", 4);
    let folder = Folder::new("root", None);
    let root = folder.write("root.pem", cluster.root_pem().unwrap());
    let arguments = ["partitioned", &cluster.url(0), root.to_str().unwrap()];
    print!("over tls: {}", python::run("pulsar_roundtrip.py", &arguments).await);
    cluster.until(|cluster| cluster.connections(0) + cluster.connections(1) == 0).await;
    assert!(cluster.accepted(0) > 0 && cluster.accepted(1) > 0, "both brokers were used");
}
