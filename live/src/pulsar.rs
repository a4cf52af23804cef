//! Apache Pulsar as it is published: brokers that share ZooKeeper and a bookie. Both stores run in a separate process.

use crate::process::{Folder, Port, Running, command, tail};
use crate::{admin, ms, until};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CLUSTER: &str = "carom";

/// A broker is ready after 5 to 15 s on an idle machine.
const START: Duration = Duration::from_secs(180);

/// The only bundle of the namespace `public/default`: all topics in it move together.
const BUNDLE: &str = "public/default/0x00000000_0xffffffff";

/// Keeps the owners of topics in ZooKeeper. By default they are kept in a topic, which moves, too, and makes brokers wait for each other.
const TABLE_VIEW: &str =
    "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateMetadataStoreTableViewImpl";

/// Settings of every broker. A killed broker loses its topics when its session with ZooKeeper expires.
const SETTINGS: [(&str, &str); 20] = [
    ("clusterName", CLUSTER),
    ("bindAddress", "127.0.0.1"),
    ("advertisedAddress", "127.0.0.1"),
    ("metadataStoreSessionTimeoutMillis", "5000"),
    ("loadManagerClassName", "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"),
    ("loadManagerServiceUnitStateTableViewClassName", TABLE_VIEW),
    ("systemTopicEnabled", "false"),
    ("topicLevelPoliciesEnabled", "false"),
    ("loadBalancerEnabled", "true"),
    ("loadBalancerSheddingEnabled", "false"),
    ("loadBalancerAutoBundleSplitEnabled", "false"),
    ("defaultNumberOfNamespaceBundles", "1"),
    ("managedLedgerDefaultEnsembleSize", "1"),
    ("managedLedgerDefaultWriteQuorum", "1"),
    ("managedLedgerDefaultAckQuorum", "1"),
    ("brokerDeleteInactiveTopicsEnabled", "false"),
    ("acknowledgmentAtBatchIndexLevelEnabled", "true"),
    ("functionsWorkerEnabled", "false"),
    ("transactionCoordinatorEnabled", "false"),
    ("webSocketServiceEnabled", "false"),
];

/// Why there is no Pulsar here, as `live/install.sh` has noted.
pub fn left_out() -> Option<String> {
    fs::read_to_string(target().join("live-pulsar-left-out")).ok().map(|reason| reason.trim().to_owned())
}

/// A running cluster. Its drop kills all processes.
pub struct Pulsar {
    brokers: Vec<Broker>,
    store: Option<Running>,
    zookeeper: Port,
    bookie: Port,
    folder: Folder,
}

struct Broker {
    running: Option<Running>,
    service: Port,
    web: Port,
}

impl Pulsar {
    /// Starts this many brokers, and waits until all of them are ready.
    pub async fn start(brokers: usize) -> Pulsar {
        let broker = |_| Broker { running: None, service: Port::chosen(), web: Port::chosen() };
        let mut pulsar = Pulsar {
            brokers: (0..brokers).map(broker).collect(),
            store: None,
            zookeeper: Port::chosen(),
            bookie: Port::chosen(),
            folder: Folder::new("pulsar", None),
        };
        pulsar.start_store().await;
        (0..brokers).for_each(|broker| pulsar.launch(broker));
        for broker in 0..brokers {
            pulsar.wait_until_ready(broker).await;
        }
        pulsar
    }

    /// `pulsar://`, and the address of a broker.
    pub fn url(&self, broker: usize) -> String {
        format!("pulsar://{}", self.brokers[broker].service.address())
    }

    /// `pulsar://`, and the addresses of all brokers.
    pub fn service_url(&self) -> String {
        let addresses = self.brokers.iter().map(|broker| broker.service.address().to_string());
        format!("pulsar://{}", addresses.collect::<Vec<_>>().join(","))
    }

    /// SIGKILL.
    pub fn kill(&mut self, broker: usize) {
        self.brokers[broker].running.take().expect("it runs").kill();
    }

    /// Starts a killed broker again at the same address, and waits until it is ready.
    pub async fn restart(&mut self, broker: usize) {
        self.launch(broker);
        self.wait_until_ready(broker).await;
    }

    /// The broker that owns a topic of `public/default`; a topic without an owner is assigned to one.
    pub async fn owner(&self, topic: &str) -> usize {
        let path = format!("/lookup/v2/topic/persistent/public/default/{topic}");
        let found = until(ms(60_000), async || self.request("GET", &path)).await;
        let found: Value = serde_json::from_str(&found).expect("a lookup is answered with JSON");
        let owner = (0..self.brokers.len()).find(|broker| found["brokerUrl"] == self.url(*broker));
        owner.unwrap_or_else(|| panic!("no broker of the cluster: {found}"))
    }

    /// Moves all topics of `public/default` to another broker than their owner.
    pub async fn transfer(&self, to: usize) {
        let to = self.brokers[to].web.address();
        let path = format!("/admin/v2/namespaces/{BUNDLE}/unload?destinationBroker={to}");
        until(ms(60_000), async || self.request("PUT", &path)).await;
    }

    /// The number of connections that this process has to each broker, as the system counts them.
    pub fn connections(&self) -> Vec<usize> {
        let descriptors = fs::read_dir("/proc/self/fd").expect("/proc is there").flatten();
        let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        let own: HashSet<String> = targets
            .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        let table = fs::read_to_string("/proc/self/net/tcp").expect("/proc is there");
        let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split_whitespace().collect()).collect();
        let count = |broker: &Broker| {
            let remote = format!("0100007F:{:04X}", broker.service.address().port());
            // Columns: remote address, state (01: established), inode.
            rows.iter().filter(|row| row[2] == remote && row[3] == "01" && own.contains(row[9])).count()
        };
        self.brokers.iter().map(count).collect()
    }

    /// The body of a successful answer of a running broker, or of the one it redirects to.
    fn request(&self, method: &str, path: &str) -> Result<String, String> {
        let running = self.brokers.iter().find(|broker| broker.running.is_some()).expect("a broker runs");
        let url = format!("http://{}{path}", running.web.address());
        let mut curl = Command::new("curl");
        let output = curl.args(["-sSL", "--fail-with-body", "-X", method, &url]).output().expect("curl runs");
        let (body, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(body.into_owned()) } else { Err(format!("{method} {path}: {problem} {body}")) }
    }

    /// Starts ZooKeeper and the bookie, and writes what brokers expect to find there.
    async fn start_store(&mut self) {
        let config = self.config("store", "standalone", &SETTINGS);
        let data = |name: &str| self.folder.path().join(name).display().to_string();
        let [zookeeper, bookie] = [&self.zookeeper, &self.bookie].map(|port| port.address().port().to_string());
        let mut store = self.command();
        store.env("PULSAR_STANDALONE_USE_ZOOKEEPER", "1").env("PULSAR_STANDALONE_CONF", config);
        store.args(["standalone", "--no-broker", "-nfw", "-nss", "-a", "127.0.0.1"]);
        store.args(["--zookeeper-port", &zookeeper, "--zookeeper-dir", &data("zookeeper")]);
        store.args(["--bookkeeper-port", &bookie, "--bookkeeper-dir", &data("bookkeeper")]);
        let log = self.log("store");
        let mut running = Running::start(store, &log);
        // The bookie is started last.
        let bookie = self.bookie.address();
        until(START, async || {
            assert_running(&mut running, &log);
            tokio::net::TcpStream::connect(bookie).await
        })
        .await;
        self.store = Some(running);

        let (store, broker) = (self.store_url(), &self.brokers[0]);
        let mut metadata = self.command();
        metadata.args(["initialize-cluster-metadata", "--cluster", CLUSTER, "--default-namespace-bundle-number", "1"]);
        metadata.args(["--metadata-store", &store, "--configuration-metadata-store", &store]);
        metadata.args(["--web-service-url", &format!("http://{}", broker.web.address())]);
        metadata.args(["--broker-service-url", &self.url(0)]);
        let log = self.log("metadata");
        let mut running = Running::start(metadata, &log);
        let status = until(START, async || running.ended().ok_or("it does not end")).await;
        assert!(status.success(), "{status}:\n{}", tail(&log));
    }

    fn launch(&mut self, broker: usize) {
        let name = format!("broker-{broker}");
        let store = self.store_url();
        let [service, web] = [&self.brokers[broker].service, &self.brokers[broker].web];
        let [service, web] = [service, web].map(|port| port.address().port().to_string());
        let mut settings = SETTINGS.to_vec();
        settings.extend([("brokerServicePort", &*service), ("webServicePort", &web)]);
        settings.extend([("metadataStoreUrl", &*store), ("configurationMetadataStoreUrl", &store)]);
        let mut command = self.command();
        command.env("PULSAR_BROKER_CONF", self.config(&name, "broker", &settings)).arg("broker");
        self.brokers[broker].running = Some(Running::start(command, &self.log(&name)));
    }

    /// The program, with little memory: the defaults are 2 GiB of heap and 4 GiB of direct memory, touched at the start. The quick
    /// compiler halves the time of a start.
    fn command(&self) -> Command {
        let program = distribution().join("bin/pulsar");
        assert!(program.exists(), "{} is missing: `make live` makes it", program.display());
        let mut command = command(&program, None, &self.folder);
        command.env("PULSAR_MEM", "-Xms64m -Xmx512m -XX:MaxDirectMemorySize=512m");
        command.env("PULSAR_GC", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1").env("PULSAR_GC_LOG", " ");
        command.env("PULSAR_LOG_DIR", self.folder.path().join("logs"));
        command
    }

    /// Writes a configuration: the one that comes with Pulsar, with these settings replaced.
    fn config(&self, name: &str, usual: &str, settings: &[(&str, &str)]) -> PathBuf {
        let usual =
            fs::read_to_string(distribution().join(format!("conf/{usual}.conf"))).expect("it comes with Pulsar");
        let kept = usual.lines().filter(|line| !settings.iter().any(|(key, _)| line.split('=').next() == Some(key)));
        let given = settings.iter().map(|(key, value)| format!("{key}={value}"));
        let lines: Vec<String> = kept.map(str::to_owned).chain(given).collect();
        self.folder.write(&format!("{name}.conf"), &(lines.join("\n") + "\n"))
    }

    fn store_url(&self) -> String {
        format!("zk:{}", self.zookeeper.address())
    }

    async fn wait_until_ready(&mut self, broker: usize) {
        let log = self.log(&format!("broker-{broker}"));
        let Broker { running, web, .. } = &mut self.brokers[broker];
        let running = running.as_mut().expect("it was started");
        until(START, async || {
            assert_running(running, &log);
            admin::get(web.address(), "/admin/v2/brokers/ready").await
        })
        .await;
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }
}

fn assert_running(running: &mut Running, log: &Path) {
    if let Some(status) = running.ended() {
        panic!("ended ({status}):\n{}", tail(log));
    }
}

fn distribution() -> PathBuf {
    target().join("live-pulsar/apache-pulsar-4.0.8")
}

fn target() -> PathBuf {
    // Absolute: Pulsar's script changes its directory.
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target")
}
